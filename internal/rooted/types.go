package rooted

import (
	"fmt"
	"os"
	"strings"
	"time"

	"holdpoint/op"
)

// Limits of a path as a caller may spell it.
const (
	maxPath  = 4096
	maxName  = 255
	maxNames = 512 // directories deep; more is a mistake or an attack on a walker
	maxLinks = 40  // symlinks walked in one look, as in the kernel
	maxBusy  = 128 // tries when renames disturb the kernel's walk
)

// Options chooses how a workspace is opened; the zero value is right.
type Options struct {
	NoOpenat2 bool // walk name by name although the kernel has openat2
}

// Legible reports whether the daemon's user could read a file of its own with these bits. One
// that it could not has no hash, and so neither proof nor way back.
func Legible(perm uint32) bool { return perm&0o400 != 0 || os.Geteuid() == 0 }

// Info is what stands at a path. Device, inode and times are for comparison between
// handles of one execution and are never pinned.
type Info struct {
	Kind     op.Kind
	Size     int64
	Mode     uint32 // permission bits with setuid, setgid and sticky
	UID, GID uint32
	Links    uint64 // names that lead here
	Dev, Ino uint64
	Mtime    time.Time
	Ctime    time.Time
	Target   string // text of a symlink
	Frozen   bool   // immutable or append-only: the file system refuses to change it
}

// ModeString gives the mode as it travels: "0644", with setuid "4755".
func (i Info) ModeString() string { return fmt.Sprintf("%04o", i.Mode) }

func (i Info) same(o Info) bool { return i.Dev == o.Dev && i.Ino == o.Ino }

// untouched reports whether nobody wrote the file between two looks at it.
func (i Info) untouched(o Info) bool {
	return i.same(o) && i.Size == o.Size && i.Mtime.Equal(o.Mtime) && i.Ctime.Equal(o.Ctime)
}

// Entry is one name in a directory; the name is raw bytes.
type Entry struct {
	Name string
	Info Info
}

// Manifest sums up a directory and everything below it.
type Manifest struct {
	Digest  op.Digest
	Entries int
	Bytes   int64
}

// Meta says what a staged file shall be besides its bytes. With Like it carries that
// file's mode, owner, attributes and flags. Else it is a create in Dir: that directory's
// default ACL and group apply, and the mode is Perm under the umask. Exact sets exactly
// Perm in either case.
type Meta struct {
	Like  *Node
	Dir   *Node
	Perm  uint32 // 0 without Exact is 0666, as a plain create asks for
	Exact bool
}

// Staged is a thing in the store that no name of the workspace leads to yet.
type Staged struct {
	Slot  string
	Inode uint64
	State op.State
}

// Features are what the store's file system was seen to do.
type Features struct {
	Exchange bool // two names can be exchanged in one step
	Lease    bool // a writer can be noticed
	Reflink  bool // a copy can share blocks
	TmpFile  bool // a file can be made without a name

	FineTimes bool // two changes of a file never have the same time
}

// Visit is called for each thing of a tree.
type Visit func(p op.Path, info Info, node func() (*Node, error)) error

// HoldOptions bounds a Hold; the zero value is right.
type HoldOptions struct {
	BreakLinks bool               // let a file with several names get one of its own
	WaitWriter time.Duration      // how long to wait for a writer to close; 0 is 200 ms
	NoLease    bool               // act as where no lease can be had
	OnTheWay   []op.Path          // directories that are made only to get further: where one stands by now, its step is left out
	Guard      func(point string) // called at named points; may be nil
}

// Report is what an Apply did besides the steps. After a failure Late still lists writes
// of others that had already landed in our files; each is kept under its Slot.
type Report struct {
	Weak bool      // some file could not be leased: a copy stands beside its pre-image
	Kept []op.Path // directories that were to go and stay, being not empty or not there
	Late []Late
	Near error // why what was put away still lies inside the root, until the next start; a store of copies
}

// Late is a write of somebody else that landed in a file after it had left its name.
type Late struct {
	Step int
	Path op.Path
	Was  op.Digest
	Is   op.Digest
	Slot string // where the bytes are
}

// Settled is what Settle found and did.
type Settled struct {
	Done      bool     // every step stands, or stood and was changed by others since
	Conflicts []string // sentences, one for each thing left as others made it
	Left      []string // slots that hold what was staged for steps that do not stand
}

// keptSuffix marks a slot of our own making, the caller's with a number behind: what
// somebody else wrote and nothing leads to any more.
const keptSuffix = ".kept"

// KeptFor gives the slot of the step that left somebody else's bytes behind in this slot;
// empty for any other slot. Nobody but their owner can say that such bytes may go.
func KeptFor(slot string) string {
	if i := strings.LastIndex(slot, keptSuffix); i > 0 {
		return slot[:i]
	}
	return ""
}
