package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// yard is a daemon whose workspace stands beside things that must stay unknown and whole.
type yard struct {
	*daemon
	out string // the folder outside
}

func newYard(t testing.TB, d *daemon) yard {
	t.Helper()
	y := yard{d, filepath.Join(filepath.Dir(d.Root), "OUT")}
	write(t, filepath.Join(y.out, "secret"), "outside bytes\n")
	write(t, filepath.Join(y.Root, "f"), "one\n")
	write(t, filepath.Join(y.Root, ".env"), "A=1\n")
	write(t, filepath.Join(y.Root, ".git", "config"), "[core]\n")
	for name, target := range map[string]string{
		"rel": "../OUT/secret", "abs": filepath.Join(y.out, "secret"), "outdir": "../OUT", "dangout": "../OUT/new", "dangin": "nothing", "notes.txt": ".env", "sub": ".git",
		"loop": "loop", "absin": filepath.Join(y.Root, "f"), "here": ".",
	} {
		y.link(t, target, name)
	}
	if err := syscall.Mkfifo(filepath.Join(y.Root, "p"), 0o600); err != nil {
		t.Fatal(err)
	}
	return y
}

func (y yard) link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(y.Root, name)); err != nil {
		t.Fatal(err)
	}
}

// class words an answer: its error code, or done, or the leading reason of a held call,
// which is then withdrawn.
func (y yard) class(t testing.TB, name string, args M) string {
	t.Helper()
	start := time.Now()
	_, r := y.send(y.Agent, M{"op": name, "args": args})
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("%s %v took %v", name, args, d)
	}
	switch {
	case code(r) != "":
		return code(r)
	case r["status"] == "review":
		y.cancel(r)
		return "review " + text(r, "decision", "reason")
	case r["effects_executed"] == true:
		must(t, y.undo(r), "done")
	}
	return fmt.Sprint(r["status"])
}

