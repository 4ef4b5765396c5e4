package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// firstTarget is the first target of a preflight.
func firstTarget(t testing.TB, look M) M {
	t.Helper()
	list := objects(object(look["facts"])["targets"])
	if len(list) == 0 {
		t.Fatalf("no target: %v", look)
	}
	return list[0]
}

func TestFacts(t *testing.T) {
	t.Parallel()
	y := newYard(t, quick(t, ""))
	in := func(p string) string { return filepath.Join(y.Root, p) }
	write(t, in("dir/a"), "a\n")
	write(t, in("empty"), "")
	write(t, in("large"), strings.Repeat("0123456789abcdef", 5<<16)) // 5 MiB
	write(t, in("sparse"), "")
	if err := os.Truncate(in("sparse"), 8<<20); err != nil {
		t.Fatal(err)
	}
	t.Run("C9, C10 each kind of thing is told apart, with its size", func(t *testing.T) {
		for path, want := range map[string]struct {
			kind string
			size int64
		}{"f": {"file", 4}, "empty": {"file", 0}, "large": {"file", 5 << 20}, "sparse": {"file", 8 << 20}, "dir": {"directory", -1}, "notes.txt": {"symlink", -1}, "dangin": {"symlink", -1},
			"p": {"fifo", -1}, "missing": {"absent", 0}} {
			target := firstTarget(t, y.preflight("file_info", M{"path": path}))
			if target["kind"] != want.kind || target["exists"] != (want.kind != "absent") || want.size >= 0 && number(target["size"]) != want.size {
				t.Errorf("%s: got %v, want %v", path, target, want)
			}
			info := object(must(t, y.call("file_info", M{"path": path}), "done")["result"])
			if info["type"] != want.kind || info["exists"] != (want.kind != "absent") || want.kind == "file" && number(info["size"]) != want.size {
				t.Errorf("%s: file_info says %v", path, info)
			}
		}
	})
	t.Run("C11 hashes are BLAKE3, and a missing file is no empty one", func(t *testing.T) {
		// Official vectors: the bytes 0, 1, ... 250, 0, 1, ... of these lengths.
		for size, want := range map[int]string{0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
			1: "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213", 1024: "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"} {
			b := make([]byte, size)
			for i := range b {
				b[i] = byte(i % 251)
			}
			write(t, in("vector"), string(b))
			if target := firstTarget(t, y.preflight("view_file", M{"path": "vector"})); target["hash"] != "blake3:"+want {
				t.Errorf("%d bytes: got %v", size, target["hash"])
			}
		}
		if target := firstTarget(t, y.preflight("file_info", M{"path": "missing"})); target["hash"] != nil || target["exists"] != false {
			t.Errorf("missing: got %v", target)
		}
		if target := firstTarget(t, y.preflight("file_info", M{"path": "large"})); target["hash"] != hashOf(read(t, in("large"))) {
			t.Errorf("large: got %v", target["hash"])
		}
	})
	t.Run("facts of many paths alone come in one call, C12 (part) without those that could not be had", func(t *testing.T) {
		paths := []string{"f", "missing", "p", "../x"}
		status, out := y.http("POST", "/v1/preflight", y.Agent, M{"paths": paths})
		facts := object(out["facts"])
		if status != 200 || len(objects(facts["targets"])) != 3 || facts["available"] != false || out["decision"] != nil || text(out, "pins") == "" {
			t.Fatalf("got %d %v", status, out)
		}
		many := make([]string, 10_001)
		for i := range many {
			many[i] = "f"
		}
		if status, out := y.http("POST", "/v1/preflight", y.Agent, M{"paths": many}); status != 413 || code(out) != "too_large" {
			t.Errorf("got %d %v", status, out["error"])
		}
		if status, out := y.http("POST", "/v1/preflight", y.Agent, M{"paths": many[:10_000]}); status != 200 || len(objects(object(out["facts"])["targets"])) != 10_000 {
			t.Errorf("got %d %v", status, out["error"])
		}
	})
	write(t, in("rb"), "1\n")
	must(t, y.call("backup_file", M{"path": "rb"}), "done")
	must(t, y.call("edit_file", M{"path": "rb", "old_string": "1", "new_string": "2"}), "done")
	smallRepo(t, in("repo"))
	stat, stored := walk(t, y.Root), kept(t, y.State)
	reads := map[op.Name]M{"view_file": {"path": "f"}, "list_directory": {"depth": 3}, "file_info": {"path": "dir"}, "diff_file": {"path": "f", "compare_path": "dir/a"},
		"file_tree": {"path": "dir"}, "search_files": {"pattern": "one"}, "validate_file": {"path": "f", "format": "env"}, "preview_markdown": {"path": "f"}, "detect_tests": {}, "list_backups": {}, "list_profiles": {},
		"git_status": {"path": "repo"}, "git_diff": {"path": "repo"},
		"git_log": {"path": "repo"}, "git_show": {"path": "repo"}, "git_blame": {"path": "repo/a"}}
	looks := map[op.Name]M{"write_file": {"path": "q/new", "content": "x"}, "edit_file": {"path": "f", "old_string": "one", "new_string": "two"}, "copy_file": {"source": "f", "destination": "r/f"},
		"create_directory": {"path": "s/t"}, "delete_file": {"path": "dir", "recursive": true}, "move_file": {"source": "dir", "destination": "u/v"},
		"patch_file": {"patch": "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-one\n+two\n"}, "backup_file": {"path": "f"}, "rollback_file": {"path": "rb", "last": true},
		"workspace_shell": {"command": "true"}, "workspace_tests": {"command": "true"},
		"batch_file_ops": {"operations": []M{{"op": "delete_file", "args": M{"path": "f"}}, {"op": "write_file", "args": M{"path": "q/w", "content": "z"}}}}}
	for _, spec := range op.Operations() {
		if !spec.Built || spec.Class == op.Reverting || spec.Class == op.Switching { // an undo names no path, a switch no file
			continue
		}
		t.Run("C6, C25, X53 looking and reading leave no trace: "+string(spec.Name), func(t *testing.T) {
			args, ok := reads[spec.Name]
			if spec.Class != op.Read {
				args, ok = looks[spec.Name]
			}
			if !ok {
				t.Fatal("no row for this operation")
			}
			if look := y.preflight(string(spec.Name), args); code(look) != "" {
				t.Fatalf("got %v", look["error"])
			}
			if spec.Class != op.Read {
				// X53: what cannot be shown beforehand does not run.
				look := y.preflight(string(spec.Name), args)
				if spec.Class != op.Process && len(objects(object(look["preview"])["effects"])) == 0 || text(look, "preview", "title") == "" {
					t.Errorf("no preview: %v", look["preview"])
				}
			}
			if spec.Class == op.Read {
				r := must(t, y.call(string(spec.Name), args), "done")
				if text(r, "decision", "reason") != "read_only" || r["effects_executed"] != false || r["undo_credential"] != nil || r["approval"] != nil {
					t.Errorf("C24: got %v", r)
				}
			}
			if now := walk(t, y.Root); !reflect.DeepEqual(now, stat) {
				t.Fatalf("traces: %v", difference(stat, now))
			}
			if slots := kept(t, y.State); !reflect.DeepEqual(slots, stored) {
				t.Errorf("something was staged: %v", slots)
			}
		})
	}
}

