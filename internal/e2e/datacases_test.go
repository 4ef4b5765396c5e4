package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// b64 is content for a call, and bytesOf the content of an answer.
func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func bytesOf(t testing.TB, result M) string {
	t.Helper()
	if s, ok := result["content"].(string); ok {
		return s
	}
	b, err := base64.StdEncoding.DecodeString(text(result, "content_base64"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// yes makes a call and, where it waits, answers it.
func (d *daemon) yes(op string, args M) M {
	d.t.Helper()
	r := d.call(op, args)
	if r["status"] == "review" {
		r = d.approve(r)
	}
	return r
}

// warned lists the codes of the warnings of an answer.
func warned(list any) (out []string) {
	for _, w := range objects(list) {
		out = append(out, text(w, "code"))
	}
	return out
}

// TestDataCases holds cases of data that concern several operations at once.
func TestDataCases(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	at := func(p string) string { return filepath.Join(d.Root, p) }

	t.Run("D7 a UTF-16 file is shown, found and edited as UTF-16", func(t *testing.T) {
		const was, is = "\xff\xfeh\x00i\x00\n\x00", "\xff\xfeh\x00o\x00\n\x00"
		write(t, at("wide/f.txt"), was)
		v := object(must(t, d.call("view_file", M{"path": "wide/f.txt"}), "done")["result"])
		if v["encoding"] != "utf-16le" || v["content"] != "hi\n" {
			t.Errorf("view: %v", v)
		}
		s := object(must(t, d.call("search_files", M{"path": "wide", "pattern": "hi"}), "done")["result"])
		if n := len(objects(s["matches"])); n != 1 {
			t.Errorf("search: %v", s)
		}
		before := digest(t, d.Root)
		r := must(t, d.call("edit_file", M{"path": "wide/f.txt", "old_string": "hi", "new_string": "ho"}), "done")
		if got := read(t, at("wide/f.txt")); got != is {
			t.Fatalf("got %q", got)
		}
		if text(r, "result", "hash") != hashOf(is) {
			t.Errorf("hash: %v", r["result"])
		}
		must(t, d.undo(r), "done")
		if digest(t, d.Root) != before {
			t.Fatal("the undo left another tree")
		}
	})

	t.Run("D8 a whole-file write that changes the encoding says so before and after, and comes back", func(t *testing.T) {
		const gbk, utf8 = "\xd6\xd0\xce\xc4\n", "\xe4\xb8\xad\xe6\x96\x87!\n"
		write(t, at("gbk.txt"), gbk)
		args := M{"path": "gbk.txt", "content": utf8}
		before := digest(t, d.Root)
		look := d.preflight("write_file", args)
		if !strings.Contains(fmt.Sprint(look), "encoding_change") {
			t.Errorf("preflight: %v", look)
		}
		held := must(t, d.call("write_file", args), "review")
		if !reflect.DeepEqual(warned(d.card(held)["warnings"]), []string{"encoding_change"}) {
			t.Errorf("card: %v", d.card(held)["warnings"])
		}
		r := must(t, d.approve(held), "done")
		if got := read(t, at("gbk.txt")); got != utf8 {
			t.Fatalf("got %q", got)
		}
		if !reflect.DeepEqual(warned(r["warnings"]), []string{"encoding_change"}) {
			t.Errorf("reply: %v", r["warnings"])
		}
		must(t, d.undo(r), "done")
		if read(t, at("gbk.txt")) != gbk || digest(t, d.Root) != before {
			t.Fatalf("after the undo: %q", read(t, at("gbk.txt")))
		}
	})

	t.Run("D11 a backslash and an n stay two bytes in a write, an edit and a patch", func(t *testing.T) {
		const line = "print('a\\nb')\n"
		if len(line) != 14 {
			t.Fatalf("%d bytes", len(line))
		}
		must(t, d.call("write_file", M{"path": "esc.py", "content": line}), "done")
		if got := read(t, at("esc.py")); got != line {
			t.Fatalf("write: %q", got)
		}
		must(t, d.call("edit_file", M{"path": "esc.py", "old_string": "a\\nb", "new_string": "c\\td\\\\n"}), "done")
		if got := read(t, at("esc.py")); got != "print('c\\td\\\\n')\n" {
			t.Fatalf("edit: %q", got)
		}
		must(t, d.yes("patch_file", M{"patch": "--- a/esc.py\n+++ b/esc.py\n@@ -1 +1,2 @@\n print('c\\td\\\\n')\n+" + line}), "done")
		if got := read(t, at("esc.py")); got != "print('c\\td\\\\n')\n"+line {
			t.Fatalf("patch: %q", got)
		}
	})

	t.Run("D25 edit, patch, write and rollback each keep the mode, special bits as well", func(t *testing.T) {
		for _, mode := range []uint32{0o755, 0o4755, 0o2755} {
			write(t, at("mode.sh"), "#!/bin/sh\necho 1\n")
			if err := syscall.Chmod(at("mode.sh"), mode); err != nil {
				t.Fatal(err)
			}
			check := func(after string) {
				t.Helper()
				if got := stat(t, at("mode.sh")).Sys().(*syscall.Stat_t).Mode & 0o7777; got != mode {
					t.Fatalf("after %s: %o, want %o", after, got, mode)
				}
			}
			b := must(t, d.call("backup_file", M{"path": "mode.sh"}), "done")
			for _, step := range []struct {
				op   string
				args M
			}{
				{"edit_file", M{"path": "mode.sh", "old_string": "1", "new_string": "2"}},
				{"patch_file", M{"patch": "--- a/mode.sh\n+++ b/mode.sh\n@@ -2 +2 @@\n-echo 2\n+echo 3\n"}},
				{"write_file", M{"path": "mode.sh", "content": "#!/bin/sh\n"}},
				{"rollback_file", M{"path": "mode.sh", "backup_id": text(b, "result", "backup_id")}},
			} {
				r := must(t, d.yes(step.op, step.args), "done")
				check(step.op)
				if step.op == "rollback_file" {
					must(t, d.undo(r), "done")
					check("the undo of the rollback")
				}
			}
		}
	})

	t.Run("D28 a write through a link keeps the link, info tells of it, a rollback is the file's and a delete the link's", func(t *testing.T) {
		write(t, at("ln/real.txt"), "old\n")
		if err := os.Symlink("real.txt", at("ln/l")); err != nil {
			t.Fatal(err)
		}
		link := stat(t, at("ln/l")).Sys().(*syscall.Stat_t)
		isLink := func() {
			t.Helper()
			if to, err := os.Readlink(at("ln/l")); err != nil || to != "real.txt" {
				t.Fatalf("the link: %q %v", to, err)
			}
			if now := stat(t, at("ln/l")).Sys().(*syscall.Stat_t); now.Ino != link.Ino || now.Mtim != link.Mtim {
				t.Error("the link is another one")
			}
		}
		r := must(t, d.yes("write_file", M{"path": "ln/l", "content": "new\n"}), "done")
		if isLink(); read(t, at("ln/real.txt")) != "new\n" {
			t.Fatalf("got %q", read(t, at("ln/real.txt")))
		}
		info := object(must(t, d.call("file_info", M{"path": "ln/l"}), "done")["result"])
		if info["type"] != "symlink" || info["target"] != "real.txt" {
			t.Errorf("info: %v", info)
		}
		must(t, d.undo(r), "done")
		if isLink(); read(t, at("ln/real.txt")) != "old\n" {
			t.Fatalf("after the undo: %q", read(t, at("ln/real.txt")))
		}
		real := stats(t, at("ln/real.txt"), "ctime")
		del := must(t, d.yes("delete_file", M{"path": "ln/l"}), "done")
		if _, err := os.Lstat(at("ln/l")); !os.IsNotExist(err) {
			t.Fatal("the link is still there")
		}
		same(t, real, stats(t, at("ln/real.txt"), "ctime"))
		must(t, d.undo(del), "done")
		isLink()
		same(t, real, stats(t, at("ln/real.txt"), "ctime"))
	})

	t.Run("D32 names of 243 and 255 bytes are written, edited, backed up, deleted and rolled back, and nothing kept has a longer name", func(t *testing.T) {
		for _, n := range []int{243, 255} {
			name := "long/" + strings.Repeat("n", n)
			made := must(t, d.call("write_file", M{"path": name, "content": "one\n"}), "done")
			must(t, d.call("edit_file", M{"path": name, "old_string": "one", "new_string": "two"}), "done")
			b := must(t, d.call("backup_file", M{"path": name}), "done")
			must(t, d.call("edit_file", M{"path": name, "old_string": "two", "new_string": "three"}), "done")
			del := must(t, d.yes("delete_file", M{"path": name}), "done")
			must(t, d.undo(del), "done")
			back := must(t, d.yes("rollback_file", M{"path": name, "backup_id": text(b, "result", "backup_id")}), "done")
			if got := read(t, at(name)); got != "two\n" {
				t.Fatalf("%d: %q", n, got)
			}
			must(t, d.undo(back), "done")
			if got := read(t, at(name)); got != "three\n" {
				t.Fatalf("%d: %q", n, got)
			}
			if made["undo_credential"] == nil {
				t.Error("no credential")
			}
		}
		for _, name := range names(t, d.store()) {
			if len(name) > 80 {
				t.Errorf("a name in the store grew with the file's: %d bytes", len(name))
			}
		}
	})

	t.Run("D72 a link to its own directory is listed once, searched never twice, and copied as a link", func(t *testing.T) {
		write(t, at("ring/f"), "needle\n")
		if err := os.Symlink(".", at("ring/loop")); err != nil {
			t.Fatal(err)
		}
		for _, o := range []string{"file_tree", "list_directory"} {
			links, files := 0, 0
			var count func(v any)
			count = func(v any) {
				switch v := v.(type) {
				case []any:
					for _, x := range v {
						count(x)
					}
				case M:
					p := text(v, "path")
					if p == "" {
						p = text(v, "name")
					}
					if strings.HasSuffix(p, "loop") && v["type"] == "symlink" {
						links++
					}
					if (p == "f" || strings.HasSuffix(p, "/f")) && v["type"] == "file" {
						files++
					}
					for _, x := range v {
						count(x)
					}
				}
			}
			r := must(t, d.call(o, M{"path": "ring", "depth": 5}), "done")["result"]
			if count(r); links != 1 || files != 1 {
				t.Errorf("%s: the link %d times, the file %d times: %v", o, links, files, r)
			}
		}
		s := object(must(t, d.call("search_files", M{"path": "ring", "pattern": "needle"}), "done")["result"])
		if m := objects(s["matches"]); len(m) != 1 || text(m[0], "path") != "ring/f" {
			t.Errorf("search: %v", s["matches"])
		}
		must(t, d.yes("copy_file", M{"source": "ring", "destination": "ring2", "recursive": true}), "done")
		if to, err := os.Readlink(at("ring2/loop")); err != nil || to != "." || digest(t, at("ring")) != digest(t, at("ring2")) {
			t.Errorf("the copy: %q %v", to, err)
		}
	})

	t.Run("D68 a rename by case only is a rename, never over a file that has the other spelling", func(t *testing.T) {
		// The case lets a mount that folds case be left out where there is none; TestFolds has it.
		if err := syscall.Mount("none", t.TempDir(), "tmpfs", 0, "size=4m,casefold"); err != nil {
			t.Logf("not tried on a mount that folds case: tmpfs says %v", err)
		} else {
			t.Error("this kernel folds case: run with -tags casefold, and have TestFolds among the tests of every day")
		}
		write(t, at("case/A.txt"), "a\n")
		r := must(t, d.yes("move_file", M{"source": "case/A.txt", "destination": "case/a.txt"}), "done")
		if got := names(t, at("case")); !reflect.DeepEqual(got, []string{"a.txt"}) || read(t, at("case/a.txt")) != "a\n" {
			t.Fatalf("got %v", got)
		}
		must(t, d.undo(r), "done")
		if got := names(t, at("case")); !reflect.DeepEqual(got, []string{"A.txt"}) {
			t.Fatalf("after the undo: %v", got)
		}
		write(t, at("case/a.txt"), "other\n")
		before := digest(t, d.Root)
		if r := d.call("move_file", M{"source": "case/A.txt", "destination": "case/a.txt"}); code(r) != "exists" || digest(t, d.Root) != before {
			t.Errorf("both there: %v", r["error"])
		}
	})
}
