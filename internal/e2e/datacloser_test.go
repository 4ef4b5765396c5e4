package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDataCloser holds the cases of data once more, by what a reader of each sentence would
// try besides the one example that stands in it.
func TestDataCloser(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	at := func(p string) string { return filepath.Join(d.Root, p) }

	t.Run("D4 (part) a patch made from a view, which shows no byte-order mark, goes through beside it", func(t *testing.T) {
		const head = "--- a/bom.txt\n+++ b/bom.txt\n"
		for name, c := range map[string]struct{ patch, is string }{
			"the first line":     {head + "@@ -1,2 +1,2 @@\n-hello\n+hi\n x\n", "\ufeffhi\nx\n"},
			"before it":          {head + "@@ -1,2 +1,3 @@\n+top\n hello\n x\n", "\ufefftop\nhello\nx\n"},
			"an envelope":        {"*** Begin Patch\n*** Update File: bom.txt\n@@\n-hello\n+hi\n x\n*** End Patch\n", "\ufeffhi\nx\n"},
			"the mark spelt out": {head + "@@ -1,2 +1,2 @@\n-\ufeffhello\n+\ufeffhi\n x\n", "\ufeffhi\nx\n"},
			"the mark taken off": {head + "@@ -1,2 +1,2 @@\n-\ufeffhello\n+hello\n x\n", "hello\nx\n"},
		} {
			write(t, at("bom.txt"), "\ufeffhello\nx\n")
			before := digest(t, d.Root)
			r := must(t, d.yes("patch_file", M{"patch": c.patch}), "done")
			if got := read(t, at("bom.txt")); got != c.is {
				t.Errorf("%s: got %q, want %q", name, got, c.is)
			}
			must(t, d.undo(r), "done")
			if digest(t, d.Root) != before {
				t.Errorf("%s: the undo left another tree", name)
			}
		}
		r := must(t, d.yes("patch_file", M{"patch": head + "@@ -1,2 +0,0 @@\n-hello\n-x\n"}), "done")
		if got := read(t, at("bom.txt")); got != "\ufeff" {
			t.Errorf("all lines taken: %q", got)
		}
		must(t, d.undo(r), "done")
		must(t, d.yes("patch_file", M{"patch": "--- a/bom.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-hello\n-x\n"}), "done")
		if _, err := os.Lstat(at("bom.txt")); !os.IsNotExist(err) {
			t.Errorf("deleted: %v", err)
		}
	})

	t.Run("D8 (part) the answer of a call that waits carries the warnings that its card has, of aliases too", func(t *testing.T) {
		write(t, at("gbk.txt"), "\xd6\xd0\xce\xc4\n")
		held := must(t, d.call("write_file", M{"file_path": "gbk.txt", "content": "中文!\n"}), "review")
		if got := warned(held["warnings"]); !reflect.DeepEqual(got, []string{"alias", "encoding_change"}) {
			t.Errorf("reply: %v", held["warnings"])
		}
		if !reflect.DeepEqual(held["warnings"], d.card(held)["warnings"]) {
			t.Errorf("card: %v", d.card(held)["warnings"])
		}
		d.cancel(held)
	})

	t.Run("D10 (part) letters of two scripts that look alike are told apart by their numbers", func(t *testing.T) {
		write(t, at("alike.txt"), "x\np\u0430ypal\ny\n")
		for _, old := range []string{"paypal", "x\npaypal\ny"} {
			r := d.call("edit_file", M{"path": "alike.txt", "old_string": old, "new_string": "z"})
			if hint := text(r, "error", "hint"); code(r) != "no_match" || !strings.Contains(hint, "file U+0430, pattern U+0061") {
				t.Errorf("%q: %v", old, r["error"])
			}
		}
	})

	t.Run("D43 (part) a line that only says that files differ is no text to pass over, whoever wrote it", func(t *testing.T) {
		write(t, at("k.txt"), "x\n")
		before := digest(t, d.Root)
		for _, says := range []string{"Binary files a/b and b/b differ", "Files a/b and b/b differ", "Binary file b has changed", "Cannot display: file marked as a binary type."} {
			const hunk = "--- a/k.txt\n+++ b/k.txt\n@@ -1 +1 @@\n-x\n+y\n"
			for _, p := range []string{says + "\n" + hunk, hunk + says + "\n"} {
				if r := d.call("patch_file", M{"patch": p}); code(r) != "binary_no_data" || r["undo_credential"] != nil {
					t.Errorf("%q: %v %v", p, r["status"], r["error"])
				}
			}
		}
		if digest(t, d.Root) != before {
			t.Error("something was changed")
		}
	})

	t.Run("D47 (part) a stale write names both hashes", func(t *testing.T) {
		write(t, at("n.md"), "seed\nB\n")
		r := d.call("write_file", M{"path": "n.md", "content": "seed\nA\n", "expected_hash": hashOf("seed\n")})
		if code(r) != "stale_precondition" || text(r, "error", "expected_hash") != hashOf("seed\n") || text(r, "error", "current_hash") != hashOf("seed\nB\n") {
			t.Errorf("got %v", r["error"])
		}
	})

	t.Run("D53 (part) the receipts of an empty file say its size", func(t *testing.T) {
		made := must(t, d.call("write_file", M{"path": "empty", "content": ""}), "done")
		filled := must(t, d.yes("write_file", M{"path": "empty", "content": "x"}), "done")
		for name, s := range map[string]any{"made": objects(made["effects"])[0]["after"], "filled": objects(filled["effects"])[0]["before"],
			"credential": objects(object(filled["undo_credential"])["effects"])[0]["before"]} {
			if size, said := object(s)["size"]; !said || number(size) != 0 {
				t.Errorf("%s: %v", name, s)
			}
		}
		must(t, d.undo(filled), "done")
		must(t, d.undo(made), "done")
	})

	t.Run("D69 (part) no spelling makes a folder called ~, but its raw form does, and that comes back", func(t *testing.T) {
		before := digest(t, d.Root)
		for _, p := range []string{"~", "~/x.txt", "./~/x.txt", "a/../~/x.txt", d.Root + "/~/x.txt"} {
			if r := d.call("write_file", M{"path": p, "content": "x"}); code(r) != "invalid_path" {
				t.Errorf("%s: %v %v", p, r["status"], r["error"])
			}
		}
		for _, name := range []string{"b/~/q", "b/./~/q"} {
			if r := d.call("patch_file", M{"patch": "--- /dev/null\n+++ " + name + "\n@@ -0,0 +1 @@\n+x\n"}); code(r) != "invalid_path" {
				t.Errorf("patch of %s: %v %v", name, r["status"], r["error"])
			}
		}
		if digest(t, d.Root) != before {
			t.Fatal("something was changed")
		}
		r := must(t, d.call("write_file", M{"path": "raw:%%7E/x.txt", "content": "x"}), "done")
		if read(t, at("~/x.txt")) != "x" || text(objects(r["effects"])[0], "path") != "raw:%%7E" {
			t.Errorf("got %v", r["effects"])
		}
		must(t, d.undo(r), "done")
		if digest(t, d.Root) != before {
			t.Fatal("the undo left another tree")
		}
	})

	t.Run("D81 (part) what stands below a folder called ~ is listed by a name that addresses it", func(t *testing.T) {
		write(t, at("~/f.txt"), "needle\n")
		defer os.RemoveAll(at("~"))
		list := object(must(t, d.call("list_directory", M{"depth": 2, "pattern": "f.txt"}), "done")["result"])
		tree := object(must(t, d.call("file_tree", M{"include": []string{"f.txt"}}), "done")["result"])
		found := object(must(t, d.call("search_files", M{"pattern": "needle"}), "done")["result"])
		for how, l := range map[string]any{"list": list["entries"], "tree": tree["entries"], "search": found["matches"]} {
			last := M{}
			for _, e := range objects(l) {
				if strings.HasSuffix(text(e, "path"), "f.txt") {
					last = e
				}
			}
			v := d.call("view_file", M{"path": last["path"]})
			if v["status"] != "done" || text(v, "result", "content") != "needle\n" {
				t.Errorf("%s gives %v: %v", how, last["path"], v["error"])
				continue
			}
			r := must(t, d.call("edit_file", M{"path": last["path"], "old_string": "needle", "new_string": "pin"}), "done")
			must(t, d.undo(r), "done")
			r = must(t, d.yes("delete_file", M{"path": last["path"]}), "done")
			must(t, d.undo(r), "done")
		}
	})
}

