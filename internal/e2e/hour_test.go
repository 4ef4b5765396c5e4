package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// undoAll takes operations back as one.
func (d *daemon) undoAll(body M) M {
	d.t.Helper()
	_, out := d.http("POST", "/v1/undo", d.Agent, body)
	return out
}

func ids(replies ...M) []any {
	var out []any
	for _, r := range replies {
		out = append(out, r["operation_id"])
	}
	return out
}

// TestHour takes back what an agent did in a while, with others at work in between.
func TestHour(t *testing.T) {
	t.Parallel()
	d := start(t)
	at := func(name string) string { return filepath.Join(d.Root, name) }
	edit := func(t *testing.T, path, from, to string) M {
		t.Helper()
		return must(t, d.call("edit_file", M{"path": path, "old_string": from, "new_string": to}), "done")
	}
	lines := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}

	t.Run("edits of one file are put together and taken back as one, and brought again as one", func(t *testing.T) {
		write(t, at("chain.txt"), lines(10))
		before := digest(t, d.Root)
		var list []M
		for i := range 10 {
			list = append(list, edit(t, "chain.txt", fmt.Sprintf("line %d\n", i), fmt.Sprintf("LINE %d\n", i)))
		}
		after := digest(t, d.Root)
		u := must(t, d.undoAll(M{"operations": ids(list...)}), "done")
		if digest(t, d.Root) != before {
			t.Fatalf("got %q", read(t, at("chain.txt")))
		}
		if n := len(u["effects"].([]any)); n != 1 {
			t.Errorf("%d effects for one path", n)
		}
		if r := d.undoAll(M{"operations": ids(list[3])}); code(r) != "undo_consumed" {
			t.Errorf("one of them again: got %v", r["error"])
		}
		must(t, d.undo(u), "done")
		if digest(t, d.Root) != after {
			t.Fatal("the redo is not what was there")
		}
	})

	t.Run("what others changed elsewhere stays, what overlaps is refused", func(t *testing.T) {
		write(t, at("m.txt"), lines(20))
		write(t, at("o.txt"), lines(20))
		write(t, at("c.txt"), lines(20))
		list := []M{edit(t, "m.txt", "line 3\n", "agent 3\n"), edit(t, "o.txt", "line 3\n", "agent 3\n"), edit(t, "c.txt", "line 3\n", "agent 3\n")}
		write(t, at("m.txt"), strings.Replace(read(t, at("m.txt")), "line 15\n", "person 15\nand more\n", 1))
		write(t, at("o.txt"), strings.Replace(read(t, at("o.txt")), "agent 3\n", "person 3\n", 1))
		before := digest(t, d.Root)
		plan := must(t, d.undoAll(M{"operations": ids(list...), "dry_run": true}), "done")["result"].(M)["plan"].(M)
		if plan["undo"] != 1.0 || plan["merge"] != 1.0 || plan["refused"] != 1.0 {
			t.Fatalf("got %v", plan)
		}
		for _, body := range []M{{}, {"merge": true}} {
			body["operations"] = ids(list...)
			if r := d.undoAll(body); code(r) != "undo_conflict" {
				t.Fatalf("%v: got %v %v", body, r["status"], r["error"])
			}
		}
		if digest(t, d.Root) != before {
			t.Fatal("a refused undo changed something")
		}
		u := must(t, d.undoAll(M{"operations": ids(list...), "merge": true, "keep_going": true}), "done")
		if got, want := read(t, at("m.txt")), strings.Replace(lines(20), "line 15\n", "person 15\nand more\n", 1); got != want {
			t.Errorf("merged: got %q", got)
		}
		if read(t, at("c.txt")) != lines(20) || !strings.Contains(read(t, at("o.txt")), "person 3\n") {
			t.Error("the others are not as they must be")
		}
		must(t, d.undo(u), "done")
		if digest(t, d.Root) != before {
			t.Error("the undo of the undo is not what was there")
		}
	})

	t.Run("moves, deletes, copies and new files go back together", func(t *testing.T) {
		write(t, at("w/a.txt"), "a\n")
		write(t, at("w/b.txt"), "b\n")
		write(t, at("w/dir/x.txt"), lines(5))
		before := digest(t, d.Root)
		yes := func(r M) M { t.Helper(); return must(t, d.approve(must(t, r, "review")), "done") }
		list := []M{
			must(t, d.call("write_file", M{"path": "w/new/deep/n.txt", "content": "n\n"}), "done"),
			edit(t, "w/dir/x.txt", "line 2\n", "two\n"),
			yes(d.call("move_file", M{"source": "w/dir", "destination": "w/moved/dir"})),
			edit(t, "w/moved/dir/x.txt", "line 4\n", "four\n"),
			edit(t, "w/new/deep/n.txt", "n\n", "n2\n"),
			yes(d.call("delete_file", M{"path": "w/a.txt"})),
			must(t, d.call("write_file", M{"path": "w/a.txt", "content": "another a\n"}), "done"),
			yes(d.call("copy_file", M{"source": "w/moved", "destination": "w/copied", "recursive": true})),
			edit(t, "w/copied/dir/x.txt", "four\n", "4\n"),
			must(t, d.call("backup_file", M{"path": "w/b.txt"}), "done"),
			yes(d.call("delete_file", M{"path": "w/moved", "recursive": true})),
			must(t, d.call("create_directory", M{"path": "w/e/m/p"}), "done"),
		}
		after := digest(t, d.Root)
		u := must(t, d.undoAll(M{"operations": ids(list...)}), "done")
		if digest(t, d.Root) != before {
			t.Fatalf("not as before: %v", tree(t, at("w")))
		}
		must(t, d.undo(u), "done")
		if digest(t, d.Root) != after {
			t.Fatalf("not as after: %v", tree(t, at("w")))
		}
	})

	t.Run("an undo of many by a stranger, or of one that is unknown, changes nothing", func(t *testing.T) {
		write(t, at("s.txt"), "one\n")
		e := edit(t, "s.txt", "one", "two")
		_, out := d.http("POST", "/v1/tokens", d.reviewer(), M{"role": "agent", "name": "stranger"})
		if _, r := d.http("POST", "/v1/undo", text(out, "token"), M{"operations": ids(e)}); code(r) != "undo_unknown" {
			t.Errorf("a stranger: got %v", r["error"])
		}
		if r := d.undoAll(M{"operations": []any{e["operation_id"], "op_none"}}); code(r) != "undo_unknown" {
			t.Errorf("one unknown: got %v", r["error"])
		}
		if r := d.undoAll(M{"operations": []any{}}); code(r) == "" {
			t.Errorf("none: got %v", r)
		}
		if read(t, at("s.txt")) != "two\n" {
			t.Error("changed")
		}
	})

	t.Run("an agent's undo of a protected path waits, and merges what is there when it is released", func(t *testing.T) {
		write(t, at(".github/workflows/ci.yml"), lines(10))
		e := must(t, d.approve(must(t, d.call("edit_file", M{"path": ".github/workflows/ci.yml", "old_string": "line 2", "new_string": "agent 2"}), "review")), "done")
		write(t, at(".github/workflows/ci.yml"), read(t, at(".github/workflows/ci.yml"))+"person\n")
		held := must(t, d.undoAll(M{"operations": ids(e), "merge": true}), "review")
		must(t, d.approve(held), "done")
		if got := read(t, at(".github/workflows/ci.yml")); got != lines(10)+"person\n" {
			t.Errorf("got %q", got)
		}
	})
}

