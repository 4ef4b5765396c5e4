package e2e

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
)

// tried is one row of the table of `make safety`: what was done to one operation on one
// filesystem, and what came of it. internal/safety reads it.
type tried struct {
	What         string `json:"what"`
	On           string `json:"on"`
	Of           string `json:"of"`
	Tried        int    `json:"tried"`
	Acknowledged int    `json:"acknowledged"`
	Lost         int    `json:"lost"` // of the acknowledged
	Half         int    `json:"half"` // looks afterwards that did not find a whole thing
	Refused      int    `json:"refused"`
}

// tell prints the row, however its test ends.
func (r *tried) tell(t testing.TB) {
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("safety: %s", b)
}

// looking counts a look at what is there as half-done if its test fails meanwhile, other than by
// a change that was lost.
func (r *tried) looking(t testing.TB, look func()) {
	lost, before := r.Lost, t.Failed()
	defer func() {
		if t.Failed() && !before && r.Lost == lost {
			r.Half++
		}
	}()
	look()
}

// filesystemOf names what a directory lies on, by statfs(2).
func filesystemOf(t testing.TB, dir string) string {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	switch uint32(st.Type) {
	case 0xef53:
		return "ext4"
	case 0x58465342:
		return "xfs"
	case 0x9123683e:
		return "btrfs"
	case 0x01021994:
		return "tmpfs"
	case 0x794c7630:
		return "overlay"
	}
	return fmt.Sprintf("%#x", uint32(st.Type))
}
