package rooted

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// What the system would refuse can be told beforehand by asking it, which writes nothing.
// It is for the sake of a true preflight: a change is refused by the change itself.

// GoesElsewhere tells whether n may leave its directory. A directory that does is written
// itself, which its owner can always see to.
func (n *Node) GoesElsewhere() error {
	if n.Info.UID == uint32(unix.Geteuid()) {
		return nil
	}
	return n.Lets()
}

// Lets tells whether the directory lets the daemon make and remove names in it.
func (n *Node) Lets() error {
	if n.self == none || n.Info.Kind != op.Directory {
		return nil
	}
	return fail(unix.Faccessat(unix.AT_FDCWD, fdName(n.self), unix.W_OK|unix.X_OK, 0), n.Path)
}

// LetsGo tells whether dir, in which n stands, lets it be taken away: a sticky directory
// keeps what belongs to others.
func (n *Node) LetsGo(dir *Node) error {
	me := uint32(unix.Geteuid())
	if me == 0 || dir.Info.Mode&unix.S_ISVTX == 0 || n.Info.UID == me || dir.Info.UID == me {
		return nil
	}
	return fail(unix.EPERM, n.Path)
}

// KeepsOwner tells whether another file could be given the owner and group of n.
func (n *Node) KeepsOwner() error {
	if mayGiveAway() || n.Info.UID == uint32(unix.Geteuid()) && inGroup(n.Info.GID) {
		return nil
	}
	return lossOf([]string{"owner"}, n.Path)
}

// mayGiveAway reports whether the daemon may give files to anybody.
var mayGiveAway = sync.OnceValue(func() bool {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return true // nothing is foretold where it cannot be known
	}
	return data[0].Effective&(1<<unix.CAP_CHOWN) != 0
})

func inGroup(gid uint32) bool {
	if gid == uint32(unix.Getegid()) {
		return true
	}
	mine, err := unix.Getgroups()
	return err != nil || slices.Contains(mine, int(gid))
}
