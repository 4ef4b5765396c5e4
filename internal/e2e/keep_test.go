package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// store is the folder in which the daemon keeps what its only root's changes put away.
func (d *daemon) store() string {
	d.t.Helper()
	list, err := filepath.Glob(filepath.Join(d.State, "store", "*"))
	if err != nil || len(list) != 1 {
		d.t.Fatalf("stores: %v %v", list, err)
	}
	return list[0]
}

// holds reports whether any file below dirs has the text in it.
func holds(t testing.TB, secret string, dirs ...string) (where []string) {
	t.Helper()
	for _, dir := range dirs {
		filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(secret)) {
					where = append(where, p)
				}
			}
			return nil
		})
	}
	return where
}

// TestKeeping shows how what is kept for undo ends, and how it is got at.
func TestKeeping(t *testing.T) {
	t.Parallel()
	d := start(t)
	at := func(name string) string { return filepath.Join(d.Root, name) }
	edit := func(t *testing.T, path, from, to string) M {
		t.Helper()
		return must(t, d.call("edit_file", M{"path": path, "old_string": from, "new_string": to}), "done")
	}
	yes := func(r M) M { t.Helper(); return must(t, d.approve(must(t, r, "review")), "done") }

	t.Run("an agent cannot end what is kept", func(t *testing.T) {
		for _, c := range []struct {
			path string
			body M
		}{{"/v1/gc", M{"now": "op_x"}}, {"/v1/forget", M{"what": "a.txt"}}, {"/v1/verify", M{"repair": true}}} {
			if status, r := d.http("POST", c.path, d.Agent, c.body); status != 403 {
				t.Errorf("%s: got %d %v", c.path, status, r)
			}
		}
	})

	t.Run("a delete says on its card and in its reply that it frees nothing until it expires", func(t *testing.T) {
		write(t, at("del.txt"), "gone\n")
		held := must(t, d.call("delete_file", M{"path": "del.txt"}), "review")
		_, row := d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.reviewer(), nil)
		if s := text(row, "card", "undo"); !strings.Contains(s, "30 days") || !strings.Contains(s, "frees no space") {
			t.Errorf("the card says %q", s)
		}
		if r := must(t, d.approve(held), "done"); r["result"].(M)["freed_bytes"] != 0.0 || text(r, "result", "undo_until") == "" {
			t.Errorf("the reply says %v", r["result"])
		}
	})

	t.Run("gc --now ends one credential and no other", func(t *testing.T) {
		write(t, at("gc.txt"), "one\n")
		first, second := edit(t, "gc.txt", "one", "two"), edit(t, "gc.txt", "two", "three")
		exit, out, errs := d.cli("gc", "--now", text(first, "operation_id"), "--dry-run")
		if exit != 0 || !strings.Contains(out, "Would drop what 1 operation kept") {
			t.Fatalf("exit %d: %s%s", exit, out, errs)
		}
		if exit, out, errs = d.cli("gc", "--now", text(first, "operation_id")); exit != 0 || !strings.Contains(out, "Dropped what 1 operation kept, 4 bytes") {
			t.Fatalf("exit %d: %s%s", exit, out, errs)
		}
		must(t, d.undo(second), "done")
		if r := d.undo(first); code(r) != "undo_expired" {
			t.Errorf("the ended one: got %v", r["error"])
		}
		if got := read(t, at("gc.txt")); got != "two\n" {
			t.Errorf("got %q", got)
		}
	})

	t.Run("forget takes a secret out of store and journal, with every undo and redo that has it", func(t *testing.T) {
		const secret = "correct-horse-battery-staple-7731"
		write(t, at("leak.txt"), "token "+secret+"\n")
		e := edit(t, "leak.txt", secret, "removed")
		u := must(t, d.undo(e), "done")
		must(t, d.undo(u), "done")
		if len(holds(t, secret, d.State)) == 0 {
			t.Fatal("nothing to forget: the test shows nothing")
		}
		if exit, out, errs := d.cli("forget", "leak.txt"); exit != 0 || !strings.Contains(out, "Forgot what 3 operations kept") {
			t.Fatalf("exit %d: %s%s", exit, out, errs)
		}
		if found := holds(t, secret, d.State); len(found) > 0 {
			t.Errorf("still in %v", found)
		}
		if got := read(t, at("leak.txt")); got != "token removed\n" {
			t.Errorf("the workspace changed: %q", got)
		}
		if exit, out, errs := d.cli("verify"); exit != 0 {
			t.Errorf("verify after forget: exit %d %s%s", exit, out, errs)
		}
		_, log := d.http("GET", "/v1/audit?n=200", d.reviewer(), nil)
		if b, _ := json.Marshal(log); !bytes.Contains(b, []byte(`"forget"`)) {
			t.Error("the audit log does not say so")
		}
	})

	t.Run("export writes plain files and a patch", func(t *testing.T) {
		write(t, at("ex/a.txt"), "old\n")
		write(t, at("ex/sub/b.sh"), "b\n")
		os.Chmod(at("ex/sub/b.sh"), 0o755)
		os.Symlink("a.txt", at("ex/l"))
		e := edit(t, "ex/a.txt", "old", "new")
		del := yes(d.call("delete_file", M{"path": "ex", "recursive": true}))
		to := filepath.Join(t.TempDir(), "out")
		exit, out, errs := d.cli("export", "--since", "1h", "--path", "ex", to)
		if exit != 0 {
			t.Fatalf("exit %d: %s%s", exit, out, errs)
		}
		one, two := filepath.Join(to, text(e, "operation_id")), filepath.Join(to, text(del, "operation_id"))
		if read(t, filepath.Join(one, "before/ex/a.txt")) != "old\n" || !strings.Contains(read(t, filepath.Join(one, "change.patch")), "+new") {
			t.Error("the edit")
		}
		if read(t, filepath.Join(two, "before/ex/a.txt")) != "new\n" || read(t, filepath.Join(two, "before/ex/l.link")) != "a.txt\n" || stat(t, filepath.Join(two, "before/ex/sub/b.sh")).Mode()&0o100 == 0 {
			t.Error("the deleted directory")
		}
		if exit, _, errs := d.cli("export", text(e, "operation_id"), to); exit != 6 {
			t.Errorf("over what is there: exit %d %s", exit, errs)
		}
	})

	t.Run("the script of the documents recovers every kept version without the daemon", func(t *testing.T) {
		write(t, at("rec/with space.txt"), "v1\n")
		e := edit(t, "rec/with space.txt", "v1", "v2")
		b := must(t, d.call("backup_file", M{"path": "rec/with space.txt"}), "done")
		write(t, at("rec/dir/deep.txt"), "deep\n")
		del := yes(d.call("delete_file", M{"path": "rec/dir", "recursive": true}))
		_, page := d.http("GET", "/v1/operations?state=committed&limit=1000", d.reviewer(), nil)
		store := d.store()
		d.stop(syscall.SIGTERM)
		defer d.run()
		doc := read(t, "../../docs/recovery.md")
		_, rest, _ := strings.Cut(doc, "```sh file recover\n")
		script, _, ok := strings.Cut(rest, "```")
		if !ok {
			t.Fatal("the document has no script")
		}
		out := t.TempDir()
		run := exec.Command("sh", "-c", script, "recover", d.State, store, out)
		if msg, err := run.CombinedOutput(); err != nil || len(msg) > 0 {
			t.Fatalf("%v: %s", err, msg)
		}
		for path, want := range map[string]string{
			text(e, "operation_id") + "/rec/with space.txt": "v1\n",
			text(b, "operation_id") + "/rec/with space.txt": "v2\n",
			text(del, "operation_id") + "/rec/dir/deep.txt": "deep\n",
		} {
			if got := read(t, filepath.Join(out, path)); got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
		want := 0
		for _, o := range page["operations"].([]any) {
			if name := text(o.(M), "op"); text(o.(M), "undo") == "available" && name != "write_file" {
				want++
			}
		}
		if got, _ := os.ReadDir(out); len(got) < want {
			t.Errorf("%d operations recovered, want %d", len(got), want)
		}
	})

	t.Run("C99 (part) verify names a pre-image that was touched, and an undo refuses it", func(t *testing.T) {
		if exit, out, errs := d.cli("verify"); exit != 0 || !strings.Contains(out, "0 faults") {
			t.Fatalf("before: exit %d %s%s", exit, out, errs)
		}
		write(t, at("v.txt"), "one\n")
		e := edit(t, "v.txt", "one", "two")
		id := text(e, "result", "backup_id")
		slot := filepath.Join(d.store(), strings.TrimPrefix(id, "bk_"))
		write(t, slot, "evil\n")
		exit, out, _ := d.cli("verify")
		if exit != 1 || !strings.Contains(out, "damaged_pre_image") || !strings.Contains(out, "v.txt") {
			t.Errorf("exit %d %s", exit, out)
		}
		if r := d.undo(e); code(r) != "undo_conflict" {
			t.Errorf("the undo: got %v", r["error"])
		}
		os.Remove(slot)
		if exit, out, _ = d.cli("verify", "--json"); exit != 1 || !strings.Contains(out, "missing_pre_image") {
			t.Errorf("exit %d %s", exit, out)
		}
		if exit, out, _ = d.cli("repair"); exit != 1 || !strings.Contains(out, "missing_pre_image") {
			t.Errorf("repair: exit %d %s", exit, out)
		}
		if got := read(t, at("v.txt")); got != "two\n" {
			t.Errorf("got %q", got)
		}
	})
}

