//go:build casefold

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
)

// TestFolds needs a kernel that folds case (CONFIG_UNICODE): go test -tags casefold. It is
// not among the tests of every day, since most machines have none.
func TestFolds(t *testing.T) {
	t.Run("D68 (part) a rename by case only, on a mount that folds case", func(t *testing.T) {
		dir := t.TempDir()
		if err := syscall.Mount("none", dir, "tmpfs", 0, "size=4m,casefold"); err != nil {
			t.Fatalf("no file system here folds case: tmpfs says %v", err)
		}
		defer syscall.Unmount(dir, 0)
		root, state := filepath.Join(dir, "ws"), filepath.Join(dir, "state")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		folded(t, root)
		d := quickOn(t, root, state, "", nil)
		defer d.stop(syscall.SIGTERM)
		write(t, filepath.Join(root, "A.txt"), "a\n")
		r := must(t, d.yes("move_file", M{"source": "A.txt", "destination": "a.txt"}), "done")
		if got := names(t, root); !reflect.DeepEqual(got, []string{"a.txt"}) || read(t, filepath.Join(root, "a.txt")) != "a\n" {
			t.Fatalf("got %v", got)
		}
		must(t, d.undo(r), "done")
		if got := names(t, root); !reflect.DeepEqual(got, []string{"A.txt"}) {
			t.Fatalf("after the undo: %v", got)
		}
	})
}

// folded makes names below an empty directory equal that differ by case only.
func folded(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("chattr", "+F", dir).CombinedOutput(); err != nil {
		t.Fatalf("chattr: %v %s", err, out)
	}
}
