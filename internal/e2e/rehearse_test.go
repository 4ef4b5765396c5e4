//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// rehearsal runs a script as a rehearsal, released by a person, and gives the first
// call's reply and the change set in it.
func (d *daemon) rehearsal(script string, more ...M) (reply, set M) {
	d.t.Helper()
	args := M{"script": script, "rehearse": true}
	for _, m := range more {
		for k, v := range m {
			args[k] = v
		}
	}
	held := d.call("workspace_shell", args)
	if text(held, "status") != "review" {
		d.t.Fatalf("%q was not held: %v", script, held)
	}
	r := d.approve(held)
	set, _ = r["result"].(M)["change_set"].(M)
	if set == nil {
		d.t.Fatalf("no change set: %v", r)
	}
	return r, set
}

// land approves the second card.
func (d *daemon) land(set M) M {
	d.t.Helper()
	if text(set, "status") != "held" {
		d.t.Fatalf("the change set does not wait: %v", set)
	}
	return d.approve(M{"approval": M{"id": text(set, "approval_id")}})
}

func TestRehearse(t *testing.T) {
	t.Parallel()
	d := start(t)
	for name, content := range map[string]string{"a": "one\n", "b": "two\n", "dir/x": "x\n", "dir/sub/y": "y\n", "keep": "keep\n"} {
		d.put(name, content, 0o644)
	}
	os.Symlink("a", filepath.Join(d.Root, "link"))
	os.Link(filepath.Join(d.Root, "keep"), filepath.Join(d.Root, "keep2"))
	before := digest(t, d.Root)
	same := func(what string) {
		t.Helper()
		if got := digest(t, d.Root); got != before {
			t.Fatalf("%s: the workspace changed", what)
		}
	}
	t.Run("a rehearsal changes nothing, and its change set lands and is undone as one", func(t *testing.T) {
		d := on(d, t)
		r, set := d.rehearsal("echo more >> a; rm b; mv dir/x dir/z; mkdir -p new/deep; echo n > new/deep/f; ln -s ../a new/l; chmod 600 keep; rm -r dir/sub; ln -sfn b link; touch keep2")
		if text(r, "status") != "done" || r["effects_executed"] != false {
			t.Fatalf("got %v", r)
		}
		same("after the rehearsal")
		card := d.card(M{"approval": M{"id": text(set, "approval_id")}})
		for _, want := range []string{"modified a", "deleted b", "created dir/z, 2 bytes, the same bytes as dir/x", "created new/, a directory with 3 names", "deleted dir/sub/", "0644 to 0600", "has 1 other names"} {
			if !strings.Contains(lines(card), want) {
				t.Errorf("the card has no %q:\n%s", want, lines(card))
			}
		}
		if !strings.Contains(text(card, "diff"), "+more") {
			t.Errorf("no diff: %v", card["diff"])
		}
		done := d.land(set)
		if text(done, "status") != "done" || done["effects_executed"] != true || done["undo_credential"] == nil {
			t.Fatalf("got %v", done)
		}
		if read(t, filepath.Join(d.Root, "a")) != "one\nmore\n" || d.has("b") || d.has("dir/x") || read(t, filepath.Join(d.Root, "new/deep/f")) != "n\n" || d.has("dir/sub") {
			t.Fatal("not all of it landed")
		}
		if l, _ := os.Readlink(filepath.Join(d.Root, "link")); l != "b" {
			t.Errorf("the link leads to %q", l)
		}
		if x := xattrs(filepath.Join(d.Root, "a")); len(x) > 0 {
			t.Errorf("attributes of the view are left: %v", x)
		}
		undone := d.undo(done)
		if text(undone, "status") == "review" {
			undone = d.approve(undone)
		}
		must(t, undone, "done")
		os.Remove(filepath.Join(d.Root, "keep2")) // the undo brings bytes and mode back, not that two names are one file
		os.Link(filepath.Join(d.Root, "keep"), filepath.Join(d.Root, "keep2"))
		same("after the undo")
	})
	t.Run("an empty change set ends there", func(t *testing.T) {
		d := on(d, t)
		_, set := d.rehearsal("cat a; touch a; cp a tmp; rm tmp")
		if text(set, "status") != "empty" {
			t.Errorf("got %v", set)
		}
		same("after it")
	})
	t.Run("what a person must see is on the card: names, text, setuid, secrets, protected paths, what is left out", func(t *testing.T) {
		d := on(d, t)
		r, set := d.rehearsal("mkdir new; echo is text > new/client_secret.json; cp a new/suid; chmod 4755 new/suid; mkfifo pipe; mkdir -p .git/hooks; printf '#!/bin/sh\\n' > .git/hooks/post-commit; echo k > id_rsa; chmod 711 dir", M{"write_protected": true})
		card := d.card(M{"approval": M{"id": text(set, "approval_id")}})
		for _, want := range []string{"created new/", "  new/client_secret.json", "SETUID OR SETGID: new/suid", "PROTECTED: .git/hooks/post-commit", "looks like a secret: new/client_secret.json", "pipe is a fifo, which is not put into the workspace", "the mode of the directory dir"} {
			if !strings.Contains(lines(card), want) {
				t.Errorf("the card has no %q:\n%s", want, lines(card))
			}
		}
		if !strings.Contains(text(card, "diff"), "is text") || text(card, "tier") != "T4" || text(card, "effect") != "destructive" || card["mandatory"] != true {
			t.Errorf("diff %v, tier %v, effect %v, mandatory %v", card["diff"], card["tier"], card["effect"], card["mandatory"])
		}
		_, out := d.http("GET", "/v1/runs/"+text(r, "result", "run_id")+"/output?stream=changes", d.Agent, nil)
		if !strings.Contains(text(out, "content"), "new/suid\tfile\t4755\t") {
			t.Errorf("the names: %v", out)
		}
		d.answer(M{"approval": M{"id": text(set, "approval_id")}}, "reject", "")
		same("after it")
	})
	t.Run("nobody else's change set can be named, and it goes alone", func(t *testing.T) {
		d := on(d, t)
		_, set := d.rehearsal("echo x > made")
		id := text(set, "id")
		again := d.call("workspace_shell", M{"change_set": id})
		if text(again, "approval", "id") != text(set, "approval_id") {
			t.Errorf("the same set is another card: %v", again)
		}
		if r := d.call("workspace_shell", M{"change_set": id, "command": "ls"}); code(r) != "bad_request" {
			t.Errorf("got %v", r)
		}
		flip := "0"
		if strings.HasSuffix(id, "0") {
			flip = "1"
		}
		for _, wrong := range []string{id[:len(id)-1] + flip, "../x", "cs_x", strings.Replace(id, "cs_", "cs_a", 1)} {
			if r := d.call("workspace_shell", M{"change_set": wrong}); code(r) != "not_found" {
				t.Errorf("%s: got %v", wrong, r)
			}
		}
		d.answer(M{"approval": M{"id": text(set, "approval_id")}}, "reject", "")
		for name, args := range map[string]M{"a session": {"command": "sh", "pty": true, "rehearse": true}, "in the background": {"command": "true", "background": true, "rehearse": true}} {
			if r := d.call("workspace_shell", args); code(r) != "bad_request" {
				t.Errorf("%s: got %v", name, r)
			}
		}
		same("after it")
	})
	t.Run("kinds change, directories are made anew", func(t *testing.T) {
		d := on(d, t)
		_, set := d.rehearsal("rm a; mkdir a; echo in > a/in; rm -r dir; echo file > dir; rm b; ln -s keep b; rm link; echo f > link")
		done := d.land(set)
		if text(done, "status") != "done" || read(t, filepath.Join(d.Root, "a/in")) != "in\n" || read(t, filepath.Join(d.Root, "dir")) != "file\n" || read(t, filepath.Join(d.Root, "b")) != "keep\n" {
			t.Fatalf("got %v", done)
		}
		undone := d.undo(done)
		if text(undone, "status") == "review" {
			undone = d.approve(undone)
		}
		must(t, undone, "done")
		same("after the undo")
	})
	t.Run("a rejected change set is dropped", func(t *testing.T) {
		d := on(d, t)
		_, set := d.rehearsal("echo x > made")
		d.answer(M{"approval": M{"id": text(set, "approval_id")}}, "reject", "no")
		if r := d.call("workspace_shell", M{"change_set": text(set, "id")}); code(r) != "not_found" {
			t.Errorf("got %v", r)
		}
		left, _ := filepath.Glob(filepath.Join(d.State, "store", "*", "cs_*.set"))
		if len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		same("after it")
	})
	t.Run("a file that changed since lands nothing", func(t *testing.T) {
		d := on(d, t)
		_, set := d.rehearsal("echo x > made; echo changed >> a")
		d.put("a", "somebody else\n", 0o644)
		r := d.land(set)
		if code(r) != "stale_precondition" || d.has("made") || read(t, filepath.Join(d.Root, "a")) != "somebody else\n" {
			t.Errorf("got %v", r)
		}
		d.put("a", "one\n", 0o644)
		same("after it")
	})
	t.Run("a file that changes meanwhile taints it", func(t *testing.T) {
		d := on(d, t)
		held := d.call("workspace_shell", M{"script": "echo mine >> b; echo started; sleep 1", "rehearse": true, "cwd": "."})
		go func() {
			for range 200 {
				if m, _ := filepath.Glob(filepath.Join(d.State, "store", "*", "cs_*.view", "upper", "b")); len(m) > 0 {
					break
				}
				syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 20000})
			}
			os.WriteFile(filepath.Join(d.Root, "b"), []byte("theirs\n"), 0o644)
		}()
		r := d.approve(held)
		if code(r) != "rehearsal_tainted" {
			t.Errorf("got %v", r)
		}
		d.put("b", "two\n", 0o644)
		same("after it")
	})
	t.Run("a change set survives a restart", func(t *testing.T) {
		d := on(d, t)
		_, set := d.rehearsal("echo x > made; mkdir d2; echo y > d2/y; echo changed >> a")
		d.restart()
		done := d.land(set)
		if text(done, "status") != "done" || read(t, filepath.Join(d.Root, "d2/y")) != "y\n" {
			t.Fatalf("got %v", done)
		}
		must(t, d.undo(done), "done")
		same("after the undo")
	})
	t.Run("a rehearsal that is killed leaves nothing", func(t *testing.T) {
		d := on(d, t)
		held := d.call("workspace_shell", M{"script": "rm -rf dir; echo x > made; sleep 30", "rehearse": true})
		go d.tryHTTP("POST", "/v1/approvals/"+text(held, "approval", "id")+"/answer", d.reviewer(), M{"answer": "approve", "shown_digest": text(d.card(held), "shown_digest")})
		for range 300 {
			if m, _ := filepath.Glob(filepath.Join(d.State, "store", "*", "cs_*.view", "upper", "made")); len(m) > 0 {
				break
			}
			syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 20000})
		}
		d.stop(syscall.SIGKILL)
		same("after the kill")
		d.run()
		left, _ := filepath.Glob(filepath.Join(d.State, "store", "*", "cs_*.[vs]*"))
		if len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		same("after the restart")
	})
}