// TestStoreFull gives the store almost no room.
func TestStoreFull(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	conf := filepath.Join(filepath.Dir(root), "holdpoint.toml")
	write(t, conf, "store_max = \"64KiB\"\nkeep = \"30d\"\n")
	d := startOn(t, root, state, nil, "--config", conf)
	at := func(name string) string { return filepath.Join(d.Root, name) }
	t.Run("D59 (part) the store grows by what is touched, and at its limit a change is refused before it touches anything", func(t *testing.T) {
		huge, err := os.Create(at("huge"))
		if err != nil {
			t.Fatal(err)
		}
		huge.Truncate(24 << 20)
		huge.Close()
		write(t, at("small.txt"), strings.Repeat("x", 1000)+"\n0\n")
		for i := range 20 {
			must(t, d.call("edit_file", M{"path": "small.txt", "old_string": "\n" + string(rune('0'+i)) + "\n", "new_string": "\n" + string(rune('1'+i)) + "\n"}), "done")
		}
		sum := int64(0)
		for _, dir := range []string{d.store()} {
			filepath.Walk(dir, func(_ string, info os.FileInfo, _ error) error {
				if info != nil && info.Mode().IsRegular() {
					sum += info.Size()
				}
				return nil
			})
		}
		if sum > 30_000 {
			t.Errorf("20 edits of 1,003 bytes keep %d bytes", sum)
		}
		write(t, at("big.txt"), strings.Repeat("y", 60_000)+"\nend\n")
		before := digest(t, d.Root)
		r := d.call("edit_file", M{"path": "big.txt", "old_string": "end", "new_string": "END"})
		if code(r) != "store_full" || r["undo_credential"] != nil {
			t.Fatalf("got %v %v", r["status"], r["error"])
		}
		del := d.approve(must(t, d.call("delete_file", M{"path": "huge"}), "review"))
		if code(del) != "store_full" {
			t.Fatalf("a delete that does not fit: got %v %v", del["status"], del["error"])
		}
		if digest(t, d.Root) != before {
			t.Fatal("a refused change touched something")
		}
		// A person makes room, and the edit goes through.
		_, page := d.http("GET", "/v1/operations?limit=100", d.Agent, nil)
		for i, o := range page["operations"].([]any) {
			if i > 0 {
				if exit, _, errs := d.cli("gc", "--now", text(o.(M), "id")); exit != 0 {
					t.Fatal(errs)
				}
			}
		}
		must(t, d.call("edit_file", M{"path": "big.txt", "old_string": "end", "new_string": "END"}), "done")
	})
}