// TestMetaSince gives a file another owner, group, access list or attribute after it was
// changed: that is somebody's later work as much as its bytes are.
func TestMetaSince(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	at := func(p string) string { return filepath.Join(d.Root, p) }
	acl := []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 0x92, 0x10, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255}
	ways := map[string]func(p string) error{
		"owner":     func(p string) error { return os.Chown(p, 1000, -1) },
		"group":     func(p string) error { return os.Chown(p, -1, 1000) },
		"attribute": func(p string) error { return unix.Setxattr(p, "user.later", []byte("z"), 0) },
		"other":     func(p string) error { return unix.Setxattr(p, "user.k", []byte("2"), 0) },
		"removed":   func(p string) error { return unix.Removexattr(p, "user.k") },
		"acl":       func(p string) error { return unix.Setxattr(p, "system.posix_acl_access", acl, 0) },
	}
	edited := func(t *testing.T, name string) M {
		t.Helper()
		write(t, at(name), "v1\n")
		os.Chmod(at(name), 0o644)
		if err := unix.Setxattr(at(name), "user.k", []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
		return must(t, d.call("edit_file", M{"path": name, "old_string": "v1", "new_string": "v2"}), "done")
	}
	t.Run("D30, D52 (part) an undo drops no owner, ACL or attribute that was set since: it is a conflict, and force keeps it under a credential", func(t *testing.T) {
		for how, change := range ways {
			r := edited(t, how)
			if err := change(at(how)); err != nil {
				t.Fatal(how, err)
			}
			since, kept, beside := stats(t, at(how), "ctime"), stats(t, at(how), "mtime"), xattrs(at(how))
			_, dry := d.http("POST", "/v1/undo", d.Agent, M{"credential": r["undo_credential"], "dry_run": true})
			if code(dry) != "undo_conflict" {
				t.Errorf("%s: a dry run says %v %v", how, dry["status"], dry["error"])
			}
			if u := d.undo(r); code(u) != "undo_conflict" || u["undo_credential"] != nil {
				t.Errorf("%s: %v %v", how, u["status"], u["error"])
			}
			if code, out, _ := d.cli("undo", "--path", how); code != 5 {
				t.Errorf("%s: undo --path exits %d: %s", how, code, out)
			}
			same(t, since, stats(t, at(how), "ctime"))
			_, forced := d.http("POST", "/v1/undo", d.reviewer(), M{"credential": r["undo_credential"], "force": true})
			if must(t, forced, "done"); read(t, at(how)) != "v1\n" {
				t.Errorf("%s: forced, and it holds %q", how, read(t, at(how)))
			}
			_, back := d.http("POST", "/v1/undo", d.reviewer(), M{"credential": forced["undo_credential"]})
			must(t, back, "done")
			if same(t, kept, stats(t, at(how), "mtime")); !reflect.DeepEqual(xattrs(at(how)), beside) {
				t.Errorf("%s: attributes %q, want %q", how, xattrs(at(how)), beside)
			}
		}
	})
	t.Run("D52 (part) with merge the text goes back and what was set since stays", func(t *testing.T) {
		edited(t, "merged")
		if err := ways["owner"](at("merged")); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := d.cli("undo", "--path", "merged", "--merge"); code != 0 {
			t.Fatalf("exit %d: %s %s", code, out, errs)
		}
		if st := stat(t, at("merged")).Sys().(*syscall.Stat_t); st.Uid != 1000 || read(t, at("merged")) != "v1\n" {
			t.Errorf("owner %d, %q", st.Uid, read(t, at("merged")))
		}
	})
	t.Run("D50 (part) and a touch is none: times decide nothing", func(t *testing.T) {
		r := edited(t, "touched")
		if err := os.Chtimes(at("touched"), time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		u := must(t, d.undo(r), "done")
		must(t, d.undo(u), "done") // and neither is an undo itself
	})
	t.Run("D61 (part) a created file that got another owner is not taken away", func(t *testing.T) {
		r := must(t, d.call("write_file", M{"path": "created", "content": "x"}), "done")
		if err := ways["owner"](at("created")); err != nil {
			t.Fatal(err)
		}
		if u := d.undo(r); code(u) != "undo_conflict" || read(t, at("created")) != "x" {
			t.Errorf("%v %v", u["status"], u["error"])
		}
	})
}

// TestHandedDown makes things in directories that hand something down, and compares with
// what the shell makes beside them.
func TestHandedDown(t *testing.T) {
	t.Parallel()
	facts := func(t *testing.T, p string) string {
		t.Helper()
		st := stat(t, p).Sys().(*syscall.Stat_t)
		b, err := json.Marshal([]any{st.Uid, st.Gid, st.Mode, xattrs(p)})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	makers := []struct {
		op   string
		args M
		file string // relative; its directory is new as well
	}{
		{"write_file", M{"path": "IN/a/b/f", "content": "x"}, "a/b/f"},
		{"patch_file", M{"patch": "--- /dev/null\n+++ b/IN/p/q/f\n@@ -0,0 +1 @@\n+x\n"}, "p/q/f"},
		{"copy_file", M{"source": "src", "destination": "IN/c/d/f"}, "c/d/f"},
		{"copy_file", M{"source": "tree", "destination": "IN/t/u", "recursive": true}, "t/u/f"},
		{"batch_file_ops", M{"operations": []M{{"op": "create_directory", "args": M{"path": "IN/B/C"}}, {"op": "write_file", "args": M{"path": "IN/B/C/f", "content": "1"}}}}, "B/C/f"},
		{"batch_file_ops", M{"operations": []M{{"op": "write_file", "args": M{"path": "IN/D/E/f", "content": "1"}}}}, "D/E/f"},
	}
	check := func(t *testing.T, d *daemon, dir string) {
		t.Helper()
		at := func(p string) string { return filepath.Join(d.Root, p) }
		write(t, at("src"), "s")
		write(t, at("tree/f"), "s")
		os.Chmod(at("src"), 0o666) // as a plain create asks for
		os.Chmod(at("tree/f"), 0o666)
		os.Chmod(at("tree"), 0o777)
		for _, m := range makers {
			text, err := json.Marshal(m.args)
			if err != nil {
				t.Fatal(err)
			}
			args := M{}
			if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("IN/"), []byte(dir+"/")), &args); err != nil {
				t.Fatal(err)
			}
			must(t, d.yes(m.op, args), "done")
			got := map[string]string{"file": facts(t, at(dir+"/"+m.file)), "directory": facts(t, at(dir+"/"+filepath.Dir(m.file))), "above": facts(t, at(dir+"/"+filepath.Dir(filepath.Dir(m.file))))}
			want := map[string]string{"file": facts(t, at(dir+"/pd/pe/f")), "directory": facts(t, at(dir+"/pd/pe")), "above": facts(t, at(dir+"/pd"))}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s of %s in %s:\ngot  %v\nwant %v", m.op, m.file, dir, got, want)
			}
		}
	}
	t.Run("D27 (part) group, access list and owner come down from the deepest directory that is there, however many are made below it", func(t *testing.T) {
		for _, mask := range []string{"022", "002", "077"} {
			d := under(t, "sh", "-c", "umask "+mask+`; exec "$@"`, "sh")
			setup := `set -e; umask ` + mask + `; mkdir sg da us
chgrp 1000 sg; chmod 2775 sg; setfacl -d -m u:1000:rwx,g:1003:rx da; mkdir -p sg/pd/pe da/pd/pe us/pd/pe; : >sg/pd/pe/f; : >da/pd/pe/f; : >us/pd/pe/f
chown -R 1000:1001 us`
			cmd := exec.Command("sh", "-c", setup)
			cmd.Dir = d.Root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			for _, dir := range []string{"sg", "da", "us"} {
				check(t, d, dir)
			}
		}
	})
}

