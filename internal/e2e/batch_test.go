package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// item is one operation of a batch.
func item(op string, args M) M { return M{"op": op, "args": args} }

func (d *daemon) batch(items ...M) M {
	d.t.Helper()
	return d.call("batch_file_ops", M{"operations": items})
}

// fresh empties the workspace and writes files into it.
func (d *daemon) fresh(files map[string]string) string {
	d.t.Helper()
	entries, err := os.ReadDir(d.Root)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(d.Root, e.Name())); err != nil {
			d.t.Fatal(err)
		}
	}
	for name, content := range files {
		write(d.t, filepath.Join(d.Root, name), content)
	}
	return digest(d.t, d.Root)
}

func (d *daemon) is(want map[string]string) {
	d.t.Helper()
	got := map[string]string{}
	filepath.Walk(d.Root, func(p string, info os.FileInfo, err error) error {
		rel, _ := filepath.Rel(d.Root, p)
		switch {
		case err != nil:
			d.t.Fatal(err)
		case info.Mode().IsRegular():
			got[rel] = read(d.t, p)
		case info.Mode()&os.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			got[rel] = "-> " + to
		}
		return nil
	})
	for name, content := range want {
		if got[name] != content {
			d.t.Errorf("%s: got %q, want %q", name, got[name], content)
		}
		delete(got, name)
	}
	for name := range got {
		d.t.Errorf("%s: should not be there", name)
	}
}

// whole approves a batch, compares the tree, and takes it back.
func (d *daemon) whole(before string, want map[string]string, items ...M) M {
	d.t.Helper()
	r := must(d.t, d.approve(must(d.t, d.batch(items...), "review")), "done")
	d.is(want)
	if list := r["result"].(M)["items"].([]any); len(list) != len(items) {
		d.t.Errorf("%d results for %d items", len(list), len(items))
	}
	if r["undo_credential"] != nil {
		must(d.t, d.undo(r), "done")
		if digest(d.t, d.Root) != before {
			d.t.Error("the undo does not bring the start back")
			d.is(nil)
		}
	}
	return r
}

