package fileops

import (
	"context"
	"fmt"
	"path"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"holdpoint/op"
)

// BatchPlan gathers the plans of a batch's items.
type BatchPlan struct {
	Plan
	Mutates bool // some item changes something, whatever is left of it in the end

	apart bool
	names []op.Name
	items []map[string]any
	diffs []string
}

// NewBatch begins the plan of a batch.
func NewBatch(a *op.BatchArgs) *BatchPlan {
	b := &BatchPlan{apart: !op.Or(a.Atomic, true)}
	for _, item := range a.Operations {
		b.names = append(b.names, item.Op)
	}
	if b.apart {
		b.Lines = append(b.Lines, "each item by itself, not all or nothing: what fails is left out and the rest is done")
	}
	return b
}

// number is that of the next item, from 1.
func (b *BatchPlan) number() int { return len(b.items) + 1 }

func (b *BatchPlan) line(text string) {
	b.Lines = append(b.Lines, fmt.Sprintf("%d. %s", b.number(), text))
}

// Read adds an item that changes nothing, with its answer.
func (b *BatchPlan) Read(name op.Name, targets []op.Target, result map[string]any) {
	for _, t := range targets[:min(len(targets), 1)] {
		b.line(string(name) + " " + op.Escape(string(t.Path)))
	}
	b.items = append(b.items, map[string]any{"op": name, "status": op.Done, "result": result})
}

// Change adds an item that was planned.
func (b *BatchPlan) Change(name op.Name, p *Plan) {
	for _, l := range p.Lines {
		b.line(l)
	}
	if len(p.Lines) == 0 {
		b.line(string(name))
	}
	for _, w := range p.Warnings {
		w.Message = fmt.Sprintf("operation %d: %s", b.number(), w.Message)
		b.Warnings = append(b.Warnings, w)
	}
	b.items = append(b.items, map[string]any{"op": name, "status": op.Done, "result": p.Result})
	if p.Diff.Text != "" {
		b.diffs = append(b.diffs, p.Diff.Text)
	}
	b.Diff.Added, b.Diff.Removed, b.Diff.Bytes = b.Diff.Added+p.Diff.Added, b.Diff.Removed+p.Diff.Removed, b.Diff.Bytes+p.Diff.Bytes
	b.Diff.Binary, b.Diff.Escaped = b.Diff.Binary || p.Diff.Binary, b.Diff.Escaped || p.Diff.Escaped
	b.Mutates, b.Overwrites, b.Creates = true, b.Overwrites || p.Overwrites, b.Creates || p.Creates
	b.BreakLinks = b.BreakLinks || p.BreakLinks
	b.ChangeBytes += p.ChangeBytes
}

// Cannot adds an item of a batch that is not all or nothing and cannot succeed as things
// are.
func (b *BatchPlan) Cannot(err error) {
	e := op.AsError(err)
	b.line("cannot be done as things are: " + e.Message)
	b.items = append(b.items, map[string]any{"op": b.names[len(b.items)], "status": op.Failed, "error": e})
	b.Mutates = true
}

// Whole gives the one plan that leads from the tree as it is to the tree as it will be.
func (b *BatchPlan) Whole(ctx context.Context, w *World) (*Plan, error) {
	if err := w.Into(ctx, &b.Plan); err != nil {
		return nil, err
	}
	b.Title = batchTitle(b.names)
	b.Diff.Text = strings.Join(b.diffs, "")
	b.Result = map[string]any{"items": b.items}
	b.Warnings = append(b.Warnings, lookAlike(w.Made())...)
	return &b.Plan, nil
}

// Apart reports whether a batch asked to be done item by item.
func Apart(args any) bool {
	a, ok := args.(*op.BatchArgs)
	return ok && !op.Or(a.Atomic, true)
}

// acts names what an operation does, for a title.
var acts = map[op.Name][3]string{
	op.WriteFile: {"Write", "file", "files"}, op.EditFile: {"Edit", "file", "files"}, op.PatchFile: {"Apply", "patch", "patches"},
	op.CopyFile: {"Copy", "item", "items"}, op.CreateDirectory: {"Create", "directory", "directories"}, op.BackupFile: {"Back up", "file", "files"},
	op.DeleteFile: {"Delete", "item", "items"}, op.MoveFile: {"Move", "item", "items"}, op.RollbackFile: {"Roll back", "file", "files"},
}

// batchTitle names the acts: "Delete 3 items", or "Delete 2 items, edit 1 file, read 1".
func batchTitle(names []op.Name) string {
	n, order := map[op.Name]int{}, []op.Name(nil)
	const reads = op.Name("read")
	add := func(name op.Name) {
		if n[name]++; n[name] == 1 {
			order = append(order, name)
		}
	}
	for _, destructive := range []bool{true, false} {
		for _, name := range names {
			spec, _ := op.Lookup(name)
			if spec.Class == op.Read {
				name = reads
			}
			if (spec.Class == op.Destructive) == destructive {
				add(name)
			}
		}
	}
	var words []string
	for i, name := range order {
		a, ok := acts[name]
		text := fmt.Sprintf("Read %d", n[name])
		if ok {
			what := a[1]
			if n[name] != 1 {
				what = a[2]
			}
			text = fmt.Sprintf("%s %d %s", a[0], n[name], what)
		}
		if i > 0 {
			text = strings.ToLower(text[:1]) + text[1:]
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// lookAlike warns of names that come to stand in one directory and that many file systems
// and most eyes take for one.
func lookAlike(made []Place) []op.Warning {
	var out []op.Warning
	seen := map[string]op.Path{}
	for _, pl := range made {
		dir, name := path.Split(string(pl.Path))
		key := dir + norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
		if first, twice := seen[key]; twice && first != pl.Path {
			out = append(out, op.Warning{Code: string(op.NameCollision), Message: fmt.Sprintf("%s and %s are two names here, and one on file systems that fold case or accents",
				op.Visible(op.Escape(string(first)), false), op.Visible(op.Escape(string(pl.Path)), false))})
			continue
		}
		seen[key] = pl.Path
	}
	return out
}