// on is the daemon for a subtest.
func on(d *daemon, t *testing.T) *daemon {
	d.t = t
	return d
}

// TestRehearseElsewhere is where no overlay can be had in the usual way: a mount lies in
// the root, or the root lies on an overlay itself.
func TestRehearseElsewhere(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounting takes root")
	}
	mount := func(t *testing.T, kind, at, options string) {
		t.Helper()
		if err := syscall.Mount(kind, at, kind, 0, options); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Unmount(at, syscall.MNT_DETACH) })
	}
	t.Run("a mount in the root: without a user namespace", func(t *testing.T) {
		root, state := dirs(t)
		fillView(t, root)
		os.Mkdir(filepath.Join(root, "mnt"), 0o755)
		d := startOn(t, root, state, nil)
		mount(t, "tmpfs", filepath.Join(root, "mnt"), "")
		throughView(t, d, "overlay_without_user_namespace")
	})
	t.Run("a root on an overlay: a copy", func(t *testing.T) {
		base := shortDir(t)
		for _, n := range []string{"low", "up", "work", "on"} {
			os.Mkdir(filepath.Join(base, n), 0o755)
		}
		mount(t, "overlay", filepath.Join(base, "on"), "lowerdir="+filepath.Join(base, "low")+",upperdir="+filepath.Join(base, "up")+",workdir="+filepath.Join(base, "work"))
		root, state := filepath.Join(base, "on", "ws"), filepath.Join(base, "on", "state")
		os.Mkdir(root, 0o755)
		fillView(t, root)
		throughView(t, startOn(t, root, state, nil), "copy")
	})
}

// throughView rehearses on a view of this kind, lands and undoes.
func throughView(t *testing.T, d *daemon, kind string) {
	before := digest(t, d.Root)
	r, set := d.rehearsal("echo more >> a; mkdir new; echo n > new/f; rm b; chmod 700 dir/x; rm -r again; mkdir again; echo z > again/z")
	if text(r, "result", "view") != kind || digest(t, d.Root) != before {
		t.Fatalf("got %v", r["result"])
	}
	done := d.land(set)
	if text(done, "status") != "done" || read(t, filepath.Join(d.Root, "a")) != "one\nmore\n" || d.has("b") || !d.has("new/f") {
		t.Fatalf("got %v", done)
	}
	must(t, d.undo(done), "done")
	if digest(t, d.Root) != before {
		t.Fatal("the undo did not bring it back")
	}
}

// fillView makes what throughView works on.
func fillView(t *testing.T, d string) {
	t.Helper()
	for name, content := range map[string]string{"a": "one\n", "b": "two\n", "dir/x": "x\n", "again/y": "y\n"} {
		write(t, filepath.Join(d, name), content)
	}
}
