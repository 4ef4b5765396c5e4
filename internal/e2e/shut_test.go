//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asOrdinary starts a daemon of an ordinary user's, whoever runs the tests. plant fills the
// workspace before it is given to him; what stranger names stays with whoever runs the tests.
func asOrdinary(t *testing.T, plant func(in func(string) string), stranger ...string) *daemon {
	t.Helper()
	root, state := dirs(t)
	in := func(p string) string { return filepath.Join(root, p) }
	plant(in)
	t.Cleanup(func() { exec.Command("chmod", "-R", "u+rwX", root).Run() }) // else its owner could not remove it
	if os.Geteuid() != 0 {
		return underOn(t, root, state)
	}
	d := ordinary(t, root, state)
	for _, p := range stranger {
		if err := os.Chown(in(p), 1234, 1234); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestShut is about what an ordinary user's daemon may not do and root's may: read a file or
// a directory whose mode does not let its owner, or move a directory he may not write.
func TestShut(t *testing.T) {
	t.Parallel()
	t.Run("a mode that takes the daemon the right to read is refused before anything is written, and asks nobody", func(t *testing.T) {
		d := asOrdinary(t, func(in func(string) string) { write(t, in("old"), "one\n") })
		before := digest(t, d.Root)
		for _, mode := range []string{"0000", "0200", "0377", "0111"} {
			for what, r := range map[string]M{
				"new":       d.call("write_file", M{"path": "made", "content": "x", "mode": mode}),
				"over":      d.call("write_file", M{"path": "old", "content": "two\n", "mode": mode}),
				"batch":     d.call("batch_file_ops", M{"operations": []M{item("write_file", M{"path": "made", "content": "x", "mode": mode})}}),
				"preflight": d.preflight("write_file", M{"path": "made", "content": "x", "mode": mode}),
			} {
				if code(r) != "permission_denied" || r["effects_executed"] == true || !strings.Contains(text(r, "error", "message"), "take it back") {
					t.Errorf("%s %s: %v %v", what, mode, r["status"], r["error"])
				}
			}
		}
		if digest(t, d.Root) != before || len(d.cards("")) != 0 {
			t.Errorf("something was changed, or asked: %v", d.cards(""))
		}
		must(t, d.undo(must(t, d.call("write_file", M{"path": "made", "content": "x", "mode": "0400"}), "done")), "done")
		if digest(t, d.Root) != before {
			t.Error("a file that can be read was not taken back")
		}
	})
	t.Run("beside a directory that the daemon may not read programs run, nothing in it changes, and all else is told and taken back", func(t *testing.T) {
		d := asOrdinary(t, func(in func(string) string) {
			write(t, in("keep"), "old\n")
			for _, dir := range []string{"shut", "theirs"} {
				write(t, in(dir+"/f"), "inside\n")
				os.Chmod(in(dir), 0)
			}
		}, "theirs")
		held := d.shell("echo new > keep; echo x > other; chmod 700 shut; echo y >> shut/f; mkdir -p made/deep; echo z > made/deep/f")
		if l := lines(d.card(held)); !strings.Contains(l, "may not read these directories, so that nothing in them can be changed: shut, theirs") {
			t.Errorf("the card: %s", l)
		}
		r := must(t, d.approve(held), "done")
		var told []string
		for _, e := range objects(r["effects"]) {
			told = append(told, text(e, "path"))
		}
		if got := strings.Join(told, " "); got != "keep made made/deep made/deep/f other" {
			t.Errorf("told: %s, %v", got, r["warnings"])
		}
		must(t, d.undo(r), "done")
		if d.has("other") || d.has("made") || read(t, filepath.Join(d.Root, "keep")) != "old\n" {
			t.Errorf("not taken back: %v", names(t, d.Root))
		}
		if mode := mustStat(t, filepath.Join(d.Root, "shut")).Mode & 0o777; mode != 0 {
			t.Errorf("it was opened: %o", mode)
		}
		os.Chmod(filepath.Join(d.Root, "shut"), 0o700)
		if got := read(t, filepath.Join(d.Root, "shut/f")); got != "inside\n" {
			t.Errorf("it was written: %q", got)
		}
	})
	t.Run("what a program shuts behind itself is named as not known, and hides nothing else that it did", func(t *testing.T) {
		d := asOrdinary(t, func(in func(string) string) {
			write(t, in("keep"), "old\n")
			write(t, in("was/f"), "inside\n")
		})
		r := must(t, d.approve(d.shell("echo new > keep; echo x > other; mkdir d0; echo s > d0/s; echo m > f0; chmod 0 d0 f0 was")), "done")
		told := fmt.Sprint(r["effects"])
		for _, p := range []string{"keep", "other", "d0", "f0", "was"} {
			if !strings.Contains(told, "path:"+p+" ") && !strings.Contains(told, "path:"+p+"]") {
				t.Errorf("%s is not told: %s", p, told)
			}
		}
		said := fmt.Sprint(r["warnings"])
		if !strings.Contains(said, "may not read, so that what lies in them is not known: d0, was") || strings.Contains(told, "was/f") {
			t.Errorf("said: %s; told: %s", said, told)
		}
		for _, p := range []string{"d0", "f0", "was"} {
			if !strings.Contains(said, p+" (") {
				t.Errorf("%s is not named as what cannot be taken back: %s", p, said)
			}
		}
		must(t, d.undo(r), "done")
		if d.has("other") || read(t, filepath.Join(d.Root, "keep")) != "old\n" {
			t.Errorf("not taken back: %v", names(t, d.Root))
		}
		os.Chmod(filepath.Join(d.Root, "was"), 0o700)
		if got := read(t, filepath.Join(d.Root, "was/f")); got != "inside\n" {
			t.Errorf("what was shut away: %q", got)
		}
	})
	t.Run("a rehearsal leaves out what nobody can read, says so, and lands the rest", func(t *testing.T) {
		d := asOrdinary(t, func(in func(string) string) {
			write(t, in("keep"), "old\n")
			write(t, in("was/f"), "inside\n")
		})
		before := digest(t, d.Root)
		_, set := d.rehearsal("echo new > keep; echo x > other; mkdir -p d0 d1/in; echo s > d0/s; echo m > f0; echo m > d1/in/f; chmod 0 d0 f0 d1/in was")
		card := lines(d.card(M{"approval": M{"id": text(set, "approval_id")}}))
		for _, p := range []string{"d0", "f0", "d1", "was"} {
			if !strings.Contains(card, "may not read "+p+" or something in it") {
				t.Errorf("%s is not said to be left out: %s", p, card)
			}
		}
		r := must(t, d.land(set), "done")
		if read(t, filepath.Join(d.Root, "keep")) != "new\n" || !d.has("other") || d.has("d0") || d.has("f0") || d.has("d1") || !d.has("was/f") {
			t.Errorf("landed: %v", names(t, d.Root))
		}
		if r = d.undo(r); text(r, "status") == "review" {
			r = d.approve(r)
		}
		if must(t, r, "done"); digest(t, d.Root) != before {
			t.Error("the undo did not bring it back")
		}
	})
	t.Run("a directory that its owner may not write is deleted, moved, copied, made, rehearsed and brought back with its mode", func(t *testing.T) {
		d := asOrdinary(t, func(in func(string) string) {
			write(t, in("ro/sub/f"), "x\n")
			os.Chmod(in("ro/sub"), 0o555)
			os.Chmod(in("ro"), 0o555)
		})
		before := digest(t, d.Root)
		done := func(r M) M {
			t.Helper()
			if text(r, "status") == "review" {
				r = d.approve(r)
			}
			return must(t, r, "done")
		}
		shut := func(p string) {
			t.Helper()
			for _, p := range []string{p, p + "/sub"} {
				if st := mustStat(t, filepath.Join(d.Root, p)); st.Mode&0o777 != 0o555 {
					t.Errorf("%s has %o", p, st.Mode&0o777)
				}
			}
		}
		for what, act := range map[string]func() M{
			"delete": func() M { return d.call("delete_file", M{"path": "ro", "recursive": true}) },
			"move":   func() M { return d.call("move_file", M{"source": "ro", "destination": "new/ro"}) },
			"copy":   func() M { return d.call("copy_file", M{"source": "ro", "destination": "ro2", "recursive": true}) },
			"run":    func() M { return d.shell("mkdir -p run/sub; echo y > run/sub/f; chmod 555 run/sub run") },
			"rehearse": func() M {
				_, set := d.rehearsal("mkdir -p run/sub; echo y > run/sub/f; chmod 555 run/sub run")
				return d.land(set)
			},
		} {
			r := done(act())
			switch what {
			case "delete":
				if d.has("ro") {
					t.Errorf("%s: it is there", what)
				}
			case "move":
				shut("new/ro")
			case "copy":
				shut("ro2")
			default:
				shut("run")
			}
			if done(d.undo(r)); digest(t, d.Root) != before {
				t.Errorf("%s: the undo did not bring it back: %v", what, names(t, d.Root))
			}
		}
	})
}
