//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMagicLinks spells files and programs by the links of proc.
func TestMagicLinks(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "f"), "x\n")
	argv := func(words ...string) M { return M{"command": words[0], "args": words[1:]} }
	held := must(t, d.call("workspace_shell", argv("true")), "review")
	card := d.card(held)
	_, out := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(card, "shown_digest")})
	if r := d.call("workspace_shell", argv("true")); text(r, "decision", "reason") != "remembered_rule" {
		t.Fatalf("true is not remembered, so this proves nothing: %v %v", out, r)
	}
	real, err := filepath.EvalSymlinks("/usr/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("S5 a magic link of proc is outside although it leads inside, and a program spelled by one is asked for with both spellings on the card", func(t *testing.T) {
		before := digest(t, d.Root)
		for _, root := range []string{"/proc/self/root", fmt.Sprintf("/proc/%d/root", os.Getpid()), "/proc/thread-self/root", "/proc/self/cwd/../../../../../../.."} {
			for _, op := range []string{"view_file", "list_directory", "file_info"} {
				if r := d.call(op, M{"path": root + d.Root + "/f"}); code(r) != "outside_workspace" {
					t.Errorf("%s %s: %v %v", op, root, r["status"], r["error"])
				}
			}
			if r := d.call("write_file", M{"path": root + d.Root + "/new", "content": "x"}); code(r) != "outside_workspace" {
				t.Errorf("write %s: %v", root, r["error"])
			}
		}
		for _, root := range []string{"/proc/self/root", "/proc/thread-self/root"} {
			r := d.call("workspace_shell", argv(root+real))
			if text(r, "status") != "review" || text(r, "decision", "reason") != "process_execution" {
				t.Errorf("%s: %v", root, r)
				continue
			}
			if l := lines(d.card(r)); !strings.Contains(l, root+real) || !strings.Contains(l, "executes "+real+" ") {
				t.Errorf("%s: the card says\n%s", root, l)
			}
			d.cancel(r)
		}
		if digest(t, d.Root) != before {
			t.Error("something was changed")
		}
	})
}

// TestOneHandle has a file exchanged with another all the time, both inside.
func TestOneHandle(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	a, b := "old "+strings.Repeat("a", 1000)+"\n", "old "+strings.Repeat("b", 1000)+"\n"
	write(t, in("f"), a)
	write(t, in("g"), b)
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				exchange(in("f"), in("g"))
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	t.Run("S12 hash, bytes and diff are of one file however it is swapped, and a change lands on what was looked at or is stale", func(t *testing.T) {
		landed, stale, moved := 0, 0, map[string]bool{}
		for i := range 60 {
			r := must(t, d.call("view_file", M{"path": "f"}), "done")
			if c := text(r, "result", "content"); c != a && c != b && !moved[c] || text(r, "result", "hash") != hashOf(c) {
				t.Fatalf("a mix, or another's hash: %.20q %s", c, text(r, "result", "hash"))
			}
			// What is on the card of an overwrite is one of the two, whole.
			held := d.call("edit_file", M{"path": "f", "old_string": "old ", "new_string": fmt.Sprintf("new %d ", i), "expected_hash": hashOf(a)})
			switch {
			case text(held, "status") == "done":
				landed++
				effect := object(held["effects"].([]any)[0])
				if text(effect, "before", "hash") != hashOf(a) || text(effect, "after", "hash") != hashOf(strings.Replace(a, "old ", fmt.Sprintf("new %d ", i), 1)) {
					t.Fatalf("not what was asked for: %v", effect)
				}
				tries := 0
				for back := d.undo(held); text(back, "status") != "done"; back = d.undo(held) {
					if tries++; tries > 1000 { // each try meets one of two; what is refused must stay possible
						t.Fatalf("undo never came to its turn: %v", back["error"])
					}
					if code(back) != "undo_conflict" && code(back) != "stale_precondition" {
						t.Fatalf("undo: %v", back["error"])
					}
				}
			case code(held) == "stale_precondition":
				stale++
				if strings.Contains(text(held, "error", "hint"), "to another name before it was taken back") {
					moved[strings.Replace(a, "old ", fmt.Sprintf("new %d ", i), 1)] = true // by the one who exchanges; told, and what it displaced is kept
				}
			default:
				t.Fatalf("%v %v %v", held["status"], held["error"], held["decision"])
			}
		}
		if landed == 0 || stale == 0 {
			t.Errorf("%d landed, %d stale: this was no race", landed, stale)
		}
	})
}

