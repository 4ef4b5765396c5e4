package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// changes asks what may have changed since a cursor.
func (d *daemon) changes(t testing.TB, cursor, wait string) M {
	t.Helper()
	status, out := d.http("GET", "/v1/changes?after="+cursor+"&wait="+wait, d.Agent, nil)
	if status != 200 {
		t.Fatalf("changes: %d %v", status, out)
	}
	return out
}

// begun starts to count changes.
func (d *daemon) begun(t testing.TB) string {
	t.Helper()
	out := d.changes(t, "", "")
	if out["look_again"] != true || text(out, "cursor") == "" {
		t.Fatalf("without a cursor: %v", out)
	}
	return text(out, "cursor")
}

// named lists the paths of an answer.
func named(out M) (list []string) {
	paths, _ := out["paths"].([]any)
	for _, p := range paths {
		list = append(list, fmt.Sprint(p))
	}
	return list
}

// listen gives the events of a stream as they come.
func (d *daemon) listen(t testing.TB, query string) chan M {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://holdpoint/v1/events"+query, nil)
	req.Header.Set("Authorization", "Bearer "+d.Agent)
	client := d.client()
	client.Timeout = 0
	resp, err := client.Do(req)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); resp.Body.Close() })
	out := make(chan M, 256)
	go func() {
		defer close(out)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				m := M{}
				if json.Unmarshal([]byte(data), &m) == nil {
					out <- m
				}
			}
		}
	}()
	return out
}

// next waits for an event of a kind.
func next(t testing.TB, events chan M, kind string) M {
	t.Helper()
	for end := time.After(60 * time.Second); ; {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatal("the stream ended")
			}
			if e["type"] == kind {
				return object(e["data"])
			}
		case <-end:
			t.Fatalf("no %s", kind)
		}
	}
}

// inotifies counts the directories that the kernel watches for a process.
func inotifies(t testing.TB, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f)
		n += strings.Count(string(b), "inotify wd:")
	}
	return n
}

