package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestSameCall: a call that waits for a person and is made again, by the same token on
// the same facts, is one card, however many arrive at a time.
func TestSameCall(t *testing.T) {
	t.Parallel()
	d := start(t)
	for round := range 5 {
		name := fmt.Sprintf("f%d.txt", round)
		write(t, filepath.Join(d.Root, name), "x\n")
		var group sync.WaitGroup
		ids := make([]string, 8)
		for i := range ids {
			group.Go(func() {
				_, r, err := d.tryHTTP("POST", "/v1/call", d.Agent, M{"op": "delete_file", "args": M{"path": name}})
				if err == nil {
					ids[i] = text(r, "approval", "id")
				}
			})
		}
		group.Wait()
		for _, id := range ids {
			if id == "" || id != ids[0] {
				t.Fatalf("eight identical calls at a time are these cards: %v", ids)
			}
		}
	}
	if n := len(d.cards("pending")); n != 5 {
		t.Errorf("%d cards wait, want 5", n)
	}
}

// TestDoctor: each row is found out by trying, and nothing is left of the trials.
func TestDoctor(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	scratch := shortDir(t)
	d := &daemon{t: t, Root: root, State: state, env: []string{"TMPDIR=" + scratch}}
	code, out, said := d.cli("doctor", "--json", "--root", root)
	if code != 0 {
		t.Fatalf("doctor: %d %s", code, said)
	}
	for _, row := range []string{"exchange", "lease", "store state directory", "landlock", "user namespace", "overlay, own namespace", "cgroup v2", "inotify"} {
		if !strings.Contains(out, fmt.Sprintf("%q", row)) {
			t.Errorf("doctor has no row %q:\n%s", row, out)
		}
	}
	for _, dir := range []string{root, scratch} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v %v", dir, left, err)
		}
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("doctor made a state directory: %v", err)
	}
	if os.Getuid() != 0 {
		return
	}
	mountOn(t, root)
	if _, out, _ = d.cli("doctor", "--json", "--root", root); !strings.Contains(out, "store of copies") {
		t.Errorf("a root that is a mount of its own: no row for a store of copies:\n%s", out)
	}
}
