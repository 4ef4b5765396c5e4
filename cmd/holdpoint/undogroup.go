package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"holdpoint/op"
)

// undoPlan is what the daemon says that an undo of several operations would do.
type undoPlan struct {
	Undo    int        `json:"undo"`
	Merge   int        `json:"merge"`
	Refused int        `json:"refused"`
	NotOurs int        `json:"not_ours"`
	Units   []undoUnit `json:"units"`
}

// undoUnit is one part of it: taken back as a whole or not at all.
type undoUnit struct {
	Operations []op.ID   `json:"operations"`
	Paths      []op.Path `json:"paths"`
	Outcome    string    `json:"outcome"` // undo, merge, refused
	Why        *op.Error `json:"why"`
	Diff       string    `json:"diff"`
}

// undoSelected finds what the flags mean and takes it back, one undo for each root.
func (a *app) undoSelected(ctx context.Context, c *client, f *undoFlags) error {
	list, err := a.undoable(ctx, c, f, f.last)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return op.Fail(op.UndoUnknown, "nothing that matches can be taken back").Do("holdpoint log lists operations with the state of their credentials")
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
		err := a.undoTogether(ctx, c, f, root, byRoot[root])
		if exit, ok := err.(exitCode); ok {
			code = max(code, int(exit))
		} else if err != nil {
			return err
		}
	}
	return exitWith(code)
}

// undoTogether rehearses, shows the plan, and takes back what was shown: after a person
// said so on a terminal, else as far as --merge and --keep-going allow.
func (a *app) undoTogether(ctx context.Context, c *client, f *undoFlags, root string, ids []op.ID) error {
	first, err := c.undoMany(ctx, f, root, ids, true)
	if err != nil {
		return err
	}
	if first.Status != op.Done {
		return a.finishReply(first, request{DryRun: true})
	}
	var got struct {
		Plan *undoPlan `json:"plan"`
		Diff string    `json:"diff"`
	}
	if err := json.Unmarshal(first.Result, &got); err != nil || got.Plan == nil {
		return op.Fail(op.Internal, "the daemon's plan of this undo is not understood").Do("daemon and command line may be of different versions")
	}
	p := got.Plan
	others, told := a.elsewhereOf(ctx, c, f.path, ids), p.told()
	if f.dryRun {
		if a.json {
			a.printJSON(withElsewhere(first.raw, others))
		} else {
			a.showUndoPlan(p, true)
			a.showElsewhere(others, told)
		}
		return exitWith(planExit(p, f))
	}
	if !a.json {
		a.showUndoPlan(p, false)
		a.showElsewhere(others, told)
	}
	asks := f.patch || a.TTY && a.InTTY && !a.json
	if asks {
		if ids, err = a.chooseParts(ctx, f, p, got.Diff); err != nil {
			return err
		}
		if len(ids) == 0 {
			fmt.Fprintln(a.Err, "Nothing was changed.")
			return nil
		}
		chosen := *f
		chosen.merge = true // the parts that merge were shown and chosen
		f = &chosen
	}
	r, err := c.undoMany(ctx, f, root, ids, false)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(withElsewhere(r.raw, others))
		return exitWith(max(r.exit(), leftExit(r, p, f, asks)))
	}
	if r.Status != op.Done {
		if r.Error != nil && r.Error.Code == op.UndoConflict && p.Merge+p.Refused > 0 {
			r.Error.Hint = "nothing was changed; add --merge to keep what others changed elsewhere in the same files, --keep-going to leave out what cannot be taken back, or -p to choose"
		}
		return a.finishReply(r, request{})
	}
	fmt.Fprintf(a.Out, "Took back %s as one: %s\n", plural(int64(len(undoneIDs(r))), "operation"), line(string(r.OperationID)))
	if kept := len(ids) - len(undoneIDs(r)); kept > 0 {
		fmt.Fprintf(a.Out, "Left %s as it is.\n", plural(int64(kept), "operation"))
	}
	fmt.Fprintf(a.Out, "bring it again: %s\n", a.command("undo "+line(string(r.OperationID))))
	return exitWith(leftExit(r, p, f, asks))
}

// told names the paths that a plan speaks of.
func (p *undoPlan) told() map[string]bool {
	paths := map[string]bool{}
	for _, u := range p.Units {
		for _, path := range u.Paths {
			paths[string(path)] = true
		}
	}
	return paths
}