func TestBatch(t *testing.T) {
	t.Parallel()
	d := start(t)
	card := func(held M) M {
		_, row := d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.reviewer(), nil)
		return row["card"].(M)
	}
	tree := map[string]string{"a": "one\n", "b": "two\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n"}

	t.Run("C30, C48 a batch that changes anything waits, one of reads only does not", func(t *testing.T) {
		before := d.fresh(tree)
		r := d.batch(item("view_file", M{"path": "a"}), item("write_file", M{"path": "n", "content": "x"}))
		if must(t, r, "review"); text(r, "decision", "reason") != "mutating_batch" {
			t.Errorf("decision %v", r["decision"])
		}
		if c := card(r); text(c["reasons"].([]any)[0].(M), "code") != "mutating_batch" {
			t.Errorf("card %v", c["reasons"])
		}
		r = d.batch(item("write_file", M{"path": "n", "content": "x"}), item("write_file", M{"path": "m", "content": "x"}))
		if must(t, r, "review"); text(r, "decision", "reason") != "mutating_batch" || r["decision"].(M)["one_shot"] != true {
			t.Errorf("decision %v", r["decision"])
		}
		r = must(t, d.batch(item("view_file", M{"path": "a"}), item("file_info", M{"path": "d"}), item("list_directory", M{"path": "d"})), "done")
		if text(r, "decision", "reason") != "read_only" || r["approval"] != nil || r["undo_credential"] != nil {
			t.Errorf("a batch of reads: %v", r)
		}
		if got := text(r["result"].(M)["items"].([]any)[0].(M), "result", "content"); got != "one\n" {
			t.Errorf("content %q", got)
		}
		if digest(t, d.Root) != before {
			t.Error("something changed before an answer")
		}
	})
	t.Run("C31, I25, I27 every item is seen: on the card, in its place and whole", func(t *testing.T) {
		files := map[string]string{}
		var items []M
		for i := range 300 {
			name := fmt.Sprintf("f%03d", i)
			files[name] = name
			items = append(items, item("delete_file", M{"path": name}))
		}
		before := d.fresh(files)
		held := must(t, d.batch(items...), "review")
		c := card(held)
		lines := fmt.Sprint(c["lines"])
		for i := range 300 {
			if want := fmt.Sprintf("%d. delete file f%03d, 4 bytes", i+1, i); !strings.Contains(lines, want) {
				t.Fatalf("the card lacks %q", want)
			}
		}
		if text(c, "title") != "Delete 300 items" || text(c, "effect") != "destructive" {
			t.Errorf("title %q, effect %q", text(c, "title"), text(c, "effect"))
		}
		_, list := d.http("GET", "/v1/approvals?state=pending", d.reviewer(), nil)
		rows := 0
		for _, row := range list["approvals"].([]any) {
			if text(row.(M), "title") == "Delete 300 items" {
				rows++
			}
		}
		if rows != 1 {
			t.Errorf("%d rows, want one", rows)
		}
		r := must(t, d.approve(held), "done")
		d.is(nil)
		must(t, d.undo(r), "done")
		if digest(t, d.Root) != before {
			t.Error("not as before")
		}
	})
	t.Run("C31 nesting, flags, order and duplicates", func(t *testing.T) {
		before := d.fresh(tree)
		for _, c := range []struct {
			what, code, field string
			items             []M
		}{
			{"a batch in a batch", "bad_request", "args.operations[0].op", []M{item("batch_file_ops", M{"operations": []M{item("view_file", M{"path": "a"})}})}},
			{"an undo", "bad_request", "args.operations[0].op", []M{item("undo", M{"operation_id": "x"})}},
			{"an unknown operation", "unknown_operation", "args.operations[1].op", []M{item("view_file", M{"path": "a"}), item("write_flie", M{})}},
			{"an unknown argument", "bad_request", "args.operations[0].args.alow", []M{item("delete_file", M{"path": "a", "alow": true})}},
			{"dry_run in an item", "bad_request", "args.operations[0].dry_run", []M{{"op": "delete_file", "args": M{"path": "a"}, "dry_run": true}}},
			{"dry_run in its arguments", "bad_request", "args.operations[0].args.dry_run", []M{item("delete_file", M{"path": "a", "dry_run": true})}},
			{"nothing", "bad_request", "args.operations", []M{}},
			{"deleted twice", "not_found", "args.operations[1]", []M{item("delete_file", M{"path": "a"}), item("delete_file", M{"path": "a"})}},
			{"edited after its delete", "not_found", "args.operations[1]", []M{item("delete_file", M{"path": "a"}), item("edit_file", M{"path": "a", "old_string": "one", "new_string": "1"})}},
			{"old bytes after an edit", "no_match", "args.operations[1].args.old_string", []M{item("edit_file", M{"path": "a", "old_string": "one", "new_string": "1"}), item("edit_file", M{"path": "a", "old_string": "one", "new_string": "2"})}},
			{"into a directory that goes", "exists", "args.operations[1]", []M{item("write_file", M{"path": "n", "content": ""}), item("move_file", M{"source": "d", "destination": "n"})}},
		} {
			_, r := d.http("POST", "/v1/call", d.Agent, M{"op": "batch_file_ops", "args": M{"operations": c.items}})
			if code(r) != c.code || text(r, "error", "field") != c.field || r["effects_executed"] == true {
				t.Errorf("%s: got %v, want %s in %s", c.what, r["error"], c.code, c.field)
			}
		}
		items := make([]M, 1001)
		for i := range items {
			items[i] = item("view_file", M{"path": "a"})
		}
		if r := d.batch(items...); code(r) != "too_large" {
			t.Errorf("1,001 items: %v", r["error"])
		}
		if r := d.batch(items[:1000]...); r["status"] != "done" {
			t.Errorf("1,000 reads: %v", r["error"])
		}
		flagged := d.batch(item("write_file", M{"path": "n", "content": ""}), item("delete_file", M{"path": "a", "allow_ignored": true}))
		also := fmt.Sprint(flagged["decision"])
		if !strings.Contains(also, "safety_override") || !strings.Contains(also, "destructive_operation") {
			t.Errorf("a flag and a delete of one item: %v", flagged["decision"])
		}
		one := d.batch(item("write_file", M{"path": "n", "content": ""}), item("delete_file", M{"path": "a"}))
		two := d.batch(item("delete_file", M{"path": "a"}), item("write_file", M{"path": "n", "content": ""}))
		if text(one, "approval", "identity") == text(two, "approval", "identity") {
			t.Error("another order has the same identity")
		}
		if digest(t, d.Root) != before {
			t.Error("something changed")
		}
	})
	t.Run("C73 a batch is approved once and never remembered", func(t *testing.T) {
		d.fresh(tree)
		held := must(t, d.batch(item("edit_file", M{"path": "a", "old_string": "one", "new_string": "1"})), "review")
		c := card(held)
		_, out := d.http("POST", "/v1/approvals/"+text(held, "approval", "id")+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(c, "shown_digest")})
		if code(out) == "" {
			t.Errorf("remembered: %v", out)
		}
		r := must(t, d.approve(held), "done")
		must(t, d.undo(r), "done")
		must(t, d.batch(item("edit_file", M{"path": "a", "old_string": "one", "new_string": "1"})), "review")
	})
	t.Run("C86 (part) protected names count at both ends, in every item and for parents", func(t *testing.T) {
		d.fresh(map[string]string{"a": "x", ".env": "K=1\n", "m/.env": "K=1\n"})
		for what, items := range map[string][]M{
			"moved to":      {item("move_file", M{"source": "a", "destination": ".npmrc"})},
			"moved from":    {item("move_file", M{"source": ".env", "destination": "x"})},
			"below":         {item("move_file", M{"source": "m", "destination": "n"})},
			"a parent":      {item("write_file", M{"path": ".ssh/new/x", "content": ""})},
			"by two steps":  {item("move_file", M{"source": "m", "destination": "n"}), item("edit_file", M{"path": "n/.env", "old_string": "1", "new_string": "2"})},
			"in the middle": {item("write_file", M{"path": "q", "content": ""}), item("write_file", M{"path": ".git/hooks/x", "content": ""}), item("write_file", M{"path": "r", "content": ""})},
			"all together":  {item("write_file", M{"path": "g/HEAD", "content": "ref: refs/heads/x\n"}), item("create_directory", M{"path": "g/objects"}), item("create_directory", M{"path": "g/refs"}), item("write_file", M{"path": "g/config", "content": "x"})},
		} {
			r := must(t, d.batch(items...), "review")
			if !strings.Contains(fmt.Sprint(r["decision"]), "protected_target") {
				t.Errorf("%s: %v", what, r["decision"])
			}
		}
	})
	t.Run("I77 later items see what earlier ones make, and the whole is undone as one", func(t *testing.T) {
		for _, c := range []struct {
			name  string
			want  map[string]string
			items []M
		}{
			{"edits of one file", map[string]string{"a": "1!\n", "b": "two\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n"},
				[]M{item("edit_file", M{"path": "a", "old_string": "one", "new_string": "1"}), item("edit_file", M{"path": "a", "old_string": "1", "new_string": "1!"})}},
			{"made, edited, moved", map[string]string{"a": "one\n", "b": "two\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n", "q/r": "made\n"},
				[]M{item("write_file", M{"path": "n/m", "content": "new\n"}), item("edit_file", M{"path": "n/m", "old_string": "new", "new_string": "made"}),
					item("move_file", M{"source": "n", "destination": "q"}), item("move_file", M{"source": "q/m", "destination": "q/r"})}},
			{"moved and edited", map[string]string{"c": "ONE\n", "b": "two\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n"},
				[]M{item("move_file", M{"source": "a", "destination": "c"}), item("edit_file", M{"path": "c", "old_string": "one", "new_string": "ONE"})}},
			{"edited and moved", map[string]string{"c": "ONE\n", "b": "two\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n"},
				[]M{item("edit_file", M{"path": "a", "old_string": "one", "new_string": "ONE"}), item("move_file", M{"source": "a", "destination": "c"})}},
			{"a directory moved and changed inside", map[string]string{"a": "one\n", "b": "two\n", "f/g/x": "EX\n", "f/g/n": "new\n", "y2": "why\n", "e/z": "zed\n"},
				[]M{item("move_file", M{"source": "d", "destination": "f/g"}), item("edit_file", M{"path": "f/g/x", "old_string": "ex", "new_string": "EX"}),
					item("write_file", M{"path": "f/g/n", "content": "new\n"}), item("move_file", M{"source": "f/g/y", "destination": "y2"})}},
			{"saved out of a directory that goes", map[string]string{"a": "one\n", "b": "two\n", "x": "ex\n", "e/z": "zed\n"},
				[]M{item("move_file", M{"source": "d/x", "destination": "x"}), item("delete_file", M{"path": "d", "recursive": true})}},
			{"moved into a directory that goes", map[string]string{"b": "two\n", "e/z": "zed\n"},
				[]M{item("move_file", M{"source": "a", "destination": "d/a"}), item("delete_file", M{"path": "d", "recursive": true})}},
			{"a file takes the place of its directory", map[string]string{"a": "one\n", "b": "two\n", "d": "ex\n", "e/z": "zed\n"},
				[]M{item("move_file", M{"source": "d/x", "destination": "tmp"}), item("delete_file", M{"path": "d", "recursive": true}), item("move_file", M{"source": "tmp", "destination": "d"})}},
			{"two files change places", map[string]string{"a": "two\n", "b": "one\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n"},
				[]M{item("move_file", M{"source": "a", "destination": "t"}), item("move_file", M{"source": "b", "destination": "a"}), item("move_file", M{"source": "t", "destination": "b"})}},
			{"a chain of moves", map[string]string{"b": "one\n", "c": "two\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n"},
				[]M{item("move_file", M{"source": "b", "destination": "c"}), item("move_file", M{"source": "a", "destination": "b"})}},
			{"deleted and made anew", map[string]string{"a": "fresh\n", "b": "two\n", "d": "now a file\n", "e/z": "zed\n"},
				[]M{item("delete_file", M{"path": "a"}), item("write_file", M{"path": "a", "content": "fresh\n"}),
					item("delete_file", M{"path": "d", "recursive": true}), item("write_file", M{"path": "d", "content": "now a file\n"})}},
			{"copied after an edit", map[string]string{"a": "1\n", "b": "two\n", "c": "1\n", "k": "two\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n"},
				[]M{item("edit_file", M{"path": "a", "old_string": "one", "new_string": "1"}), item("copy_file", M{"source": "a", "destination": "c"}), item("copy_file", M{"source": "b", "destination": "k"})}},
			{"copied, then edited", map[string]string{"a": "one\n", "b": "two\n", "c": "uno\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n"},
				[]M{item("copy_file", M{"source": "a", "destination": "c"}), item("edit_file", M{"path": "c", "old_string": "one", "new_string": "uno"})}},
			{"outer into its inner", map[string]string{"a": "one\n", "b": "two\n", "x/d/y": "why\n", "e/z": "zed\n"},
				[]M{item("delete_file", M{"path": "d/x"}), item("create_directory", M{"path": "x"}), item("move_file", M{"source": "d", "destination": "x/d"})}},
			{"nothing left of it", tree, []M{item("write_file", M{"path": "n", "content": "1"}), item("delete_file", M{"path": "n"})}},
		} {
			t.Run(c.name, func(t *testing.T) {
				defer func(was testing.TB) { d.t = was }(d.t)
				d.t = t
				d.whole(d.fresh(tree), c.want, c.items...)
			})
		}
	})
	t.Run("C31 (part) a read in a batch sees what was made before it", func(t *testing.T) {
		d.fresh(tree)
		r := d.whole(digest(t, d.Root), map[string]string{"a": "1\n", "b": "two\n", "d/x": "ex\n", "d/y": "why\n", "e/z": "zed\n"},
			item("edit_file", M{"path": "a", "old_string": "one", "new_string": "1"}), item("view_file", M{"path": "a"}), item("file_info", M{"path": "a"}))
		if got := text(r["result"].(M)["items"].([]any)[1].(M), "result", "content"); got != "1\n" {
			t.Errorf("content %q", got)
		}
	})
	t.Run("S99 links are followed where they will lead", func(t *testing.T) {
		out := filepath.Join(filepath.Dir(d.Root), "OUT")
		if err := os.MkdirAll(out, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, code string
			links      map[string]string
			items      []M
		}{
			{"a link that comes to lead out", "outside_workspace", map[string]string{"p/q/l": "../../d"},
				[]M{item("move_file", M{"source": "p/q/l", "destination": "l"}), item("write_file", M{"path": "l/x", "content": "out"})}},
			{"out of a directory that moves up", "outside_workspace", map[string]string{"p/q/l": "../../d"},
				[]M{item("move_file", M{"source": "p/q", "destination": "q"}), item("move_file", M{"source": "q/l", "destination": "l2"}), item("write_file", M{"path": "l2/x", "content": "out"})}},
			{"in the place of a directory", "outside_workspace", map[string]string{"p/q/l": "../../d"},
				[]M{item("move_file", M{"source": "d", "destination": "d2"}), item("move_file", M{"source": "p/q/l", "destination": "d"}), item("write_file", M{"path": "d/x", "content": "out"})}},
			{"to nothing", "not_found", map[string]string{"p/q/l": "../../d"},
				[]M{item("move_file", M{"source": "d", "destination": "d2"}), item("write_file", M{"path": "p/q/l/x", "content": "?"})}},
			{"round in a circle", "symlink_refused", map[string]string{"l": "m", "p/m": "../l"},
				[]M{item("move_file", M{"source": "p/m", "destination": "m"}), item("write_file", M{"path": "m/x", "content": "?"})}},
		} {
			before := d.fresh(tree)
			for name, to := range c.links {
				os.MkdirAll(filepath.Join(d.Root, filepath.Dir(name)), 0o755)
				if err := os.Symlink(to, filepath.Join(d.Root, name)); err != nil {
					t.Fatal(err)
				}
			}
			before = digest(t, d.Root)
			if r := d.batch(c.items...); code(r) != c.code && !(c.name == "round in a circle" && code(r) == "outside_workspace") {
				t.Errorf("%s: got %v %v, want %s", c.name, r["status"], r["error"], c.code)
			}
			if digest(t, d.Root) != before {
				t.Errorf("%s: something changed", c.name)
			}
		}
		if list, _ := os.ReadDir(out); len(list) > 0 {
			t.Errorf("outside: %v", list)
		}
		// The same with a link that still leads inside: it is followed there, and to no other place.
		d.fresh(tree)
		os.MkdirAll(filepath.Join(d.Root, "p"), 0o755)
		os.Symlink("../d", filepath.Join(d.Root, "p/l"))
		d.whole(digest(t, d.Root), map[string]string{"a": "one\n", "b": "two\n", "d2/x": "EX\n", "d2/y": "why\n", "p/l": "-> ../d", "d/n": "new\n", "e/z": "zed\n"},
			item("move_file", M{"source": "d", "destination": "d2"}), item("create_directory", M{"path": "d"}), item("write_file", M{"path": "p/l/n", "content": "new\n"}),
			item("edit_file", M{"path": "d2/x", "old_string": "ex", "new_string": "EX"}))
	})
	t.Run("S20 names that some file systems take for one", func(t *testing.T) {
		before := d.fresh(map[string]string{"keep": "k"})
		items := []M{item("write_file", M{"path": "caf\u00e9", "content": "nfc"}), item("write_file", M{"path": "cafe\u0301", "content": "nfd"}),
			item("write_file", M{"path": "\u00df.txt", "content": "sharp"}), item("write_file", M{"path": "ss.txt", "content": "ss"})}
		held := must(t, d.batch(items...), "review")
		if n := strings.Count(fmt.Sprint(held["warnings"])+fmt.Sprint(card(held)["warnings"]), "name_collision"); n < 2 {
			t.Errorf("the card warns %d times: %v", n, card(held)["warnings"])
		}
		d.whole(before, map[string]string{"keep": "k", "caf\u00e9": "nfc", "cafe\u0301": "nfd", "\u00df.txt": "sharp", "ss.txt": "ss"}, items...)
	})
	t.Run("D36 one item fails and nothing of the batch stands", func(t *testing.T) {
		before := d.fresh(map[string]string{"a": "one\n", "b": "two\n"})
		items := []M{item("edit_file", M{"path": "a", "old_string": "one", "new_string": "1"}), item("edit_file", M{"path": "b", "old_string": "two", "new_string": "2"}), item("write_file", M{"path": "c", "content": "new"})}
		held := must(t, d.batch(items...), "review")
		asRootOnly(t, "a file is made immutable")
		chattr(t, "+i", filepath.Join(d.Root, "b"))
		defer chattr(t, "-i", filepath.Join(d.Root, "b"))
		r := d.approve(held)
		if r["effects_executed"] == true || text(r, "error", "path") != "b" {
			t.Errorf("got %v", r)
		}
		_, look := d.http("POST", "/v1/preflight", d.Agent, M{"op": "batch_file_ops", "args": M{"operations": items}})
		for what, r := range map[string]M{"preflight": look, "the call": d.batch(items...)} {
			if code(r) != "permission_denied" || text(r, "error", "path") != "b" || !strings.Contains(text(r, "error", "message"), "operation 2") {
				t.Errorf("%s: %v", what, r["error"])
			}
		}
		if digest(t, d.Root) != before {
			t.Error("something changed")
		}
	})
	t.Run("C145 (part) atomic: false does what it can, item by item, and says so", func(t *testing.T) {
		d.fresh(tree)
		args := M{"atomic": false, "operations": []M{item("edit_file", M{"path": "a", "old_string": "one", "new_string": "1"}),
			item("edit_file", M{"path": "b", "old_string": "nowhere", "new_string": "2"}), item("delete_file", M{"path": "d/x"})}}
		held := must(t, d.call("batch_file_ops", args), "review")
		if lines := fmt.Sprint(card(held)["lines"]); !strings.Contains(lines, "not all or nothing") || !strings.Contains(lines, "2. cannot be done") {
			t.Errorf("card: %v", lines)
		}
		r := must(t, d.approve(held), "done")
		d.is(map[string]string{"a": "1\n", "b": "two\n", "d/y": "why\n", "e/z": "zed\n"})
		list := r["result"].(M)["items"].([]any)
		for i, want := range []string{"done", "failed", "done"} {
			one := list[i].(M)
			if text(one, "status") != want {
				t.Errorf("item %d: %v", i, one)
			}
			if want == "done" {
				must(t, d.undo(one), "done")
			}
		}
		if code(list[1].(M)) != "no_match" {
			t.Errorf("item 1: %v", list[1])
		}
		d.is(tree)
	})
	t.Run("C95 (part) the undo of a batch refuses as a whole when one of its paths changed", func(t *testing.T) {
		for _, c := range []struct {
			what, path string
			change     func(string)
		}{
			{"another edit", "f/g/x", func(p string) { write(t, p, "mine\n") }},
			{"something new in the directory", "f/g/mine", func(p string) { write(t, p, "mine\n") }},
			{"something in the place of what went", "a", func(p string) { write(t, p, "mine\n") }},
		} {
			d.fresh(tree)
			r := must(t, d.approve(must(t, d.batch(item("move_file", M{"source": "d", "destination": "f/g"}), item("edit_file", M{"path": "f/g/x", "old_string": "ex", "new_string": "EX"}),
				item("delete_file", M{"path": "a"}), item("write_file", M{"path": "n", "content": "new"})), "review")), "done")
			c.change(filepath.Join(d.Root, c.path))
			now := digest(t, d.Root)
			if u := d.undo(r); code(u) != "undo_conflict" || u["effects_executed"] == true {
				t.Errorf("%s: %v %v", c.what, u["status"], u["error"])
			}
			if digest(t, d.Root) != now {
				t.Errorf("%s: the refused undo changed something", c.what)
			}
		}
	})
	t.Run("C20 (part) what drifts after the card ends a batch as a whole", func(t *testing.T) {
		for _, p := range []string{"a", "d/y", "b"} {
			d.fresh(tree)
			held := must(t, d.batch(item("edit_file", M{"path": "b", "old_string": "two", "new_string": "2"}), item("move_file", M{"source": "d", "destination": "f"}), item("copy_file", M{"source": "a", "destination": "c"})), "review")
			write(t, filepath.Join(d.Root, p), "drifted\n")
			now := digest(t, d.Root)
			if r := d.approve(held); code(r) != "stale_precondition" || digest(t, d.Root) != now {
				t.Errorf("%s: %v", p, r["error"])
			}
		}
	})
	t.Run("C32 (part) an item whose switch is off turns the batch off", func(t *testing.T) {
		conf := filepath.Join(t.TempDir(), "c.toml")
		write(t, conf, "[profiles.default]\nallow_delete = false\n")
		d := start(t, "--config", conf)
		write(t, filepath.Join(d.Root, "a"), "x")
		for _, r := range []M{d.batch(item("write_file", M{"path": "n", "content": ""}), item("delete_file", M{"path": "a"})),
			d.call("patch_file", M{"patch": "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n"})} {
			if text(r, "status") != "refused" || code(r) != "operation_disabled" {
				t.Errorf("got %v %v", r["status"], r["error"])
			}
		}
		must(t, d.batch(item("write_file", M{"path": "n", "content": ""})), "review")
	})
}