// TestCrashRemains cuts what a killed daemon wrote, in all the ways a crash does.
func TestCrashRemains(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	d := quickOn(t, root, state, "", nil)
	var edits []M
	for i := range 3 {
		write(t, filepath.Join(root, fmt.Sprint(i)), fmt.Sprintf("old %d\n", i))
		edits = append(edits, must(t, d.call("edit_file", M{"path": fmt.Sprint(i), "old_string": "old", "new_string": "new"}), "done"))
	}
	d.stop(syscall.SIGKILL)
	wal, err := os.ReadFile(filepath.Join(state, "journal.db-wal"))
	if err != nil || len(wal) < 20_000 {
		t.Fatalf("a log of %d bytes: %v", len(wal), err)
	}
	keep := filepath.Join(filepath.Dir(state), "kept")
	copyTree := func(from, to string) {
		t.Helper()
		os.RemoveAll(to)
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	copyTree(state, keep)
	copyTree(root, keep+"-ws")
	t.Run("S98 what a crash leaves is no attack: a torn record is dropped and said, earlier ones stand, a missing pre-image costs its own undo, and a second daemon is refused", func(t *testing.T) {
		for name, damage := range map[string]func(){
			"the last record cut in its middle": func() { os.Truncate(filepath.Join(state, "journal.db-wal"), int64(len(wal)-2000)) },
			"the last record cut by one byte":   func() { os.Truncate(filepath.Join(state, "journal.db-wal"), int64(len(wal)-1)) },
			"a tail of zeros": func() {
				write(t, filepath.Join(state, "journal.db-wal"), string(wal)+strings.Repeat("\x00", 9000))
				os.Chmod(filepath.Join(state, "journal.db-wal"), 0o600)
			},
			"the audit's last line cut": func() {
				log := auditLog(t, state)
				os.Truncate(log, int64(len(read(t, log))-7))
			},
		} {
			t.Run(name, func(t *testing.T) {
				copyTree(keep, state)
				copyTree(keep+"-ws", root)
				damage()
				d.t = t
				d.run()
				d.operator()
				defer d.stop(syscall.SIGKILL)
				for i := range 2 {
					must(t, d.undo(edits[i]), "done")
					if got := read(t, filepath.Join(root, fmt.Sprint(i))); got != fmt.Sprintf("old %d\n", i) {
						t.Errorf("%d holds %q", i, got)
					}
				}
				if exit, out, errs := d.cli("audit", "verify"); exit != 0 {
					t.Errorf("audit: %d %s%s", exit, out, errs)
				}
				if name == "the audit's last line cut" && !strings.Contains(d.Log.String(), "unfinished") {
					t.Errorf("nothing is said of it: %s", d.Log)
				}
			})
		}
		t.Run("a journal of no bytes is named and not served", func(t *testing.T) {
			copyTree(keep, state)
			os.Remove(filepath.Join(state, "journal.db-wal"))
			os.Truncate(filepath.Join(state, "journal.db"), 0)
			if exit, out := refuses(t, root, state, nil, "--review-auth", "token"); exit == 0 || !strings.Contains(out, "state_corrupt") {
				t.Errorf("exit %d, %s", exit, out)
			}
		})
		t.Run("a missing pre-image, and a second daemon", func(t *testing.T) {
			copyTree(keep, state)
			copyTree(keep+"-ws", root)
			if gone := holding(t, state, "old 1\n"); gone == "" || os.Remove(gone) != nil {
				t.Fatal("no pre-image found")
			}
			d.t = t
			d.run()
			d.operator()
			defer d.stop(syscall.SIGKILL)
			for i, e := range edits {
				if r := d.undo(e); (r["status"] == "done") != (i != 1) {
					t.Errorf("undo of %d: %v %v", i, r["status"], r["error"])
				}
			}
			if exit, out := refuses(t, root, state, []string{"HOLDPOINT_SOCKET=" + filepath.Join(shortDir(t), "s")}, "--review-auth", "token"); exit == 0 || !strings.Contains(out, "state_locked") {
				t.Errorf("exit %d, %s", exit, out)
			}
		})
	})
	d.t = t
}
