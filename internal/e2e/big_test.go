//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBig works with what is long. HOLDPOINT_BIG=1 takes the sizes that are promised, where
// the slice of every day takes smaller ones: a sparse file of 20 GiB, one of ten million
// lines, a directory of 100,000 entries.
func TestBig(t *testing.T) {
	t.Parallel()
	size, many, entries := int64(32<<20), 100_000, 300
	if os.Getenv("HOLDPOINT_BIG") != "" {
		size, many, entries = 20<<30, 10_000_000, 100_000
		patience = 20 * time.Minute // each byte of a sparse file is hashed, holes too
	}
	d := quick(t, "")
	at := func(name string) string { return filepath.Join(d.Root, name) }
	timed := func(t *testing.T, what string, do func()) {
		began, before := time.Now(), d.rss()
		do()
		t.Logf("%s: %v, memory %+d MiB", what, time.Since(began).Round(time.Millisecond), (d.rss()-before)>>20)
	}
	t.Run("names of 255 bytes and a path of 4,095 are created, edited, moved, deleted and undone; one more byte is refused", func(t *testing.T) {
		before := digest(t, d.Root)
		name := strings.Repeat("n", 255)
		path := ""
		for len(path)+256 < 4095 {
			path += name + "/"
		}
		path += strings.Repeat("f", 4095-len(path))
		var done []M
		done = append(done, must(t, d.call("write_file", M{"path": path, "content": "one\n"}), "done"))
		done = append(done, must(t, d.call("edit_file", M{"path": path, "old_string": "one", "new_string": "two"}), "done"))
		if r := must(t, d.call("view_file", M{"path": path}), "done"); text(r, "result", "content") != "two\n" {
			t.Errorf("got %v", r["result"])
		}
		done = append(done, must(t, d.yes("move_file", M{"source": name + "/" + name, "destination": "short"}), "done"))
		done = append(done, must(t, d.yes("delete_file", M{"path": "short", "recursive": true}), "done"))
		for i := len(done) - 1; i >= 0; i-- {
			must(t, d.undo(done[i]), "done")
		}
		if digest(t, d.Root) != before {
			t.Error("not as before")
		}
		for _, p := range []string{name + "n", path + "ff", strings.Repeat("n", 4097)} {
			if r := d.call("write_file", M{"path": p, "content": "x"}); code(r) != "invalid_path" {
				t.Errorf("%d bytes: %v %v", len(p), r["status"], r["error"])
			}
		}
	})
	t.Run(fmt.Sprintf("a sparse file of %d MiB is looked at, moved, deleted and brought back, and stays sparse", size>>20), func(t *testing.T) {
		f, err := os.Create(at("sparse"))
		if err != nil {
			t.Fatal(err)
		}
		f.Truncate(size)
		f.WriteAt([]byte("needle\n"), size-4096)
		f.Close()
		used := func(name string) int64 {
			var st syscall.Stat_t
			if err := syscall.Stat(at(name), &st); err != nil || st.Size != size {
				t.Fatalf("%s: %d bytes, %v", name, st.Size, err)
			}
			return st.Blocks * 512
		}
		timed(t, "file_info", func() { must(t, d.call("file_info", M{"path": "sparse"}), "done") })
		timed(t, "a window at its end", func() {
			r := must(t, d.call("view_file", M{"path": "sparse", "offset": size - 4096, "limit": 6}), "done")
			if !strings.Contains(fmt.Sprint(r["result"]), "needle") && !strings.Contains(fmt.Sprint(r["result"]), "bmVlZGxl") {
				t.Errorf("got %.300v", r["result"])
			}
		})
		timed(t, "moved, deleted and both undone", func() {
			moved := must(t, d.yes("move_file", M{"source": "sparse", "destination": "there/sparse"}), "done")
			gone := must(t, d.yes("delete_file", M{"path": "there/sparse"}), "done")
			must(t, d.undo(gone), "done")
			must(t, d.undo(moved), "done")
		})
		if n := used("sparse"); n > 1<<20 {
			t.Errorf("it takes %d bytes now", n)
		}
		os.Remove(at("sparse"))
	})
	t.Run(fmt.Sprintf("a file of %d lines is edited at its end and undone byte for byte", many), func(t *testing.T) {
		var b bytes.Buffer
		for i := range many {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		if err := os.WriteFile(at("lines"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprintf("line %d\n", many-1)
		timed(t, "edit and undo", func() {
			done := must(t, d.call("edit_file", M{"path": "lines", "old_string": last, "new_string": "the last\n"}), "done")
			got, err := os.ReadFile(at("lines"))
			if err != nil || !bytes.Equal(got, append(bytes.Clone(b.Bytes()[:b.Len()-len(last)]), "the last\n"...)) {
				t.Error("other bytes changed")
			}
			must(t, d.undo(done), "done")
		})
		if got, _ := os.ReadFile(at("lines")); !bytes.Equal(got, b.Bytes()) {
			t.Error("the undo is not byte for byte")
		}
		os.Remove(at("lines"))
	})
	t.Run(fmt.Sprintf("a directory of %d entries is deleted, brought back, and one of its files edited", entries), func(t *testing.T) {
		if err := os.Mkdir(at("crowd"), 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			if err := os.WriteFile(at(fmt.Sprintf("crowd/%d", i)), []byte("x\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before := digest(t, d.Root)
		timed(t, "edit and undo in it", func() {
			must(t, d.undo(must(t, d.call("edit_file", M{"path": "crowd/7", "old_string": "x", "new_string": "y"}), "done")), "done")
		})
		timed(t, "delete and undo", func() {
			must(t, d.undo(must(t, d.yes("delete_file", M{"path": "crowd", "recursive": true}), "done")), "done")
		})
		if digest(t, d.Root) != before {
			t.Error("not as before")
		}
	})
}