// TestPlaces holds every path argument of every operation to one answer for each hostile
// place. An operation that is built and has no row fails it.
func TestPlaces(t *testing.T) {
	t.Parallel()
	y := newYard(t, quick(t, ""))
	places := []struct{ name, path string }{
		{"link outside", "rel"}, {"absolute link outside", "abs"}, {"dangling link outside", "dangout"}, {"dangling link", "dangin"}, {"link to protected", "notes.txt"},
		{"fifo", "p"}, {"absolute path", filepath.Join(y.out, "secret")}, {"dot dot", "../OUT/secret"}, {"home", "~/x"}, {"NUL", "a\x00b"}, {"through a link", "outdir/secret"},
		{"empty", ""}, {"loop", "loop"},
	}
	// What most answer: the name is refused before anything is looked at.
	texts := M{"absolute path": "outside_workspace", "dot dot": "outside_workspace", "home": "invalid_path", "NUL": "invalid_path", "through a link": "outside_workspace", "empty": "invalid_path"}
	follows := func(more M) M { // walks a link at the end
		m := M{"link outside": "outside_workspace", "absolute link outside": "outside_workspace", "dangling link outside": "outside_workspace", "loop": "symlink_refused"}
		return merge(texts, m, more)
	}
	takes := func(more M) M { // acts on the link itself
		const held = "review destructive_operation"
		m := M{"link outside": held, "absolute link outside": held, "dangling link outside": held, "dangling link": held, "link to protected": held, "loop": held, "fifo": "review preflight_unavailable"}
		return merge(texts, m, more)
	}
	exists := M{}
	for _, p := range places {
		exists[p.name] = "exists"
	}
	exists = merge(exists, texts)
	special := M{"fifo": "special_file", "dangling link": "not_found"}
	folder := M{"dangling link": "not_found", "link to protected": "not_a_directory", "fifo": "not_a_directory", "empty": "done"}
	noRepository := M{"dangling link": "not_found", "link to protected": "not_found", "fifo": "not_found", "empty": "not_found"}
	rows := map[string]struct {
		args M // without the path
		want M
	}{
		"view_file.path":      {M{}, follows(merge(special, M{"link to protected": "done"}))},
		"list_directory.path": {M{}, follows(folder)},
		"file_info.path": {M{}, merge(texts, M{"link outside": "done", "absolute link outside": "done", "dangling link outside": "done", "dangling link": "done", "link to protected": "done",
			"fifo": "done", "loop": "done"})},
		"diff_file.path":         {M{"content": "x"}, follows(merge(special, M{"link to protected": "done"}))},
		"diff_file.compare_path": {M{"path": "f"}, follows(merge(special, M{"link to protected": "done"}))},
		"write_file.path":        {M{"content": "x"}, follows(merge(special, M{"link to protected": "review protected_target"}))},
		"edit_file.path":         {M{"old_string": "A", "new_string": "B"}, follows(merge(special, M{"link to protected": "review protected_target"}))},
		"create_directory.path":  {M{}, follows(M{"dangling link": "not_found", "link to protected": "exists", "fifo": "exists"})},
		"copy_file.source":       {M{"destination": "new"}, follows(merge(special, M{"link to protected": "review protected_target"}))},
		"git_status.path":        {M{}, follows(noRepository)},
		"git_diff.path":          {M{}, follows(noRepository)},
		"git_log.path":           {M{}, follows(noRepository)},
		"git_show.path":          {M{}, follows(noRepository)},
		"git_blame.path":         {M{}, follows(merge(noRepository, M{"empty": "invalid_path"}))},
		"copy_file.destination":  {M{"source": "f"}, exists},
		"file_tree.path":         {M{}, follows(folder)},
		"detect_tests.path":      {M{}, follows(folder)},
		"search_files.path":      {M{"pattern": "x"}, follows(merge(special, M{"link to protected": "done", "empty": "done"}))},
		"validate_file.path":     {M{"format": "env"}, follows(merge(special, M{"link to protected": "done"}))},
		"preview_markdown.path":  {M{}, follows(merge(special, M{"link to protected": "done"}))},
		"list_backups.path":      {M{}, follows(M{"dangling link": "not_found", "link to protected": "done", "fifo": "done", "empty": "done"})},
		"backup_file.path":       {M{}, follows(merge(special, M{"link to protected": "review protected_target"}))},
		"rollback_file.path":     {M{"last": true}, follows(M{"dangling link": "not_found", "link to protected": "not_found", "fifo": "not_found"})},
		"patch_file.path":        {M{"format": "json", "operations": []M{{"op": "set", "path": "/a", "value": 1}}}, follows(merge(special, M{"link to protected": "invalid_document", "empty": "bad_request"}))},
		"workspace_shell.cwd":    {M{"command": "true"}, follows(merge(folder, M{"empty": "review process_execution"}))},
		"workspace_tests.cwd":    {M{"command": "true"}, follows(merge(folder, M{"empty": "review process_execution"}))},
		"delete_file.path":       {M{}, takes(nil)},
		"move_file.source":       {M{"destination": "new"}, takes(nil)},
		"move_file.destination":  {M{"source": "f"}, exists},
	}
	before, outside := digest(t, y.Root), digest(t, y.out)
	for _, spec := range op.Operations() {
		if !spec.Built || spec.Class == op.Reverting { // an undo names no path
			continue
		}
		for _, f := range op.Fields(spec.Args) {
			if f.Name != "path" && f.Name != "source" && f.Name != "destination" && f.Name != "compare_path" && f.Name != "cwd" && f.Name != "search_path" {
				continue
			}
			name := string(spec.Name) + "." + f.Name
			t.Run("S15, S8 "+name, func(t *testing.T) {
				row, ok := rows[name]
				if !ok {
					t.Fatal("no row: say what this argument answers for each place")
				}
				for _, p := range places {
					args := merge(row.args, M{f.Name: p.path})
					if got := y.class(t, string(spec.Name), args); got != row.want[p.name] {
						t.Errorf("%s: got %s, want %v", p.name, got, row.want[p.name])
					}
				}
				if digest(t, y.Root) != before || digest(t, y.out) != outside {
					t.Fatal("something was changed")
				}
			})
		}
	}
	t.Run("S15 the paths inside a patch and a batch reach no further", func(t *testing.T) {
		for _, p := range places {
			if p.name == "empty" || p.name == "NUL" {
				continue
			}
			want, _ := rows["write_file.path"].want[p.name].(string)
			if strings.HasPrefix(want, "review") {
				want = "review mutating_batch"
			}
			if got := y.class(t, "batch_file_ops", M{"operations": []M{{"op": "write_file", "args": M{"path": "other", "content": "x"}}, {"op": "write_file", "args": M{"path": p.path, "content": "x"}}}}); got != want {
				t.Errorf("batch, %s: got %s, want %s", p.name, got, want)
			}
			for _, patch := range []string{"--- a/%[1]s\n+++ b/%[1]s\n@@ -1,1 +1,1 @@\n-one\n+two\n", "--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1,1 @@\n+two\n", "--- a/%[1]s\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-one\n"} {
				got := y.class(t, "patch_file", M{"patch": fmt.Sprintf(patch, p.path)})
				if got == "done" || strings.HasPrefix(got, "review") || got == "internal_error" {
					t.Errorf("patch, %s: got %s", p.name, got)
				}
			}
		}
		if digest(t, y.Root) != before || digest(t, y.out) != outside {
			t.Fatal("something was changed")
		}
	})
	t.Run("S15 a copy over what is there is no way out either", func(t *testing.T) {
		for place, want := range map[string]string{"rel": "symlink_refused", "abs": "symlink_refused", "dangout": "symlink_refused", "notes.txt": "symlink_refused", "p": "special_file"} {
			if got := y.class(t, "copy_file", M{"source": "f", "destination": place, "overwrite": true}); got != want {
				t.Errorf("%s: got %s, want %s", place, got, want)
			}
		}
		if digest(t, y.Root) != before || digest(t, y.out) != outside {
			t.Fatal("something was changed")
		}
	})
	t.Run("S7 a dangling link never lets a new file appear outside", func(t *testing.T) {
		for _, c := range []string{"write_file", "create_directory"} {
			args := M{"path": "dangout"}
			if c == "write_file" {
				args["content"] = "x"
			}
			status, r := y.send(y.Agent, M{"op": c, "args": args})
			fails(t, status, r, 403, "outside_workspace")
		}
		if _, err := os.Lstat(filepath.Join(y.out, "new")); !os.IsNotExist(err) {
			t.Fatal(err)
		}
	})
	t.Run("I110, C87 (part) the state is out of reach by every spelling", func(t *testing.T) {
		y.link(t, "../state", "st")
		for _, p := range []string{"st/journal.db", "st/tokens/operator", "../state/tokens/agent", filepath.Join(y.State, "tokens", "agent"), "st"} {
			for _, o := range []string{"view_file", "list_directory"} {
				if got := y.class(t, o, M{"path": p}); got != "outside_workspace" {
					t.Errorf("%s %s: got %s", o, p, got)
				}
			}
			if got := y.class(t, "write_file", M{"path": p, "content": "x"}); got != "outside_workspace" {
				t.Errorf("write %s: got %s", p, got)
			}
		}
	})
}

