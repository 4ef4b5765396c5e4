package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProcessBesideMount has a mount in the root that sorts before a protected path: the
// walk that finds what is to be held must not end there.
func TestProcessBesideMount(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	write(t, filepath.Join(root, "zz", ".env"), "A=1\n")
	mnt := filepath.Join(root, "mnt")
	if err := os.Mkdir(mnt, 0o755); err != nil {
		t.Fatal(err)
	}
	d := underOn(t, root, state, inMounts(`mount -t tmpfs tmpfs "$1"`, mnt)...)
	t.Run("S106 (part) a protected path behind a mount point is held read-only as any other", func(t *testing.T) {
		held := d.shell("echo B=2 >> zz/.env", M{})
		if l := lines(d.card(held)); !strings.Contains(l, "read-only inside the root: zz/.env") || !strings.Contains(l, "another file system is mounted in it") {
			t.Errorf("got %s", l)
		}
		r := d.approve(held)
		if got := read(t, filepath.Join(root, "zz", ".env")); got != "A=1\n" {
			t.Errorf("it was changed: %q, %v", got, r["result"])
		}
	})
}