func tree(t testing.TB, dir string) (out []string) {
	t.Helper()
	filepath.Walk(dir, func(p string, _ os.FileInfo, _ error) error {
		out = append(out, strings.TrimPrefix(p, dir))
		return nil
	})
	return out
}

// TestFormatOnSave edits a Go file fifty times, and formats it after each.
func TestFormatOnSave(t *testing.T) {
	t.Parallel()
	d := start(t)
	file := filepath.Join(d.Root, "main.go")
	var b strings.Builder
	b.WriteString("package main\n\n")
	for i := range 60 {
		fmt.Fprintf(&b, "// Number%d says so.\nfunc Number%d() int {\n\treturn %d\n}\n\n", i, i, i)
	}
	first := strings.TrimRight(b.String(), "\n") + "\n"
	write(t, file, first)
	format := func() {
		t.Helper()
		if out, err := exec.Command("gofmt", "-w", file).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	var list []M
	for i := range 50 {
		r := must(t, d.call("edit_file", M{"path": "main.go", "old_string": fmt.Sprintf("return %d\n", i), "new_string": fmt.Sprintf("x:=%d\n\t\treturn   x*%d\n", i, i)}), "done")
		list = append(list, r)
		format()
		if i%10 == 5 { // a person writes too, in between
			s := strings.Replace(read(t, file), fmt.Sprintf("func Number%d() int {", 50+i/10), fmt.Sprintf("// A person wrote this at %d.\nfunc Number%d() int {", i, 50+i/10), 1)
			write(t, file, s)
		}
	}
	after := read(t, file)
	exit, out, errs := d.cli("undo", "--since", "1h", "--dry-run")
	if exit != 5 || !strings.Contains(out, "merge 1 (others changed it too, no overlap)") {
		t.Fatalf("exit %d: %s%s", exit, out, errs)
	}
	exit, out, errs = d.cli("undo", "--since", "1h", "--merge")
	if exit != 0 || !strings.Contains(out, "Took back 50 operations as one") {
		t.Fatalf("exit %d: %s%s", exit, out, errs)
	}
	want := first
	for i := range 5 {
		want = strings.Replace(want, fmt.Sprintf("func Number%d() int {", 50+i), fmt.Sprintf("// A person wrote this at %d.\nfunc Number%d() int {", i*10+5, 50+i), 1)
	}
	if got := read(t, file); got != want {
		t.Fatalf("got\n%s", got)
	}
	if exit, out, errs = d.cli("undo", "@"); exit != 0 {
		t.Fatalf("exit %d: %s%s", exit, out, errs)
	}
	if read(t, file) != after {
		t.Fatal("the undo of the undo is not what was there")
	}
	_ = list
}