// TestNetPatch asks for the patch of what an agent did, and lets git apply it.
func TestNetPatch(t *testing.T) {
	t.Parallel()
	d := start(t)
	at := func(name string) string { return filepath.Join(d.Root, name) }
	yes := func(r M) M { t.Helper(); return must(t, d.approve(must(t, r, "review")), "done") }
	write(t, at("a.txt"), "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n")
	write(t, at("gone.txt"), "no newline at the end")
	write(t, at("dir/x.txt"), "x\n")
	write(t, at("dir/caf\u00e9 \"q\".txt"), "q\n")
	write(t, at("bin"), "\x00\x01\xff")
	write(t, at("run.sh"), "#!/bin/sh\n")
	os.Chmod(at("run.sh"), 0o755)
	os.Symlink("a.txt", at("dir/l"))
	label := func(op string, args M) M {
		t.Helper()
		_, r := d.http("POST", "/v1/call", d.Agent, M{"op": op, "args": args, "session": "net"})
		if text(r, "status") == "review" {
			return yes(r)
		}
		return must(t, r, "done")
	}
	var list []M
	do := func(op string, args M) { t.Helper(); list = append(list, label(op, args)) }
	do("edit_file", M{"path": "a.txt", "old_string": "two", "new_string": "TWO"})
	do("edit_file", M{"path": "a.txt", "old_string": "TWO", "new_string": "2"})
	do("write_file", M{"path": "new/f.txt", "content": "f\n"})
	do("write_file", M{"path": "empty", "content": ""})
	do("delete_file", M{"path": "gone.txt"})
	do("move_file", M{"source": "dir", "destination": "moved"})
	do("edit_file", M{"path": "moved/x.txt", "old_string": "x", "new_string": "y"})
	do("copy_file", M{"source": "bin", "destination": "bin2"})
	do("write_file", M{"path": "bin", "content_base64": "AAEC/w=="})
	do("edit_file", M{"path": "run.sh", "old_string": "sh", "new_string": "bash"})
	do("write_file", M{"path": "brief.txt", "content": "came and went\n"})
	do("delete_file", M{"path": "brief.txt"})
	write(t, at("a.txt"), strings.Replace(read(t, at("a.txt")), "nine", "person", 1))
	write(t, at("untouched.txt"), "person\n")

	exit, patch, errs := d.cli("diff", "--session", "net")
	if exit != 0 || errs != "" {
		t.Fatalf("exit %d %s", exit, errs)
	}
	git := func(dir, in string, args ...string) {
		t.Helper()
		c := exec.Command("git", args...)
		c.Dir, c.Stdin = dir, strings.NewReader(in)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s\n%s", args, err, out, in)
		}
	}
	mirror := func() string {
		t.Helper()
		to := filepath.Join(t.TempDir(), "m")
		if out, err := exec.Command("cp", "-a", d.Root, to).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		git(to, "", "init", "-q")
		return to
	}
	now := mirror()
	git(now, patch, "apply", "-R", "-")
	must(t, d.undoAll(M{"operations": ids(list...), "merge": true}), "done")
	undone := mirror()
	same := func(a, b string) {
		t.Helper()
		for _, dir := range []string{a, b} {
			os.RemoveAll(filepath.Join(dir, ".git"))
			// git knows no empty directories
			exec.Command("find", dir, "-mindepth", "1", "-type", "d", "-empty", "-delete").Run()
		}
		if out, err := exec.Command("diff", "-r", "--no-dereference", a, b).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	same(now, undone)
	fresh := mirror()
	git(fresh, patch, "apply", "-")
	if got := read(t, filepath.Join(fresh, "a.txt")); !strings.Contains(got, "2\n") || !strings.Contains(got, "person\n") {
		t.Errorf("applied: %q", got)
	}
	if strings.Contains(patch, "person") && strings.Contains(patch, "-nine") {
		t.Errorf("what a person did is in the patch:\n%s", patch)
	}
}
