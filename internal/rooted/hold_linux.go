package rooted

import (
	"context"
	"slices"
	"time"

	"holdpoint/op"
)

// Held is a list of steps whose preconditions were checked, with the handles, leases and
// locks that keep them checkable. One goroutine uses it; Close gives everything back.
type Held struct {
	r      *Root
	s      *Store // where renames reach
	far    *Store // of copies, where what is kept goes; else nil
	leave  func() // of far
	o      HoldOptions
	acts   []*act
	unlock func()
	last   time.Time // of the last rename that put a leased file away
	report Report

	applied     bool
	inPieces    bool // the list is too long for all of it to be held at once
	copyEntries int  // what far will have to copy
	copyBytes   int64
}

// act is one step with what is held for it.
type act struct {
	step     op.Step
	index    int
	later    bool // stands on an earlier step: opened and checked when its turn comes
	rested   bool // its handles were given back
	weak     bool // rested, and put away without a lease
	lent     bool // rested, and had a lease until then
	sure     bool // info is older than its hash, so that a stat tells whether that still holds
	from, to place
	was      int  // path handle on what stands at Path before
	file     int  // reading handle on it, which bears the lease
	info     Info // of it
	leased   bool
	flush    *flush // of the file that goes into the store
	seen     memo   // of a directory that is taken or moved
	ours     int    // path handle on what is staged
	oursInfo Info
	copied   bool // Hold made step.Copy
	fresh    bool // what is staged was staged in this run, and is not the pre-image of another step
	lends    bool // what is staged is the pre-image of another step, which goes on needing it
	torn     bool // it stands empty after a crash: nobody's bytes are in it
	fetched  bool // what is staged is a copy of what far keeps
	carried  bool // far has a copy of what came out, or part of one
	done     bool // the rename happened
	came     Info // what came out
	gone     removed
	followed []place // where others had moved what is staged, and it was taken from

	untouched bool  // nobody wrote to what is staged since it was
	stands    *Info // what was put in, as it read back; nil where somebody may have written to it
}

// place is a name in a held directory.
type place struct {
	dir  int
	name string
	info Info // of the directory
}

const (
	defaultWait = 200 * time.Millisecond
	settleTime  = 100 * time.Microsecond // by then a writer that raced the exchange shows in the lease
)

// Hold checks every step's precondition once more, by handle, and takes what must be held
// until the change: first the locks of this process on all paths (ctx bounds the wait),
// then handles on parents and targets, and a lease on each file that is to be swapped or
// taken. Drift is stale_precondition and changes nothing. A step that stands on an earlier
// one is checked in Apply when its turn comes.
func (r *Root) Hold(ctx context.Context, s *Store, steps []op.Step, o HoldOptions) (*Held, error) {
	if o.WaitWriter == 0 {
		o.WaitWriter = defaultWait
	}
	if err := r.checkSteps(steps); err != nil {
		return nil, err
	}
	if !s.features.Exchange {
		return nil, op.Fail(op.NotAvailable, "this file system can neither exchange names nor refuse to replace, so nothing is changed safely here").
			Do("use a root on ext4, XFS, Btrfs or tmpfs")
	}
	unlock, err := r.locks.lock(ctx, claims(steps))
	if err != nil {
		return nil, err
	}
	h := &Held{r: r, o: o, unlock: unlock}
	if err := h.use(s); err != nil {
		unlock()
		return nil, err
	}
	steps = h.stillToMake(steps)
	h.inPieces = len(steps) > r.whole && h.far == nil // a copy is made under the lease
	var earlier op.Touched
	for i, step := range steps {
		h.acts = append(h.acts, newAct(step, i, earlier.By(step)))
		earlier.Add(step)
	}
	for _, a := range h.acts {
		err := h.fetch(ctx, a)
		if err == nil && !a.later {
			err = h.prepare(ctx, a)
		}
		if err != nil {
			h.dropCopies()
			h.Close()
			return nil, fail(err, a.step.Path)
		}
		if a.later {
			h.foresee(a)
		}
		if h.inPieces && !a.later {
			a.rest()
		}
	}
	h.guard("held")
	return h, nil
}

// stillToMake leaves out the directories on the way that came to stand meanwhile, as those
// that another call made: nothing was to be done to them, and no link leads through them.
// One that an earlier step works on is to be made again after that, whatever stands now.
func (h *Held) stillToMake(steps []op.Step) (out []op.Step) {
	var earlier op.Touched
	for _, s := range steps {
		if s.Do == op.MakeDir && slices.Contains(h.o.OnTheWay, s.Path) && !earlier.By(s) && h.isDirectory(s.Path) {
			continue
		}
		earlier.Add(s)
		out = append(out, s)
	}
	return out
}

func (h *Held) isDirectory(p op.Path) bool {
	at, err := h.place(p)
	if err != nil {
		return false
	}
	defer closeFD(at.dir)
	now, _, err := lookAt(at.dir, at.name)
	return err == nil && now.Kind == op.Directory
}

// use works in a store; in one of copies, in its near folder.
func (h *Held) use(s *Store) (err error) {
	if h.leave, err = s.Enter(); err != nil {
		return err
	}
	if h.s = s.Staging(); s.Copies() {
		h.far = s
	}
	return nil
}

func newAct(step op.Step, i int, later bool) *act {
	return &act{step: step, index: i, later: later, from: place{dir: none}, to: place{dir: none}, was: none, file: none, ours: none}
}

