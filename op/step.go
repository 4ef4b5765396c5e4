package op

import "encoding/json"

// Act is one of the six things that can happen to a tree, or one of the two that concern
// the store alone. Each has an inverse, so that a list of steps is at once the plan, the
// journal's intent and the way back.
type Act string

const (
	// Swap exchanges a file of the tree with one staged in the store.
	Swap Act = "swap"
	// Place renames a staged thing out of the store to an absent path.
	Place Act = "place"
	// Take renames what stands at a path into the store (quarantine).
	Take Act = "take"
	// Move renames within the tree to an absent path.
	Move Act = "move"
	// MakeDir makes one directory.
	MakeDir Act = "mkdir"
	// RemoveDir removes one directory, only while it is empty; one that is not stays
	// and is reported, which is no failure.
	RemoveDir Act = "rmdir"
	// Keep and LetGo change nothing in the tree: a snapshot of what stands at a path is
	// kept under a slot, and counts for as long as its operation stands.
	Keep  Act = "keep"
	LetGo Act = "let_go"
)

// InTree reports whether an act changes the tree; the others concern the store alone.
func (a Act) InTree() bool { return a != Keep && a != LetGo }

// State is what stands at a path at one moment.
type State struct {
	Kind   Kind   `json:"state"`
	Hash   Digest `json:"hash,omitempty"` // file: bytes; directory: manifest; symlink: its text
	Size   int64  `json:"size,omitempty"`
	Mode   string `json:"mode,omitempty"`   // octal permission bits with setuid, setgid, sticky
	Target string `json:"target,omitempty"` // text of a symlink
	Meta   string `json:"meta,omitempty"`   // file: digest of owner, ACL and attributes, where it was taken; in the journal only
}

// emptyHash is that of no bytes.
const emptyHash Digest = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"

// MarshalJSON says the size of a file also where it is 0. Where it is not known, as of what is
// only planned, nothing is said.
func (s State) MarshalJSON() ([]byte, error) {
	type plain State
	if s.Kind != File || s.Size != 0 || s.Hash != emptyHash {
		return json.Marshal(plain(s))
	}
	return json.Marshal(struct {
		plain
		Size int64 `json:"size"`
	}{plain: plain(s)})
}

// Equal compares kind, hash, mode and, where both are known, the rest of the metadata;
// sizes and link texts are covered by the hash. A directory whose manifest was not taken
// compares by kind alone.
func (s State) Equal(o State) bool {
	if s.Kind != o.Kind {
		return false
	}
	if s.Kind == Directory && (s.Hash == "" || o.Hash == "") {
		return true
	}
	if s.Meta != "" && o.Meta != "" && s.Meta != o.Meta {
		return false
	}
	return s.Hash == o.Hash && (s.Mode == "" || o.Mode == "" || s.Kind == Symlink || s.Mode == o.Mode)
}

// Step is one act on one path, with what was there before and what is there after.
// After a Swap, Slot names the pre-image in the store; after a Take, what was taken.
type Step struct {
	Do     Act    `json:"do"`
	Path   Path   `json:"path"`
	To     Path   `json:"to,omitempty"`    // Move: the destination
	Slot   string `json:"slot,omitempty"`  // Swap, Place, Take: the name in the store
	Before State  `json:"before"`          // at Path, before
	After  State  `json:"after"`           // at Path (Move: at To), after
	Inode  uint64 `json:"inode,omitempty"` // Swap, Place: of what was staged; Take, Move: of what stood at Path
	Copy   string `json:"copy,omitempty"`  // an independent copy of the pre-image, where no lease could be had
	Label  string `json:"label,omitempty"` // Keep: what the caller calls the snapshot
}

// Inverse is the step that takes s back.
func (s Step) Inverse() Step {
	inv := Step{Path: s.Path, Slot: s.Slot, Before: s.After, After: s.Before, Copy: s.Copy, Label: s.Label}
	switch s.Do {
	case Swap:
		inv.Do = Swap
	case Place:
		inv.Do = Take
	case Take:
		inv.Do = Place
	case Move:
		inv.Do, inv.Path, inv.To = Move, s.To, s.Path
	case MakeDir:
		inv.Do = RemoveDir
	case RemoveDir:
		inv.Do = MakeDir
	case Keep:
		inv.Do = LetGo
	case LetGo:
		inv.Do = Keep
	}
	return inv
}

// Inverse returns the steps that take all of steps back, last first.
func Inverse(steps []Step) []Step {
	out := make([]Step, 0, len(steps))
	for i := len(steps) - 1; i >= 0; i-- {
		out = append(out, steps[i].Inverse())
	}
	return out
}

// Effect is one line of a receipt: what changed at a path.
type Effect struct {
	Path   Path   `json:"path"`
	To     Path   `json:"to,omitempty"`
	Change string `json:"change"` // created, modified, deleted, moved, backed_up, backup_dropped
	Before State  `json:"before"`
	After  State  `json:"after"`
}

// Effects words steps as receipts. What moved by way of another name moved once, and what
// is named while it lies there is named as where it lay before.
func Effects(steps []Step) []Effect {
	led, aside := map[Path]int{}, map[Path]Path{}
	for i, s := range steps {
		if s.Do != Move {
			continue
		}
		if first, ok := led[s.Path]; ok {
			aside[s.Path] = steps[first].Path
		}
		led[s.To] = i
	}
	before := func(p Path) Path {
		for by, was := range aside {
			if p != by && p.Within(by) {
				return was + p[len(by):]
			}
		}
		return p
	}
	out := make([]Effect, 0, len(steps))
	moved := map[Path]int{} // the place in out of what lies aside
	for _, s := range steps {
		s.Before.Meta, s.After.Meta = "", "" // for the comparison only
		if i, ok := moved[s.Path]; ok && s.Do == Move {
			out[i].To, out[i].After = s.To, s.After
			continue
		}
		if _, ok := aside[s.To]; ok && s.Do == Move {
			moved[s.To] = len(out)
		}
		s.Path = before(s.Path)
		e := Effect{Path: s.Path, To: s.To, Before: s.Before, After: s.After}
		switch s.Do {
		case Swap:
			e.Change = "modified"
		case Place, MakeDir:
			e.Change = "created"
		case Take, RemoveDir:
			e.Change = "deleted"
		case Move:
			e.Change = "moved"
		case Keep:
			e.Change = "backed_up"
		case LetGo:
			e.Change = "backup_dropped"
		}
		out = append(out, e)
	}
	return out
}
