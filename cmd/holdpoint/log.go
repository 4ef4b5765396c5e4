package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// operation is one line of the log.
type operation struct {
	ID         op.ID     `json:"id"`
	Op         op.Name   `json:"op"`
	Time       time.Time `json:"time"`
	Root       string    `json:"root"`
	Agent      string    `json:"agent"`
	Session    string    `json:"session"`
	State      string    `json:"state"`
	Paths      []op.Path `json:"paths"`
	Undo       string    `json:"undo"` // available, consumed, expired, none
	Tree       string    `json:"tree"` // of an available undo: clean, drifted, unknown
	ApprovalID op.ID     `json:"approval_id"`
	Undoes     op.ID     `json:"undoes"`
	UndoneBy   op.ID     `json:"undone_by"`
	Late       []string  `json:"late"` // writes of other programs into a kept version
}

// undo words how its undo stands: with the tree as it was left, or not.
func (o operation) undo() string {
	if o.Undo == "available" && (o.Tree == "clean" || o.Tree == "drifted") {
		return "available, " + o.Tree
	}
	return first(o.Undo, "none")
}

// wanted narrows the log. The daemon narrows first where it can; what it lets through is
// looked at again here, so that a daemon that ignores a word never widens an undo.
type wanted struct {
	root, session, agent, path, state string
	since                             time.Time
	undoable, undos, ours             bool
	limit                             int // 0 is no limit
}

func (w wanted) has(o operation) bool {
	switch {
	case w.session != "" && o.Session != w.session,
		w.agent != "" && o.Agent != w.agent,
		w.state != "" && o.State != w.state,
		!w.since.IsZero() && o.Time.Before(w.since),
		w.undoable && o.Undo != "available",
		!w.undos && o.Op == op.Undo:
		return false
	}
	if w.path == "" {
		return true
	}
	for _, p := range o.Paths {
		if p.Within(op.Path(cleanPath(w.path))) {
			return true
		}
	}
	return false
}

// cleanPath takes the usual spellings of a workspace path to its canonical one.
func cleanPath(p string) string {
	p = strings.TrimSuffix(strings.TrimPrefix(p, "./"), "/")
	if p == "" {
		return "."
	}
	return p
}

const logPage = 100

// operations reads pages until the limit is reached or the log ends.
func (c *client) operations(ctx context.Context, w wanted) ([]operation, []json.RawMessage, error) {
	var list []operation
	var raws []json.RawMessage
	since, next := "", ""
	if !w.since.IsZero() {
		since = w.since.UTC().Format(time.RFC3339Nano)
	}
	for {
		var page struct {
			Operations []json.RawMessage `json:"operations"`
			Next       json.Number       `json:"next"` // absent on the last page
		}
		_, err := c.get(ctx, query("/v1/operations", "root", w.root, "session", w.session, "agent", w.agent, "path", w.path,
			"state", w.state, "since", since, "limit", strconv.Itoa(logPage), "next", next), &page)
		if err != nil {
			return nil, nil, err
		}
		for _, raw := range page.Operations {
			var o operation
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, nil, op.Fail(op.Internal, "a line of the log is not understood: "+err.Error()).Because(err)
			}
			if !w.has(o) {
				continue
			}
			list, raws = append(list, o), append(raws, raw)
			if w.limit > 0 && len(list) == w.limit {
				return list, raws, nil
			}
		}
		if page.Next == "" || page.Next.String() == next {
			return list, raws, nil
		}
		next = page.Next.String()
	}
}

func (a *app) logCommand() *cobra.Command {
	var w wanted
	var root string
	var since durationFlag
	c := &cobra.Command{Use: "log", Short: "List operations, newest first, with the state of their credentials", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if w.limit < 0 {
				return usagef("--limit needs a number from 0, which means all")
			}
			if since.set {
				w.since = a.now().Add(-since.d)
			}
			return a.asWatcher(c.Context(), root, func(cl *client) error { return a.log(c.Context(), cl, w, root) })
		}}
	s := c.Flags()
	s.StringVar(&w.path, "path", "", "only operations on this path or below it")
	s.StringVar(&w.session, "session", "", "only operations of this session")
	s.StringVar(&w.agent, "agent", "", "only operations of this agent")
	s.Var(&since, "since", "only operations of this last while, as 10m")
	s.IntVar(&w.limit, "limit", 50, "so many at most; 0 is all")
	s.BoolVar(&w.ours, "ours", false, "do not look for what else changed")
	s.StringVar(&root, "root", "", "only this root: name, key or directory")
	w.undos = true
	return c
}

