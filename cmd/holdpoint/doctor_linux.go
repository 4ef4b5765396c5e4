package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// probeKernel asks for what processes will need: each row by doing it, where asking
// changes nothing.
func probeKernel() []probe {
	var rows []probe
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	rows = append(rows, probe{"landlock", errno == 0, detail(errno == 0, fmt.Sprintf("ABI %d", abi), errno), "confining processes"})
	rows = append(rows, probeUserNamespace(), probeOverlay(), probeCgroup())
	rows = append(rows, probe{"user", true, fmt.Sprintf("uid %d", os.Getuid()), "leases need the file's owner or CAP_LEASE"})
	if w := firstWord("/proc/sys/fs/inotify/max_user_watches"); w != "" {
		rows = append(rows, probe{"inotify watches", true, w, "noticing changes early; safety never rests on it"})
	}
	return rows
}

func detail(ok bool, yes string, err error) string {
	if ok {
		return yes
	}
	return err.Error()
}