// smallRepo makes a git repository of one commit, and a change since.
func smallRepo(t testing.TB, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "a"), "one\n")
	gitAt(t, dir, "init", "-q")
	gitAt(t, dir, "add", ".")
	gitAt(t, dir, "commit", "-qm", "first")
	write(t, filepath.Join(dir, "a"), "one\ntwo\n")
}

// kept lists the files in the stores of a state directory.
func kept(t testing.TB, state string) []string {
	t.Helper()
	var out []string
	filepath.Walk(filepath.Join(state, "store"), func(p string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && info.Size() > 0 {
			out = append(out, p)
		}
		return nil
	})
	return out
}

// TestReadsNeverWait holds every read to its answer while the queue is as full as it gets
// and the profile the strictest that still lets agents read.
func TestReadsNeverWait(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.default]\nallow_write = false\nallow_edit = false\nallow_copy = false\nallow_move = false\nmode = \"prompt\"\n")
	write(t, filepath.Join(d.Root, "f"), "one\n")
	smallRepo(t, filepath.Join(d.Root, "repo"))
	for i := range 60 {
		p := fmt.Sprintf("d%d", i)
		write(t, filepath.Join(d.Root, p), "x")
		must(t, d.call("delete_file", M{"path": p}), "review")
	}
	rows := map[op.Name]M{"view_file": {"path": "f"}, "list_directory": {}, "file_info": {"path": "f"}, "diff_file": {"path": "f", "content": "two\n"}, "file_tree": {}, "search_files": {"pattern": "one"},
		"validate_file": {"path": "f", "format": "env"}, "preview_markdown": {"path": "f"}, "detect_tests": {}, "list_backups": {}, "list_profiles": {},
		"git_status": {"path": "repo"}, "git_diff": {"path": "repo"},
		"git_log": {"path": "repo"}, "git_show": {"path": "repo"}, "git_blame": {"path": "repo/a"}}
	for _, spec := range op.Operations() {
		if spec.Class != op.Read || !spec.Built {
			continue
		}
		t.Run("C24, X3 (part) a read runs at once: "+string(spec.Name), func(t *testing.T) {
			args, ok := rows[spec.Name]
			if !ok {
				t.Fatal("no row for this operation")
			}
			r := must(t, d.call(string(spec.Name), args), "done")
			if text(r, "decision", "reason") != "read_only" || text(r, "decision", "tier") != "T1" || len(d.cards("pending")) != 60 {
				t.Fatalf("got %v, %d cards", r["decision"], len(d.cards("pending")))
			}
		})
	}
}

