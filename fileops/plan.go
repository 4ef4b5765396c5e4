// Package fileops knows each file operation: what it would do to the bytes it is given
// (a plan), and how to show what it reads. A plan is steps for the tree; rooted carries
// them out on held handles, after the decision and after the journal.
//
// It takes no path strings: only nodes that were looked at. It does not decide.
package fileops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Scene is what a call stands on: its arguments, and for each subject its node, its
// target facts and, of files that are not large, its bytes.
type Scene struct {
	Args     any
	Nodes    []*rooted.Node
	Targets  []op.Target // at least one for each node, in the same order
	Contents [][]byte
	Backup   *Backup // of a rollback: what it brings back; nil when there is none

	Root    *rooted.Root // of a read: to look at what lies beside a subject
	Globals []string     // of a read: ignore lines that hold in every repository
	Rules   Rules        // of a read: rules without a line, to add lines to; nil: nothing is ignored
	Aside   Aside        // where parsers run; nil: here
}

// Plan is what a call would do. Nothing has happened yet.
type Plan struct {
	Steps            []op.Step
	Title            string   // "Delete 1 file"
	Lines            []string // one readable line an item
	Diff             Diff
	ChangeBytes      int64
	Overwrites       bool
	Creates          bool
	BreakLinks       bool // the call asked to give this name a file of its own
	Result           map[string]any
	Warnings         []op.Warning
	DestructiveParts []op.Name // of a batch: its deleting, moving and rolling-back operations
	Places           []Place   // paths that it makes and no argument names
	Contents         []Place   // of a plan for several files: what comes to stand at each
	NewContent       []byte    // what will stand there, for the secret shapes; nil where it is a copy

	stagers []stager // of each step: what to stage; nil where nothing is
	fresh   []fresh  // of each step: what it puts in place, for a plan that stands on this one
}

type stager func(ctx context.Context, s *rooted.Store, slot string) (rooted.Staged, error)

// add appends a step and what it needs staged.
func (p *Plan) add(step op.Step, stage stager) {
	p.put(step, stage, fresh{})
}

// put appends a step that puts a file in place of which others may have to know more.
func (p *Plan) put(step op.Step, stage stager, f fresh) {
	p.Steps = append(p.Steps, step)
	p.stagers = append(p.stagers, stage)
	p.fresh = append(p.fresh, f)
}

// Stage writes what the steps need into the store, flushed, under slots that newSlot
// names, and fills the steps' slots, inodes and after-states. On failure it drops what
// it staged.
func (p *Plan) Stage(ctx context.Context, s *rooted.Store, newSlot func() string) (err error) {
	var made []string
	defer func() {
		if err != nil {
			for _, slot := range made {
				s.Staging().Drop(slot)
				s.Drop(slot)
			}
		}
	}()
	for i := range p.Steps {
		step := &p.Steps[i]
		switch step.Do {
		case op.Swap, op.Place, op.Take, op.Keep:
			if step.Slot == "" {
				step.Slot = newSlot()
			}
		}
		if p.stagers[i] == nil {
			continue
		}
		to := s.Staging()
		if step.Do == op.Keep {
			to = s // it never comes to the tree
		}
		staged, err := p.stagers[i](ctx, to, step.Slot)
		if err != nil {
			return err
		}
		step.Slot = staged.Slot
		made = append(made, step.Slot)
		step.Inode, step.After = staged.Inode, staged.State
	}
	return nil
}

// Would gives the steps as they will have been carried out, as far as that can be told before
// anything is staged: of bytes that come from elsewhere only that a file comes to stand there.
func (p *Plan) Would() []op.Step {
	out := slices.Clone(p.Steps)
	for i := range out {
		if s, f := &out[i], p.fresh[i]; s.After.Kind == "" && p.stagers[i] != nil {
			s.After = f.state(s.Before)
		}
	}
	return out
}

func (f fresh) state(before op.State) op.State {
	s := op.State{Kind: op.File}
	if f.from != nil {
		s.Kind = f.from.Info.Kind
	}
	if !f.known {
		return s
	}
	s.Hash, s.Size = rooted.HashBytes(f.bytes), int64(len(f.bytes))
	switch {
	case f.mode != nil:
		s.Mode = octal(*f.mode)
	case before.Kind == op.File:
		s.Mode = before.Mode
	case f.perm != 0:
		s.Mode = octal(f.perm)
	}
	return s
}

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// Unstage drops what Stage made, for a call that ended before anything was on record.
func (p *Plan) Unstage(s *rooted.Store) {
	for i, step := range p.Steps {
		if p.stagers[i] == nil || step.Slot == "" {
			continue
		}
		if step.Do != op.Keep {
			s.Staging().Drop(step.Slot)
			continue
		}
		s.Drop(step.Slot)
	}
}

