package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
)

// What a program holds of its own file can be dropped while it runs, and it runs on.
func TestDropProgram(t *testing.T) {
	before := ofFile(t)
	dropProgram()
	after := ofFile(t)
	if after >= before {
		t.Errorf("%d KiB of files before, %d after", before, after)
	}
	if got := strings.ToUpper(strconv.Itoa(255) + "f"); got != "255F" { // code and constants are still what they were
		t.Error(got)
	}
}

// ofFile is how many KiB of files this process holds.
func ofFile(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Pages that are not as in the file are never dropped, nor those of anything else.
func TestUnwritten(t *testing.T) {
	const smaps = `00400000-00600000 r-xp 00000000 fe:00 1    /bin/hold point
Size:               2048 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00600000-00700000 r--p 00200000 fe:00 1    /bin/hold point
Anonymous:             8 kB
00700000-00800000 r--p 00300000 fe:00 1    /bin/hold point
Anonymous:             0 kB
00800000-00900000 rw-p 00400000 fe:00 1    /bin/hold point
Anonymous:             0 kB
00900000-00a00000 r--s 00400000 fe:00 1    /bin/hold point
Anonymous:             0 kB
00a00000-00b00000 r--p 00000000 fe:00 2    /lib/other
Anonymous:             0 kB
`
	got := unwritten(bufio.NewScanner(strings.NewReader(smaps)), "/bin/hold point")
	if len(got) != 2 || got[0] != (mapping{0x400000, 0x600000}) || got[1] != (mapping{0x700000, 0x800000}) {
		t.Errorf("%x", got)
	}
}