func merge(maps ...M) M {
	out := M{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// each sends one path through the operations that take one, and gives their answers.
func (y yard) each(t testing.TB, path string, ops ...string) map[string]M {
	t.Helper()
	out := map[string]M{}
	start := time.Now()
	defer func() {
		if d := time.Since(start); d > 60*time.Second {
			t.Errorf("%q took %v", path, d)
		}
	}()
	for _, o := range ops {
		args := M{"path": path}
		switch o {
		case "write_file":
			args["content"] = "x"
		case "edit_file":
			args["old_string"], args["new_string"] = "o", "x"
		case "diff_file":
			args["content"] = "x"
		case "copy_file":
			args = M{"source": path, "destination": "new"}
		case "move_file":
			args = M{"source": path, "destination": "new"}
		}
		_, out[o] = y.send(y.Agent, M{"op": o, "args": args})
	}
	return out
}

var reaching = []string{"view_file", "list_directory", "file_info", "diff_file", "write_file", "edit_file", "create_directory", "copy_file", "delete_file", "move_file"}

func TestOutside(t *testing.T) {
	t.Parallel()
	y := newYard(t, quick(t, ""))
	evil := y.Root + "-evil"
	write(t, filepath.Join(evil, "x"), "evil\n")
	before, outside := digest(t, y.Root), digest(t, y.out)
	refused := func(t *testing.T, path, want string) {
		t.Helper()
		for o, r := range y.each(t, path, reaching...) {
			if code(r) != want || r["approval"] != nil {
				t.Errorf("%s %q: got %v %v, want %s", o, path, r["status"], r["error"], want)
			}
			if strings.Contains(fmt.Sprint(r), "evil\n") || strings.Contains(fmt.Sprint(r), "outside bytes") {
				t.Errorf("%s %q: outside content in the answer", o, path)
			}
		}
	}
	t.Run("S1 a sibling whose name begins alike is outside, there or not", func(t *testing.T) {
		for _, p := range []string{evil + "/x", "../" + filepath.Base(evil) + "/x"} {
			refused(t, p, "outside_workspace")
			there, not := y.each(t, p, reaching...), y.each(t, strings.TrimSuffix(p, "x")+"no-such-file", reaching...)
			for o := range there {
				a, b := object(there[o]["error"]), object(not[o]["error"])
				delete(a, "path")
				delete(b, "path")
				if !reflect.DeepEqual(a, b) {
					t.Errorf("%s tells whether it is there: %v and %v", o, a, b)
				}
			}
		}
		if read(t, filepath.Join(evil, "x")) != "evil\n" {
			t.Fatal("it was changed")
		}
	})
	t.Run("I16 an invented place is refused before a card", func(t *testing.T) {
		refused(t, "/no/such/place", "outside_workspace")
		if r := y.call("delete_file", M{"path": "never/was"}); code(r) != "not_found" {
			t.Errorf("got %v", r["error"])
		}
	})
	t.Run("S2 no field of a call moves the root", func(t *testing.T) {
		for _, k := range []string{"cwd", "workspace", "base", "root_path", "dir"} {
			if status, r := y.send(y.Agent, M{"op": "view_file", "args": M{"path": "secret"}, k: y.out}); status != 400 || code(r) != "bad_request" {
				t.Errorf("%s: got %v", k, r["error"])
			}
			if status, r := y.send(y.Agent, M{"op": "view_file", "args": M{"path": "secret", k: y.out}}); status != 400 || code(r) != "bad_request" {
				t.Errorf("args.%s: got %v", k, r["error"])
			}
		}
		for _, root := range []string{y.out, y.Root, "../OUT", "."} {
			if status, r := y.send(y.Agent, M{"op": "view_file", "args": M{"path": "secret"}, "root": root}); status != 404 || code(r) != "unknown_root" {
				t.Errorf("root %s: got %v", root, r["error"])
			}
		}
	})
	t.Run("S3 spellings of the parent are refused on the text", func(t *testing.T) {
		for _, p := range []string{"..", "../", "a/../..", "a/../../", "./..", "a//../..", "f/../../ws-evil"} {
			refused(t, p, "outside_workspace")
		}
		for o, r := range y.each(t, "", reaching...) {
			if want := "invalid_path"; o != "list_directory" && code(r) != want {
				t.Errorf("%s: got %v", o, r["error"])
			}
		}
	})
	t.Run("S4, S8 a slash at the end does not walk a link out", func(t *testing.T) {
		for _, p := range []string{"outdir/", "outdir//", "outdir/.", "outdir/secret", "rel/", "abs/"} {
			for o, r := range y.each(t, p, reaching...) {
				// What acts on a link itself may hold it; nothing may go through it.
				if code(r) == "outside_workspace" || code(r) == "not_a_directory" || code(r) == "symlink_refused" {
					continue
				}
				if (o == "delete_file" || o == "move_file") && r["status"] == "review" && p != "outdir/secret" {
					y.cancel(r)
					continue
				}
				if o == "file_info" && text(r, "result", "type") == "symlink" {
					continue
				}
				t.Errorf("%s %q: got %v %v", o, p, r["status"], r["error"])
			}
		}
	})
	t.Run("S5 (part) a magic link of proc is outside although it leads inside", func(t *testing.T) {
		refused(t, "/proc/self/root"+y.Root+"/f", "outside_workspace")
		refused(t, fmt.Sprintf("/proc/%d/cwd/f", os.Getpid()), "outside_workspace")
	})
	t.Run("D69 a home directory is not looked up, and no folder of that name appears", func(t *testing.T) {
		refused(t, "~/x.txt", "invalid_path")
		for path, want := range map[string]string{"~x": "~x", "$HOME/x.txt": "$HOME/x.txt"} {
			r := must(t, y.call("write_file", M{"path": path, "content": "x"}), "done")
			if read(t, filepath.Join(y.Root, want)) != "x" {
				t.Errorf("%s is not there", want)
			}
			must(t, y.undo(r), "done")
		}
		if _, err := os.Lstat(filepath.Join(y.Root, "~")); !os.IsNotExist(err) {
			t.Error(err)
		}
	})
	t.Run("S8 deleting a link takes the link, and its target stays", func(t *testing.T) {
		for _, l := range []string{"rel", "abs", "dangout", "outdir"} {
			done := must(t, y.approve(must(t, y.call("delete_file", M{"path": l}), "review")), "done")
			if _, err := os.Lstat(filepath.Join(y.Root, l)); !os.IsNotExist(err) {
				t.Errorf("%s: %v", l, err)
			}
			must(t, y.undo(done), "done")
		}
	})
	t.Run("C80 (part) an absolute link is refused with the relative spelling in the hint", func(t *testing.T) {
		r := y.call("view_file", M{"path": "absin"})
		if code(r) != "symlink_refused" || !strings.Contains(text(r, "error", "hint"), "f") {
			t.Errorf("got %v", r["error"])
		}
	})
	if digest(t, y.Root) != before || digest(t, y.out) != outside {
		t.Fatal("something was changed")
	}
	if len(y.cards("pending")) != 0 {
		t.Fatal("something waits")
	}
}

func TestRootThroughLink(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	real, state := filepath.Join(base, "real"), filepath.Join(base, "state")
	lnk := filepath.Join(base, "lnk")
	write(t, filepath.Join(real, "f"), "one\n")
	if err := os.Symlink("real", lnk); err != nil {
		t.Fatal(err)
	}
	d := quickOn(t, lnk, state, "", nil)
	t.Run("S6 a root given through a link answers to both spellings, and is one root", func(t *testing.T) {
		for _, p := range []string{lnk + "/f", real + "/f", "f", "./f"} {
			r := must(t, d.call("file_info", M{"path": p}), "done")
			if text(r, "result", "path") != "f" || text(r, "result", "hash") != hashOf("one\n") {
				t.Errorf("%s: got %v", p, r["result"])
			}
		}
		for _, dir := range []string{real, lnk} {
			if status, r := d.http("POST", "/v1/roots", d.reviewer(), M{"dir": dir, "name": "again"}); status != 400 || code(r) != "bad_request" {
				t.Errorf("registering %s again: got %d %v", dir, status, r)
			}
		}
	})
}

func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	y := newYard(t, quick(t, ""))
	l, err := net.Listen("unix", filepath.Join(y.Root, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	y.link(t, "/dev/zero", "z")
	write(t, filepath.Join(y.Root, "empty"), "")
	rss := y.rss()
	t.Run("S16 a pipe and a socket are told apart and never opened for reading", func(t *testing.T) {
		for name, kind := range map[string]string{"p": "fifo", "s": "socket"} {
			for o, r := range y.each(t, name, "view_file", "edit_file", "diff_file", "write_file", "copy_file") {
				if code(r) != "special_file" {
					t.Errorf("%s %s: got %v %v", o, name, r["status"], r["error"])
				}
			}
			if r := must(t, y.call("file_info", M{"path": name}), "done"); text(r, "result", "type") != kind {
				t.Errorf("%s: got %v", name, r["result"])
			}
			found := false
			for _, e := range objects(object(must(t, y.call("list_directory", M{}), "done")["result"])["entries"]) {
				found = found || text(e, "path") == name && text(e, "type") == kind
			}
			if !found {
				t.Errorf("the listing does not show %s as %s", name, kind)
			}
		}
		t.Run("D70 no operation on a pipe or a socket blocks", func(t *testing.T) {
			for _, name := range []string{"p", "s"} {
				for o, r := range y.each(t, name, "view_file", "edit_file", "diff_file", "copy_file", "validate_file", "backup_file") {
					if code(r) != "special_file" {
						t.Errorf("%s %s: got %v %v", o, name, r["status"], r["error"])
					}
				}
			}
			start := time.Now()
			must(t, y.call("file_info", M{"path": "p"}), "done")
			if time.Since(start) > 10*time.Second {
				t.Errorf("info took %v", time.Since(start))
			}
		})
		// A reader that had opened the pipe would let this writer in.
		if f, err := os.OpenFile(filepath.Join(y.Root, "p"), os.O_WRONLY|syscall.O_NONBLOCK, 0); !errors.Is(err, syscall.ENXIO) {
			t.Errorf("somebody reads the pipe: %v", err)
			f.Close()
		}
	})
	t.Run("D71 (part) a link to a device is outside, and an empty file is no error", func(t *testing.T) {
		for o, r := range y.each(t, "z", "view_file", "diff_file", "copy_file", "write_file") {
			if code(r) != "outside_workspace" {
				t.Errorf("%s: got %v", o, r["error"])
			}
		}
		r := must(t, y.call("view_file", M{"path": "empty"}), "done")
		if v := object(r["result"]); v["content"] != "" || v["eof"] != true || number(v["size"]) != 0 {
			t.Errorf("got %v", v)
		}
		if now := y.rss(); now > rss+64<<20 {
			t.Errorf("memory grew by %d MiB", (now-rss)>>20)
		}
	})
	t.Run("D72 (part) a link to its own directory is listed once and not followed", func(t *testing.T) {
		r := must(t, y.call("list_directory", M{"depth": 5}), "done")
		n := 0
		for _, e := range objects(object(r["result"])["entries"]) {
			if strings.Contains(text(e, "path"), "here") {
				if n++; text(e, "type") != "symlink" {
					t.Errorf("got %v", e)
				}
			}
		}
		if n != 1 {
			t.Errorf("listed %d times", n)
		}
	})
	t.Run("C58 what has no bytes to hash is a missing fact: the call waits and says so", func(t *testing.T) {
		look := y.preflight("delete_file", M{"path": "p"})
		target := objects(object(look["facts"])["targets"])[0]
		if _, hashed := target["hash"]; hashed || object(look["facts"])["available"] != false || target["kind"] != "fifo" {
			t.Errorf("facts: %v", look["facts"])
		}
		y.judged(t, "delete_file", M{"path": "p"}, "review", "preflight_unavailable", "destructive_operation")
		done := must(t, y.approve(y.call("delete_file", M{"path": "p"})), "done")
		must(t, y.undo(done), "done")
		if fi, err := os.Lstat(filepath.Join(y.Root, "p")); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
			t.Fatalf("the pipe did not come back: %v %v", fi, err)
		}
	})
}

func TestLinks(t *testing.T) {
	t.Parallel()
	y := newYard(t, quick(t, ""))
	in := func(p string) string { return filepath.Join(y.Root, p) }
	t.Run("S9 a link is judged by what it leads to, and the card shows both", func(t *testing.T) {
		for path, names := range map[string][]string{"notes.txt": {"notes.txt", ".env"}, "sub/config": {"sub", ".git"}} {
			old := "A=1"
			if path != "notes.txt" {
				old = "core"
			}
			r := must(t, y.call("edit_file", M{"path": path, "old_string": old, "new_string": "x"}), "review")
			if text(r, "decision", "reason") != "protected_target" {
				t.Errorf("%s: got %v", path, r["decision"])
			}
			lines := strings.Join(words(y.card(r)["lines"]), "\n")
			for _, n := range names {
				if !strings.Contains(lines, n) {
					t.Errorf("%s: the card does not name %s:\n%s", path, n, lines)
				}
			}
			y.cancel(r)
		}
		must(t, y.call("view_file", M{"path": "notes.txt"}), "done")
	})
	t.Run("S9 the asked name counts as well: a protected name for a harmless file", func(t *testing.T) {
		y.link(t, "f", "id_rsa")
		r := must(t, y.call("edit_file", M{"path": "id_rsa", "old_string": "one", "new_string": "two"}), "review")
		if text(r, "decision", "reason") != "protected_target" {
			t.Fatalf("got %v", r["decision"])
		}
		y.cancel(r)
	})
	t.Run("D28 (part) writing through a link keeps the link, deleting takes it alone", func(t *testing.T) {
		write(t, in("real.txt"), "old\n")
		y.link(t, "real.txt", "l")
		held := must(t, y.call("write_file", M{"path": "l", "content": "new\n"}), "review")
		before := digest(t, y.Root)
		done := must(t, y.approve(held), "done")
		to, _ := os.Readlink(in("l"))
		if to != "real.txt" || read(t, in("real.txt")) != "new\n" {
			t.Fatalf("link %q, file %q", to, read(t, in("real.txt")))
		}
		info := object(must(t, y.call("file_info", M{"path": "l"}), "done")["result"])
		if info["type"] != "symlink" || info["target"] != "real.txt" {
			t.Errorf("got %v", info)
		}
		if got := told(done); !reflect.DeepEqual(got, []string{"modified real.txt"}) {
			t.Errorf("told %v", got)
		}
		must(t, y.undo(done), "done")
		if digest(t, y.Root) != before {
			t.Fatal("the undo did not bring the tree back")
		}
		done = must(t, y.approve(must(t, y.call("delete_file", M{"path": "l"}), "review")), "done")
		if _, err := os.Lstat(in("l")); !os.IsNotExist(err) || read(t, in("real.txt")) != "old\n" {
			t.Fatalf("%v, %q", err, read(t, in("real.txt")))
		}
		must(t, y.undo(done), "done")
	})
	t.Run("D29, S10, C82 a second name is never written past nor parted without a person", func(t *testing.T) {
		if err := os.Link(filepath.Join(y.out, "secret"), in("h")); err != nil {
			t.Fatal(err)
		}
		before := digest(t, y.Root)
		edit := M{"path": "h", "old_string": "outside", "new_string": "inside"}
		status, r := y.send(y.Agent, M{"op": "edit_file", "args": edit})
		fails(t, status, r, 422, "hard_linked")
		if code(y.call("write_file", M{"path": "h", "content": "x"})) != "hard_linked" || code(y.call("copy_file", M{"source": "f", "destination": "h", "overwrite": true})) != "hard_linked" {
			t.Error("an overwrite or a copy over it was not refused")
		}
		must(t, y.call("view_file", M{"path": "h"}), "done")
		if digest(t, y.Root) != before {
			t.Fatal("changed")
		}
		held := must(t, y.call("edit_file", merge(edit, M{"hard_links": "break"})), "review")
		card := y.card(held)
		if text(held, "decision", "reason") != "safety_override" || !strings.Contains(strings.Join(words(card["lines"]), "\n"), "2 names") {
			t.Fatalf("got %v, %v", held["decision"], card["lines"])
		}
		done := must(t, y.approve(held), "done")
		if read(t, in("h")) != "inside bytes\n" || read(t, filepath.Join(y.out, "secret")) != "outside bytes\n" {
			t.Fatalf("%q and %q", read(t, in("h")), read(t, filepath.Join(y.out, "secret")))
		}
		must(t, y.undo(done), "done")
		if digest(t, y.Root) != before {
			t.Error("the undo did not bring both names back")
		}
		if err := os.Link(in(".env"), in("plain")); err != nil {
			t.Fatal(err)
		}
		if r := y.call("edit_file", M{"path": "plain", "old_string": "A", "new_string": "B"}); code(r) != "hard_linked" || read(t, in(".env")) != "A=1\n" {
			t.Fatalf("C82: got %v", r)
		}
	})
	t.Run("D65 a recursive delete takes links as links", func(t *testing.T) {
		write(t, in("w/a"), "a\n")
		y.link(t, "../../OUT", "w/link")
		before, outside := digest(t, y.Root), digest(t, y.out)
		done := must(t, y.approve(must(t, y.call("delete_file", M{"path": "w", "recursive": true}), "review")), "done")
		if _, err := os.Lstat(in("w")); !os.IsNotExist(err) || digest(t, y.out) != outside {
			t.Fatalf("%v, or the outside changed", err)
		}
		t.Run("S13 (part) the store holds the link, and nothing of what it leads to", func(t *testing.T) {
			links := 0
			filepath.Walk(y.State, func(p string, info os.FileInfo, err error) error {
				if err == nil && info.Mode()&os.ModeSymlink != 0 {
					links++
				}
				if err == nil && info.Mode().IsRegular() && info.Size() == int64(len("outside bytes\n")) && read(t, p) == "outside bytes\n" {
					t.Errorf("a copy of the outside lies at %s", p)
				}
				return nil
			})
			if links == 0 {
				t.Error("no link in the store")
			}
		})
		must(t, y.undo(done), "done")
		if to, _ := os.Readlink(in("w/link")); to != "../../OUT" || digest(t, y.Root) != before || digest(t, y.out) != outside {
			t.Fatal("not as before")
		}
	})
	t.Run("S11, S12 (part) a directory that is swapped for a link all the time leads nowhere", func(t *testing.T) {
		write(t, in("d/f"), "x 0\n")
		write(t, filepath.Join(y.out, "f"), "x outside\n")
		outside := digest(t, y.out)
		y.link(t, "../OUT", "d.other")
		stop, stopped := make(chan bool), make(chan bool)
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					exchange(in("d"), in("d.other"))
				}
			}
		}()
		ended := map[string]int{}
		for i := range 150 {
			_, r := y.send(y.Agent, M{"op": "edit_file", "args": M{"path": "d/f", "old_string": "x ", "new_string": fmt.Sprintf("x %d", i)}})
			ended[fmt.Sprint(r["status"])+" "+code(r)]++
			if diff := text(r, "result", "diff"); strings.Contains(diff, "outside") {
				t.Errorf("bytes from outside in a diff")
			}
			if code(r) == "" && r["status"] != "done" {
				t.Errorf("got %v", r)
			}
		}
		close(stop)
		<-stopped
		t.Logf("ended: %v", ended)
		if digest(t, y.out) != outside {
			t.Fatal("a write went outside")
		}
		if ended["done "] == 0 {
			t.Error("no edit ever landed, so the race was not run")
		}
	})
}