func (a *app) log(ctx context.Context, c *client, w wanted, root string) (err error) {
	if w.root, err = c.rootNamed(ctx, root); err != nil {
		return err
	}
	list, raws, err := c.operations(ctx, w)
	if err != nil {
		return err
	}
	var others []*elsewhere
	if !w.ours {
		others = a.logElsewhere(ctx, c, w, list)
	}
	if a.json { // the document is the operations and nothing else; the rest stands beside it
		a.printJSON(append([]json.RawMessage{}, raws...))
		for _, e := range others {
			if e.Total == 0 && e.Complete {
				continue
			}
			b, err := json.Marshal(map[string]any{"not_ours": e})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Err, "%s\n", b)
		}
		return nil
	}
	if len(list) == 0 {
		fmt.Fprintln(a.Err, "No operation matches.")
	}
	table(a.Out, a.logRows(list))
	for _, e := range others {
		a.showElsewhere(e, nil)
	}
	return nil
}

func (a *app) logRows(list []operation) [][]string {
	rows := make([][]string, 0, len(list))
	for _, o := range list {
		rows = append(rows, []string{a.clock(o.Time), line(string(o.ID)), line(string(o.Op)), line(o.State), "undo " + line(o.undo()),
			first(line(o.Agent), "-"), joined("; ", paths(o.Paths), lateNote(o))})
	}
	return rows
}

func lateNote(o operation) string {
	if len(o.Late) == 0 {
		return ""
	}
	return "another program wrote during the change, see show"
}

// paths names the first few; the rest is counted, and show has them all.
func paths(list []op.Path) string {
	const few = 3
	var words []string
	for i, p := range list {
		if i == few {
			words = append(words, fmt.Sprintf("and %d more", len(list)-few))
			break
		}
		words = append(words, showPath(p))
	}
	return strings.Join(words, " ")
}

func (a *app) showCommand() *cobra.Command {
	var root string
	c := &cobra.Command{Use: "show OPERATION_ID", Short: "Show one operation: decision, effects, diff", Args: oneArg("the id of an operation"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.asWatcher(c.Context(), root, func(cl *client) error { return a.showOperation(c.Context(), cl, args[0]) })
		}}
	c.Flags().StringVar(&root, "root", "", "a directory to open in process when no daemon runs")
	return c
}

func (a *app) showOperation(ctx context.Context, c *client, id string) error {
	var got struct {
		Operation operation    `json:"operation"`
		Effects   []op.Effect  `json:"effects"`
		Diff      string       `json:"diff"`
		Decision  *op.Decision `json:"decision"`
	}
	raw, err := c.get(ctx, "/v1/operations/"+escapeID(op.ID(id)), &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	o := got.Operation
	fmt.Fprintf(a.Out, "%s %s\n", a.bold(line(string(o.Op))), line(string(o.ID)))
	rows := [][]string{{"time", a.clock(o.Time)}, {"agent", line(o.Agent)}, {"session", line(o.Session)}, {"state", line(o.State)},
		{"undo", line(o.undo())}, {"approval", line(string(o.ApprovalID))}, {"undoes", line(string(o.Undoes))}, {"undone by", line(string(o.UndoneBy))}}
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(a.Out, "%-10s %s\n", r[0], r[1])
		}
	}
	if got.Decision != nil {
		fmt.Fprintf(a.Out, "decision   %s, tier %s\n", got.Decision.Verdict, line(string(got.Decision.Tier)))
		for _, r := range append([]op.Reason{got.Decision.Reason}, got.Decision.Also...) {
			fmt.Fprintf(a.Out, "  - %s\n", reasonText(r))
		}
	}
	a.showEffects(got.Effects)
	for _, l := range o.Late {
		fmt.Fprintf(a.Out, "another program wrote during the change; both versions are kept (--json): %s\n", line(l))
	}
	fmt.Fprint(a.Out, block(got.Diff, a.diffLine))
	if o.Undo == "available" {
		fmt.Fprintf(a.Out, "take back: %s\n", a.command("undo "+line(string(o.ID))))
	}
	return nil
}