// pinsOf opens a pin token: its first half is JSON, the second its seal.
func pinsOf(t testing.TB, look M) (root string, pins []M) {
	t.Helper()
	body, _, _ := strings.Cut(text(look, "pins"), ".")
	b, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	m := M{}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return text(m, "root"), objects(m["pins"])
}

func TestPins(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	t.Run("C17 what a decision used is pinned, absence and the root among it", func(t *testing.T) {
		write(t, in("f"), "one\n")
		write(t, in("dir/g"), "g\n")
		file := M{"path": "f", "kind": "file", "hash": hashOf("one\n")}
		for _, c := range []struct {
			op   string
			args M
			want []M
		}{
			{"edit_file", M{"path": "f", "old_string": "one", "new_string": "1"}, []M{file}},
			{"write_file", M{"path": "f", "content": "x"}, []M{file}},
			{"write_file", M{"path": "n/new", "content": "x"}, []M{{"path": "n/new", "kind": "absent"}, {"path": "n", "kind": "absent"}}},
			{"copy_file", M{"source": "f", "destination": "c"}, []M{file, {"path": "c", "kind": "absent"}}},
			{"move_file", M{"source": "f", "destination": "c"}, []M{file, {"path": "c", "kind": "absent"}}},
			{"delete_file", M{"path": "f"}, []M{file}},
		} {
			look := d.preflight(c.op, c.args)
			root, pins := pinsOf(t, look)
			if !reflect.DeepEqual(pins, c.want) || root != text(look, "root") || root == "" {
				t.Errorf("%s: got %v in %q, want %v", c.op, pins, root, c.want)
			}
			if object(look["decision"])["pinned"] != true {
				t.Errorf("%s: not pinned: %v", c.op, look["decision"])
			}
		}
		_, pins := pinsOf(t, d.preflight("delete_file", M{"path": "dir", "recursive": true}))
		if len(pins) != 1 || pins[0]["kind"] != "directory" || !strings.HasPrefix(text(pins[0], "hash"), "blake3:") {
			t.Errorf("a directory: got %v", pins)
		}
	})
	t.Run("a pin token that was changed, or made elsewhere, is refused", func(t *testing.T) {
		args := M{"path": "f", "old_string": "one", "new_string": "1"}
		pins := text(d.preflight("edit_file", args), "pins")
		other := quick(t, "")
		write(t, filepath.Join(other.Root, "f"), "one\n")
		for _, token := range []string{"x", pins + "x", "A" + pins, strings.Replace(pins, ".", "", 1), text(other.preflight("edit_file", args), "pins")} {
			status, r := d.send(d.Agent, M{"op": "edit_file", "args": args, "pins": token})
			fails(t, status, r, 400, "bad_request")
			if text(r, "error", "field") != "pins" {
				t.Errorf("got %v", r["error"])
			}
		}
	})
	drifts := map[string]func(p string){
		"edit":   func(p string) { os.WriteFile(p, []byte("one two\n"), 0o644) },
		"delete": func(p string) { os.Remove(p) },
		"a directory in its place": func(p string) {
			os.Remove(p)
			os.Mkdir(p, 0o755)
		},
		"a link in its place": func(p string) {
			os.Rename(p, p+".real")
			os.Symlink(filepath.Base(p)+".real", p)
		},
		"the parent renamed": func(p string) { os.Rename(filepath.Dir(p), filepath.Dir(p)+".old") },
		"the parent replaced": func(p string) {
			os.Rename(filepath.Dir(p), filepath.Dir(p)+".old")
			write(t, p, "one, another\n")
		},
	}
	for what, drift := range drifts {
		t.Run("C19, C20, C76, U34 drift is stale for pinned and for approved calls: "+what, func(t *testing.T) {
			dir := strings.ReplaceAll(what, " ", "-")
			f := dir + "/f"
			write(t, in(f), "one\n")
			args := M{"path": f, "old_string": "one", "new_string": "1"}
			pins := d.preflight("edit_file", args)["pins"]
			var held []M
			for _, c := range []struct {
				op   string
				args M
			}{{"edit_file", merge(args, M{"backup": false})}, {"write_file", M{"path": f, "content": "x"}}, {"delete_file", M{"path": f}}, {"move_file", M{"source": f, "destination": dir + "-moved"}}, {"delete_file", M{"path": dir, "recursive": true}}} {
				held = append(held, must(t, d.call(c.op, c.args), "review"))
			}
			drift(in(f))
			before := digest(t, d.Root)
			status, r := d.send(d.Agent, M{"op": "edit_file", "args": args, "pins": pins})
			fails(t, status, r, 409, "stale_precondition")
			for _, h := range held {
				r := d.approve(h)
				if code(r) != "stale_precondition" || r["effects_executed"] != false {
					t.Errorf("%v: got %v %v", h["op"], r["status"], r["error"])
				}
				if row := d.row(text(h, "approval", "id")); row["state"] != "failed" {
					t.Errorf("%v: the row is %v", h["op"], row["state"])
				}
			}
			if digest(t, d.Root) != before {
				t.Fatal("something landed")
			}
		})
	}
	t.Run("C21 a create whose target appeared meanwhile is stale, not an overwrite", func(t *testing.T) {
		for _, c := range []struct {
			op   string
			args M
		}{{"write_file", M{"path": "c1", "content": "mine"}}, {"copy_file", M{"source": "f", "destination": "c1"}}, {"create_directory", M{"path": "c1"}}, {"move_file", M{"source": "f", "destination": "c1"}}} {
			os.RemoveAll(in("c1"))
			pins := d.preflight(c.op, c.args)["pins"]
			var held M
			if c.op == "write_file" {
				held = must(t, d.call(c.op, merge(c.args, M{"force_overwrite": true})), "review")
			}
			if c.op == "move_file" {
				held = must(t, d.call(c.op, c.args), "review")
			}
			write(t, in("c1"), "theirs")
			status, r := d.send(d.Agent, M{"op": c.op, "args": c.args, "pins": pins})
			fails(t, status, r, 409, "stale_precondition")
			if held != nil {
				if r := d.approve(held); code(r) != "stale_precondition" {
					t.Errorf("%s approved: got %v", c.op, r["error"])
				}
			}
			if read(t, in("c1")) != "theirs" {
				t.Fatal("the foreign file is lost")
			}
		}
	})
	t.Run("C21 without pins a second writer wins by existing: the call becomes what it is now", func(t *testing.T) {
		r := must(t, d.call("write_file", M{"path": "c1", "content": "mine"}), "review")
		if text(r, "decision", "reason") != "overwrite" {
			t.Fatalf("got %v", r["decision"])
		}
		d.cancel(r)
	})
	t.Run("D47 a write from an old read is stale and names the hash that is there", func(t *testing.T) {
		write(t, in("n.md"), "seed\n")
		h := text(must(t, d.call("view_file", M{"path": "n.md"}), "done"), "result", "hash")
		write(t, in("n.md"), "seed\nB\n")
		status, r := d.send(d.Agent, M{"op": "write_file", "args": M{"path": "n.md", "content": "seed\nA\n", "expected_hash": h}})
		fails(t, status, r, 409, "stale_precondition")
		if text(r, "error", "current_hash") != hashOf("seed\nB\n") || read(t, in("n.md")) != "seed\nB\n" {
			t.Errorf("got %v", r["error"])
		}
		done := must(t, d.approve(must(t, d.call("write_file", M{"path": "n.md", "content": "seed\nA\n"}), "review")), "done")
		must(t, d.undo(done), "done")
		if read(t, in("n.md")) != "seed\nB\n" {
			t.Errorf("got %q", read(t, in("n.md")))
		}
	})
	t.Run("D48 (part) what was appended after the look is not lost", func(t *testing.T) {
		write(t, in("greek"), "alpha\nbeta\ngamma\n")
		args := M{"path": "greek", "old_string": "beta", "new_string": "BETA"}
		pins := d.preflight("edit_file", args)["pins"]
		write(t, in("greek"), "alpha\nbeta\ngamma\ndelta\n")
		status, r := d.send(d.Agent, M{"op": "edit_file", "args": args, "pins": pins})
		fails(t, status, r, 409, "stale_precondition")
		must(t, d.call("edit_file", args), "done")
		if read(t, in("greek")) != "alpha\nBETA\ngamma\ndelta\n" {
			t.Errorf("got %q", read(t, in("greek")))
		}
	})
	t.Run("D49 equal size and an older time are no disguise", func(t *testing.T) {
		write(t, in("eq"), "aaaa\n")
		h := text(must(t, d.call("view_file", M{"path": "eq"}), "done"), "result", "hash")
		write(t, in("eq"), "bbbb\n")
		past := time.Now().Add(-time.Hour)
		os.Chtimes(in("eq"), past, past)
		for _, r := range []M{d.call("edit_file", M{"path": "eq", "old_string": "aaaa", "new_string": "c", "expected_hash": h}), d.call("write_file", M{"path": "eq", "content": "c", "expected_hash": h})} {
			if code(r) != "stale_precondition" {
				t.Errorf("got %v", r["error"])
			}
		}
		if read(t, in("eq")) != "bbbb\n" {
			t.Error("changed")
		}
	})
	t.Run("D50 a touch, or the same bytes in a new inode, is no drift", func(t *testing.T) {
		write(t, in("t"), "x\n")
		h := text(must(t, d.call("view_file", M{"path": "t"}), "done"), "result", "hash")
		edit := M{"path": "t", "old_string": "x", "new_string": "y", "expected_hash": h}
		pins := d.preflight("edit_file", edit)["pins"]
		os.Chtimes(in("t"), time.Now(), time.Now().Add(time.Minute))
		_, r := d.send(d.Agent, M{"op": "edit_file", "args": edit, "pins": pins})
		must(t, r, "done")
		must(t, d.undo(r), "done")
		os.Remove(in("t"))
		write(t, in("t"), "x\n")
		_, r = d.send(d.Agent, M{"op": "edit_file", "args": edit, "pins": pins})
		must(t, r, "done")
	})
	t.Run("D77 the part that was seen is not the whole", func(t *testing.T) {
		lines := strings.Repeat("a line\n", 5000)
		write(t, in("long"), lines)
		view := object(must(t, d.call("view_file", M{"path": "long", "start_line": 1, "end_line": 1000}), "done")["result"])
		h := text(view, "hash")
		if h != hashOf(lines)+"+partial" || view["eof"] != false || number(view["total_lines"]) != 5000 {
			t.Fatalf("got %v", view)
		}
		args := M{"path": "long", "content": lines[:7000], "expected_hash": h}
		status, r := d.send(d.Agent, M{"op": "write_file", "args": args})
		fails(t, status, r, 422, "partial_base")
		if !strings.Contains(text(r, "error", "message"), "4000") {
			t.Errorf("it does not say what would be lost: %v", r["error"])
		}
		if look := d.preflight("write_file", args); code(look) != "partial_base" || object(look["preview"])["fails"] != true {
			t.Errorf("preflight: got %v %v", look["error"], look["preview"])
		}
		must(t, d.call("edit_file", M{"path": "t", "old_string": "y", "new_string": "x", "expected_hash": hashOf("y\n") + "+partial"}), "done")
		done := must(t, d.approve(must(t, d.call("write_file", merge(args, M{"overwrite": true})), "review")), "done")
		must(t, d.undo(done), "done")
		if read(t, in("long")) != lines {
			t.Error("the undo did not bring 5000 lines back")
		}
	})
	t.Run("D78 a byte limit cuts no character", func(t *testing.T) {
		content := "aa\xf0\x9f\x98\x80bb"
		write(t, in("emoji"), content)
		var got string
		for off := int64(0); ; {
			v := object(must(t, d.call("view_file", M{"path": "emoji", "offset": off, "limit": 3}), "done")["result"])
			got += text(v, "content")
			if v["eof"] == true {
				break
			}
			if off == 0 && (v["content"] != "aa" || number(v["next"]) != 2) {
				t.Errorf("first page: %v", v)
			}
			off = number(v["next"])
		}
		if got != content {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a known hash answers unchanged, another one the content", func(t *testing.T) {
		v := object(must(t, d.call("view_file", M{"path": "emoji", "known_hash": hashOf("aa\xf0\x9f\x98\x80bb")}), "done")["result"])
		if v["unchanged"] != true || v["content"] != nil {
			t.Errorf("got %v", v)
		}
		if v := object(must(t, d.call("view_file", M{"path": "emoji", "known_hash": hashOf("x")}), "done")["result"]); v["unchanged"] == true || v["content"] == nil {
			t.Errorf("got %v", v)
		}
	})
}

// TestMetadata checks that bytes nobody asked to change do not change.
func TestMetadata(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	d := underOn(t, root, state, "sh", "-c", `umask 022; exec "$@"`, "sh")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	overwrite := func(t *testing.T, args M) M {
		t.Helper()
		return must(t, d.approve(must(t, d.call("write_file", args), "review")), "done")
	}
	t.Run("D25 (part) edits, writes and undos keep mode and special bits", func(t *testing.T) {
		for _, mode := range []os.FileMode{0o755, 0o755 | os.ModeSetuid, 0o755 | os.ModeSetgid, 0o640} {
			write(t, in("s.sh"), "#!/bin/sh\necho one\n")
			os.Chmod(in("s.sh"), mode)
			check := func(after string) {
				t.Helper()
				if fi, _ := os.Stat(in("s.sh")); fi.Mode() != mode {
					t.Errorf("after %s: %v, want %v", after, fi.Mode(), mode)
				}
			}
			e := must(t, d.call("edit_file", M{"path": "s.sh", "old_string": "one", "new_string": "two"}), "done")
			check("edit")
			w := overwrite(t, M{"path": "s.sh", "content": "#!/bin/sh\n"})
			check("write")
			must(t, d.undo(w), "done")
			must(t, d.undo(e), "done")
			check("undo")
		}
	})
	t.Run("D26 an overwrite does not ask the umask", func(t *testing.T) {
		write(t, in("g"), "x")
		os.Chmod(in("g"), 0o664)
		overwrite(t, M{"path": "g", "content": "y"})
		if fi, _ := os.Stat(in("g")); fi.Mode() != 0o664 {
			t.Errorf("got %v", fi.Mode())
		}
	})
	t.Run("D27 a new file and its parents have the modes of a plain create", func(t *testing.T) {
		check := func(d *daemon, file, dir os.FileMode) {
			t.Helper()
			must(t, d.call("write_file", M{"path": "new/deep/f", "content": "x"}), "done")
			must(t, d.call("copy_file", M{"source": "new/deep/f", "destination": "new2/f"}), "done")
			must(t, d.call("create_directory", M{"path": "new3"}), "done")
			for p, want := range map[string]os.FileMode{"new/deep/f": file, "new": dir, "new/deep": dir, "new2": dir, "new3": dir} {
				if fi, err := os.Stat(filepath.Join(d.Root, p)); err != nil || fi.Mode().Perm() != want {
					t.Errorf("%s: got %v %v, want %v", p, fi.Mode(), err, want)
				}
			}
			must(t, d.call("write_file", M{"path": "x.sh", "content": "x", "mode": "0755"}), "done")
			if fi, _ := os.Stat(filepath.Join(d.Root, "x.sh")); fi.Mode() != 0o755 {
				t.Errorf("mode 0755: got %v", fi.Mode())
			}
			for _, mode := range []string{"4755", "rwx", "0o755", "-1", "01777"} {
				if r := d.call("write_file", M{"path": "y.sh", "content": "x", "mode": mode}); code(r) != "bad_request" {
					t.Errorf("mode %s: got %v", mode, r["error"])
				}
			}
		}
		check(d, 0o644, 0o755)
		check(under(t, "sh", "-c", `umask 002; exec "$@"`, "sh"), 0o664, 0o775)
	})
	t.Run("D30 extended attributes and ACL stay", func(t *testing.T) {
		write(t, in("x"), "one\n")
		// POSIX ACL, version 2: user rw, user 4242 r, group r, mask rw, other none.
		acl := []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 0x92, 0x10, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255}
		for name, v := range map[string][]byte{"user.k": []byte("v"), "system.posix_acl_access": acl} {
			if err := unix.Setxattr(in("x"), name, v, 0); err != nil {
				t.Fatal(name, err)
			}
		}
		before := xattrs(in("x"))
		e := must(t, d.call("edit_file", M{"path": "x", "old_string": "one", "new_string": "two"}), "done")
		after := xattrs(in("x"))
		must(t, d.undo(e), "done")
		for when, got := range map[string][]string{"edit": after, "undo": xattrs(in("x"))} {
			sort.Strings(got)
			sort.Strings(before)
			if len(got) < 2 || !reflect.DeepEqual(got, before) {
				t.Errorf("after the %s: %q, want %q", when, got, before)
			}
		}
	})
	t.Run("D31 (part) a root daemon leaves owner and group, times of neighbours too", func(t *testing.T) {
		write(t, in("owned"), "one\n")
		if err := os.Chown(in("owned"), 1000, 1001); err != nil {
			t.Fatal(err)
		}
		e := must(t, d.call("edit_file", M{"path": "owned", "old_string": "one", "new_string": "two"}), "done")
		var st syscall.Stat_t
		syscall.Stat(in("owned"), &st)
		if st.Uid != 1000 || st.Gid != 1001 {
			t.Errorf("after the edit: %d:%d", st.Uid, st.Gid)
		}
		must(t, d.undo(e), "done")
	})
	t.Run("D60 a deleted tree comes back whole, times included", func(t *testing.T) {
		write(t, in("d/a"), "1\n")
		write(t, in("d/x.sh"), "#!\n")
		write(t, in("d/.hidden"), "h")
		os.Chmod(in("d/x.sh"), 0o755)
		os.Mkdir(in("d/e"), 0o700)
		os.Symlink("a", in("d/l"))
		past := time.Now().Add(-1000 * time.Hour)
		for _, p := range []string{"d/a", "d/x.sh", "d/e", "d"} {
			os.Chtimes(in(p), past, past)
		}
		times := func() (out []string) {
			for _, p := range []string{"d/a", "d/x.sh", "d/.hidden", "d/e", "d/l"} {
				fi, err := os.Lstat(in(p))
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, fi.ModTime().String())
			}
			return out
		}
		before, at := digest(t, d.Root), times()
		done := must(t, d.approve(must(t, d.call("delete_file", M{"path": "d", "recursive": true}), "review")), "done")
		if _, err := os.Lstat(in("d")); !os.IsNotExist(err) {
			t.Fatal(err)
		}
		t.Run("I47 (part) what was deleted lies in quarantine, and comes back byte for byte", func(t *testing.T) {
			if object(done["result"])["quarantined"] != true {
				t.Errorf("got %v", done["result"])
			}
			must(t, d.undo(done), "done")
			if digest(t, d.Root) != before {
				t.Error("not as before")
			}
		})
		if !reflect.DeepEqual(times(), at) {
			t.Fatalf("times: %v, were %v", times(), at)
		}
	})
	t.Run("D63 a move never replaces", func(t *testing.T) {
		write(t, in("src"), "S")
		write(t, in("t1"), "KEEP")
		os.Symlink("nowhere", in("t2"))
		os.Mkdir(in("t3"), 0o755)
		before := digest(t, d.Root)
		for _, to := range []string{"t1", "t2", "t3"} {
			status, r := d.send(d.Agent, M{"op": "move_file", "args": M{"source": "src", "destination": to}})
			fails(t, status, r, 422, "exists")
			status, r = d.send(d.Agent, M{"op": "move_file", "args": M{"source": "src", "destination": to, "overwrite": true}})
			fails(t, status, r, 400, "bad_request")
		}
		held := must(t, d.call("move_file", M{"source": "src", "destination": "t4"}), "review")
		write(t, in("t4"), "THEIRS")
		if r := d.approve(held); code(r) != "stale_precondition" || read(t, in("t4")) != "THEIRS" {
			t.Errorf("got %v", r["error"])
		}
		os.Remove(in("t4"))
		if digest(t, d.Root) != before {
			t.Fatal("changed")
		}
	})
	t.Run("D64 nothing goes into itself", func(t *testing.T) {
		write(t, in("it/self"), "x")
		before := digest(t, d.Root)
		for _, c := range []struct {
			op   string
			args M
		}{{"copy_file", M{"source": "it", "destination": "it/d", "recursive": true}}, {"copy_file", M{"source": "it", "destination": "it/x/y", "recursive": true}},
			{"move_file", M{"source": "it", "destination": "it/x"}}} {
			status, r := d.send(d.Agent, M{"op": c.op, "args": c.args})
			fails(t, status, r, 422, "into_itself")
		}
		if digest(t, d.Root) != before {
			t.Fatal("changed")
		}
	})
	t.Run("D76 (part) a listing that stops says so, and its pages give each name once", func(t *testing.T) {
		os.Mkdir(in("many"), 0o755)
		want := map[string]bool{}
		for i := range 3001 {
			n := fmt.Sprintf("many/%04d", i)
			want[n] = true
			if err := os.WriteFile(in(n), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		first := object(must(t, d.call("list_directory", M{"path": "many"}), "done")["result"])
		if len(objects(first["entries"])) != 200 || first["truncated"] != "page" || number(first["total"]) != 3001 || text(first, "next") == "" {
			t.Errorf("first page: %d entries, %v, %v", len(objects(first["entries"])), first["truncated"], first["total"])
		}
		seen, page := map[string]bool{}, ""
		for n := 0; ; n++ {
			args := M{"path": "many", "page_size": 1000}
			if page != "" {
				args["page"] = page
			}
			r := object(must(t, d.call("list_directory", args), "done")["result"])
			for _, e := range objects(r["entries"]) {
				if seen[text(e, "path")] {
					t.Errorf("%v twice", e)
				}
				seen[text(e, "path")] = true
			}
			if page = text(r, "next"); page == "" {
				if n != 3 || r["truncated"] != nil {
					t.Errorf("%d pages, truncated %v", n+1, r["truncated"])
				}
				break
			}
		}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("%d names, want %d", len(seen), len(want))
		}
	})
}

