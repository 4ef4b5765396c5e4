package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// The commands that look after what is kept for undo.

// pick says which operations are meant.
type pick struct {
	session, agent, path, root string
	since                      durationFlag
	last                       int
}

func (p *pick) add(c *cobra.Command) {
	s := c.Flags()
	s.Var(&p.since, "since", "operations of this last while, as 1h")
	s.StringVar(&p.session, "session", "", "operations of this session")
	s.StringVar(&p.agent, "agent", "", "operations of this agent")
	s.StringVar(&p.path, "path", "", "operations on this path or below it")
	s.IntVar(&p.last, "last", 0, "the last N operations")
	s.StringVar(&p.root, "root", "", "only operations in this root: name, key or directory")
}

// operations lists what can be taken back still, undos left out.
func (a *app) picked(ctx context.Context, c *client, p *pick) ([]operation, error) {
	f := &undoFlags{session: p.session, agent: p.agent, path: p.path, root: p.root, since: p.since, last: p.last}
	if !f.selects() {
		f.since = durationFlag{set: false}
		f.last = 0
		root, err := c.rootNamed(ctx, p.root)
		if err != nil {
			return nil, err
		}
		list, _, err := c.operations(ctx, wanted{root: root, state: "committed", undoable: true})
		return list, err
	}
	return a.undoable(ctx, c, f, p.last)
}

