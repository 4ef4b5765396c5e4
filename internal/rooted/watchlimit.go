package rooted

import (
	"errors"
	"syscall"
)

// WatchLimit names the setting of the kernel that a failed watch of a directory ran into,
// "" where it failed for another reason. The kernel's own words for these limits are a
// full device and too many open files, which send people to the wrong place.
func WatchLimit(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "fs.inotify.max_user_watches"
	case errors.Is(err, syscall.EMFILE):
		return "fs.inotify.max_user_instances"
	}
	return ""
}