// foresee finds the inode that a later Take or Move will meet, so that the record can name
// it: that of what an earlier step puts there, or of what stands now where an earlier
// step will bring it from. It stays 0 where nobody can know; Settle goes by hash then.
func (h *Held) foresee(a *act) {
	if a.step.Do != op.Take && a.step.Do != op.Move {
		return
	}
	p := a.step.Path
	for i := a.index - 1; i >= 0; i-- {
		switch s := h.acts[i].step; {
		case s.Do == op.Move && p.Within(s.To):
			p = s.Path + p[len(s.To):]
		case (s.Do == op.Swap || s.Do == op.Place) && p == s.Path:
			a.step.Inode = s.Inode
			return
		case s.Do == op.Place && p.Within(s.Path), s.Do == op.MakeDir && p == s.Path:
			return
		}
	}
	if at, err := h.place(p); err == nil {
		if i, _, err := lookAt(at.dir, at.name); err == nil {
			a.step.Inode = i.Ino
		}
		closeFD(at.dir)
	}
}

// checkSteps refuses lists that no plan of ours makes.
func (r *Root) checkSteps(steps []op.Step) error {
	bad := func(s op.Step, why string) error { return op.Fail(op.Internal, "a step "+why).At(s.Path) }
	for _, s := range steps {
		slotted := s.Do == op.Swap || s.Do == op.Place || s.Do == op.Take
		hashed := s.Before.Kind == op.File || s.Before.Kind == op.Symlink
		switch {
		case s.Path == "" || s.Path == ".":
			return op.Fail(op.InvalidPath, "the root itself is never replaced, moved or removed").At(s.Path)
		case r.hides(s.Path) || s.To != "" && r.hides(s.To):
			return outside(s.Path)
		case s.Do != op.RemoveDir && r.holdsHidden(s.Path):
			return op.Fail(op.OutsideWorkspace, "the daemon's own files lie below it").At(s.Path)
		case slotted && checkSlot(s.Slot, len(keptSuffix)+2) != nil:
			return bad(s, "has no usable slot")
		case s.Do == op.Swap && s.Before.Kind != op.File:
			return bad(s, "swaps what is not a file")
		case (s.Do == op.Swap || s.Do == op.Take || s.Do == op.Move) && hashed && s.Before.Hash == "":
			return bad(s, "has no hash of what it changes")
		case s.Do == op.Move && (s.To == "" || s.To == "."):
			return bad(s, "moves to nowhere")
		case s.Do == op.Move && s.To.Within(s.Path):
			return op.Fail(op.IntoItself, "a directory cannot be moved below itself").At(s.Path)
		case !slices.Contains([]op.Act{op.Swap, op.Place, op.Take, op.Move, op.MakeDir, op.RemoveDir}, s.Do):
			return bad(s, "is of no known kind")
		}
	}
	return nil
}

// standsOn reports whether an earlier step changes what this one begins with.
func standsOn(s op.Step, earlier []op.Step) bool {
	touches := func(a, b op.Path) bool { return b != "" && (a.Within(b) || b.Within(a)) }
	for _, e := range earlier {
		if touches(s.Path, e.Path) || touches(s.Path, e.To) || s.To != "" && (touches(s.To, e.Path) || touches(s.To, e.To)) {
			return true
		}
	}
	return false
}

// Steps gives the steps as they must go on record: with the inodes and the copies that
// Hold found out, without those that it left out. Steps that stood on earlier ones have theirs only after Apply.
func (h *Held) Steps() []op.Step {
	out := make([]op.Step, len(h.acts))
	for i, a := range h.acts {
		out[i] = a.step
	}
	return out
}

// Late hashes every pre-image again and lists those that somebody wrote to after they had
// left their name. Ask at commit; Store.Verify asks later.
func (h *Held) Late(ctx context.Context) []Late {
	var out []Late
	for i, a := range h.acts {
		if !a.done {
			continue
		}
		if l, err := h.s.Verify(ctx, a.step); err == nil && l != nil {
			l.Step = i
			out = append(out, *l)
		}
	}
	return out
}

// Close gives leases, handles and locks back. Close it once.
func (h *Held) Close() {
	if !h.applied {
		h.dropFetched()
	}
	for _, a := range h.acts {
		a.close()
	}
	h.acts = nil
	h.s.makeBlanks()
	h.leave()
	h.unlock()
}

func (a *act) close() {
	_ = a.flush.wait() // it uses the handle; whoever had to know has asked
	if a.leased {
		unlease(a.file)
	}
	for _, fd := range []int{a.file, a.was, a.ours, a.from.dir, a.to.dir} {
		closeFD(fd)
	}
	for _, at := range a.followed {
		closeFD(at.dir)
	}
}

// dropCopies removes the independent copies of a Hold or Apply that came to nothing.
func (h *Held) dropCopies() {
	for _, a := range h.acts {
		if a.copied && !a.done {
			_ = h.s.Drop(a.step.Copy)
		}
	}
	h.dropFetched()
}

func (h *Held) guard(point string) {
	if h.o.Guard != nil {
		h.o.Guard(point)
	}
}

// Verify tells whether the pre-image that a Swap or Take left in its slot still has the
// bytes that were recorded. Nil: it has, or the step leaves none.
func (s *Store) Verify(ctx context.Context, step op.Step) (*Late, error) {
	if step.Do != op.Swap && step.Do != op.Take || step.Before.Hash == "" {
		return nil, nil
	}
	now, err := s.State(ctx, step.Slot)
	if err != nil {
		return nil, err
	}
	if now.Kind == step.Before.Kind && now.Hash == step.Before.Hash {
		return nil, nil
	}
	return &Late{Path: step.Path, Was: step.Before.Hash, Is: now.Hash, Slot: step.Slot}, nil
}