// TestPlainUser runs the daemon as a user who may not read and own everything.
func TestPlainUser(t *testing.T) {
	t.Parallel()
	const user = 65534
	root, state := dirs(t)
	base := filepath.Dir(root)
	os.Chmod(filepath.Dir(binary), 0o755)
	for p := base; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		os.Chmod(p, 0o755)
	}
	os.Mkdir(state, 0o700)
	write(t, filepath.Join(root, "mine"), "one\n")
	write(t, filepath.Join(root, "dark"), "hidden\n")
	write(t, filepath.Join(root, "theirs"), "one\n")
	for p, owner := range map[string]int{root: user, state: user, filepath.Join(root, "mine"): user, filepath.Join(root, "dark"): 0, filepath.Join(root, "theirs"): 1000} {
		if err := os.Chown(p, owner, user); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(filepath.Join(root, "dark"), 0)
	os.Chmod(filepath.Join(root, "theirs"), 0o664)
	d := underOn(t, root, state, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/nonexistent")
	before := digest(t, root)
	t.Run("C12 an unreadable file has no hash, and no call on it runs by itself", func(t *testing.T) {
		_, out := d.http("POST", "/v1/preflight", d.Agent, M{"paths": []string{"dark"}})
		target := firstTarget(t, out)
		if target["hash"] != nil || object(out["facts"])["available"] != false || target["exists"] != true {
			t.Errorf("facts: %v", out["facts"])
		}
		d.judged(t, "delete_file", M{"path": "dark"}, "review", "preflight_unavailable", "destructive_operation")
		for _, c := range []struct {
			op   string
			args M
		}{{"view_file", M{"path": "dark"}}, {"edit_file", M{"path": "dark", "old_string": "h", "new_string": "x"}}, {"copy_file", M{"source": "dark", "destination": "c"}}, {"write_file", M{"path": "dark", "content": "x"}}} {
			r := d.call(c.op, c.args)
			if r["status"] == "done" || r["effects_executed"] == true {
				t.Errorf("%s: got %v", c.op, r)
			}
			if r["status"] == "review" {
				d.cancel(r)
			}
		}
		must(t, d.call("file_info", M{"path": "dark"}), "done")
	})
	t.Run("D31 (part) a file whose owner cannot be kept is not replaced", func(t *testing.T) {
		status, r := d.send(d.Agent, M{"op": "edit_file", "args": M{"path": "theirs", "old_string": "one", "new_string": "two"}})
		fails(t, status, r, 422, "metadata_loss")
	})
	if digest(t, root) != before {
		t.Fatal("something was changed")
	}
	t.Run("its own file is edited as ever", func(t *testing.T) {
		must(t, d.call("edit_file", M{"path": "mine", "old_string": "one", "new_string": "two"}), "done")
	})
}

func TestRootGone(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "f"), "one\n")
	edit := M{"path": "f", "old_string": "one", "new_string": "two"}
	t.Run("C35, C57 a root whose directory was replaced is unbound: nothing runs by itself", func(t *testing.T) {
		if err := os.Rename(d.Root, d.Root+".old"); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d.Root, "f"), "one\n")
		r := must(t, d.call("edit_file", edit), "review")
		if text(r, "decision", "reason") != "workspace_unbound" {
			t.Fatalf("got %v", r["decision"])
		}
		if why := objects(d.card(r)["reasons"]); text(why[0], "code") != "workspace_unbound" {
			t.Errorf("card: %v", why)
		}
		if text(d.last(), "reason") != "workspace_unbound" {
			t.Errorf("audit: %v", d.last())
		}
		d.cancel(r)
		_, status := d.http("GET", "/v1/status", d.Agent, nil)
		if objects(status["roots"])[0]["ready"] != false {
			t.Errorf("status: %v", status["roots"])
		}
		for _, dir := range []string{d.Root, d.Root + ".old"} {
			if read(t, filepath.Join(dir, "f")) != "one\n" {
				t.Errorf("%s was changed", dir)
			}
		}
	})
	t.Run("C35 back in its place it is bound again", func(t *testing.T) {
		os.RemoveAll(d.Root)
		if err := os.Rename(d.Root+".old", d.Root); err != nil {
			t.Fatal(err)
		}
		must(t, d.call("edit_file", edit), "done")
	})
	t.Run("C35 a root that vanished is unbound", func(t *testing.T) {
		if err := os.Rename(d.Root, d.Root+".away"); err != nil {
			t.Fatal(err)
		}
		r := d.call("write_file", M{"path": "g", "content": "x"})
		if r["status"] == "done" || text(r, "decision", "reason") != "workspace_unbound" && code(r) == "" {
			t.Fatalf("got %v", r)
		}
	})
}
