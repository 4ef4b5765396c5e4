package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// undoFlags say what to take back, when no credential or id does.
type undoFlags struct {
	last                                           int
	session, agent, path, root                     string
	since                                          durationFlag
	dryRun, force, keepGoing, person, patch, merge bool
}

func (f *undoFlags) selects() bool {
	return f.last > 0 || f.session != "" || f.since.set || f.agent != "" || f.path != ""
}

func (a *app) undoCommand() *cobra.Command {
	f := &undoFlags{}
	c := &cobra.Command{
		Use:   "undo CREDENTIAL|@FILE|-|OPERATION_ID|@ | --last N | --session S | --since DUR | --agent A | --path P",
		Short: "Take operations back, if nothing changed since",
		Long: `Take operations back, if their paths still are what they left.

--last, --session, --since, --agent and --path pick several, which are taken back as one:
what they did to a path is put together, and one undo brings all of it again. The plan is
shown first. With --merge, lines that others changed elsewhere in the same files stay;
with --keep-going, parts that cannot be taken back are left out.

CREDENTIAL is the undo_credential of a reply, or the whole reply, as JSON, in @FILE, or
on standard input as -. A bare @ is the newest operation that can be taken back; after an
undo that is the undo itself, which makes a second one a redo.`,
		Args: func(c *cobra.Command, args []string) error {
			if f.last < 0 || c.Flags().Changed("last") && f.last == 0 {
				return usagef("--last needs a number from 1")
			}
			if len(args) > 1 || len(args) == 1 && f.selects() || len(args) == 0 && !f.selects() {
				return usagef("name one thing to undo: a credential, an operation id, @, or --last, --session, --since, --agent or --path")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.callJSON(string(op.Undo), a.undo(c.Context(), f, args))
		},
	}
	s := c.Flags()
	s.IntVar(&f.last, "last", 0, "the last N operations that can be taken back")
	s.StringVar(&f.session, "session", "", "operations of this session")
	s.Var(&f.since, "since", "operations of this last while, as 10m")
	s.StringVar(&f.agent, "agent", "", "only operations of this agent")
	s.StringVar(&f.path, "path", "", "only operations on this path or below it")
	s.StringVar(&f.root, "root", "", "only operations in this root: name, key or directory")
	s.BoolVar(&f.dryRun, "dry-run", false, "say what would be taken back")
	s.BoolVar(&f.force, "force", false, "also over later changes, which are kept under a new credential")
	s.BoolVar(&f.keepGoing, "keep-going", false, "leave out the parts that cannot be taken back")
	s.BoolVar(&f.person, "person", false, "undo as reviewer, which needs no card for protected paths")
	s.BoolVarP(&f.patch, "patch", "p", false, "choose part by part")
	s.BoolVar(&f.merge, "merge", false, "keep what others changed elsewhere in the same files")
	return c
}

func (a *app) undo(ctx context.Context, f *undoFlags, args []string) error {
	what, err := a.undoWord(args)
	if err != nil {
		return err
	}
	as := a.asOwn
	if f.person {
		as = a.asReviewer
	}
	return as(ctx, f.root, func(c *client) error {
		if len(args) == 0 {
			return a.undoSelected(ctx, c, f)
		}
		if what == nil {
			list, err := a.undoable(ctx, c, f, 1)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return op.Fail(op.UndoUnknown, "there is nothing to take back").Do("holdpoint log lists operations with the state of their credentials")
			}
			what = map[string]any{"operation_id": list[0].ID}
		}
		if id, ok := what["operation_id"].(string); ok && (f.merge || f.patch || f.keepGoing) {
			return a.undoTogether(ctx, c, f, "", []op.ID{op.ID(id)})
		}
		r, err := c.undoOne(ctx, f, what)
		if err != nil {
			return err
		}
		if r.Status != op.Done {
			return a.finishReply(r, request{DryRun: f.dryRun})
		}
		others := a.elsewhereOf(ctx, c, f.path, meantBy(what))
		if a.json {
			a.printJSON(withElsewhere(r.raw, others))
			return exitWith(r.exit())
		}
		err = a.finishReply(r, request{DryRun: f.dryRun})
		a.showElsewhere(others, nil)
		return err
	})
}

// meantBy gives the operation that an undo of one thing names.
func meantBy(what map[string]any) []op.ID {
	var id string
	switch v := what["operation_id"].(type) {
	case string:
		id = v
	case op.ID:
		id = string(v)
	default:
		var c struct {
			Operation string `json:"operation_id"`
		}
		raw, _ := what["credential"].(json.RawMessage)
		json.Unmarshal(raw, &c)
		id = c.Operation
	}
	if rest, short := strings.CutPrefix(id, "un_"); short {
		id = "op_" + rest
	}
	if id == "" {
		return nil
	}
	return []op.ID{op.ID(id)}
}

// undoWord reads the one thing that was named, before anything is asked; nil for "@" and
// for none.
func (a *app) undoWord(args []string) (map[string]any, error) {
	if len(args) == 0 || args[0] == "@" {
		return nil, nil
	}
	data := []byte(args[0])
	var err error
	if file, ok := strings.CutPrefix(args[0], "@"); ok {
		data, err = a.readInput(file)
	} else if args[0] == "-" {
		data, err = a.readInput("-")
	} else if !strings.HasPrefix(strings.TrimSpace(args[0]), "{") {
		return map[string]any{"operation_id": args[0]}, nil
	}
	if err != nil {
		return nil, err
	}
	return credential(data)
}

// credential takes a credential, or a whole reply that holds one, and passes it on as it
// is: whether it is genuine is the daemon's to say.
func credential(data []byte) (map[string]any, error) {
	var outer map[string]json.RawMessage
	if err := json.Unmarshal(data, &outer); err != nil {
		return nil, op.Fail(op.BadRequest, "the credential is not a JSON object").In("credential").Do("give the undo_credential of a reply, or the whole reply")
	}
	if inner, ok := outer["undo_credential"]; ok {
		return map[string]any{"credential": inner}, nil
	}
	if _, isReply := outer["effects_executed"]; isReply {
		return nil, op.Fail(op.UndoUnknown, "that reply holds no undo_credential").Do("a call that changed nothing, or is still held, has none")
	}
	return map[string]any{"credential": json.RawMessage(data)}, nil
}

func (c *client) undoOne(ctx context.Context, f *undoFlags, what map[string]any) (reply, error) {
	body := map[string]any{"dry_run": f.dryRun, "force": f.force}
	for k, v := range what {
		body[k] = v
	}
	r, err := c.call(ctx, "/v1/undo", body, op.Undo)
	if err == nil && turnedAway(r.failure()) {
		return r, r.Error
	}
	return r, err
}

func (r reply) failure() error {
	if r.Error == nil {
		return nil
	}
	return r.Error
}

// undoable lists the newest operations that match and can be taken back. Except for a
// bare @, undos are left out: taking back the last three must not redo anything.
func (a *app) undoable(ctx context.Context, c *client, f *undoFlags, limit int) ([]operation, error) {
	root, err := c.rootNamed(ctx, f.root)
	if err != nil {
		return nil, err
	}
	w := wanted{root: root, session: f.session, agent: f.agent, path: f.path, state: "committed", undoable: true, limit: limit, undos: !f.selects()}
	if f.since.set {
		w.since = a.now().Add(-f.since.d)
	}
	list, _, err := c.operations(ctx, w)
	return list, err
}
