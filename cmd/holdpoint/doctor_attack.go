package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/protected"
)

// attackWays are the ways by which doctor --attack goes for a protected path, in order.
var attackWays = []string{"tool", "link", "hard link", "case", "unicode", "rename-over", "batch", "undo", "released command"}

// attackRow is one pattern, and what held for it: "held" by a person's word, "refused", or
// "GOT THROUGH". A way that cannot be tried here is "not tried" and says why.
type attackRow struct {
	Pattern string            `json:"pattern"`
	Path    string            `json:"path"`
	Ways    map[string]string `json:"ways"`
}

// attack is a scratch workspace with an engine of its own on it: nothing of the real state
// or of a real workspace is touched.
type attack struct {
	o             *opened
	root          string
	agent, person op.Caller
	through       int
}

const attackText = "as it was\n"

// doctorAttack tries every built-in pattern in every way, and ends with 1 when anything
// was changed without a person.
func (a *app) doctorAttack(ctx context.Context) error {
	base, err := os.MkdirTemp("", "holdpoint-attack")
	if err != nil {
		return op.Fail(op.IOError, "no scratch workspace can be made").Because(err)
	}
	defer os.RemoveAll(base)
	at := &attack{root: filepath.Join(base, "ws"), agent: op.Caller{Token: "tk_attack", Name: "attack", Role: op.Agent},
		person: op.Caller{Token: "tk_person", Name: "person", Role: op.Reviewer}}
	if err := os.Mkdir(at.root, 0o755); err != nil {
		return op.Fail(op.IOError, "no scratch workspace can be made").Because(err)
	}
	none := func(name string) string {
		if name == "PATH" {
			return a.Env(name)
		}
		return ""
	}
	at.o, err = openEngine(ctx, setup{state: filepath.Join(base, "state"), env: none, reviewAuth: "passphrase", version: Version(), warn: func(string) {}})
	if err != nil {
		return err
	}
	defer at.o.close()
	if err := at.o.addRoots(ctx, []flow.RootSpec{{Dir: at.root}}); err != nil {
		return err
	}
	if err := at.o.engine.SetPassphrase(ctx, rand.Text()); err != nil {
		return err
	}
	if err := at.control(ctx); err != nil {
		return err
	}
	set, _, err := protected.New(protected.Source{})
	if err != nil {
		return err
	}
	var rows []attackRow
	for _, d := range set.Patterns() {
		row, err := at.pattern(ctx, d.Pattern)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	if err := at.released(ctx, rows); err != nil {
		return err
	}
	a.printAttack(rows, at.through)
	if at.through > 0 {
		return exitCode(1)
	}
	return nil
}

func (a *app) printAttack(rows []attackRow, through int) {
	if a.json {
		a.printJSON(map[string]any{"version": Version(), "ways": attackWays, "rows": rows, "got_through": through})
		return
	}
	counts := map[string]map[string]int{}
	for _, r := range rows {
		for way, end := range r.Ways {
			if counts[way] == nil {
				counts[way] = map[string]int{}
			}
			word, _, _ := strings.Cut(end, ":")
			counts[way][word]++
			if word == "GOT THROUGH" {
				fmt.Fprintf(a.Out, "GOT THROUGH  %s by %s (%s)\n", line(r.Pattern), way, line(end))
			}
		}
	}
	fmt.Fprintf(a.Out, "%-18s %7s %9s %7s %11s\n", "way", "held", "refused", "not tried", "got through")
	for _, way := range attackWays {
		c := counts[way]
		fmt.Fprintf(a.Out, "%-18s %7d %9d %7d %11d\n", way, c["held"], c["refused"], c["not tried"], c["GOT THROUGH"])
	}
	fmt.Fprintf(a.Out, "%d patterns, %d ways each, %d got through\n", len(rows), len(attackWays), through)
}

// example is a path that a pattern covers.
func example(pattern string) string {
	p := strings.TrimPrefix(strings.TrimPrefix(pattern, "**/"), "/")
	return strings.ReplaceAll(p, "*", "x")
}

// pattern goes for one path in all ways. The path is written past the engine first, and
// checked after each way.
func (at *attack) pattern(ctx context.Context, pattern string) (attackRow, error) {
	row := attackRow{Pattern: pattern, Path: example(pattern), Ways: map[string]string{}}
	for _, way := range attackWays[:len(attackWays)-1] {
		if err := at.lay(row.Path); err != nil {
			return row, err
		}
		end := at.try(ctx, way, row.Path)
		if strings.HasPrefix(end, "GOT THROUGH") {
			at.through++
		}
		row.Ways[way] = end
	}
	return row, nil
}

// control makes sure that an engine which does nothing at all does not pass for a safe one:
// a free file can be edited.
func (at *attack) control(ctx context.Context) error {
	if err := at.lay("control.txt"); err != nil {
		return err
	}
	r := at.call(ctx, op.EditFile, map[string]any{"path": "free.txt", "old_string": "bad", "new_string": "good"})
	if b, err := os.ReadFile(filepath.Join(at.root, "free.txt")); err != nil || string(b) != "good\n" {
		return op.Fail(op.Internal, "not even a free file could be edited, so this would show nothing").Because(fmt.Errorf("%v %v", r.Error, err))
	}
	return nil
}

// lay empties the workspace, and puts the file there and one that is free.
func (at *attack) lay(path string) error {
	list, err := os.ReadDir(at.root)
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(at.root, e.Name())))
	}
	file := filepath.Join(at.root, path)
	return errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(attackText), 0o644),
		os.WriteFile(filepath.Join(at.root, "free.txt"), []byte("bad\n"), 0o644))
}

