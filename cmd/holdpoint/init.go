package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

func initCommand(a *app) *cobra.Command {
	var write, check bool
	names := clientNames()
	c := &cobra.Command{Use: "init " + strings.Join(names, "|") + "|reviewer [--write] [--check]", Short: "Show, write or check a client's settings; choose the reviewer's passphrase", Args: oneArg("a client: " + strings.Join(names, ", ") + "; or reviewer"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if args[0] == "reviewer" && !write && !check {
				return a.initReviewer(ctx)
			}
			if write && check {
				return usagef("give --write or --check, not both")
			}
			if !slices.Contains(names, args[0]) {
				return usagef("no client %q is known; the clients are %s", line(args[0]), strings.Join(names, ", "))
			}
			s := settingsOf(args[0], a.entry(), workingDir())
			switch {
			case check:
				return a.checkClient(s)
			case write:
				return a.writeClient(ctx, s)
			}
			return a.showClient(ctx, s)
		}}
	c.Flags().BoolVar(&write, "write", false, "write them; what is there already is kept")
	c.Flags().BoolVar(&check, "check", false, "only tell which are there")
	return c
}

// entry is how a client starts this program: by its name where the path leads to it.
func (a *app) entry() string {
	self, err := os.Executable()
	if err != nil {
		return "holdpoint"
	}
	if found, err := exec.LookPath("holdpoint"); err == nil && sameFile(found, self) {
		return "holdpoint"
	}
	return self
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func workingDir() string {
	d, err := canonicalDir(".")
	if err != nil {
		return "."
	}
	return d
}

func (a *app) fileOf(s setting) string {
	if rest, ok := strings.CutPrefix(s.file, "~/"); ok {
		return filepath.Join(a.Env("HOME"), rest)
	}
	return s.file
}

func (a *app) showClient(ctx context.Context, list []setting) error {
	if a.json {
		out := []map[string]any{}
		for _, s := range list {
			out = append(out, map[string]any{"file": a.fileOf(s), "why": s.why, "content": s.rendered()})
		}
		a.printJSON(out)
		return nil
	}
	for _, s := range list {
		fmt.Fprintf(a.Out, "# %s: %s\n%s\n", a.fileOf(s), s.why, s.rendered())
	}
	fmt.Fprintln(a.Out, "# --write puts this in place, --check tells what is missing. What a client cannot be told in a file is in docs/mcp.md.")
	return a.firstReviewer(ctx)
}

// writeClient puts the settings in place. Each file is read before any is written, so
// that one that cannot be changed safely changes none.
func (a *app) writeClient(ctx context.Context, list []setting) error {
	content := make([][]byte, len(list))
	for i, s := range list {
		old, err := readSmall(a.fileOf(s))
		if err != nil && !notExist(err) {
			return op.Fail(op.IOError, a.fileOf(s)+" cannot be read").Because(err)
		}
		if content[i], err = s.merged(old); err != nil {
			return op.Fail(op.InvalidDocument, a.fileOf(s)+" cannot be changed safely: "+err.Error()).
				Do("put this into it by hand:\n" + s.rendered())
		}
	}
	docs := []map[string]any{}
	for i, s := range list {
		name := a.fileOf(s)
		wrote, err := a.replaceFile(name, content[i])
		if err != nil {
			return err
		}
		docs = append(docs, map[string]any{"file": name, "why": s.why, "wrote": wrote})
		switch {
		case a.json:
		case wrote:
			fmt.Fprintf(a.Out, "wrote %s\n", line(name))
		default:
			fmt.Fprintf(a.Out, "%s is right already\n", line(name))
		}
	}
	if a.json {
		a.printJSON(map[string]any{"settings": docs})
		return nil
	}
	if err := a.firstReviewer(ctx); err != nil {
		return err
	}
	fmt.Fprintln(a.Out, "Restart the client, ask for a change, then look with holdpoint log; holdpoint review list shows what waits for you.")
	return nil
}

// replaceFile writes a file of the user's by a rename, and keeps what was there beside it.
// It says whether there was anything to write.
func (a *app) replaceFile(name string, content []byte) (wrote bool, err error) {
	old, err := readSmall(name)
	if err == nil && string(old) == string(content) {
		return false, nil
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(name); err == nil {
		mode = info.Mode().Perm()
		if err := os.WriteFile(name+".before-holdpoint", old, mode); err != nil {
			return false, op.Fail(op.IOError, name+" cannot be kept").Because(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return false, op.Fail(op.IOError, filepath.Dir(name)+" cannot be made").Because(err)
	}
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		target = name
	}
	tmp := target + ".new-holdpoint"
	if err := os.WriteFile(tmp, content, mode); err == nil {
		err = os.Rename(tmp, target)
		if err == nil {
			return true, nil
		}
	}
	os.Remove(tmp)
	return false, op.Fail(op.IOError, name+" cannot be written")
}

func (a *app) checkClient(list []setting) error {
	missing := 0
	docs := []map[string]any{}
	for _, s := range list {
		old, err := readSmall(a.fileOf(s))
		if err != nil && !notExist(err) {
			return op.Fail(op.IOError, a.fileOf(s)+" cannot be read").Because(err)
		}
		lacks := s.lacks(old)
		docs = append(docs, map[string]any{"file": a.fileOf(s), "why": s.why, "ok": lacks == "", "missing": lacks})
		if lacks != "" {
			missing++
		}
	}
	var short *op.Error
	if missing > 0 {
		short = op.Fail(op.NotFound, fmt.Sprintf("%d of %d settings are missing", missing, len(list))).Do("put them in place with --write")
	}
	if a.json { // one document, with the error in it where there is one
		out := map[string]any{"settings": docs}
		if short != nil {
			out["error"] = short
		}
		a.printJSON(out)
		return exitWith(exitOf(short))
	}
	for _, d := range docs {
		a.showCheck(d["file"].(string), d["why"].(string), d["missing"].(string))
	}
	if short != nil {
		return short
	}
	return nil
}

func (a *app) showCheck(file, why, lacks string) {
	if lacks == "" {
		fmt.Fprintf(a.Out, "ok       %s: %s\n", line(file), why)
		return
	}
	fmt.Fprintf(a.Out, "missing  %s: %s (%s)\n", line(file), why, line(lacks))
}

func exitOf(e *op.Error) int {
	if e == nil {
		return 0
	}
	return op.ExitStatus(e.Code)
}
