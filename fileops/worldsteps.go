package fileops

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Into adds to a plan the steps from the tree as it is to the tree as it will be. Each
// thing that goes, comes, changes or moves has one step, two where a file moves and
// changes; what is made and taken away again within the batch has none.
//
// The order is one in which every step finds what it begins with: a directory moves before
// anything is done in it, what a directory gives up leaves it before it is put away, and
// nothing goes where something has yet to leave. Where things change places in a circle a
// file is copied, a directory goes by way of a name beside it.
func (w *World) Into(ctx context.Context, p *Plan) error {
	for _, k := range w.keep {
		p.add(k.step, k.stage)
	}
	n := &netting{w: w, p: p, settled: map[*thing]bool{w.top: true}, left: map[op.Path]bool{}, leaving: map[op.Path]int{}, moving: map[op.Path]int{}}
	n.gather()
	for _, t := range n.tasks {
		t.at = t.from
		n.count(t, 1)
	}
	for n.pending() > 0 {
		done, err := n.round(ctx)
		if err != nil {
			return err
		}
		if !done {
			if err := n.unknot(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// task is one step to come.
type task struct {
	do   op.Act
	t    *thing
	from op.Path // Take, Move: where it stands now
	at   op.Path // and after the moves so far
	done bool

	aside bool // a directory that went by way of another name
}

type netting struct {
	w       *World
	p       *Plan
	tasks   []*task
	moved   []*thing         // directories that will be elsewhere
	leaving map[op.Path]int  // of pending tasks: what stands where
	moving  map[op.Path]int  // and moves
	settled map[*thing]bool  // directories that are where they will be
	left    map[op.Path]bool // what was taken or moved from where it stands now
	asides  int              // names used for going aside
}

func (n *netting) gather() {
	n.w.walk(n.w.top, func(t *thing) {
		if t.was != "" && !t.inPlace() && t.kind == op.Directory {
			n.moved = append(n.moved, t)
		}
	})
	for _, g := range n.w.gone {
		if !n.goesWith(g.was) {
			n.tasks = append(n.tasks, &task{do: op.Take, t: g, from: g.was})
		}
	}
	n.w.walk(n.w.top, func(t *thing) {
		switch {
		case t.was == "" && t.kind == op.Directory && !t.blind:
			n.tasks = append(n.tasks, &task{do: op.MakeDir, t: t})
		case t.was == "":
			n.tasks = append(n.tasks, &task{do: op.Place, t: t})
		case t.inPlace() && t.fresh != nil:
			n.tasks = append(n.tasks, &task{do: op.Swap, t: t})
		case t.inPlace():
		case t.fresh != nil:
			if !n.goesWith(t.was) {
				n.tasks = append(n.tasks, &task{do: op.Take, t: t, from: t.was})
			}
			n.tasks = append(n.tasks, &task{do: op.Place, t: t})
		default:
			n.tasks = append(n.tasks, &task{do: op.Move, t: t, from: t.was})
		}
	})
	// Directories before what is in them, moves before the rest: so fewer steps wait.
	rank := map[op.Act]int{op.Move: 1, op.Take: 2, op.MakeDir: 3, op.Place: 4, op.Swap: 5}
	slices.SortStableFunc(n.tasks, func(a, b *task) int {
		return cmp.Or(cmp.Compare(rank[a.do], rank[b.do]), cmp.Compare(len(names(a.from)), len(names(b.from))))
	})
}

// goesWith reports whether what stands at a path now lies in a directory that goes as a
// whole, and in none that is moved out of that one.
func (n *netting) goesWith(p op.Path) bool {
	in, goes := op.Path(""), false
	around := func(t *thing, gone bool) {
		if t.was != p && p.Within(t.was) && len(t.was) > len(in) {
			in, goes = t.was, gone
		}
	}
	for _, g := range n.w.gone {
		around(g, true)
	}
	for _, m := range n.moved {
		around(m, false)
	}
	return goes
}

func (n *netting) pending() int {
	n.tasks = slices.DeleteFunc(n.tasks, func(t *task) bool { return t.done })
	return len(n.tasks)
}

// round does what can be done. Only when nothing can, a move may wait no longer for the
// directory around it to move first.
func (n *netting) round(ctx context.Context) (did bool, err error) {
	for _, strict := range []bool{true, false} {
		for _, t := range n.tasks {
			if t.done || !n.ready(t, strict) {
				continue
			}
			if err := n.do(ctx, t); err != nil {
				return false, err
			}
			did = true
			if !strict {
				return true, nil
			}
		}
		if did {
			return true, nil
		}
	}
	return false, nil
}

func (n *netting) ready(t *task, strict bool) bool {
	if t.do != op.Take && !n.isSettled(t.t.in) {
		return false
	}
	if t.do != op.Take && t.do != op.Swap && n.leaving[t.t.path()] > own(t, t.t.path()) {
		return false // something has yet to leave
	}
	if t.do == op.Take && t.t.kind == op.Directory {
		for _, o := range n.tasks {
			if !o.done && o != t && o.from != "" && o.at != t.at && o.at.Within(t.at) {
				return false // it would be put away as well
			}
		}
	}
	if strict && t.from != "" {
		for p := t.at.Parent(); p != "."; p = p.Parent() {
			if n.moving[p] > 0 {
				return false
			}
		}
	}
	return true
}

// own counts what a task itself leaves at a path.
func own(t *task, p op.Path) int {
	if t.from != "" && t.at == p {
		return 1
	}
	return 0
}

// count keeps where things stand that have yet to leave.
func (n *netting) count(t *task, by int) {
	if t.from == "" {
		return
	}
	n.leaving[t.at] += by
	if t.do == op.Move {
		n.moving[t.at] += by
	}
}

// follow puts what is in a directory that moved where that is now.
func (n *netting) follow(m op.Step) {
	for _, t := range n.tasks {
		if t.done || t.from == "" || t.at == m.Path || !t.at.Within(m.Path) {
			continue
		}
		n.count(t, -1)
		t.at = m.To + t.at[len(m.Path):]
		n.count(t, 1)
	}
}

// isSettled reports whether a directory is where it will be.
func (n *netting) isSettled(t *thing) bool {
	if n.settled[t] {
		return true
	}
	if t.in == nil || !t.inPlace() || !n.isSettled(t.in) {
		return false
	}
	n.settled[t] = true
	return true
}

func (n *netting) do(ctx context.Context, t *task) error {
	t.done = true
	absent := op.State{Kind: op.Absent}
	s := op.Step{Do: t.do, Before: absent, After: absent}
	if t.from != "" {
		before, err := n.before(ctx, t)
		if err != nil {
			return err
		}
		n.count(t, -1)
		s.Path, s.Before, s.Inode = t.at, before, t.t.now.Ino
		n.left[t.from] = true
		if t.do == op.Move {
			s.To, s.After = t.t.path(), before
			if t.t.kind == op.Directory {
				n.settled[t.t] = true
				n.follow(s)
			}
		}
		n.p.add(s, nil)
		return nil
	}
	s.Path, s.After = t.t.path(), t.t.after
	switch t.do {
	case op.Swap:
		s.Before = t.t.state
	case op.MakeDir:
		s.After.Kind = op.Directory
		n.settled[t.t] = true
		n.p.add(s, nil)
		return nil
	}
	n.p.add(s, t.t.stage)
	return nil
}

// before is what the step will find: of a directory without what has left it by then.
func (n *netting) before(ctx context.Context, t *task) (op.State, error) {
	s := t.t.state
	if s.Kind != op.Directory || s.Hash == "" {
		return s, nil
	}
	less := false
	for p := range n.left {
		less = less || p.Within(t.from)
	}
	if !less {
		return s, nil
	}
	d, err := n.w.look.Look(ctx, t.from, false)
	if err != nil {
		return s, err
	}
	defer d.Close()
	m, err := d.ManifestWithout(ctx, func(below string) bool { return n.left[t.from.Join(below)] })
	s.Hash, s.Size = m.Digest, m.Bytes
	return s, err
}

// unknot lets one file that stands in the way of others go by way of a copy.
func (n *netting) unknot(ctx context.Context) error {
	for _, t := range n.tasks {
		if t.do != op.Move || t.t.kind != op.File {
			continue
		}
		node, err := n.w.look.Look(ctx, t.from, false)
		if err != nil {
			return err
		}
		n.w.open = append(n.w.open, node)
		t.t.stage = func(ctx context.Context, st *rooted.Store, slot string) (rooted.Staged, error) {
			return st.StageCopy(ctx, slot, node, rooted.Meta{Like: node})
		}
		if !n.goesWith(t.from) {
			away := &task{do: op.Take, t: t.t, from: t.from, at: t.at}
			n.tasks = append(n.tasks, away)
			n.count(away, 1)
		}
		n.count(t, -1)
		t.do, t.from = op.Place, ""
		return nil
	}
	return n.aside(ctx)
}

// aside lets one directory that stands in the way of others go by way of a name beside it.
// Nothing stands there: the move makes sure of it when its turn comes.
func (n *netting) aside(ctx context.Context) error {
	for _, t := range n.tasks {
		if t.do != op.Move || t.t.kind != op.Directory || t.aside {
			continue
		}
		before, err := n.before(ctx, t)
		if err != nil {
			return err
		}
		by, err := n.unused(ctx, t.at.Parent())
		if err != nil {
			return err
		}
		s := op.Step{Do: op.Move, Path: t.at, To: by, Before: before, After: before, Inode: t.t.now.Ino}
		n.count(t, -1)
		n.left[t.from] = true
		n.p.add(s, nil)
		n.follow(s)
		t.at, t.aside = by, true
		n.count(t, 1)
		return nil
	}
	t := n.tasks[0].t
	return op.Fail(op.NotAvailable, "the parts of this batch stand in each other's way").At(t.path()).Do("move one of them aside in a call of its own")
}

// unused gives a name in a directory that nothing has now and nothing will have.
func (n *netting) unused(ctx context.Context, dir op.Path) (op.Path, error) {
	for {
		n.asides++
		p := dir.Join(fmt.Sprintf(".holdpoint-aside-%d", n.asides))
		if n.w.Stands(ctx, p) {
			continue
		}
		node, err := n.w.look.Look(ctx, p, false)
		if err != nil {
			return "", err
		}
		kind := node.Info.Kind
		node.Close()
		if kind == op.Absent {
			return p, nil
		}
	}
}