// NewPlan plans a mutating call. An error is one that no approval could mend: the call
// provably cannot succeed.
func NewPlan(ctx context.Context, s Scene) (*Plan, error) {
	p, err := plan(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := p.frozen(s); err != nil {
		return nil, err
	}
	return p, p.forbidden(s)
}

// frozen refuses what the file system would refuse even its owner.
func (p *Plan) frozen(s Scene) error {
	for _, step := range p.Steps {
		for _, n := range s.Nodes {
			if n.Path == step.Path && n.Info.Frozen && (step.Do == op.Swap || step.Do == op.Take || step.Do == op.Move) {
				return op.Fail(op.PermissionDenied, "it is immutable or append-only").At(n.Path).Do("its owner has to clear that flag first")
			}
		}
	}
	return nil
}

// forbidden refuses what the system would not let the daemon do: change names in a directory
// that it may not write, or put another file in the place of one that it cannot give away.
func (p *Plan) forbidden(s Scene) error {
	for _, n := range s.Nodes {
		for _, step := range p.Steps {
			if !step.Do.InTree() || step.Path != n.Path && step.To != n.Path {
				continue
			}
			if err := letsStep(step, n); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

func letsStep(step op.Step, n *rooted.Node) error {
	dir, err := n.Above()
	if errors.Is(err, op.NotFound) {
		return nil // an earlier part of the call makes it
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Lets(); err != nil {
		return op.AsError(err).At(n.Path)
	}
	switch {
	case step.Do == op.Swap:
		if err := n.KeepsOwner(); err != nil {
			return err
		}
	case step.Path != n.Path || step.Do != op.Take && step.Do != op.Move:
		return nil
	case step.Do == op.Take || step.To.Parent() != step.Path.Parent():
		if err := n.GoesElsewhere(); err != nil {
			return err
		}
	}
	return n.LetsGo(dir)
}

func plan(ctx context.Context, s Scene) (*Plan, error) {
	switch a := s.Args.(type) {
	case *op.WriteArgs:
		return planWrite(s, a)
	case *op.EditArgs:
		return planEdit(s, a)
	case *op.PatchArgs:
		return planPatch(ctx, s, a)
	case *op.CopyArgs:
		return planCopy(ctx, s, a)
	case *op.BackupArgs:
		return planBackup(s, a)
	case *op.RollbackArgs:
		return planRollback(s, a)
	case *op.MakeDirArgs:
		return planMakeDir(s, a)
	case *op.DeleteArgs:
		return planDelete(s, a)
	case *op.MoveArgs:
		return planMove(s, a)
	}
	return nil, op.Fail(op.NotAvailable, fmt.Sprintf("no plan for %T", s.Args))
}

// stateOf words a target as the journal does.
func stateOf(t op.Target, n *rooted.Node) op.State {
	if t.Kind == op.Absent {
		return op.State{Kind: op.Absent}
	}
	return op.State{Kind: t.Kind, Hash: t.Hash, Size: t.Size, Mode: t.Mode, Target: n.Info.Target}
}

// regular refuses what has no bytes of its own.
func regular(t op.Target) error {
	switch t.Kind {
	case op.File:
		return nil
	case op.Absent:
		return op.Fail(op.NotFound, "there is nothing at this path").At(t.Path).Do("list the directory to see what is there")
	case op.Directory:
		return op.Fail(op.NotAFile, "this is a directory").At(t.Path)
	case op.Symlink:
		return op.Fail(op.NotFound, "this link leads to nothing").At(t.Path)
	}
	return op.Fail(op.SpecialFile, "this is a "+string(t.Kind)+", not a regular file").At(t.Path).Do("only regular files can be read or changed")
}

// parents adds a step for each missing directory on the way to a new path.
func (p *Plan) parents(n *rooted.Node, allowed bool) error {
	if len(n.Missing) > 0 && !allowed {
		return op.Fail(op.NotFound, "the parent directory does not exist").At(n.Missing[0]).Do("create the directory first, or have missing ones made by leaving create_dirs (of create_directory: parents) out")
	}
	for _, dir := range n.Missing {
		if p.makes(dir) {
			continue
		}
		p.add(op.Step{Do: op.MakeDir, Path: dir, Before: op.State{Kind: op.Absent}, After: op.State{Kind: op.Directory}}, nil)
	}
	return nil
}

func (p *Plan) makes(dir op.Path) bool {
	for _, s := range p.Steps {
		if s.Do == op.MakeDir && s.Path == dir {
			return true
		}
	}
	return false
}

// replace plans new bytes at a node: a swap where a file stands, which carries its
// metadata on, else a new file.
func (p *Plan) replace(s Scene, i int, content []byte, m rooted.Meta) {
	n, t := s.Nodes[i], s.Targets[i]
	step := op.Step{Do: op.Place, Path: n.Path, Before: stateOf(t, n)}
	if t.Exists {
		step.Do, m.Like = op.Swap, n
	}
	p.NewContent = content
	f := freshBytes(n, t, m, content)
	p.put(step, f.over(content, nil), f)
}

// freshBytes describes a file that gets these bytes and this metadata.
func freshBytes(n *rooted.Node, t op.Target, m rooted.Meta, content []byte) fresh {
	f := fresh{bytes: content, known: true, over: bytesIn(n, t, m)}
	switch {
	case m.Exact:
		f.mode = &m.Perm
	case m.Like != nil:
		f.perm = m.Like.Info.Mode & 0o777
	case m.Perm != permFile:
		f.perm = m.Perm
	}
	return f
}

// bytesIn stages any bytes as the file at a node would be.
func bytesIn(n *rooted.Node, t op.Target, m rooted.Meta) func([]byte, *uint32) stager {
	return func(content []byte, mode *uint32) stager {
		m := m
		if mode != nil {
			m.Perm, m.Exact = *mode, true
		}
		return inDir(n, t, m, func(ctx context.Context, st *rooted.Store, slot string, m rooted.Meta) (rooted.Staged, error) {
			return st.StageNew(ctx, slot, bytes.NewReader(content), m)
		})
	}
}

// inDir gives a new file what its directory hands down: default ACL and group.
func inDir(n *rooted.Node, t op.Target, m rooted.Meta, stage func(context.Context, *rooted.Store, string, rooted.Meta) (rooted.Staged, error)) stager {
	return func(ctx context.Context, st *rooted.Store, slot string) (rooted.Staged, error) {
		if !t.Exists {
			dir, err := n.Above()
			if err == nil {
				defer dir.Close()
				m.Dir = dir
			} else if !errors.Is(err, op.NotFound) { // a part of the same batch makes it
				return rooted.Staged{}, err
			}
		}
		return stage(ctx, st, slot, m)
	}
}

// hardLinks refuses a swap that would part two names of one file, unless it was asked for.
func hardLinks(t op.Target, n *rooted.Node, s op.Safety) error {
	if t.Kind == op.File && n.Info.Links > 1 && s.HardLinks != "break" {
		return op.Fail(op.HardLinked, fmt.Sprintf("this file has %d names; replacing it would part them", n.Info.Links)).At(t.Path).
			Do(`send hard_links: "break" to give this name a file of its own (needs a person)`)
	}
	return nil
}

// expect compares the hash that a caller knows with what stands there. "+partial" marks
// a hash of a file that was not shown in full.
func expect(t op.Target, given string) (partial bool, err error) {
	if given == "" {
		return false, nil
	}
	const mark = "+partial"
	hash := given
	if len(hash) > len(mark) && hash[len(hash)-len(mark):] == mark {
		hash, partial = hash[:len(hash)-len(mark)], true
	}
	if len(hash) < 7 || hash[:7] != "blake3:" {
		return false, op.Fail(op.BadRequest, `a hash begins with "blake3:"`).In("args.expected_hash")
	}
	if op.Digest(hash) != t.Hash {
		e := op.Fail(op.Stale, "the file is not what expected_hash says").At(t.Path).Do("view the file again and base the change on what is there now")
		e.CurrentHash, e.Expected, e.Retry = t.Hash, op.Digest(hash), "corrected"
		return false, e
	}
	return partial, nil
}

// bytesOf gives the whole content of a subject.
func bytesOf(s Scene, i int) ([]byte, error) {
	if s.Contents[i] != nil || s.Targets[i].Size == 0 {
		return s.Contents[i], nil
	}
	return s.Nodes[i].Read(MaxEdit)
}

// MaxEdit is the largest file that edit_file and append take, in bytes.
const MaxEdit = 256 << 20

func modeBits(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o777 {
		return 0, op.Fail(op.BadRequest, "mode must be permission bits in octal, at most 0777").In("args.mode").Do(`for example "0755"`)
	}
	return uint32(n), nil
}
