package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync makes a file's bytes durable, and of its inode only what is needed to read
// them: the timestamps would cost a second trip.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
