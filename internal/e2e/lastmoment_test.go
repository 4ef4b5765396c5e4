package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLastMoment changes what a call stands on between the decision and the effect: while
// it waits for the flush of what it staged.
func TestLastMoment(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	out := filepath.Join(filepath.Dir(d.Root), "OUT")
	write(t, filepath.Join(out, "f"), "old\n")
	outside := digest(t, out)
	resume := attach(t, d.cmd.Process.Pid, "trace=fsync,fdatasync", "inject=fsync,fdatasync:delay_enter=300000")
	defer resume()
	staged := func() (n int) { // the empty files that the store keeps ready are not counted
		for _, name := range names(t, d.store()) {
			if i, err := os.Stat(filepath.Join(d.store(), name)); err == nil && i.Size() > 0 {
				n++
			}
		}
		return n
	}
	edit := M{"path": "p/f", "old_string": "old", "new_string": "new"}
	t.Run("C18 whatever a call stands on is looked at again right before the effect", func(t *testing.T) {
		for name, c := range map[string]struct {
			op     string
			args   M
			change func()
		}{
			"the content":            {"edit_file", edit, func() { write(t, in("p/f"), "old and more\n") }},
			"the file, by a rename":  {"edit_file", edit, func() { write(t, in("other"), "old\nother\n"); os.Rename(in("other"), in("p/f")) }},
			"the file goes":          {"edit_file", edit, func() { os.Remove(in("p/f")) }},
			"a link in its place":    {"edit_file", edit, func() { os.Remove(in("p/f")); os.Symlink("../../OUT/f", in("p/f")) }},
			"the mode":               {"edit_file", edit, func() { os.Chmod(in("p/f"), 0o600) }},
			"the directory":          {"edit_file", edit, func() { os.Rename(in("p"), in("p.old")); os.Symlink("../OUT", in("p")) }},
			"something new":          {"write_file", M{"path": "p/n", "content": "ours\n"}, func() { write(t, in("p/n"), "theirs\n") }},
			"a link, new":            {"write_file", M{"path": "p/n", "content": "ours\n"}, func() { os.Symlink("../../OUT/n", in("p/n")) }},
			"the copy's destination": {"copy_file", M{"source": "p/f", "destination": "p/n"}, func() { write(t, in("p/n"), "theirs\n") }},
		} {
			for late := 0; ; late++ {
				os.RemoveAll(in("p"))
				os.RemoveAll(in("p.old"))
				write(t, in("p/f"), "old\n")
				had, reply := staged(), make(chan M, 1)
				go func() { reply <- d.call(c.op, c.args) }()
				for end := time.Now().Add(time.Minute); staged() == had; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%s: nothing was staged", name)
					}
				}
				c.change()
				then := digest(t, d.Root)
				r := <-reply
				if strings.Contains(text(r, "error", "hint"), "kept in the store") && late < 5 {
					continue // the change came after the effect, which was then taken back
				}
				if code(r) != "stale_precondition" || r["effects_executed"] != false || digest(t, d.Root) != then || digest(t, out) != outside {
					t.Errorf("%s: %v %v, or something was written", name, r["status"], r["error"])
				}
				break
			}
		}
	})
}

// TestGarbled has the disk store something else than it was given.
func TestGarbled(t *testing.T) {
	t.Parallel()
	if !faultsHere {
		t.Skip("the tracer can change what is written on amd64 only")
	}
	bin, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	d := quick(t, "")
	d.stop(syscall.SIGTERM)
	d.bin = bin
	t.Run("C100 what was written is read again before success is told: a disk that stores something else is found, and the tree is as before", func(t *testing.T) {
		for _, c := range []struct {
			op   string
			args M
		}{{"edit_file", M{"path": "f", "old_string": "old", "new_string": "new"}}, {"write_file", M{"path": "n", "content": "made\n"}}} {
			write(t, filepath.Join(d.Root, "f"), "old\n")
			before := digest(t, d.Root)
			d.run()
			tr := startTracer(t, fmt.Sprintf("%d write 1 %s", d.cmd.Process.Pid, garble))
			r := d.call(c.op, c.args)
			syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL)
			seen := tr.wait(t)
			d.cmd.Wait()
			if seen.Failed == "" || code(r) != "io_error" || !strings.Contains(text(r, "error", "message"), "read back") || r["effects_executed"] != false || digest(t, d.Root) != before {
				t.Errorf("%s, %q garbled: %v %v, or the tree changed", c.op, seen.Failed, r["status"], r["error"])
			}
		}
	})
}