// TestForetold asks for changes that the system would not permit: a preflight, a dry run and
// the call itself say the same, and no card is made of what cannot succeed.
func TestForetold(t *testing.T) {
	t.Parallel()
	foretell := func(t *testing.T, d *daemon, op string, args M, want string) {
		t.Helper()
		before := stats(t, d.Root, "ctime")
		if p := d.preflight(op, args); text(p, "error", "code") != want {
			t.Errorf("preflight of %s %v: %v", op, args, p["error"])
		}
		_, dry := d.http("POST", "/v1/call", d.Agent, M{"op": op, "args": args, "dry_run": true})
		if code(dry) != want {
			t.Errorf("dry run of %s %v: %v %v", op, args, dry["status"], dry["error"])
		}
		if r := d.call(op, args); code(r) != want || r["status"] != "failed" || r["undo_credential"] != nil {
			t.Errorf("%s %v: %v %v", op, args, r["status"], r["error"])
		}
		same(t, before, stats(t, d.Root, "ctime"))
	}
	in := func(dir string) map[string][]M {
		f := dir + "/f"
		return map[string][]M{
			"edit_file":        {{"path": f, "old_string": "one", "new_string": "two"}},
			"write_file":       {{"path": f, "content": "x"}, {"path": dir + "/n", "content": "x"}, {"path": dir + "/a/b/n", "content": "x"}},
			"delete_file":      {{"path": f}},
			"create_directory": {{"path": dir + "/x"}, {"path": dir + "/x/y"}},
			"move_file":        {{"source": f, "destination": "z"}, {"source": "free", "destination": dir + "/z"}},
			"copy_file":        {{"source": "free", "destination": dir + "/z"}},
			"batch_file_ops":   {{"operations": []M{{"op": "write_file", "args": M{"path": "made", "content": "x"}}, {"op": "delete_file", "args": M{"path": f}}}}},
		}
	}
	t.Run("D36 (part) a directory that cannot be changed is known beforehand, alone and in a batch", func(t *testing.T) {
		d := quick(t, "")
		write(t, filepath.Join(d.Root, "d/f"), "one\n")
		write(t, filepath.Join(d.Root, "free"), "one\n")
		chattr(t, "+i", filepath.Join(d.Root, "d"))
		defer chattr(t, "-i", filepath.Join(d.Root, "d"))
		for op, list := range in("d") {
			for _, args := range list {
				foretell(t, d, op, args, "permission_denied")
			}
		}
		if n := len(d.cards("pending")); n != 0 {
			t.Errorf("%d cards wait", n)
		}
	})
	t.Run("D31 (part) so is what a plain user may not do", func(t *testing.T) {
		const user = 65534
		root, state := dirs(t)
		os.Chmod(filepath.Dir(binary), 0o755)
		for p := filepath.Dir(root); p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
			os.Chmod(p, 0o755)
		}
		os.Mkdir(state, 0o700)
		for _, p := range []string{"ro/f", "theirs", "foreign", "sticky/f", "free", "tree/f"} {
			write(t, filepath.Join(root, p), "one\n")
		}
		own := func(p string, uid, gid int) {
			if err := os.Chown(p, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []string{"", "ro", "ro/f", "free", "foreign"} {
			own(filepath.Join(root, p), user, user)
		}
		own(state, user, user)
		own(filepath.Join(root, "theirs"), 1000, user)
		own(filepath.Join(root, "foreign"), user, 1005)
		own(filepath.Join(root, "sticky"), 1000, 1000)
		own(filepath.Join(root, "sticky/f"), 1000, user)
		own(filepath.Join(root, "tree"), 1000, user)
		os.Chmod(filepath.Join(root, "ro"), 0o555)
		os.Chmod(filepath.Join(root, "theirs"), 0o664)
		os.Chmod(filepath.Join(root, "foreign"), 0o664)
		os.Chmod(filepath.Join(root, "sticky"), 0o777|os.ModeSticky)
		os.Chmod(filepath.Join(root, "sticky/f"), 0o664)
		os.Chmod(filepath.Join(root, "tree"), 0o755)
		d := underOn(t, root, state, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/nonexistent")
		for op, list := range in("ro") {
			for _, args := range list {
				foretell(t, d, op, args, "permission_denied")
			}
		}
		for _, p := range []string{"theirs", "foreign"} {
			foretell(t, d, "edit_file", M{"path": p, "old_string": "one", "new_string": "two"}, "metadata_loss")
			foretell(t, d, "write_file", M{"path": p, "content": "x"}, "metadata_loss")
		}
		foretell(t, d, "delete_file", M{"path": "sticky/f"}, "permission_denied")
		foretell(t, d, "move_file", M{"source": "sticky/f", "destination": "z"}, "permission_denied")
		foretell(t, d, "delete_file", M{"path": "tree", "recursive": true}, "permission_denied")

		// What may be done is done: a foreign file in a directory of one's own goes and comes.
		before := digest(t, root)
		r := must(t, d.yes("delete_file", M{"path": "theirs"}), "done")
		must(t, d.undo(r), "done")
		must(t, d.undo(must(t, d.call("write_file", M{"path": "sticky/n", "content": "x"}), "done")), "done")
		must(t, d.undo(must(t, d.yes("move_file", M{"source": "theirs", "destination": "moved"}), "done")), "done")
		if digest(t, root) != before {
			t.Error("it did not come back as it was")
		}
	})
}