// exchange swaps two names in one step.
func exchange(a, b string) {
	unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

func TestNames(t *testing.T) {
	t.Parallel()
	y := newYard(t, quick(t, ""))
	in := func(p string) string { return filepath.Join(y.Root, p) }
	t.Run("S21 names that checker and kernel read differently are refused before any look", func(t *testing.T) {
		for _, p := range []string{"a.txt\x00.png", "a\nb", "a\x1b[2Kb", strings.Repeat("n", 5000), strings.Repeat("d/", 2000) + "f", strings.Repeat("n", 256), "a\u0085b", "raw:%a%0"} {
			for o, r := range y.each(t, p, reaching...) {
				if code(r) != "invalid_path" {
					t.Errorf("%s %.20q: got %v", o, p, r["error"])
				}
			}
		}
		status, r := y.http("POST", "/v1/call", y.Agent, `{"op":"view_file","args":{"path":"a`+"\xff"+`"}}`)
		fails(t, status, r, 400, "bad_request")
	})
	t.Run("S21 existing names of that kind are one entry each, and their wire form reaches them", func(t *testing.T) {
		for _, name := range []string{"line\nbreak", "bad\xff.txt", "esc\x1b[2K", "raw:%41"} {
			write(t, in("odd/"+name), name)
		}
		entries := objects(object(must(t, y.call("list_directory", M{"path": "odd"}), "done")["result"])["entries"])
		if len(entries) != 4 {
			t.Fatalf("got %v", entries)
		}
		for _, e := range entries {
			wire := text(e, "path")
			if strings.ContainsAny(wire, "\n\x1b\xff") || !strings.HasPrefix(wire, "raw:%") && wire != "odd/raw:%41" {
				t.Errorf("not escaped: %q", wire)
			}
			info := object(must(t, y.call("file_info", M{"path": wire}), "done")["result"])
			if info["exists"] != true || info["path"] != wire {
				t.Errorf("%q: got %v", wire, info)
			}
			done := must(t, y.approve(must(t, y.call("delete_file", M{"path": wire}), "review")), "done")
			if code, out, _ := y.cli("show", text(done, "operation_id")); code != 0 || strings.Contains(out, "\x1b") {
				t.Errorf("show: %d %q", code, out)
			}
		}
		if got := names(t, in("odd")); len(got) != 0 {
			t.Fatalf("left: %q", got)
		}
	})
	t.Run("S20 (part) names that look alike are two files here, and undo takes each by itself", func(t *testing.T) {
		pairs := []string{"caf\u00e9", "cafe\u0301", "\u00df.txt", "ss.txt"}
		var replies []M
		for _, n := range pairs {
			replies = append(replies, must(t, y.call("write_file", M{"path": "twins/" + n, "content": n}), "done"))
		}
		for _, n := range pairs {
			if read(t, in("twins/"+n)) != n {
				t.Errorf("%q is not itself", n)
			}
		}
		must(t, y.undo(replies[1]), "done")
		if got := names(t, in("twins")); len(got) != 3 || read(t, in("twins/"+pairs[0])) != pairs[0] {
			t.Errorf("left: %q", got)
		}
	})
	t.Run("D32 (part) long names work throughout", func(t *testing.T) {
		for _, n := range []int{243, 255} {
			name := strings.Repeat("n", n)
			made := must(t, y.call("write_file", M{"path": "long/" + name, "content": "one\n"}), "done")
			edited := must(t, y.call("edit_file", M{"path": "long/" + name, "old_string": "one", "new_string": "two"}), "done")
			deleted := must(t, y.approve(must(t, y.call("delete_file", M{"path": "long/" + name}), "review")), "done")
			for _, r := range []M{deleted, edited, made} {
				must(t, y.undo(r), "done")
			}
			if _, err := os.Lstat(in("long")); !os.IsNotExist(err) {
				t.Errorf("%d: %v", n, err)
			}
		}
	})
	t.Run("C7, C8 every spelling has one canonical answer, a missing path that of its nearest parent", func(t *testing.T) {
		write(t, in("dir/a"), "a\n")
		y.link(t, "dir/a", "to-a")
		y.link(t, "dir", "to-dir")
		for _, p := range []string{"dir/a", "./dir/a", "dir/../dir/a", "x/../dir/a", "dir//a", "to-a", "to-dir/a", in("dir/a"), "./to-dir/./a"} {
			look := y.preflight("view_file", M{"path": p})
			target := object(objects(object(look["facts"])["targets"])[0])
			if target["path"] != "dir/a" || target["asked"] != p || target["hash"] != hashOf("a\n") {
				t.Errorf("%s: got %v", p, target)
			}
		}
		look := y.preflight("write_file", M{"path": "to-dir/new/file", "content": "x"})
		targets := objects(object(look["facts"])["targets"])
		if targets[0]["path"] != "dir/new/file" || targets[0]["exists"] != false || targets[1]["path"] != "dir/new" || targets[1]["role"] != "parent" || text(objects(targets[0]["links"])[0], "target") != "dir" {
			t.Errorf("got %v", targets)
		}
	})
}

func TestMounts(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	y := yard{out: filepath.Join(filepath.Dir(root), "OUT")}
	write(t, filepath.Join(y.out, "secret"), "outside bytes\n")
	write(t, filepath.Join(root, "t", "m", "x"), "x\n")
	y.daemon = underOn(t, root, state, inMounts(`mount --bind "$1" "$2"`, y.out, filepath.Join(root, "t", "m"))...)
	t.Run("S17 what is mounted into the root is outside, and a tree that holds it is not deleted", func(t *testing.T) {
		for o, r := range y.each(t, "t/m/secret", reaching...) {
			if c := code(r); c != "crosses_mount" && c != "outside_workspace" {
				t.Errorf("%s: got %v %v", o, r["status"], r["error"])
			}
		}
		for o, r := range y.each(t, "t/m/new", "write_file", "create_directory") {
			if c := code(r); c != "crosses_mount" && c != "outside_workspace" {
				t.Errorf("%s: got %v %v", o, r["status"], r["error"])
			}
		}
		for _, c := range []struct {
			op   string
			args M
		}{{"delete_file", M{"path": "t", "recursive": true}}, {"move_file", M{"source": "t", "destination": "t2"}}} {
			status, r := y.send(y.Agent, M{"op": c.op, "args": c.args})
			fails(t, status, r, 403, "crosses_mount")
		}
		if got := names(t, y.out); !reflect.DeepEqual(got, []string{"secret"}) || read(t, filepath.Join(y.out, "secret")) != "outside bytes\n" {
			t.Errorf("outside: %v", got)
		}
	})
}
