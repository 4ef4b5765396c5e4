package rooted

import (
	"os"
	"strings"

	"holdpoint/op"
)

// View is the place of one rehearsal in the store: what the program writes comes to lie in
// Upper. It lives until Store.Drop ends its slot; Close gives the handles back.
type View struct {
	Upper, Work *os.File
}

// Close gives the handles back.
func (v *View) Close() {
	v.Upper.Close()
	v.Work.Close()
}

// SetPrefix begins the slots of change sets: that of the view, those of what is to be put
// in, and that of the record.
const SetPrefix = "cs_"

// SetOf gives the change set that a slot belongs to; empty for any other slot.
func SetOf(slot string) string {
	if !strings.HasPrefix(slot, SetPrefix) {
		return ""
	}
	id, _, _ := strings.Cut(slot, ".")
	return id
}

func viewSlot(id string) string { return id + ".view" }

// Change is one path that a rehearsal changed.
type Change struct {
	Path    op.Path   `json:"path"`
	Change  string    `json:"change"`         // created, modified, deleted, mode
	From    op.Path   `json:"from,omitempty"` // the name that the same bytes had before, where one went and one came
	Before  op.State  `json:"before"`
	After   op.State  `json:"after"`
	Entries int       `json:"entries,omitempty"` // of a directory that comes or goes whole: names below it
	Links   uint64    `json:"links,omitempty"`   // other names of the file outside of the view, which keep what they have
	Below   []op.Path `json:"below,omitempty"`   // the first of those names
	Setuid  []op.Path `json:"setuid,omitempty"`  // what gets a setuid or setgid bit: the path itself, or some below it
}

// namedBelow is how many names below a directory a change holds.
const namedBelow = 100

func (c *Change) counts(p op.Path) {
	if c.Entries++; c.Entries <= namedBelow {
		c.Below = append(c.Below, p)
	}
}

// Harvest is what became of a rehearsal.
type Harvest struct {
	Changes []Change
	Steps   []op.Step // that make the workspace as the view was
	Dropped int       // files that were opened for writing and are as before
	Tainted op.Path   // a file of the workspace that somebody changed meanwhile; empty: none
	Left    []string  // sentences: what the view has and no step brings
	Bytes   int64     // that the slots hold
}