func TestTrustedBatch(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	file := policyFile(t, filepath.Dir(root), M{"id": "nightly", "workflow_ids": []string{"clean"}, "operations": []string{"batch_file_ops", "delete_file"}, "roots": []string{filepath.Join(root, "out")}})
	d := quickOn(t, root, state, "[profiles.bot]\nrequire_approval = false\n", []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + file})
	bot := d.token(M{"name": "bot", "role": "agent", "workflow": "clean", "profile": "bot"})
	for _, p := range []string{"out/a", "out/b", "src/a"} {
		write(t, filepath.Join(d.Root, p), "a\n")
	}
	before := digest(t, d.Root)
	del := func(p string) M { return item("delete_file", M{"path": p}) }
	patch := "--- a/out/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
	t.Run("C106, C108 (part) an entry covers a batch when it names every destructive part and every place", func(t *testing.T) {
		for _, c := range []struct {
			what string
			call M
			auto bool
		}{
			{"deletes in its place", M{"op": "batch_file_ops", "args": M{"operations": []M{del("out/a"), del("out/b"), item("write_file", M{"path": "out/c", "content": ""})}}}, true},
			{"one elsewhere", M{"op": "batch_file_ops", "args": M{"operations": []M{del("out/a"), del("src/a")}}}, false},
			{"a move, which it does not name", M{"op": "batch_file_ops", "args": M{"operations": []M{del("out/a"), item("move_file", M{"source": "out/b", "destination": "out/c"})}}}, false},
			{"a patch that deletes", M{"op": "patch_file", "args": M{"patch": patch}}, true},
			{"a patch that renames, in a batch", M{"op": "batch_file_ops", "args": M{"operations": []M{item("patch_file", M{"patch": "diff --git a/out/a b/out/z\nsimilarity index 100%\nrename from out/a\nrename to out/z\n"})}}}, false},
		} {
			_, r := d.send(bot, c.call)
			if c.auto != (text(r, "decision", "reason") == "trusted_automation") || c.auto != (r["status"] == "done") {
				t.Errorf("%s: %v %v %v", c.what, r["status"], r["decision"], r["error"])
			}
			if c.auto {
				_, u := d.http("POST", "/v1/undo", bot, M{"credential": r["undo_credential"]})
				must(t, u, "done")
			}
			if digest(t, d.Root) != before {
				t.Fatalf("%s: not as before", c.what)
			}
		}
		_, r := d.http("POST", "/v1/call", d.Agent, M{"op": "batch_file_ops", "args": M{"operations": []M{del("out/a")}}})
		must(t, r, "review")
	})
}