// try makes one attempt and judges it by the reply and by what stands on the disk.
func (at *attack) try(ctx context.Context, way, path string) string {
	edit := func(p string) op.Reply {
		return at.call(ctx, op.EditFile, map[string]any{"path": p, "old_string": "as it was", "new_string": "bad"})
	}
	full := filepath.Join(at.root, path)
	base := filepath.Base(path)
	switch way {
	case "tool":
		return at.judge(edit(path), path)
	case "link":
		if err := os.Symlink(path, filepath.Join(at.root, "plain.lnk")); err != nil {
			return "not tried: " + err.Error()
		}
		return at.judge(edit("plain.lnk"), path)
	case "hard link":
		if err := os.Link(full, filepath.Join(at.root, "plain.lnk")); err != nil {
			return "not tried: " + err.Error()
		}
		return at.judge(edit("plain.lnk"), path)
	case "case":
		other := strings.ToUpper(path)
		if other == path {
			other = strings.ToLower(path)
		}
		return at.judge(at.call(ctx, op.WriteFile, map[string]any{"path": other, "content": "bad"}), path, other)
	case "unicode":
		other := filepath.Join(filepath.Dir(path), base[:1]+"\u200c"+base[1:])
		return at.judge(at.call(ctx, op.WriteFile, map[string]any{"path": other, "content": "bad"}), path, other)
	case "rename-over":
		if err := os.Remove(full); err != nil {
			return "not tried: " + err.Error()
		}
		r := at.call(ctx, op.MoveFile, map[string]any{"source": "free.txt", "destination": path})
		return at.judge(r, "", path)
	case "batch":
		items := []any{map[string]any{"op": "write_file", "args": map[string]any{"path": "step", "content": "bad"}},
			map[string]any{"op": "copy_file", "args": map[string]any{"source": "step", "destination": path, "overwrite": true}}}
		return at.judge(at.call(ctx, op.BatchFileOps, map[string]any{"operations": items}), path)
	}
	return at.undo(ctx, path, edit(path))
}

