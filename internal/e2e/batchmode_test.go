package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBatchModes copies what the batch itself has made.
func TestBatchModes(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	t.Run("I77 (part) a copy of a copy that a batch makes is as closed to others as the file that it comes from", func(t *testing.T) {
		for name, mode := range map[string]os.FileMode{"secret": 0o600, "tool": 0o750} {
			write(t, filepath.Join(d.Root, name), "x\n")
			os.Chmod(filepath.Join(d.Root, name), mode)
			copies := func(from, to string) M { return item("copy_file", M{"source": from, "destination": to}) }
			done := must(t, d.approve(must(t, d.batch(copies(name, name+"2"), copies(name+"2", name+"3"), item("edit_file", M{"path": name + "3", "old_string": "x", "new_string": "y"}), copies(name+"3", name+"4")), "review")), "done")
			for _, n := range []string{"2", "3", "4"} {
				info, err := os.Stat(filepath.Join(d.Root, name+n))
				if err != nil || info.Mode() != mode {
					t.Errorf("%s%s: %v %v, want %v", name, n, info.Mode(), err, mode)
				}
			}
			must(t, d.undo(done), "done")
		}
	})
}