func (a *app) diffCommand() *cobra.Command {
	p := &pick{}
	c := &cobra.Command{Use: "diff [--since DUR] [--session S] [--agent A]", Short: "Print the net patch of what was changed", Args: noArgs,
		Long: `Print one patch of what operations changed, as git apply takes it.

It leads from the files without these operations to the files as they are. What others
changed in the same files is left as it is on both sides, so that git apply -R takes back
what holdpoint undo --merge would. Parts that overlap with changes of others are left out
and named on standard error.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.asWatcher(c.Context(), p.root, func(cl *client) error { return a.diff(c.Context(), cl, p) })
		}}
	p.add(c)
	return c
}

func (a *app) diff(ctx context.Context, c *client, p *pick) error {
	list, err := a.picked(ctx, c, p)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if a.json {
			a.printJSON(json.RawMessage(`{"diff":"","files":0,"left":[]}`))
		}
		fmt.Fprintln(a.Err, "No operation matches.")
		return nil
	}
	byRoot, roots := map[string][]op.ID{}, []string{}
	for _, o := range list {
		if byRoot[o.Root] == nil {
			roots = append(roots, o.Root)
		}
		byRoot[o.Root] = append(byRoot[o.Root], o.ID)
	}
	code := 0
	for _, root := range roots {
		var got struct {
			Diff string   `json:"diff"`
			Left []string `json:"left"`
		}
		raw, err := c.do(ctx, http.MethodPost, "/v1/diff", map[string]any{"root": root, "operations": byRoot[root]}, &got)
		if err != nil {
			return err
		}
		if len(roots) > 1 && !a.json {
			fmt.Fprintf(a.Err, "root %s:\n", line(root))
		}
		for _, l := range got.Left {
			fmt.Fprintf(a.Err, "left out: %s\n", line(l))
			code = op.ExitStatus(op.UndoConflict)
		}
		switch {
		case a.json:
			a.printJSON(raw)
		case a.TTY:
			fmt.Fprint(a.Out, block(got.Diff, a.diffLine))
		default:
			fmt.Fprint(a.Out, got.Diff) // byte for byte, for git
		}
	}
	return exitWith(code)
}

func (a *app) gcCommand() *cobra.Command {
	var now, root string
	var dry bool
	c := &cobra.Command{Use: "gc [--dry-run] [--now OPERATION_ID]", Short: "Drop what is kept for undo longer than it has to be", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			as := a.asWatcher
			if now != "" {
				as = a.asReviewer
			}
			return as(c.Context(), root, func(cl *client) error { return a.collect(c.Context(), cl, now, dry) })
		}}
	c.Flags().StringVar(&now, "now", "", "also end the credential of this operation, for good")
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would go")
	c.Flags().StringVar(&root, "root", "", "a directory to open in process when no daemon runs")
	return c
}

func (a *app) collect(ctx context.Context, c *client, now string, dry bool) error {
	var got struct {
		Operations []op.ID `json:"operations"`
		Bytes      int64   `json:"bytes"`
		Used       int64   `json:"used"`
		Limit      int64   `json:"limit"`
	}
	raw, err := c.do(ctx, http.MethodPost, "/v1/gc", map[string]any{"dry_run": dry, "now": now}, &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	verb := "Dropped"
	if dry {
		verb = "Would drop"
	}
	fmt.Fprintf(a.Out, "%s what %s kept, %s; the stores hold %d of %d bytes.\n", verb, plural(int64(len(got.Operations)), "operation"), plural(got.Bytes, "byte"), got.Used, got.Limit)
	return nil
}

func (a *app) forgetCommand() *cobra.Command {
	var root string
	c := &cobra.Command{Use: "forget OPERATION_ID|PATH|APPROVAL_ID", Short: "Take content out of the store for good, as of a leaked secret", Args: oneArg("an operation id, a path or an approval id"),
		Long: `Take content out of the store for good, as of a secret that leaked into it.

Names one operation, all that touched a path or what lies below it, or one held call. What
they kept for undo, their diffs, the calls and cards of those that were held, long output
and the kept replies of reads end; their credentials end with them, and calls that wait are
withdrawn. The database is written anew, which takes as long as it is big. Files of the
workspace stay as they are.`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.asReviewer(c.Context(), root, func(cl *client) error { return a.forget(c.Context(), cl, root, args[0]) })
		}}
	c.Flags().StringVar(&root, "root", "", "the root of the path: name, key or directory")
	return c
}

func (a *app) forget(ctx context.Context, c *client, root, what string) error {
	key, err := c.rootNamed(ctx, root)
	if err != nil {
		return err
	}
	var got struct {
		Operations []op.ID `json:"operations"`
		Approvals  []op.ID `json:"approvals"`
		Bytes      int64   `json:"bytes"`
	}
	raw, err := c.do(ctx, http.MethodPost, "/v1/forget", map[string]any{"root": key, "what": what}, &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	fmt.Fprintf(a.Out, "Forgot what %s kept, %s, and the text of %s. They can no longer be taken back.\n", plural(int64(len(got.Operations)), "operation"), plural(got.Bytes, "byte"),
		plural(int64(len(got.Approvals)), "card"))
	return nil
}

func (a *app) exportCommand() *cobra.Command {
	p := &pick{}
	c := &cobra.Command{Use: "export OPERATION_ID DIR | --since DUR DIR", Short: "Write what is kept for undo as plain files and a patch",
		Args: func(c *cobra.Command, args []string) error {
			f := undoFlags{session: p.session, agent: p.agent, path: p.path, since: p.since, last: p.last}
			if f.selects() && len(args) == 1 || !f.selects() && len(args) == 2 {
				return nil
			}
			return usagef("export needs an operation and a directory, or --since and the like and a directory")
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.asWatcher(c.Context(), p.root, func(cl *client) error { return a.export(c.Context(), cl, p, args) })
		}}
	p.add(c)
	return c
}

func (a *app) export(ctx context.Context, c *client, p *pick, args []string) error {
	dir := args[len(args)-1]
	var ids []op.ID
	if len(args) == 2 {
		ids = []op.ID{op.ID(args[0])}
	} else {
		list, err := a.picked(ctx, c, p)
		if err != nil {
			return err
		}
		for _, o := range list {
			ids = append(ids, o.ID)
		}
	}
	files, code := 0, 0
	for _, id := range ids {
		var got exported
		if _, err := c.get(ctx, "/v1/operations/"+escapeID(id)+"/kept", &got); err != nil {
			return err
		}
		n, err := got.write(filepath.Join(dir, string(id)))
		if err != nil {
			return err
		}
		files += n
		for _, l := range got.Left {
			fmt.Fprintf(a.Err, "left out of %s: %s\n", line(string(id)), line(l))
			code = 1
		}
	}
	if a.json {
		a.printJSON(map[string]any{"operations": ids, "files": files, "dir": dir})
	} else {
		fmt.Fprintf(a.Out, "Wrote %s of %s to %s.\n", plural(int64(files), "file"), plural(int64(len(ids)), "operation"), line(dir))
	}
	return exitWith(code)
}

// exported is what one operation keeps.
type exported struct {
	Operation json.RawMessage `json:"operation"`
	Diff      string          `json:"diff"`
	Files     []struct {
		Path    op.Path `json:"path"`
		Kind    op.Kind `json:"type"`
		Mode    string  `json:"mode"`
		Target  string  `json:"target"`
		Content string  `json:"content_base64"`
	} `json:"files"`
	Left []string `json:"left"`
}

// write makes dir with operation.json, change.patch and the files below before/. Nothing
// that is there already is replaced, and no link is made: a link's text goes into a file.
func (x exported) write(dir string) (int, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return 0, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, op.Fail(op.Exists, dir+" cannot be made").Do("choose another directory").Because(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	put := func(name string, content []byte, mode os.FileMode) error {
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		if err == nil {
			err = f.Chmod(mode)
		}
		if end := f.Close(); err == nil {
			err = end
		}
		return err
	}
	if err := put("operation.json", x.Operation, 0o600); err != nil {
		return 0, err
	}
	if err := put("change.patch", []byte(x.Diff), 0o600); err != nil {
		return 0, err
	}
	n := 0
	for _, f := range x.Files {
		name := "before/" + string(f.Path)
		switch f.Kind {
		case op.Directory:
			err = root.MkdirAll(name, 0o700)
		case op.Symlink:
			err = put(name+".link", []byte(f.Target+"\n"), 0o600)
		case op.File:
			var content []byte
			if content, err = base64.StdEncoding.DecodeString(f.Content); err == nil {
				bits, _ := strconv.ParseUint(f.Mode, 8, 32)
				err = put(name, content, os.FileMode(bits&0o700|0o600))
			}
		}
		if err != nil {
			return n, op.Fail(op.IOError, "cannot write "+name).Because(err)
		}
		n++
	}
	return n, nil
}

func (a *app) verifyCommand() *cobra.Command {
	return a.checkCommand("verify", "Check journal, audit log and store against what was recorded", false)
}

func (a *app) repairCommand() *cobra.Command {
	return a.checkCommand("repair", "Check everything and mend what can be mended without losing anything", true)
}

func (a *app) checkCommand(name, short string, repair bool) *cobra.Command {
	var root string
	c := &cobra.Command{Use: name, Short: short, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.asReviewer(c.Context(), root, func(cl *client) error { return a.check(c.Context(), cl, repair) })
		}}
	c.Flags().StringVar(&root, "root", "", "a directory to open in process when no daemon runs")
	return c
}

func (a *app) check(ctx context.Context, c *client, repair bool) error {
	var got struct {
		Findings []struct {
			Code      string `json:"code"`
			Message   string `json:"message"`
			Operation op.ID  `json:"operation_id"`
			Path      string `json:"path"`
			Mended    bool   `json:"mended"`
		} `json:"findings"`
		Operations int   `json:"operations"`
		Slots      int   `json:"slots"`
		Records    int64 `json:"records"`
	}
	raw, err := c.do(ctx, http.MethodPost, "/v1/verify", map[string]any{"repair": repair}, &got)
	if err != nil {
		return err
	}
	left := 0
	for _, f := range got.Findings {
		if !f.Mended {
			left++
		}
		if a.json {
			continue
		}
		word := line(f.Code)
		if f.Mended {
			word += " (mended)"
		}
		fmt.Fprintln(a.Out, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", word, line(f.Message), line(string(f.Operation)), line(f.Path))))
	}
	if a.json {
		a.printJSON(raw)
	} else {
		fmt.Fprintf(a.Out, "Checked %s that can be taken back, %s in the store, %s; %s.\n", plural(int64(got.Operations), "operation"),
			plural(int64(got.Slots), "thing"), plural(got.Records, "audit record"), plural(int64(left), "fault"))
	}
	if left > 0 {
		return exitWith(1)
	}
	return nil
}