// leftExit is 5 when parts were left out that nobody chose to leave.
func leftExit(r reply, p *undoPlan, f *undoFlags, asked bool) int {
	if r.Status == op.Done && !asked && (p.Refused > 0 || p.Merge > 0 && !f.merge) {
		return op.ExitStatus(op.UndoConflict)
	}
	return 0
}

func planExit(p *undoPlan, f *undoFlags) int {
	if p.Refused > 0 || p.Merge > 0 && !f.merge {
		return op.ExitStatus(op.UndoConflict)
	}
	return 0
}

func undoneIDs(r reply) []op.ID {
	var got struct {
		Undone []op.ID `json:"undone"`
	}
	json.Unmarshal(r.Result, &got)
	return got.Undone
}

func (c *client) undoMany(ctx context.Context, f *undoFlags, root string, ids []op.ID, rehearse bool) (reply, error) {
	body := map[string]any{"operations": ids, "dry_run": rehearse, "merge": f.merge, "keep_going": f.keepGoing, "force": f.force}
	if root != "" {
		body["root"] = root
	}
	r, err := c.call(ctx, "/v1/undo", body, op.Undo)
	if err == nil && turnedAway(r.failure()) {
		return r, r.Error
	}
	return r, err
}

// showUndoPlan prints the counts, and each part that is not simply taken back.
func (a *app) showUndoPlan(p *undoPlan, all bool) {
	words := []string{fmt.Sprintf("undo %d", p.Undo)}
	for _, w := range []struct {
		n    int
		text string
	}{{p.Merge, "merge %d (others changed it too, no overlap)"}, {p.Refused, "refused %d (overlap)"}, {p.NotOurs, "not ours %d"}} {
		if w.n > 0 {
			words = append(words, fmt.Sprintf(w.text, w.n))
		}
	}
	fmt.Fprintln(a.Out, a.bold(strings.Join(words, ", ")))
	for _, u := range p.Units {
		if u.Outcome == "undo" && !all {
			continue
		}
		fmt.Fprintf(a.Out, "  %-7s %s, %s\n", line(u.Outcome), paths(u.Paths), plural(int64(len(u.Operations)), "operation"))
		if u.Why != nil {
			fmt.Fprintf(a.Out, "          %s: %s\n", showPath(u.Why.Path), line(u.Why.Message))
		}
	}
}

// chooseParts asks what to take back. With -p it asks for each part.
func (a *app) chooseParts(ctx context.Context, f *undoFlags, p *undoPlan, diff string) ([]op.ID, error) {
	able := slices.DeleteFunc(slices.Clone(p.Units), func(u undoUnit) bool { return u.Outcome == "refused" })
	for !f.patch {
		word, err := a.askWord(ctx, fmt.Sprintf("Take back %s? [y/N/d/p] ", plural(int64(len(able)), "part")))
		if err != nil {
			return nil, err
		}
		switch word {
		case "y":
			return operationsOf(able), nil
		case "d":
			fmt.Fprint(a.Out, block(diff, a.diffLine))
		case "p":
			return a.chooseEach(ctx, able)
		default:
			return nil, nil
		}
	}
	return a.chooseEach(ctx, able)
}

func (a *app) chooseEach(ctx context.Context, able []undoUnit) ([]op.ID, error) {
	var chosen []undoUnit
	for i := 0; i < len(able); i++ {
		u := able[i]
		word, err := a.askWord(ctx, fmt.Sprintf("%s %s, %s? [y/N/d/q] ", line(u.Outcome), paths(u.Paths), plural(int64(len(u.Operations)), "operation")))
		if err != nil {
			return nil, err
		}
		switch word {
		case "y":
			chosen = append(chosen, u)
		case "d":
			fmt.Fprint(a.Out, block(u.Diff, a.diffLine))
			i-- // ask again
		case "q":
			return operationsOf(chosen), nil
		}
	}
	return operationsOf(chosen), nil
}

func (a *app) askWord(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(a.Err, prompt)
	got, err := a.readLine(ctx)
	return strings.ToLower(strings.TrimSpace(got)), err
}

func operationsOf(units []undoUnit) []op.ID {
	var ids []op.ID
	for _, u := range units {
		ids = append(ids, u.Operations...)
	}
	return ids
}
