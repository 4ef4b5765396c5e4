package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgram takes the pages of the program itself out of this process. They stay in the
// kernel's cache, and come back one by one as they are used: most of those that a daemon holds
// were needed for its start alone. Only mappings of the program's file are taken that cannot
// be written and of which no page is other than in the file.
func dropProgram() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	for _, m := range unwritten(bufio.NewScanner(maps), self) {
		// A failure leaves the pages where they are.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unwritten gives the mappings of a file that cannot be written, and were not before, as when
// addresses were filled in at the start: pages that differ from the file would be lost.
func unwritten(smaps *bufio.Scanner, file string) (out []mapping) {
	var m mapping
	ours := false
	for smaps.Scan() {
		line := smaps.Text()
		var from, to uintptr
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n == 3 {
			m, ours = mapping{from, to}, strings.HasSuffix(line, " "+file) && (mode == "r-xp" || mode == "r--p")
			continue
		}
		if own, is := strings.CutPrefix(line, "Anonymous:"); ours && is {
			if strings.TrimSpace(own) == "0 kB" {
				out = append(out, m)
			}
			ours = false
		}
	}
	return out
}
