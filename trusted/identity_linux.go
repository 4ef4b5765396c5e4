package trusted

import (
	"os"
	"syscall"
	"time"
)

// identity is everything by which a changed file shows.
type identity struct {
	dev, ino     uint64
	size         int64
	mode         os.FileMode
	uid, gid     uint32
	links        uint64
	mtime, ctime syscall.Timespec
}

func identify(info os.FileInfo) identity {
	st := info.Sys().(*syscall.Stat_t)
	return identity{uint64(st.Dev), st.Ino, st.Size, info.Mode(), st.Uid, st.Gid, uint64(st.Nlink), st.Mtim, st.Ctim}
}

func (i identity) stamp() time.Time { return time.Unix(i.ctime.Unix()) }
