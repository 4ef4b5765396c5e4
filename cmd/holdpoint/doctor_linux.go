package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"holdpoint/shellexec"
)

// probeKernel asks for what changes and processes will need: each row by doing it, in a
// scratch folder that the caller removes.
func probeKernel(ctx context.Context, scratch string) []probe {
	rows := []probe{probeLandlock(ctx, scratch), probeUserNamespace(ctx)}
	rows = append(rows, probeOverlay(ctx, scratch)...)
	return append(rows, probeCgroup(), probeForeignLease(scratch), probeInotify(scratch))
}

// probeLandlock confines a child to nothing and has it try to write.
func probeLandlock(ctx context.Context, scratch string) probe {
	p := probe{Name: "landlock", For: "confining processes"}
	if err := try(ctx, nil, "landlock", scratch); err != nil {
		p.Detail = err.Error()
		return p
	}
	p.OK, p.Detail = true, fmt.Sprintf("ABI %d; a confined program could not write", shellexec.LandlockABI())
	return p
}

// tryLandlock is the child's part.
func tryLandlock(args []string) error { return shellexec.TryConfine(args[0]) }

// probeForeignLease asks for a lease on a file of another user, which only root can make.
func probeForeignLease(scratch string) probe {
	p := probe{Name: "lease, others' files", For: "noticing writers of files that the daemon's user does not own; else a copy is kept"}
	file := filepath.Join(scratch, "foreign")
	err := os.WriteFile(file, nil, 0o644)
	if err == nil {
		err = os.Chown(file, os.Getuid()+1, -1)
	}
	var fd int
	if err == nil {
		fd, err = unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		unix.Close(fd)
	}
	if err != nil {
		p.Detail = fmt.Sprintf("uid %d: %v", os.Getuid(), err)
		return p
	}
	p.OK, p.Detail = true, fmt.Sprintf("uid %d leased a file of uid %d", os.Getuid(), os.Getuid()+1)
	return p
}

// probeInotify watches the scratch folder, makes a file and waits to be told.
func probeInotify(scratch string) probe {
	p := probe{Name: "inotify", For: "noticing changes early; safety never rests on it"}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		p.Detail = err.Error()
		return p
	}
	defer unix.Close(fd)
	if _, err = unix.InotifyAddWatch(fd, scratch, unix.IN_CREATE); err == nil {
		err = os.WriteFile(filepath.Join(scratch, "watched"), nil, 0o600)
	}
	if err == nil {
		n, waited := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 2000)
		if err = waited; err == nil && n == 0 {
			err = errors.New("a new file was not told of within 2 s")
		}
	}
	if err != nil {
		p.Detail = err.Error()
		return p
	}
	p.OK, p.Detail = true, "a new file was told of; at most "+firstWord("/proc/sys/fs/inotify/max_user_watches")+" watches"
	return p
}

func detail(ok bool, yes string, err error) string {
	if ok {
		return yes
	}
	return err.Error()
}