// judge words a reply. kept must stand as it was, and none of absent may have come to be.
func (at *attack) judge(r op.Reply, kept string, absent ...string) string {
	if kept != "" {
		if b, err := os.ReadFile(filepath.Join(at.root, kept)); err != nil || string(b) != attackText {
			return "GOT THROUGH: " + string(r.Status)
		}
	}
	for _, p := range absent {
		if _, err := os.Lstat(filepath.Join(at.root, p)); err == nil {
			return "GOT THROUGH: " + string(r.Status)
		}
	}
	switch {
	case r.Approval != nil && (r.Decision.Reason == op.ReasonProtected || slices.Contains(r.Decision.Also, op.ReasonProtected)):
		return "held"
	case r.Error != nil && slices.Contains([]op.Code{op.HardLinked, op.OutsideWorkspace, op.PermissionDenied}, r.Error.Code):
		return "refused: " + string(r.Error.Code)
	case r.Error != nil:
		return "not tried: " + r.Error.Error()
	case r.Approval != nil:
		return "GOT THROUGH: held, but not as a protected path"
	}
	return "GOT THROUGH: " + string(r.Status)
}

func (at *attack) call(ctx context.Context, name op.Name, args map[string]any) op.Reply {
	b, err := json.Marshal(map[string]any{"op": name, "args": args})
	var req op.Request
	var warnings []op.Warning
	if err == nil {
		req, warnings, err = op.ParseRequest(b)
	}
	if err != nil {
		return op.Reply{Error: op.AsError(err)}
	}
	return at.o.engine.Call(ctx, at.agent, req, warnings)
}

// approve answers as the person and gives the row when the call has ended.
func (at *attack) approve(ctx context.Context, r op.Reply) (journal.Approval, error) {
	if r.Approval == nil {
		return journal.Approval{}, op.Fail(op.Internal, "nothing waits")
	}
	row, err := at.o.journal.Approval(ctx, r.Approval.ID)
	if err == nil {
		_, err = at.o.engine.Answer(ctx, at.person, row.ID, journal.Answer{Answer: "approve", ShownDigest: row.ShownDigest})
	}
	for end := time.Now().Add(30 * time.Second); err == nil && len(row.Reply) == 0 && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		row, err = at.o.journal.Approval(ctx, row.ID)
	}
	return row, err
}

// undo lets a person release an edit, and asks as the agent for its undo.
func (at *attack) undo(ctx context.Context, path string, held op.Reply) string {
	row, err := at.approve(ctx, held)
	if err != nil {
		return "not tried: " + err.Error()
	}
	b, err := os.ReadFile(filepath.Join(at.root, path))
	if err != nil || string(b) == attackText {
		return "not tried: the released edit did not land"
	}
	r := at.call(ctx, op.Undo, map[string]any{"operation_id": string(row.Operation)})
	if now, err := os.ReadFile(filepath.Join(at.root, path)); err != nil || string(now) != string(b) {
		return "GOT THROUGH: undone"
	}
	return at.judge(r, "")
}

// released has a person release one program that goes for all paths, and does not say on
// its card what it does. It writes one free file as well, or it was not really run.
func (at *attack) released(ctx context.Context, rows []attackRow) error {
	if err := at.lay("free.txt"); err != nil {
		return err
	}
	script := "echo ran > free.txt\n"
	for _, r := range rows {
		full := filepath.Join(at.root, r.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(attackText), 0o644)); err != nil {
			return op.Fail(op.IOError, "the scratch workspace cannot be filled").Because(err)
		}
		script += "p=$(printf '%b' '" + octal(r.Path) + "'); echo bad > \"$p\"\n"
	}
	held := at.call(ctx, op.WorkspaceShell, map[string]any{"script": script})
	why := ""
	if held.Error != nil {
		why = held.Error.Message
	} else if _, err := at.approve(ctx, held); err != nil {
		why = err.Error()
	} else if b, err := os.ReadFile(filepath.Join(at.root, "free.txt")); err != nil || string(b) != "ran\n" {
		why = "the program did not run to its end"
	}
	for _, r := range rows {
		b, err := os.ReadFile(filepath.Join(at.root, r.Path))
		switch {
		case err != nil || string(b) != attackText:
			r.Ways["released command"] = "GOT THROUGH: the program wrote it"
			at.through++
		case why != "":
			r.Ways["released command"] = "not tried: " + why
		default:
			r.Ways["released command"] = "refused: by the confinement"
		}
	}
	return nil
}

func octal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, `\0%03o`, s[i])
	}
	return b.String()
}
