package shellexec

import (
	"os"
	"time"
)

// Level is one part of the confinement: had or not, and if not why.
type Level struct {
	Name   string `json:"name"`
	On     bool   `json:"on"`
	Detail string `json:"detail,omitempty"`
}

// The levels, in the order in which they are put up.
const (
	LevelUser    = "user_namespace"
	LevelPid     = "pid_namespace"
	LevelIPC     = "ipc_namespace"
	LevelNet     = "network_off"
	LevelView    = "copy_on_write" // of a rehearsal: the root is a view, and what is written into it lies elsewhere
	LevelMounts  = "mounts"        // outside read-only, private temp, runtime directories and state hidden
	LevelProc    = "private_proc"
	LevelCount   = "process_limit"
	LevelMarks   = "protected_read_only"
	LevelNames   = "protected_names" // those that are not there cannot be made at the top of the root
	LevelMemory  = "memory_limit"    // only where the operator set one, and so is the next
	LevelCPU     = "cpu_limit"
	LevelAccess  = "landlock"
	LevelSyscall = "seccomp"
)

// Spec is one run. All of it is decided before; nothing in it comes from the program.
type Spec struct {
	Program *os.File // what was hashed; it is executed by this handle, not by name
	Argv    []string
	Env     []string
	Root    string // canonical directory that may be written
	RootDev uint64 // what the directory must still be
	RootIno uint64
	Dir     string // working directory, in Root
	DirDev  uint64 // what it must still be; not compared in a view, nor where DirIno is zero
	DirIno  uint64
	Stdin   []byte
	Timeout time.Duration

	Confined  bool     // false: the operator runs without
	Needs     []string // levels without which it must not start: those that the card named
	Network   bool
	Hide      []string      // the daemon's own places, hidden wherever they lie
	ReadOnly  []string      // names in Root, relative, that stay read-only
	Names     []string      // at the top of Root, that are not to be made while they are not there
	Processes int           // at most so many at a time; 4,096 where zero
	Memory    int64         // bytes at most; 0 is no limit
	CPU       time.Duration // of one process at most; 0 is no limit
	Cgroup    string        // a control group to make this run's own one in; empty is one that was handed over, if any
	Foreign   []string      // names in Root, of files that a view cannot take up: see Unwritable
	View      *View         // not nil: a rehearsal, Root is shown as a copy-on-write view of itself
	Probe     bool          // put everything up, report it, and start nothing

	Spares *Spares // may be nil: helpers that stand ready

	Spill string                        // directory for output that is long; empty keeps head and tail only
	Name  string                        // beginning of the spill files' names
	Live  func(stream string, b []byte) // may be nil; must not keep b

	Terminal *Size         // it runs on a terminal of this size; nil is none. All that the terminal shows is stdout, and in the file
	Idle     time.Duration // it is ended when nothing is typed or printed for so long; 0 is never
	Busy     func() bool   // may be nil: asked before that, true grants as long again

	group      *group // of this run; nil where none could be had
	groupFault string // why
}

// View is where a rehearsal puts what it writes: two empty directories of the daemon's, on
// one mount, neither of them in the root. They stay the caller's, to read, to close and to
// remove. Plain is for the first process alone that has no user namespace: root.
type View struct {
	Upper, Work *os.File
	Plain       bool // no user namespace, which a mount inside of the root does not allow
	Copied      bool // Upper holds a whole copy of the root, which is shown in its place
}

// Size is that of a terminal.
type Size struct{ Rows, Cols uint16 }

// Result is how a run ended.
type Result struct {
	Exit        *int   // nil when it did not exit by itself
	Signal      string // that ended it
	Termination string // exited, signalled, timed_out, cancelled, spawn_failed
	Idle        bool   // timed_out because nothing was typed or printed
	Failure     string // of spawn_failed: why
	Limit       string // the level whose limit ended it; empty when none did, or it does not show
	Stdout      Stream
	Stderr      Stream
	Levels      []Level
	Seen        *Evidence // nil: nothing was seen
	Leftovers   int       // processes that it left behind and that were ended with it
	Survivors   []string  // what could not be ended, by id and name
	Took        time.Duration
}

// How a run ends.
const (
	Exited      = "exited"
	Signalled   = "signalled"
	TimedOut    = "timed_out"
	Cancelled   = "cancelled"
	SpawnFailed = "spawn_failed"
	NoSandbox   = "sandbox_unavailable" // a level that was promised could not be had; nothing was started
)

// Evidence is what was seen of it. Where the level protected_names is not had nothing is.
type Evidence struct {
	Attempts int      `json:"attempts,omitempty"` // at the network
	To       []string `json:"to,omitempty"`       // the first addresses of them, each once
	Moved    []string `json:"moved,omitempty"`    // directories of the root whose renaming fails in a view (EXDEV)
	Foreign  []string `json:"foreign,omitempty"`  // files of others that cannot be written in a view (EOVERFLOW)
}

// Private is the temporary directory that a confined process has for itself.
const Private = "/tmp"

// order is what the helper process is told.
type order struct {
	Argv, Env                       []string
	Root, Dir                       string
	Home                            string // of the daemon, whose secrets are hidden
	RootDev, RootIno                uint64
	DirDev, DirIno                  uint64
	Confined, Namespaces, Network   bool
	Probe, Terminal                 bool
	View, Plain, Copied             bool
	Processes                       int
	Needs, Hide, ReadOnly, Runtimes []string
	Names, Foreign                  []string
	Memory                          int64
	CPU                             time.Duration
	Grouped, GroupWanted            bool
	GroupFault                      string
}

// started and ended are what it answers.
type started struct {
	Levels  []Level `json:"levels"`
	About   bool    `json:"about,omitempty"` // the program begins now; whether it could follows
	Failure string  `json:"failure,omitempty"`
	Missing string  `json:"missing,omitempty"` // a level of Needs that could not be had
}

type ended struct {
	Exit      int       `json:"exit"`
	Signal    string    `json:"signal,omitempty"`
	Left      int       `json:"left"`
	Seen      *Evidence `json:"seen,omitempty"`
	Survivors []string  `json:"survivors,omitempty"`
}

// Unwritable reports a file that a program of this user could write, but not in a view: one
// owner of it has no number in the user's namespace.
func Unwritable(uid, gid, mode uint32) bool {
	own, group := uint32(os.Geteuid()), uint32(os.Getegid())
	switch {
	case own == 0, uid == own && gid == group:
		return false
	case uid == own:
		return mode&0o200 != 0
	case gid == group:
		return mode&0o020 != 0
	}
	return mode&0o002 != 0
}
