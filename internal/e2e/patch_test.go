package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// patched sends a patch, releases it if it waits, and gives the reply.
func (d *daemon) patched(patch string) M {
	d.t.Helper()
	r := d.call("patch_file", M{"patch_base64": base64.StdEncoding.EncodeToString([]byte(patch))})
	if r["status"] == "review" {
		r = d.approve(r)
	}
	return r
}

// patchCase is one patch on a small tree: what it makes of it, or the code of its refusal.
type patchCase struct {
	id, what string
	before   map[string]string
	patch    string
	after    map[string]string
	code     string
	says     string // in the error
}

func one(content string) map[string]string { return map[string]string{"f": content} }

func hunked(hunks string) string { return "--- a/f\n+++ b/f\n" + hunks }

func (c patchCase) run(t *testing.T, d *daemon) {
	t.Helper()
	d.t = t
	before := d.fresh(c.before)
	r := d.patched(c.patch)
	if c.code != "" {
		if code(r) != c.code || !strings.Contains(fmt.Sprint(r["error"]), c.says) || r["effects_executed"] == true {
			t.Errorf("%s: got %v %v, want %s with %q", c.what, r["status"], r["error"], c.code, c.says)
		}
		if digest(t, d.Root) != before {
			t.Errorf("%s: something changed", c.what)
		}
		return
	}
	if text(r, "status") != "done" {
		t.Fatalf("%s: %v", c.what, r["error"])
	}
	d.is(c.after)
	must(t, d.undo(r), "done")
	if digest(t, d.Root) != before {
		t.Errorf("%s: the undo does not bring the start back", c.what)
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	d := start(t)
	for _, group := range patchCases() {
		t.Run(group[0].id, func(t *testing.T) {
			for _, c := range group {
				c.run(t, d)
			}
		})
	}
	t.Run("D43 binary parts", func(t *testing.T) {
		old, new := "f971a5e28b6c4cb237ca3c7349e33bb600dbc907", "f4848a14d18cecec93384f3e9e457a595f803220"
		literal := "diff --git a/bin b/bin\nindex " + old + ".." + new + " 100644\nGIT binary patch\nliteral 4\nLcmZQzWd08T0So~I\n\nliteral 4\nLcmZQzWd08T0So~I\n\n"
		hunk := "diff --git a/k b/k\n--- a/k\n+++ b/k\n@@ -1 +1 @@\n-k\n+K\n"
		for _, c := range []patchCase{
			{what: "(a) no data", before: map[string]string{"bin": "\x00a", "k": "k\n"}, patch: "diff --git a/bin b/bin\nindex 1..2 100644\nBinary files a/bin and b/bin differ\n" + hunk, code: "binary_no_data"},
			{what: "(b) a literal", before: map[string]string{"bin": "\x00\x01\x02\xff"}, patch: literal, after: map[string]string{"bin": "\x00\x01\x03\xff"}},
			{what: "(c) of another blob", before: map[string]string{"bin": "\x00\x09\x02\xff"}, patch: literal, code: "patch_mismatch"},
			{what: "truncated data", before: map[string]string{"bin": "\x00\x01\x02\xff"}, patch: strings.Replace(literal, "LcmZQzWd08T0So~I", "LcmZQzWd08T0", 1), code: "patch_parse"},
			{what: "short ids", before: map[string]string{"bin": "\x00\x01\x02\xff"}, patch: strings.Replace(literal, old+".."+new, "f971a5e..f4848a1", 1), code: "patch_parse"},
			{what: "a lie about the result", before: map[string]string{"bin": "\x00\x01\x02\xff"}, patch: strings.Replace(literal, new, strings.Repeat("1", 40), 1), code: "patch_parse"},
		} {
			c.run(t, d)
		}
	})
	d.t = t
	t.Run("D44 a new file never lands on something", func(t *testing.T) {
		patch := "diff --git a/nf.txt b/nf.txt\nnew file mode 100644\n--- /dev/null\n+++ b/nf.txt\n@@ -0,0 +1 @@\n+new\n"
		d.t = t
		for what, put := range map[string]func(string){
			"a file":          func(p string) { write(t, p, "keep\n") },
			"the same bytes":  func(p string) { write(t, p, "new\n") },
			"a link":          func(p string) { os.Symlink("x", p) },
			"a dangling link": func(p string) { os.Symlink("nowhere", p) },
			"a directory":     func(p string) { os.Mkdir(p, 0o755) },
		} {
			d.fresh(map[string]string{"x": "x"})
			put(filepath.Join(d.Root, "nf.txt"))
			before := digest(t, d.Root)
			if r := d.patched(patch); code(r) != "exists" || digest(t, d.Root) != before {
				t.Errorf("%s: %v", what, r["error"])
			}
			if r := d.patched("*** Begin Patch\n*** Add File: nf.txt\n+new\n*** End Patch\n"); code(r) != "exists" || digest(t, d.Root) != before {
				t.Errorf("%s, envelope: %v", what, r["error"])
			}
		}
	})
	t.Run("D42 sections without hunks count", func(t *testing.T) {
		patch := "diff --git a/old.txt b/new.txt\nsimilarity index 100%\nrename from old.txt\nrename to new.txt\n" +
			"diff --git a/s.sh b/s.sh\nold mode 100644\nnew mode 100755\n" +
			"diff --git a/e.txt b/e.txt\nnew file mode 100644\nindex 0000000..e69de29\n" +
			"diff --git a/k.txt b/k.txt\n--- a/k.txt\n+++ b/k.txt\n@@ -1 +1 @@\n-k\n+K\n"
		files := map[string]string{"old.txt": "o\n", "s.sh": "s\n", "k.txt": "k\n"}
		d.t = t
		before := d.fresh(files)
		_, look := d.http("POST", "/v1/preflight", d.Agent, M{"op": "patch_file", "args": M{"patch": patch}})
		for _, p := range []string{"old.txt", "new.txt", "s.sh", "e.txt", "k.txt"} {
			if !strings.Contains(fmt.Sprint(look["facts"].(M)["targets"]), "path:"+p+" ") {
				t.Errorf("preflight does not list %s", p)
			}
		}
		r := d.call("patch_file", M{"patch": patch})
		if must(t, r, "review"); text(r, "decision", "reason") != "mutating_batch" || text(r, "decision", "tier") != "T4" || r["decision"].(M)["one_shot"] != true {
			t.Errorf("a patch that renames is not judged as a batch: %v", r["decision"])
		}
		r = must(t, d.approve(r), "done")
		d.is(map[string]string{"new.txt": "o\n", "s.sh": "s\n", "e.txt": "", "k.txt": "K\n"})
		if info, _ := os.Stat(filepath.Join(d.Root, "s.sh")); info.Mode().Perm() != 0o755 {
			t.Errorf("mode %v", info.Mode())
		}
		must(t, d.undo(r), "done")
		if digest(t, d.Root) != before {
			t.Error("not as before")
		}
		delete(files, "old.txt")
		before = d.fresh(files)
		if r := d.patched(patch); code(r) != "not_found" || digest(t, d.Root) != before {
			t.Errorf("old.txt missing: %v", r["error"])
		}
		if r := d.patched(strings.Replace(patch, "100755", "120000", 1)); code(r) != "symlink_refused" {
			t.Errorf("a link: %v", r["error"])
		}
		if r := d.patched("diff --git a/sub b/sub\nnew file mode 160000\n--- /dev/null\n+++ b/sub\n@@ -0,0 +1 @@\n+Subproject commit 1\n"); code(r) != "patch_parse" {
			t.Errorf("a submodule: %v", r["error"])
		}
	})
	t.Run("D45 quoted names", func(t *testing.T) {
		d.t = t
		for _, c := range []patchCase{
			{what: "octal", before: map[string]string{"caf\u00e9 b.txt": "x\n"}, patch: "diff --git \"a/caf\\303\\251 b.txt\" \"b/caf\\303\\251 b.txt\"\n--- \"a/caf\\303\\251 b.txt\"\n+++ \"b/caf\\303\\251 b.txt\"\n@@ -1 +1 @@\n-x\n+y\n",
				after: map[string]string{"caf\u00e9 b.txt": "y\n"}},
			{what: "not UTF-8", before: map[string]string{"n\xff": "x\n"}, patch: "--- \"a/n\\377\"\n+++ \"b/n\\377\"\n@@ -1 +1 @@\n-x\n+y\n", after: map[string]string{"n\xff": "y\n"}},
			{what: "a newline and a quote", before: map[string]string{"q\n\"": "x\n"}, patch: "--- \"a/q\\n\\\"\"\n+++ \"b/q\\n\\\"\"\n@@ -1 +1 @@\n-x\n+y\n", after: map[string]string{"q\n\"": "y\n"}},
			{what: "spaces and a tab behind", before: map[string]string{"a b": "x\n"}, patch: "--- a/a b\t2026-01-01\n+++ b/a b\t2026-01-01\n@@ -1 +1 @@\n-x\n+y\n", after: map[string]string{"a b": "y\n"}},
			{what: "a rename with spaces, names of the first line only", before: map[string]string{"a b": "x\n"}, patch: "diff --git a/a b b/a b\nold mode 100644\nnew mode 100755\n", after: map[string]string{"a b": "x\n"}},
			{what: "no end", before: one("x\n"), patch: "--- \"a/f\n+++ \"b/f\n@@ -1 +1 @@\n-x\n+y\n", code: "patch_parse"},
			{what: "out", before: one("x\n"), patch: "--- a/../OUT/f\n+++ b/../OUT/f\n@@ -1 +1 @@\n-x\n+y\n", code: "outside_workspace"},
			{what: "absolute", before: one("x\n"), patch: "--- /etc/hostname\n+++ /etc/hostname\n@@ -1 +1 @@\n-x\n+y\n", code: "outside_workspace"},
		} {
			c.run(t, d)
		}
	})
	t.Run("C28, C36 (part) a patch of one file runs, one of several waits, and the flags count", func(t *testing.T) {
		d.t = t
		before := d.fresh(map[string]string{"f": "a\n", "g": "a\n"})
		hunk := "@@ -1 +1 @@\n-a\n+b\n"
		r := must(t, d.call("patch_file", M{"patch": hunked(hunk)}), "done")
		if text(r, "decision", "reason") != "low_impact_scoped_change" || text(r, "result", "hash") == "" || !strings.Contains(text(r, "result", "diff"), "+b") {
			t.Errorf("got %v", r)
		}
		must(t, d.undo(r), "done")
		for reason, args := range map[string]M{
			"multiple_targets": {"patch": hunked(hunk) + "--- a/g\n+++ b/g\n" + hunk},
			"backup_disabled":  {"patch": hunked(hunk), "backup": false},
			"safety_override":  {"patch": hunked(hunk), "force_overwrite": true},
			"mutating_batch":   {"patch": "--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"},
		} {
			if r := must(t, d.call("patch_file", args), "review"); text(r, "decision", "reason") != reason {
				t.Errorf("want %s, got %v", reason, r["decision"])
			}
		}
		for what, args := range map[string]M{"both": {"patch": "x", "patch_base64": "eA=="}, "neither": {}, "not base64": {"patch_base64": "?"},
			"another path": {"patch": hunked(hunk), "path": "g"}, "a hash for two": {"patch": hunked(hunk) + "--- a/g\n+++ b/g\n" + hunk, "expected_hash": "blake3:00"}} {
			if r := d.call("patch_file", args); code(r) != "bad_request" {
				t.Errorf("%s: %v", what, r["error"])
			}
		}
		if r := d.call("patch_file", M{"patch": hunked(hunk), "expected_hash": "blake3:" + strings.Repeat("0", 64)}); code(r) != "stale_precondition" {
			t.Errorf("a stale hash: %v", r["error"])
		}
		_, r = d.http("POST", "/v1/call", d.Agent, M{"op": "patch_file", "args": M{"patch": hunked(hunk)}, "dry_run": true})
		must(t, r, "done")
		if text(r, "decision", "reason") != "rehearsal" || digest(t, d.Root) != before {
			t.Errorf("dry run: %v", r["decision"])
		}
		r = must(t, d.call("patch_file", M{"path": "f", "patch": hunk}), "done")
		must(t, d.undo(r), "done")
	})
	t.Run("D28 (part) a patch through a link changes the file, and never the link", func(t *testing.T) {
		d.t = t
		d.fresh(map[string]string{"real": "a\n"})
		os.Symlink("real", filepath.Join(d.Root, "f"))
		r := must(t, d.patched(hunked("@@ -1 +1 @@\n-a\n+b\n")), "done")
		d.is(map[string]string{"real": "b\n", "f": "-> real"})
		must(t, d.undo(r), "done")
		if r := d.patched("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"); code(r) != "symlink_refused" {
			t.Errorf("a delete of the link: %v", r["error"])
		}
		d.is(map[string]string{"real": "a\n", "f": "-> real"})
	})
	t.Run("D25 (part) a patch keeps the mode", func(t *testing.T) {
		d.t = t
		d.fresh(one("a\n"))
		p := filepath.Join(d.Root, "f")
		for _, mode := range []os.FileMode{0o755, 0o4755 | os.ModeSetuid, 0o2755 | os.ModeSetgid, 0o640} {
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
			before := digest(t, d.Root)
			r := must(t, d.patched(hunked("@@ -1 +1 @@\n-a\n+b\n")), "done")
			if info, _ := os.Stat(p); info.Mode() != mode&(os.ModePerm|os.ModeSetuid|os.ModeSetgid) {
				t.Errorf("mode %v, want %v", info.Mode(), mode)
			}
			if must(t, d.undo(r), "done"); digest(t, d.Root) != before {
				t.Error("not as before")
			}
		}
	})
	t.Run("C28 (part) a document is changed by pointers and keeps its comments", func(t *testing.T) {
		d.t = t
		before := d.fresh(map[string]string{"c.json": "{\n  \"a\": 1.50, // kept\n  \"b\": []\n}\n", "c.yaml": "# head\na: 1 # kept\n", "c.toml": "# head\na = 1 # kept\n", "n": "a"})
		for _, c := range []struct{ path, ops, want string }{
			{"c.json", `[{"op":"test","path":"/a","value":1.50},{"op":"append","path":"/b","value":2.0},{"op":"set","path":"/c","value":"x"}]`, "{\n  \"a\": 1.50, // kept\n  \"b\": [2.0],\n  \"c\": \"x\"\n}\n"},
			{"c.yaml", `[{"op":"replace","path":"/a","value":2},{"op":"add","path":"/b","value":{"c":[1]}}]`, "# head\na: 2 # kept\nb:\n  c:\n    - 1\n"},
			{"c.toml", `[{"op":"set","path":"/a","value":2.50},{"op":"set","path":"/b","value":["x"]}]`, "# head\na = 2.50 # kept\nb = [\"x\"]\n"},
		} {
			_, r := d.http("POST", "/v1/call", d.Agent, `{"op":"patch_file","args":{"path":"`+c.path+`","operations":`+c.ops+`}}`)
			if must(t, r, "done"); read(t, filepath.Join(d.Root, c.path)) != c.want || text(r, "decision", "reason") != "low_impact_scoped_change" {
				t.Errorf("%s: got %q", c.path, read(t, filepath.Join(d.Root, c.path)))
			}
			must(t, d.undo(r), "done")
		}
		for what, c := range map[string]struct{ args, code string }{
			"the second fails":   {`{"path":"c.json","operations":[{"op":"set","path":"/a","value":2},{"op":"remove","path":"/x"}]}`, "pointer_error"},
			"no pointer":         {`{"path":"c.json","operations":[{"op":"set","path":"a","value":2}]}`, "pointer_error"},
			"no format":          {`{"path":"n","operations":[{"op":"set","path":"/a","value":2}]}`, "bad_request"},
			"no document":        {`{"path":"n","format":"json","operations":[{"op":"set","path":"/a","value":2}]}`, "invalid_document"},
			"no value":           {`{"path":"c.json","operations":[{"op":"set","path":"/a"}]}`, "bad_request"},
			"an unknown verb":    {`{"path":"c.json","operations":[{"op":"move","path":"/a","value":1}]}`, "bad_request"},
			"nothing changes":    {`{"path":"c.json","operations":[{"op":"test","path":"/a","value":1.50}]}`, "bad_request"},
			"a patch beside it":  {`{"path":"c.json","patch":"x","operations":[{"op":"test","path":"/a","value":1}]}`, "bad_request"},
			"a number elsewhere": {`{"path":"c.json","format":1.5}`, "bad_request"},
		} {
			if _, r := d.http("POST", "/v1/call", d.Agent, `{"op":"patch_file","args":`+c.args+`}`); code(r) != c.code {
				t.Errorf("%s: got %v, want %s", what, r["error"], c.code)
			}
		}
		if digest(t, d.Root) != before {
			t.Error("something changed")
		}
		d.fresh(map[string]string{"c.json": "{}\n", "f": "a\n"})
		r := must(t, d.approve(must(t, d.batch(item("patch_file", M{"path": "c.json", "operations": []M{{"op": "set", "path": "/a", "value": 1}}}),
			item("patch_file", M{"path": "c.json", "operations": []M{{"op": "set", "path": "/b", "value": "x"}}}), item("patch_file", M{"patch": hunked("@@ -1 +1 @@\n-a\n+b\n")})), "review")), "done")
		d.is(map[string]string{"c.json": "{\"a\": 1, \"b\": \"x\"}\n", "f": "b\n"})
		must(t, d.undo(r), "done")
	})
	t.Run("files change places by one patch", func(t *testing.T) {
		patchCase{what: "a circle of renames", before: map[string]string{"a": "1\n", "b": "2\n"}, after: map[string]string{"a": "2\n", "b": "1\n"},
			patch: "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\ndiff --git a/b b/a\nsimilarity index 100%\nrename from b\nrename to a\n"}.run(t, d)
	})
}

func patchCases() [][]patchCase {
	sql := "select 1;\n-- this is my query\nselect 2;\nselect 3;\n"
	two := "s {\n  a=1\n}\nt {\n  a=1\n}\n"
	begin, end := "*** Begin Patch\n*** Update File: f\n", "*** End Patch\n"
	return [][]patchCase{
		{
			{"D3 line endings of a patch and of its file", "LF on CRLF", one("a\r\nb\r\nc\r\n"), hunked("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"), nil, "patch_mismatch", "line ending"},
			{"", "CRLF on CRLF", one("a\r\nb\r\nc\r\n"), hunked("@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n"), one("a\r\nB\r\nc\r\n"), "", ""},
			{"", "CRLF on LF", one("a\nb\nc\n"), hunked("@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n"), nil, "patch_mismatch", "line ending"},
			{"", "mixed, one line", one("a\r\nb\nc\r\n"), hunked("@@ -2 +2 @@\n-b\n+B\n"), one("a\r\nB\nc\r\n"), "", ""},
			{"", "an envelope takes the file's", one("a\r\nb\r\nc\r\n"), begin + "@@\n a\n-b\n+B\n+x\n c\n" + end, one("a\r\nB\r\nx\r\nc\r\n"), "", ""},
		},
		{
			{"D13 only LF ends a line", "as it stands", one("a\x0cb\nc\xe2\x80\xa8d\ne\xc2\x85f\n"), hunked("@@ -1,3 +1,3 @@\n a\x0cb\n-c\xe2\x80\xa8d\n+C\n e\xc2\x85f\n"), one("a\x0cb\nC\ne\xc2\x85f\n"), "", ""},
			{"", "a lone CR", one("a\rb\nc\n"), hunked("@@ -1,2 +1,2 @@\n a\rb\n-c\n+C\n"), one("a\rb\nC\n"), "", ""},
			{"", "VT and a NUL", one("a\x0bb\nc\x00d\n"), hunked("@@ -2 +2 @@\n-c\x00d\n+C\n"), one("a\x0bb\nC\n"), "", ""},
			{"", "U+2029", one("p\xe2\x80\xa9q\nr\n"), hunked("@@ -1,2 +1 @@\n-p\xe2\x80\xa9q\n r\n"), one("r\n"), "", ""},
		},
		{
			{"D20 no newline is added far from the end", "as it stands", one("line1\nline2\nline3"), hunked("@@ -1,2 +1,2 @@\n-line1\n+LINE1\n line2\n"), one("LINE1\nline2\nline3"), "", ""},
			{"", "deleted above", one("a\nb\nc"), hunked("@@ -1,2 +1 @@\n-a\n b\n"), one("b\nc"), "", ""},
			{"", "added above", one("b\nc"), hunked("@@ -1 +1,2 @@\n+a\n b\n"), one("a\nb\nc"), "", ""},
			{"", "an envelope", one("a\nb\nc"), begin + "@@\n-a\n+A\n b\n" + end, one("A\nb\nc"), "", ""},
		},
		{
			{"D21 appending never glues two lines", "without the marker", one("hello\nworld"), hunked("@@ -1,2 +1,3 @@\n hello\n world\n+tail\n"), nil, "patch_mismatch", "without newline"},
			{"", "the marker in the middle", one("hello\nworld"), hunked("@@ -1,2 +1,3 @@\n hello\n world\n\\ No newline at end of file\n+tail\n"), nil, "patch_parse", "no newline"},
			{"", "as git writes it", one("hello\nworld"), hunked("@@ -1,2 +1,3 @@\n hello\n-world\n\\ No newline at end of file\n+world\n+tail\n"), one("hello\nworld\ntail\n"), "", ""},
			{"", "an envelope at the end", one("hello\nworld"), begin + "@@\n+tail\n*** End of File\n" + end, nil, "patch_mismatch", "run together"},
		},
		{
			{"D22 the marker on a context line", "as it stands", one("a\nb\nc"), hunked("@@ -1,3 +1,3 @@\n-a\n+A\n b\n c\n\\ No newline at end of file\n"), one("A\nb\nc"), "", ""},
			{"", "the file has one", one("a\nb\nc\n"), hunked("@@ -1,3 +1,3 @@\n-a\n+A\n b\n c\n\\ No newline at end of file\n"), nil, "patch_mismatch", "line ending"},
			{"", "taken away", one("a\nc\n"), hunked("@@ -1,2 +1,2 @@\n a\n-c\n+c\n\\ No newline at end of file\n"), one("a\nc"), "", ""},
			{"", "added", one("a\nc"), hunked("@@ -1,2 +1,2 @@\n a\n-c\n\\ No newline at end of file\n+c\n"), one("a\nc\n"), "", ""},
		},
		{
			{"D23 the last blank line stays", "as it stands", one("alpha\nbeta\n\n"), hunked("@@ -1,3 +1,3 @@\n-alpha\n+ALPHA\n beta\n \n"), one("ALPHA\nbeta\n\n"), "", ""},
			{"", "its space trimmed", one("alpha\nbeta\n\n"), hunked("@@ -1,3 +1,3 @@\n-alpha\n+ALPHA\n beta\n\n"), one("ALPHA\nbeta\n\n"), "", ""},
			{"", "three of them", one("a\n\n\n\n"), hunked("@@ -1,4 +1,4 @@\n-a\n+A\n \n \n \n"), one("A\n\n\n\n"), "", ""},
			{"", "one taken away", one("a\n\n\n"), hunked("@@ -1,3 +1,2 @@\n a\n-\n \n"), one("a\n\n"), "", ""},
		},
		{
			{"D24 an insertion after a last line without newline", "zero context", one("a\nb\nc"), hunked("@@ -3,0 +4 @@\n+X\n"), nil, "patch_mismatch", "no newline"},
			{"", "in the middle", one("a\nb\nc"), hunked("@@ -2,0 +3 @@\n+X\n"), one("a\nb\nX\nc"), "", ""},
			{"", "at the start", one("a\nb\nc"), hunked("@@ -0,0 +1 @@\n+X\n"), one("X\na\nb\nc"), "", ""},
			{"", "behind the end", one("a\n"), hunked("@@ -5,0 +6 @@\n+X\n"), nil, "patch_mismatch", "the file has 1"},
		},
		{
			{"D37 inside a hunk the counts decide", "a comment that looks like a header", one(sql), hunked("@@ -1,4 +1,3 @@\n select 1;\n--- this is my query\n select 2;\n select 3;\n"), one("select 1;\nselect 2;\nselect 3;\n"), "", ""},
			{"", "added ++ lines", one("a\n"), hunked("@@ -1 +1,2 @@\n a\n+++ b\n"), one("a\n++ b\n"), "", ""},
			{"", "both, as a pair", one("-- x\na\n"), hunked("@@ -1,2 +1,2 @@\n--- x\n+++ y\n a\n"), one("++ y\na\n"), "", ""},
			{"", "too few lines", one("a\nb\n"), hunked("@@ -1,3 +1,2 @@\n a\n-b\n"), nil, "patch_parse", "ends inside a hunk"},
			{"", "too many deleted", one("a\nb\n"), hunked("@@ -1,1 +1,2 @@\n-a\n-b\n+c\n"), nil, "patch_parse", "more lines"},
		},
		{
			{"D38 a hunk that fits several places", "nowhere near", one(two), hunked("@@ -90,1 +90,1 @@\n-  a=1\n+  a=9\n"), nil, "ambiguous_match", "lines 2, 5"},
			{"", "its heading is one of them", one(two), hunked("@@ -5,1 +5,1 @@\n-  a=1\n+  a=9\n"), one("s {\n  a=1\n}\nt {\n  a=9\n}\n"), "", ""},
			{"", "context makes it one", one(two), hunked("@@ -40,3 +40,3 @@\n t {\n-  a=1\n+  a=9\n }\n"), one("s {\n  a=1\n}\nt {\n  a=9\n}\n"), "", ""},
			{"", "an envelope", one(two), begin + "@@\n-  a=1\n+  a=9\n" + end, nil, "ambiguous_match", "lines 2, 5"},
			{"", "an envelope with a section", one(two), begin + "@@ t {\n-  a=1\n+  a=9\n" + end, one("s {\n  a=1\n}\nt {\n  a=9\n}\n"), "", ""},
		},
		{
			{"D39 context that is nowhere", "as it stands", one("a\nb\nc\n"), hunked("@@ -2,1 +2,1 @@\n-zzz\n+q\n"), nil, "patch_mismatch", `hunk 1 (line 3 of the patch): first difference at file line 2: expected "zzz", found "b"`},
			{"", "almost", one("a\nb\nc\n"), hunked("@@ -1,3 +1,3 @@\n a\n-b\n+B\n C\n"), nil, "patch_mismatch", "file line 3"},
			{"", "a trailing space", one("a\nb \nc\n"), hunked("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"), nil, "patch_mismatch", "file line 2"},
			{"", "the second hunk only", one("a\nb\nc\nd\ne\nf\ng\nh\n"), hunked("@@ -1 +1 @@\n-a\n+A\n@@ -8 +8 @@\n-x\n+X\n"), nil, "patch_mismatch", "hunk 2"},
			{"", "an envelope", one("a\nb\n"), begin + "@@\n a\n-q\n+Q\n" + end, nil, "patch_mismatch", "line 2 of them"},
		},
		{
			{"D40 a blank line of context without its space", "as it stands", one("foo\n\nbar\n"), hunked("@@ -1,3 +1,3 @@\n foo\n\n-bar\n+baz\n"), one("foo\n\nbaz\n"), "", ""},
			{"", "at the start", one("\nbar\n"), hunked("@@ -1,2 +1,2 @@\n\n-bar\n+baz\n"), one("\nbaz\n"), "", ""},
			{"", "two in a row", one("a\n\n\nb\n"), hunked("@@ -1,4 +1,4 @@\n a\n\n\n-b\n+c\n"), one("a\n\n\nc\n"), "", ""},
			{"", "an envelope", one("foo\n\nbar\n"), begin + "@@\n foo\n\n-bar\n+baz\n" + end, one("foo\n\nbaz\n"), "", ""},
		},
		{
			{"D41 zero context takes the line it names", "as it stands", one("test\ntest2\n \ntest3\n"), hunked("@@ -3 +2,0 @@\n- \n"), one("test\ntest2\ntest3\n"), "", ""},
			{"", "two hunks", one("a\nb\nc\nd\n"), hunked("@@ -1 +0,0 @@\n-a\n@@ -4 +3 @@\n-d\n+D\n"), one("b\nc\nD\n"), "", ""},
			{"", "another line there", one("a\nb\n"), hunked("@@ -1 +0,0 @@\n-q\n"), nil, "patch_mismatch", "file line 1"},
			{"", "insertions only", one("a\nb\n"), hunked("@@ -1,0 +2 @@\n+x\n@@ -2,0 +4 @@\n+y\n"), one("a\nx\nb\ny\n"), "", ""},
		},
		{
			{"D46 a deletion compares what it deletes", "another line", map[string]string{"d.txt": "one\nTWO\n"}, "--- a/d.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n", nil, "patch_mismatch", ""},
			{"", "more than it says", map[string]string{"d.txt": "one\ntwo\nthree\n"}, "--- a/d.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n", nil, "patch_mismatch", "not all"},
			{"", "no newline at the end", map[string]string{"d.txt": "one\ntwo"}, "--- a/d.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n", nil, "patch_mismatch", ""},
			{"", "it is not empty", map[string]string{"d.txt": "x"}, "diff --git a/d.txt b/d.txt\ndeleted file mode 100644\nindex e69de29..0000000\n", nil, "patch_mismatch", "not all"},
			{"", "as it is", map[string]string{"d.txt": "one\ntwo\n"}, "--- a/d.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n", map[string]string{}, "", ""},
		},
		{
			{"D11 (part) an envelope adds, moves and deletes, byte for byte", "all of it", map[string]string{"f": "a\nb\n", "g": "g\n", "h": "h\n"},
				"*** Begin Patch\n*** Update File: f\n*** Move to: n/f2\n@@\n-a\n+print('a\\nb')\n b\n*** Add File: new/x\n+1\n+\n+3\n*** Delete File: g\n*** End Patch\n",
				map[string]string{"n/f2": "print('a\\nb')\nb\n", "new/x": "1\n\n3\n", "h": "h\n"}, "", ""},
			{"", "no end", one("a\n"), begin + "@@\n-a\n+b\n", nil, "patch_parse", "no *** End Patch"},
			{"", "nothing", one("a\n"), "*** Begin Patch\n*** End Patch\n", nil, "patch_parse", "empty"},
			{"", "no change", one("a\n"), begin + "@@\n a\n" + end, nil, "patch_parse", "changes nothing"},
			{"", "unknown", one("a\n"), "*** Begin Patch\n*** Chmod File: f\n" + end, nil, "patch_parse", "unknown instruction"},
			{"", "only adds, nowhere", one("a\n"), begin + "@@\n+b\n" + end, nil, "ambiguous_match", "nothing says where"},
			{"", "at the end", one("a\n"), begin + "@@\n+b\n*** End of File\n" + end, one("a\nb\n"), "", ""},
			{"", "no header at all", one("a\n"), "nothing of a patch\n", nil, "patch_parse", "no file header"},
			{"", "a hunk alone", one("a\n"), "@@ -1 +1 @@\n-a\n+b\n", nil, "patch_parse", "without a file header"},
			{"", "twice the same file", one("a\nb\n"), hunked("@@ -1 +1 @@\n-a\n+A\n") + hunked("@@ -2 +2 @@\n-b\n+B\n"), nil, "patch_parse", "two parts"},
			{"", "it changes nothing", one("a\n"), hunked("@@ -1 +1 @@\n-a\n+a\n"), nil, "bad_request", "changes nothing"},
		},
	}
}
