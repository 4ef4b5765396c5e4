package fileops

import (
	"context"
	"errors"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Looker is the part of a workspace that a World stands on.
type Looker interface {
	Look(ctx context.Context, p op.Path, follow bool) (*rooted.Node, error)
}

// World is a workspace as the parts of a batch will leave it: what is there now, seen
// through what the parts so far would do. Nothing happens to the workspace itself. Each
// part is looked up and planned in it, so that a link which one part moves leads the next
// one where it will lead then, and not where it leads now.
//
// In the end it tells the steps from the tree as it is to the tree as it will be, each
// path once, whatever way the parts took.
type World struct {
	look Looker
	top  *thing
	gone []*thing // what stands in the workspace now and will not be there
	keep []kept   // steps that concern the store alone, in order
	open []*rooted.Node
}

// thing is what will stand at one path.
type thing struct {
	in    *thing // the directory; nil for the root and for what is gone
	name  string
	kind  op.Kind
	was   op.Path // where it stands now; empty when the batch makes it
	now   rooted.Info
	state op.State          // of what stands at was, as recorded
	fresh *fresh            // other bytes than now
	stage stager            // of a thing that the batch makes and has no fresh
	after op.State          // of a thing that the batch makes
	blind bool              // made by the batch, and nobody knows what it will hold
	below map[string]*thing // what is known of a directory; nil means nothing there
	moved map[string]bool   // names in it that the batch changed
}

// fresh is what a step puts in place: its bytes, those of another file, or unknown; and
// how other bytes would be staged in the same place with the same metadata.
type fresh struct {
	bytes []byte
	known bool
	from  *rooted.Node
	mode  *uint32 // set to exactly this
	perm  uint32  // else, of a new file: the bits it is made with, as a copy has those of its source; 0 is the usual ones
	over  func(content []byte, mode *uint32) stager
}

type kept struct {
	step  op.Step
	stage stager
}

// NewWorld begins with the workspace as it is. The caller closes it.
func NewWorld(l Looker) *World {
	return &World{look: l, top: &thing{kind: op.Directory, was: ".", below: map[string]*thing{}}}
}

// Close releases the stand-ins that Find gave out.
func (w *World) Close() {
	for _, n := range w.open {
		n.Close()
	}
	w.open = nil
}

func (t *thing) path() op.Path {
	if t.in == nil {
		return "."
	}
	return t.in.path().Join(t.name)
}

// asNow reports whether the thing is what stands at its path now, itself unchanged.
func (t *thing) asNow() bool {
	if t.in == nil {
		return t.was == "."
	}
	return t.inPlace() && t.fresh == nil && t.in.asNow()
}

// inPlace reports whether it is where it was in its directory, wherever that went.
func (t *thing) inPlace() bool {
	return t.was != "" && t.in.was != "" && t.was == t.in.was.Join(t.name)
}

// touched reports whether the batch changed anything in a directory or below it.
func (t *thing) touched() bool {
	if len(t.moved) > 0 {
		return true
	}
	for _, c := range t.below {
		if c != nil && (c.fresh != nil || c.touched()) {
			return true
		}
	}
	return false
}

// child gives what will stand at a name in a directory; nil is nothing.
func (w *World) child(ctx context.Context, dir *thing, name string) (*thing, error) {
	if c, known := dir.below[name]; known {
		return c, nil
	}
	if dir.blind {
		return nil, unforeseen(dir.path())
	}
	if dir.was == "" {
		return nil, nil
	}
	n, err := w.look.Look(ctx, dir.was.Join(name), false)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	var c *thing
	if n.Info.Kind != op.Absent {
		c = &thing{in: dir, name: name, kind: n.Info.Kind, was: dir.was.Join(name), now: n.Info, below: map[string]*thing{}}
	}
	dir.below[name] = c
	return c, nil
}

// at gives what will stand at a canonical path, with its directory. Nothing there is no
// error; a directory that will not be there is.
func (w *World) at(ctx context.Context, p op.Path) (dir, t *thing, err error) {
	if p == "." {
		return nil, w.top, nil
	}
	if p.Parent() == "." {
		dir = w.top
	} else if _, dir, err = w.at(ctx, p.Parent()); err != nil {
		return nil, nil, err
	}
	if dir == nil || dir.kind != op.Directory {
		return nil, nil, op.Fail(op.Internal, "a part of the batch acts where no directory will be").At(p)
	}
	t, err = w.child(ctx, dir, p.Base())
	return dir, t, err
}

// Do makes the world what it will be after a part of the batch.
func (w *World) Do(ctx context.Context, p *Plan) error {
	for i, s := range p.Steps {
		if err := w.do(ctx, s, p.stagers[i], p.fresh[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) do(ctx context.Context, s op.Step, stage stager, f fresh) error {
	if !s.Do.InTree() {
		w.keep = append(w.keep, kept{s, stage})
		return nil
	}
	dir, t, err := w.at(ctx, s.Path)
	if err != nil {
		return err
	}
	wrong := func(what string) error {
		return op.Fail(op.Internal, "a part of the batch "+what).At(s.Path)
	}
	switch {
	case s.Do == op.Place || s.Do == op.MakeDir:
		if t != nil {
			return wrong("makes what will be there already")
		}
		w.make(dir, s, stage, f)
	case t == nil || t == w.top:
		return wrong("changes what will not be there")
	case s.Do == op.Swap:
		t.remember(s.Before)
		return t.change(f, stage)
	case s.Do == op.Take:
		t.remember(s.Before)
		w.take(t)
	case s.Do == op.Move:
		t.remember(s.Before)
		to, there, err := w.at(ctx, s.To)
		if err != nil {
			return err
		}
		if there != nil {
			return op.Fail(op.Internal, "a part of the batch moves onto what will be there").At(s.To)
		}
		t.leave()
		t.enter(to, s.To.Base())
	default:
		return op.Fail(op.NotAvailable, "this act is not for a batch").At(s.Path)
	}
	return nil
}

// remember keeps how the thing was recorded where it stands now.
func (t *thing) remember(s op.State) {
	if t.was != "" && t.fresh == nil && t.state.Kind == "" {
		t.state = s
	}
}

func (w *World) make(dir *thing, s op.Step, stage stager, f fresh) {
	t := &thing{kind: op.Directory, below: map[string]*thing{}}
	if s.Do == op.Place {
		t.kind, t.stage, t.after = op.File, stage, s.After
		if s.After.Kind != "" {
			t.kind = s.After.Kind
		}
		if f.over != nil {
			t.fresh = &f
		}
		t.blind = f.over == nil
	} else {
		t.after = s.After
	}
	t.enter(dir, s.Path.Base())
}

// change gives a file other bytes. What another part of the batch made or changed already
// keeps the metadata that it got there.
func (t *thing) change(f fresh, stage stager) error {
	if t.fresh == nil && t.was != "" {
		t.fresh, t.stage = &f, stage
		return nil
	}
	content, err := f.read()
	if err != nil || t.fresh == nil || t.fresh.over == nil {
		return unforeseen(t.path())
	}
	mode := f.mode
	if mode == nil {
		mode = t.fresh.mode
	}
	t.fresh = &fresh{bytes: content, known: true, mode: mode, perm: t.fresh.perm, over: t.fresh.over}
	t.stage = t.fresh.over(content, mode)
	return nil
}

func unforeseen(p op.Path) error {
	return op.Fail(op.NotAvailable, "what an earlier part of the batch makes here is known only when it is done").At(p).Do("do what follows from it in a call of its own")
}

func (f fresh) read() ([]byte, error) {
	switch {
	case f.known:
		return f.bytes, nil
	case f.from != nil:
		return f.from.Read(MaxEdit)
	}
	return nil, errors.New("unknown bytes")
}

// take puts a thing away, and with it whatever was moved into it.
func (w *World) take(t *thing) {
	t.leave()
	w.lose(t, false)
}

// lose lists what stands in the workspace now and goes. What is in its place in a
// directory that goes needs no mention.
func (w *World) lose(t *thing, carried bool) {
	if t.was != "" && !carried {
		w.gone = append(w.gone, t)
	}
	for _, c := range t.below {
		if c != nil {
			w.lose(c, c.inPlace())
		}
	}
}

func (t *thing) leave() {
	t.in.below[t.name] = nil
	t.in.mark(t.name)
	t.in = nil
}

func (t *thing) enter(dir *thing, name string) {
	t.in, t.name = dir, name
	dir.below[name] = t
	dir.mark(name)
}

func (t *thing) mark(name string) {
	if t.moved == nil {
		t.moved = map[string]bool{}
	}
	t.moved[name] = true
}

// Stands reports whether anything will stand at a canonical path.
func (w *World) Stands(ctx context.Context, p op.Path) bool {
	cur := w.top
	for _, name := range names(p) {
		next, err := w.child(ctx, cur, name)
		if err != nil || next == nil {
			return false
		}
		cur = next
	}
	return true
}

// Made lists the paths at which the batch puts something that is not there now, with the
// bytes where they are known. The whole tree below a directory that is moved is one.
func (w *World) Made() []Place {
	var out []Place
	w.walk(w.top, func(t *thing) {
		if t.asNow() {
			return
		}
		pl := Place{Path: t.path(), Dir: t.kind == op.Directory}
		if t.fresh != nil && t.fresh.known {
			pl.Head = t.fresh.bytes
		}
		out = append(out, pl)
	})
	return out
}

// walk visits what is known, each directory before what is in it, in a fixed order.
func (w *World) walk(t *thing, visit func(*thing)) {
	for _, name := range sortedNames(t.below) {
		if c := t.below[name]; c != nil {
			visit(c)
			w.walk(c, visit)
		}
	}
}