func TestChanges(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	gitAt(t, d.Root, "init", "-q")
	write(t, in(".gitignore"), "node_modules/\n")
	for _, p := range []string{"a/b/f", "a/g", ".hidden/h", "node_modules/x/y"} {
		write(t, in(p), "1\n")
	}
	outside := filepath.Join(filepath.Dir(d.Root), "outside")
	write(t, filepath.Join(outside, "secret-name"), "x")
	t.Run("nothing is watched until somebody asks", func(t *testing.T) {
		before := inotifies(t, d.cmd.Process.Pid)
		must(t, d.call("file_tree", M{}), "done")
		if n := inotifies(t, d.cmd.Process.Pid); n != before {
			t.Errorf("%d more", n-before)
		}
		_, status := d.http("GET", "/v1/status", d.Agent, nil)
		if roots := objects(status["roots"]); roots[0]["watch"] != nil {
			t.Errorf("got %v", roots[0])
		}
		d.begun(t)
		_, status = d.http("GET", "/v1/status", d.Agent, nil)
		if roots := objects(status["roots"]); number(object(roots[0]["watch"])["directories"]) != 5 || inotifies(t, d.cmd.Process.Pid) != before+5 {
			t.Errorf("got %v, %d watches", roots[0], inotifies(t, d.cmd.Process.Pid)-before) // the root, .git, a, a/b, .hidden
		}
	})
	t.Run("a cursor names what changed since, at once and by whatever way", func(t *testing.T) {
		cursor := d.begun(t)
		for _, c := range []struct {
			what string
			do   func() error
			want []string
		}{
			{"a write", func() error { return os.WriteFile(in("a/b/f"), []byte("2"), 0o644) }, []string{"a/b/f"}},
			{"a mode", func() error { return os.Chmod(in("a/g"), 0o600) }, []string{"a/g"}},
			{"a rename", func() error { return os.Rename(in("a/g"), in("a/i")) }, []string{"a/g", "a/i"}},
			{"a hidden one", func() error { return os.Remove(in(".hidden/h")) }, []string{".hidden/h"}},
			{"nothing", func() error { return nil }, nil},
			{"what git ignores", func() error { return os.WriteFile(in("node_modules/x/y"), []byte("2"), 0o644) }, nil},
			{"a directory, for all in it", func() error {
				return os.MkdirAll(in("new/deep"), 0o755)
			}, []string{"new"}},
			{"in a new directory", func() error { return os.WriteFile(in("new/deep/f"), nil, 0o644) }, []string{"new/deep/f"}},
			{"a moved directory", func() error { return os.Rename(in("a/b"), in("new/b")) }, []string{"a/b", "new/b"}},
			{"in the moved one", func() error { return os.WriteFile(in("new/b/f"), []byte("3"), 0o644) }, []string{"new/b/f"}},
			{"one that left", func() error { return os.Rename(in("new/b"), filepath.Join(outside, "b")) }, []string{"new/b"}},
			{"in the one that left", func() error { return os.WriteFile(filepath.Join(outside, "b/f"), []byte("4"), 0o644) }, nil},
			{"a link out", func() error { return os.Symlink(outside, in("new/out")) }, []string{"new/out"}},
			{"behind a link", func() error { return os.WriteFile(filepath.Join(outside, "secret-name"), []byte("4"), 0o644) }, nil},
			{"the index", func() error { gitAt(t, d.Root, "add", "a"); return nil }, []string{".git"}},
		} {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			out := d.changes(t, cursor, "")
			got := slices.DeleteFunc(named(out), func(p string) bool { return p == "a" || p == "new" && c.what != "a directory, for all in it" })
			if !slices.Equal(got, c.want) || out["look_again"] != false {
				t.Errorf("%s: got %v, want %v", c.what, out, c.want)
			}
			cursor = text(out, "cursor")
		}
		if exit, out, errs := d.cli("watch", "--once", "--after", cursor); exit != 0 || out != "" || !strings.Contains(errs, "cursor: ") {
			t.Errorf("holdpoint watch: %d %q %q", exit, out, errs)
		}
		write(t, in("a/cli"), "x")
		if exit, out, _ := d.cli("watch", "--once", "--after", cursor, "--json"); exit != 0 || !strings.Contains(out, `"a/cli"`) {
			t.Errorf("holdpoint watch --json: %d %q", exit, out)
		}
		if out := d.changes(t, "w.0", ""); out["look_again"] != true {
			t.Errorf("a cursor of another watch: %v", out)
		}
	})
	t.Run("who asked has an event of each burst, and others have none", func(t *testing.T) {
		asked, other := d.listen(t, "?from=now&watch"), d.listen(t, "?from=now")
		if first := next(t, asked, "workspace.changed"); first["look_again"] != true {
			t.Errorf("the first: %v", first)
		}
		must(t, d.call("write_file", M{"path": "a/ours", "content": "x\n"}), "done")
		for !slices.Contains(named(next(t, asked, "workspace.changed")), "a/ours") {
		}
		next(t, other, "operation.done")
		select {
		case e := <-other:
			if e["type"] == "workspace.changed" {
				t.Errorf("not asked for: %v", e)
			}
		case <-time.After(300 * time.Millisecond):
		}
	})
	t.Run("a wait ends with the first change", func(t *testing.T) {
		cursor := d.begun(t)
		done := make(chan M, 1)
		go func() { done <- d.changes(t, cursor, "50s") }()
		time.Sleep(50 * time.Millisecond)
		write(t, in("a/late"), "x")
		select {
		case out := <-done:
			if !slices.Contains(named(out), "a/late") {
				t.Errorf("got %v", out)
			}
		case <-time.After(60 * time.Second):
			t.Error("it waits on")
		}
	})
	t.Run("D79 (part) lost events mean look again, and after that changes are named as before", func(t *testing.T) {
		cursor := d.begun(t)
		if err := syscall.Kill(d.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		write(t, in("a/early"), "x")
		for i := range 10_000 { // two events each at least, and the kernel keeps 16,384
			if err := os.WriteFile(in(fmt.Sprintf("a/s%d", i%100)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(in("unseen/deep"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(d.cmd.Process.Pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		out := d.changes(t, cursor, "")
		if out["look_again"] != true {
			t.Errorf("got %v", out)
		}
		write(t, in("unseen/deep/f"), "x")
		after := d.changes(t, text(out, "cursor"), "")
		if !slices.Contains(named(after), "unseen/deep/f") || after["look_again"] != false {
			t.Errorf("afterwards: %v", after)
		}
	})
	t.Run("more paths than are remembered mean look again", func(t *testing.T) {
		cursor := d.begun(t)
		for i := range 10_010 {
			if err := os.Link(in("a/early"), in(fmt.Sprintf("a/l%d", i))); err != nil {
				t.Fatal(err)
			}
			if i%4000 == 0 {
				d.changes(t, cursor, "") // so that the kernel's queue does not overflow first
			}
		}
		if out := d.changes(t, cursor, ""); out["look_again"] != true {
			t.Errorf("got %v", out["count"])
		}
	})
	t.Run("the log tells of each credential whether the tree still is as it was left", func(t *testing.T) {
		write(t, in("t/edited"), "one\n")
		write(t, in("t/gone"), "x\n")
		write(t, in("t/from"), "y\n")
		edit := must(t, d.call("edit_file", M{"path": "t/edited", "old_string": "one", "new_string": "two"}), "done")
		made := must(t, d.call("write_file", M{"path": "t/deep/made", "content": "new\n"}), "done")
		taken := must(t, d.approve(must(t, d.call("delete_file", M{"path": "t/gone"}), "review")), "done")
		moved := must(t, d.approve(must(t, d.call("move_file", M{"source": "t/from", "destination": "t/to"}), "review")), "done")
		for _, c := range []struct {
			what   string
			reply  M
			change func() error
			back   func() error
		}{
			{"an edit", edit, func() error { return os.WriteFile(in("t/edited"), []byte("2wo\n"), 0o644) }, func() error { return os.WriteFile(in("t/edited"), []byte("two\n"), 0o644) }},
			{"a mode", edit, func() error { return os.Chmod(in("t/edited"), 0o600) }, func() error { return os.Chmod(in("t/edited"), 0o644) }},
			{"what was made", made, func() error { return os.Rename(in("t/deep"), in("t/deeper")) }, func() error { return os.Rename(in("t/deeper"), in("t/deep")) }},
			{"what was taken", taken, func() error { return os.WriteFile(in("t/gone"), nil, 0o644) }, func() error { return os.Remove(in("t/gone")) }},
			{"what was moved", moved, func() error { return os.Remove(in("t/to")) }, func() error { return os.WriteFile(in("t/to"), []byte("y\n"), 0o644) }},
			{"where it was moved from", moved, func() error { return os.Symlink("x", in("t/from")) }, func() error { return os.Remove(in("t/from")) }},
		} {
			id := text(c.reply, "operation_id")
			state := func() string {
				_, one := d.http("GET", "/v1/operations/"+id, d.Agent, nil)
				_, list := d.http("GET", "/v1/operations?limit=10", d.Agent, nil)
				for _, o := range objects(list["operations"]) {
					if text(o, "id") == id && text(o, "tree") != text(one, "operation", "tree") {
						t.Errorf("%s: the list says %q, the detail %q", c.what, text(o, "tree"), text(one, "operation", "tree"))
					}
				}
				_, out, _ := d.cli("log", "--ours")
				if !strings.Contains(out, "undo available, "+text(one, "operation", "tree")) {
					t.Errorf("%s: holdpoint log: %s", c.what, out)
				}
				return text(one, "operation", "tree")
			}
			before := state()
			if err := c.change(); err != nil {
				t.Fatal(err)
			}
			then := state()
			if r := d.undo(c.reply); code(r) != "undo_conflict" {
				t.Errorf("%s: undone all the same: %v", c.what, r["status"])
			}
			if err := c.back(); err != nil {
				t.Fatal(err)
			}
			if after := state(); before != "clean" || then != "drifted" || after != "clean" {
				t.Errorf("%s: %s, %s, %s", c.what, before, then, after)
			}
		}
		must(t, d.undo(edit), "done")
		if _, one := d.http("GET", "/v1/operations/"+text(edit, "operation_id"), d.Agent, nil); text(one, "operation", "undo") != "consumed" || text(one, "operation", "tree") != "" {
			t.Errorf("consumed: %v", one["operation"])
		}
	})
	t.Run("rules that let in more are a new beginning", func(t *testing.T) {
		cursor := d.begun(t)
		write(t, in(".gitignore"), "other/\n")
		out := d.changes(t, cursor, "")
		write(t, in("node_modules/x/y"), "5")
		after := d.changes(t, text(out, "cursor"), "")
		if out["look_again"] != true || !slices.Contains(named(after), "node_modules/x/y") {
			t.Errorf("got %v, then %v", out, after)
		}
	})
}

// TestWatchRefused: a watch is a reading, and says what it does not cover.
func TestWatchRefused(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	for i := range 5 {
		write(t, filepath.Join(root, fmt.Sprintf("d%d/f", i)), "x")
	}
	d := underOn(t, root, state, "unshare", "--user", "--map-root-user", "sh", "-c", `echo 3 > /proc/sys/user/max_inotify_watches && exec "$@"`, "sh")
	t.Run("D79 (part) D80 (part) where the kernel gives no more watches every answer says to look again, and why", func(t *testing.T) {
		cursor := d.begun(t)
		for range 2 {
			out := d.changes(t, cursor, "10ms")
			if out["look_again"] != true || out["code"] != "watch_limit" || !strings.Contains(text(out, "why"), "max_user_watches") {
				t.Errorf("got %v", out)
			}
			cursor = text(out, "cursor")
		}
		_, status := d.http("GET", "/v1/status", d.Agent, nil)
		if w := object(objects(status["roots"])[0]["watch"]); w["code"] != "watch_limit" || number(w["directories"]) != 3 {
			t.Errorf("status: %v", w)
		}
		must(t, d.call("file_tree", M{}), "done")
	})
	t.Run("D80 (part) where there is no watch to be had at all the answer names the setting, and the daemon goes on", func(t *testing.T) {
		none := under(t, "unshare", "--user", "--map-root-user", "sh", "-c", `echo 1 > /proc/sys/user/max_inotify_instances && exec "$@"`, "sh")
		for range 2 {
			if status, out := none.http("GET", "/v1/changes", none.Agent, nil); status == 200 || code(out) != "watch_limit" || !strings.Contains(fmt.Sprint(out), "max_user_instances") {
				t.Errorf("got %d %v", status, out)
			}
		}
		must(t, none.call("file_tree", M{}), "done")
	})
	t.Run("who may not read may not watch", func(t *testing.T) {
		shut := quick(t, "[profiles.default]\nallow_read = false\n")
		if status, out := shut.http("GET", "/v1/changes", shut.Agent, nil); status != 403 || code(out) != "operation_disabled" {
			t.Errorf("got %d %v", status, out)
		}
		if status, out := shut.http("GET", "/v1/events?watch", shut.Agent, nil); status != 403 || code(out) != "operation_disabled" {
			t.Errorf("events: got %d %v", status, out)
		}
		asks := quick(t, "[profiles.default]\nmode = \"deny\"\n")
		if status, out := asks.http("GET", "/v1/changes", asks.Agent, nil); status != 403 || code(out) != "forbidden" || len(asks.cards("pending")) != 0 {
			t.Errorf("mode deny: got %d %v", status, out)
		}
		if status, out := d.http("GET", "/v1/changes?wait=soon", d.Agent, nil); status != 400 {
			t.Errorf("got %d %v", status, out)
		}
		if status, out := d.http("GET", "/v1/changes?root=other", d.Agent, nil); status != 404 && status != 400 {
			t.Errorf("got %d %v", status, out)
		}
	})
}
