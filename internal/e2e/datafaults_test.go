package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// small mounts a file system of a few bytes for a test.
func small(t *testing.T, size string) string {
	t.Helper()
	dir := shortDir(t)
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mounting needs root: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// TestNoRoom gives the workspace a disk that a second copy does not fit on.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	disk := small(t, "64k")
	root, state := filepath.Join(disk, "ws"), filepath.Join(shortDir(t), "state")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d := quickOn(t, root, state, "", nil)
	at := func(p string) string { return filepath.Join(root, p) }
	left := func() (out []string) {
		filepath.Walk(disk, func(p string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				out = append(out, p)
			}
			return nil
		})
		return out
	}
	noRoom := func(t *testing.T, r M, before string, files []string) {
		t.Helper()
		if code(r) != "no_space" || r["undo_credential"] != nil {
			t.Errorf("got %v %v", r["status"], r["error"])
		}
		if digest(t, root) != before {
			t.Fatal("the tree changed")
		}
		if now := left(); fmt.Sprint(now) != fmt.Sprint(files) {
			t.Errorf("left over: %v, was %v", now, files)
		}
		_, page := d.http("GET", "/v1/operations?limit=50", d.Agent, nil)
		for _, o := range objects(page["operations"]) {
			if s := text(o, "state"); s != "aborted" && s != "undone" {
				t.Errorf("the log says %v", o)
			}
		}
	}
	t.Run("D33 an edit that the disk has no room for leaves the old file and nothing else", func(t *testing.T) {
		body := strings.Repeat("0123456789abcde\n", 40<<10/16) + "the last line\n"
		write(t, at("f.txt"), body)
		before, files := digest(t, root), left()
		r := d.yes("write_file", M{"path": "f.txt", "content": body + strings.Repeat("x", 20<<10)})
		noRoom(t, r, before, files)
		r = d.call("edit_file", M{"path": "f.txt", "old_string": "the last line\n", "new_string": strings.Repeat("y", 20<<10)})
		if r["status"] == "review" {
			r = d.approve(r)
		}
		noRoom(t, r, before, files)
		// Not one page is free, so that the very first write fails.
		write(t, at("f.txt"), "one\n")
		filler := filepath.Join(disk, "filler")
		if err := os.WriteFile(filler, make([]byte, 64<<10), 0o600); err == nil {
			t.Fatal("the disk did not fill up")
		}
		before, files = digest(t, root), left()
		noRoom(t, d.call("edit_file", M{"path": "f.txt", "old_string": "one", "new_string": "two"}), before, files)
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		// With room again the same call goes through.
		e := must(t, d.call("edit_file", M{"path": "f.txt", "old_string": "one", "new_string": "two"}), "done")
		must(t, d.undo(e), "done")
		if got := read(t, at("f.txt")); got != "one\n" {
			t.Errorf("got %q", got)
		}
	})
}

// attach lets strace follow a process and all its threads; the function ends that.
func attach(t *testing.T, pid int, expressions ...string) func() {
	t.Helper()
	args := []string{"-f", "-qq", "-o", "/dev/null", "-p", fmt.Sprint(pid)}
	for _, e := range expressions {
		args = append(args, "-e", e)
	}
	tracer := exec.Command("strace", args...)
	var said strings.Builder
	tracer.Stderr = &said
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	attached := func() bool {
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, name := range all {
			if b, err := os.ReadFile(name); err == nil && !strings.Contains(string(b), fmt.Sprintf("TracerPid:\t%d\n", tracer.Process.Pid)) {
				return false
			}
		}
		return len(all) > 0
	}
	for end := time.Now().Add(time.Minute); !attached(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("strace did not attach: %s", said.String())
		}
	}
	return func() {
		tracer.Process.Signal(syscall.SIGINT)
		tracer.Wait()
	}
}

// TestPaused stops an edit between its reading and its writing.
func TestPaused(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	t.Run("D48 what another writer appends between the reading and the writing of an edit stays", func(t *testing.T) {
		path := filepath.Join(d.Root, "greek")
		write(t, path, "alpha\nbeta\ngamma\n")
		resume := attach(t, d.cmd.Process.Pid, "trace=fsync,fdatasync", "inject=fsync,fdatasync:delay_enter=400000")
		reply := make(chan M, 1)
		go func() {
			reply <- d.call("edit_file", M{"path": "greek", "old_string": "beta", "new_string": "BETA"})
		}()
		for end := time.Now().Add(time.Minute); len(names(t, d.store())) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nothing was staged")
			}
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString("delta\n")
		f.Close()
		r := <-reply
		resume()
		if code(r) != "stale_precondition" {
			t.Errorf("got %v %v", r["status"], r["error"])
		}
		if got := read(t, path); got != "alpha\nbeta\ngamma\ndelta\n" {
			t.Fatalf("got %q", got)
		}
		must(t, d.call("edit_file", M{"path": "greek", "old_string": "beta", "new_string": "BETA"}), "done")
		if got := read(t, path); got != "alpha\nBETA\ngamma\ndelta\n" {
			t.Fatalf("got %q", got)
		}
	})
}

// TestManyEditsOneHugeFile edits beside a gigabyte that nobody touches.
func TestManyEditsOneHugeFile(t *testing.T) {
	t.Parallel()
	disk := small(t, "128m") // in memory: flushes are not the test
	root, state := filepath.Join(disk, "ws"), filepath.Join(disk, "state")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d := quickOn(t, root, state, "store_max = \"5MiB\"\n", nil)
	at := func(p string) string { return filepath.Join(d.Root, p) }
	t.Run("D59 beside a gigabyte that nobody touches 100 edits keep what they touched, and none goes on without its pre-image", func(t *testing.T) {
		if out, err := exec.Command("git", "init", "-q", d.Root).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		git := stats(t, at(".git"), "ctime")
		f, err := os.Create(at("huge.bin"))
		if err == nil {
			err = f.Truncate(1 << 30)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		huge := stat(t, at("huge.bin")).Sys().(*syscall.Stat_t)
		write(t, at("small.txt"), strings.Repeat("x", 1000)+"\nrev 0\n")
		var last M
		for i := range 100 {
			last = must(t, d.call("edit_file", M{"path": "small.txt", "old_string": fmt.Sprintf("rev %d\n", i), "new_string": fmt.Sprintf("rev %d\n", i+1)}), "done")
		}
		used := func() (sum int64) {
			filepath.Walk(d.State, func(_ string, info os.FileInfo, _ error) error {
				if info != nil && info.Mode().IsRegular() {
					sum += info.Size()
				}
				return nil
			})
			return sum
		}
		if n := used(); n > 8<<20 {
			t.Errorf("100 edits of a kilobyte keep %d bytes in all", n)
		}
		if now := stat(t, at("huge.bin")).Sys().(*syscall.Stat_t); now.Ctim != huge.Ctim || now.Ino != huge.Ino {
			t.Error("the big file was touched")
		}
		same(t, git, stats(t, at(".git"), "ctime"))
		// At the cap: refused before anything is touched, and what was kept still serves.
		write(t, at("big.txt"), strings.Repeat("y", 6<<20)+"\nend\n")
		before := stats(t, at("big.txt"), "ctime")
		if r := d.yes("delete_file", M{"path": "big.txt"}); code(r) != "store_full" || r["undo_credential"] != nil {
			t.Errorf("beyond the cap: %v %v", r["status"], r["error"])
		}
		same(t, before, stats(t, at("big.txt"), "ctime"))
		must(t, d.undo(last), "done")
	})
}

// TestSparseOnLittleRoom keeps a file of holes where a sixteenth of its size is free.
// HOLDPOINT_SPARSE is the size in MiB: 1024 is the case as it was reported.
func TestSparseOnLittleRoom(t *testing.T) {
	t.Parallel()
	mib, err := strconv.ParseInt(os.Getenv("HOLDPOINT_SPARSE"), 10, 64)
	if err != nil {
		mib = 64
	}
	size := mib << 20
	disk := small(t, fmt.Sprint(size/16))
	root, state := filepath.Join(disk, "ws"), filepath.Join(disk, "state")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d := quickOn(t, root, state, "", nil)
	at := func(p string) string { return filepath.Join(root, p) }
	t.Run("D67 a sparse file is copied, backed up, deleted and rolled back where a sixteenth of its size is free", func(t *testing.T) {
		f, err := os.Create(at("sparse"))
		if err == nil {
			err = f.Truncate(size)
		}
		if err == nil {
			_, err = f.WriteAt([]byte(strings.Repeat("x", 4096)), size/2)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		close := func(path string) {
			t.Helper()
			if n := stat(t, path).Sys().(*syscall.Stat_t).Blocks * 512; n > 1<<20 {
				t.Errorf("%s takes %d bytes on disk", filepath.Base(path), n)
			}
		}
		must(t, d.yes("copy_file", M{"source": "sparse", "destination": "copy"}), "done")
		close(at("copy"))
		b := must(t, d.yes("backup_file", M{"path": "sparse"}), "done")
		del := must(t, d.yes("delete_file", M{"path": "sparse"}), "done")
		filepath.Walk(d.store(), func(p string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() && info.Size() > 1<<20 {
				close(p)
			}
			return nil
		})
		must(t, d.undo(del), "done")
		close(at("sparse"))
		must(t, d.yes("delete_file", M{"path": "sparse"}), "done")
		must(t, d.yes("rollback_file", M{"path": "sparse", "backup_id": text(b, "result", "backup_id")}), "done")
		close(at("sparse"))
		one, two := must(t, d.call("file_info", M{"path": "sparse"}), "done"), must(t, d.call("file_info", M{"path": "copy"}), "done")
		if text(one, "result", "hash") == "" || text(one, "result", "hash") != text(two, "result", "hash") || number(object(one["result"])["size"]) != size {
			t.Errorf("the bytes differ: %v, %v", one["result"], two["result"])
		}
	})
}

// TestOwners edits files of other users, as root and as one of them.
func TestOwners(t *testing.T) {
	t.Parallel()
	owner := func(t *testing.T, p string) [3]uint32 {
		st := stat(t, p).Sys().(*syscall.Stat_t)
		return [3]uint32{st.Uid, st.Gid, st.Mode}
	}
	t.Run("D31 owner and group stay, or nothing is changed", func(t *testing.T) {
		d := quick(t, "")
		in := func(p string) string { return filepath.Join(d.Root, p) }
		write(t, in("owned"), "one\n")
		if err := os.Chown(in("owned"), 1000, 1000); err != nil {
			t.Fatal(err)
		}
		was := owner(t, in("owned"))
		e := must(t, d.call("edit_file", M{"path": "owned", "old_string": "one", "new_string": "two"}), "done")
		if now := owner(t, in("owned")); now != was || was[0] != 1000 || was[1] != 1000 {
			t.Errorf("after the edit: %v, was %v", now, was)
		}
		must(t, d.undo(e), "done")
		if now := owner(t, in("owned")); now != was {
			t.Errorf("after the undo: %v, was %v", now, was)
		}

		// A plain user who may write the file through its group, and does not own it.
		const user = 65534
		root, state := dirs(t)
		os.Chmod(filepath.Dir(binary), 0o755)
		for p := filepath.Dir(root); p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
			os.Chmod(p, 0o755)
		}
		os.Mkdir(state, 0o700)
		write(t, filepath.Join(root, "theirs"), "one\n")
		for p, uid := range map[string]int{root: user, state: user, filepath.Join(root, "theirs"): 1000} {
			if err := os.Chown(p, uid, user); err != nil {
				t.Fatal(err)
			}
		}
		os.Chmod(filepath.Join(root, "theirs"), 0o664)
		plain := underOn(t, root, state, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/nonexistent")
		before := stats(t, root, "ctime")
		if err := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-w", filepath.Join(root, "theirs")).Run(); err != nil {
			t.Fatal("the user may not write the file, so this shows nothing")
		}
		if r := plain.call("edit_file", M{"path": "theirs", "old_string": "one", "new_string": "two"}); code(r) != "metadata_loss" || r["undo_credential"] != nil {
			t.Errorf("got %v %v", r["status"], r["error"])
		}
		same(t, before, stats(t, root, "ctime"))
	})
}

// TestNestedRepositories works beside a repository inside and a pointer to one.
func TestNestedRepositories(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	at := func(p string) string { return filepath.Join(d.Root, p) }
	t.Run("D56 edits, batches, rollbacks and a kill in the middle leave every .git entry alone, and files beside them are undone as any", func(t *testing.T) {
		write(t, at("sub/f.txt"), "one\n")
		gitIn(t, at("sub"), "init", "-q")
		gitIn(t, at("sub"), "add", ".")
		gitIn(t, at("sub"), "commit", "-qm", "first")
		write(t, at("sub2/f.txt"), "one\n")
		write(t, at("sub2/.git"), "gitdir: ../sub/.git\n")
		git := map[string]string{}
		for _, p := range []string{"sub/.git", "sub2/.git"} {
			git[p] = stats(t, at(p), "ctime")
		}
		untouched := func(when string) {
			t.Helper()
			for p, want := range git {
				if stats(t, at(p), "ctime") != want {
					t.Fatalf("%s: %s was touched", when, p)
				}
			}
		}
		before := digest(t, d.Root)
		edit := func(p string) M { return M{"path": p, "old_string": "one", "new_string": "two"} }
		for _, p := range []string{"sub/f.txt", "sub2/f.txt"} {
			b := must(t, d.call("backup_file", M{"path": p}), "done")
			must(t, d.call("edit_file", edit(p)), "done")
			untouched("after the edit of " + p)
			must(t, d.yes("rollback_file", M{"path": p, "backup_id": text(b, "result", "backup_id")}), "done")
			untouched("after the rollback of " + p)
		}
		r := must(t, d.yes("batch_file_ops", M{"operations": []any{item("edit_file", edit("sub/f.txt")), item("edit_file", edit("sub2/f.txt"))}}), "done")
		untouched("after the batch")
		must(t, d.undo(r), "done")
		untouched("after its undo")
		if digest(t, d.Root) != before {
			t.Fatal("not as before")
		}
		// Killed between the two exchanges of the same batch.
		held := must(t, d.call("batch_file_ops", M{"operations": []any{item("edit_file", edit("sub/f.txt")), item("edit_file", edit("sub2/f.txt"))}}), "review")
		_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.reviewer(), nil)
		tracer := trace(t, d.cmd.Process.Pid, "rename*", 2)
		d.tryHTTP("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")})
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL)
		if c := tracer.wait(t); !c.Killed {
			t.Errorf("the daemon was not killed at its second rename: %v", c.Calls)
		}
		d.cmd.Wait()
		untouched("after the kill")
		if digest(t, d.Root) == before {
			t.Log("the kill came before the first exchange")
		}
		d.run()
		d.operator()
		untouched("after the restart")
		if digest(t, d.Root) != before {
			t.Fatal("half a batch is left")
		}
	})
}

// TestFewWatches runs a daemon that the kernel gives hardly any watches.
func TestFewWatches(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	for _, p := range []string{"a", "b", "c", "d"} {
		write(t, filepath.Join(root, p, "f"), "one\n")
	}
	d := underOn(t, root, state, "unshare", "--user", "--map-root-user", "sh", "-c", `echo 2 > /proc/sys/user/max_inotify_watches && exec "$@"`, "sh")
	t.Run("D79, D80 without watches the status says so by name, and what drifted is stale all the same", func(t *testing.T) {
		h := text(must(t, d.call("view_file", M{"path": "d/f"}), "done"), "result", "hash")
		_, fine := d.http("GET", "/v1/status", d.Agent, nil)
		if text(fine, "watches", "state") != "ok" {
			t.Errorf("before: %v", fine["watches"])
		}
		var held []M
		for _, p := range []string{"a", "b", "c", "d"} { // one watch a card, and two are to be had
			held = append(held, must(t, d.call("delete_file", M{"path": p + "/f"}), "review"))
		}
		_, status := d.http("GET", "/v1/status", d.Agent, nil)
		w := object(status["watches"])
		if w["state"] != "degraded" || w["code"] != "watch_limit" || !strings.Contains(fmt.Sprint(w["message"]), "max_user_watches") {
			t.Errorf("status: %v", w)
		}
		if strings.Contains(fmt.Sprint(status), "no_space") || strings.Contains(fmt.Sprint(status), "no space left") {
			t.Errorf("it is called a full disk: %v", status)
		}
		if exit, out, errs := d.cli("status"); exit != 0 || !strings.Contains(out, "watch_limit") {
			t.Errorf("holdpoint status: %d %s%s", exit, out, errs)
		}
		write(t, filepath.Join(root, "d/f"), "other\n")
		if r := d.call("edit_file", M{"path": "d/f", "old_string": "one", "new_string": "two", "expected_hash": h}); code(r) != "stale_precondition" {
			t.Errorf("the edit: %v %v", r["status"], r["error"])
		}
		if r := d.approve(held[3]); code(r) != "stale_precondition" || read(t, filepath.Join(root, "d/f")) != "other\n" {
			t.Errorf("the approved delete: %v %v", r["status"], r["error"])
		}
		// Opening the card looks anew, watched or not; operations go on.
		write(t, filepath.Join(root, "c/f"), "other\n")
		if c := d.card(held[2]); text(c, "drifted") == "" {
			t.Error("an opened card does not say that it drifted")
		}
		must(t, d.call("edit_file", M{"path": "b/f", "old_string": "one", "new_string": "two"}), "done")
		for _, r := range held[:3] {
			d.cancel(r)
		}
		_, status = d.http("GET", "/v1/status", d.Agent, nil)
		if text(status, "watches", "state") != "ok" {
			t.Errorf("when they are free again: %v", status["watches"])
		}
	})
}

// TestCrowd lists a directory of many names. It lies in memory: making them is not the test.
func TestCrowd(t *testing.T) {
	t.Parallel()
	root, state := filepath.Join(small(t, "512m"), "ws"), filepath.Join(shortDir(t), "state")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d := quickOn(t, root, state, "", nil)
	t.Run("D76 beyond the cap a listing says so, and of 100,000 entries the pages give each once", func(t *testing.T) {
		if err := os.Mkdir(filepath.Join(root, "crowd"), 0o755); err != nil {
			t.Fatal(err)
		}
		fill := func(from, to int) {
			for i := from; i < to; i++ {
				fd, err := syscall.Open(filepath.Join(root, fmt.Sprintf("crowd/%06d", i)), syscall.O_CREAT|syscall.O_WRONLY|syscall.O_CLOEXEC, 0o644)
				if err != nil {
					t.Fatal(err)
				}
				syscall.Close(fd)
			}
		}
		pages := func(name string, size int, most int) (seen map[string]bool, n int) {
			t.Helper()
			seen = map[string]bool{}
			for page := ""; n < most; {
				args := M{"path": "crowd", "page_size": size}
				if page != "" {
					args["page"] = page
				}
				r := object(must(t, d.call(name, args), "done")["result"])
				list := objects(r["entries"])
				for _, e := range list {
					if p := text(e, "path"); seen[p] {
						t.Fatalf("%s twice", p)
					} else {
						seen[p] = true
					}
				}
				n++
				if page = text(r, "next"); page == "" {
					return seen, n
				}
				if len(list) != size || r["truncated"] == nil {
					t.Fatalf("page %d: %d entries, truncated %v", n, len(list), r["truncated"])
				}
			}
			return seen, n
		}
		fill(0, 201)
		r := object(must(t, d.call("list_directory", M{"path": "crowd"}), "done")["result"])
		if len(objects(r["entries"])) != 200 || r["truncated"] == nil || number(r["total"]) != 201 || text(r, "next") == "" {
			t.Errorf("one more than the cap: %d entries, truncated %v, total %v", len(objects(r["entries"])), r["truncated"], r["total"])
		}
		if seen, n := pages("list_directory", 100, 9); len(seen) != 201 || n != 3 {
			t.Errorf("%d names on %d pages", len(seen), n)
		}
		const all = 100_000
		fill(201, all)
		before, began := d.rss(), time.Now()
		r = object(must(t, d.call("list_directory", M{"path": "crowd"}), "done")["result"])
		if number(r["total"]) != all || r["truncated"] == nil || len(objects(r["entries"])) != 200 {
			t.Errorf("list_directory: %v of %v, truncated %v", len(objects(r["entries"])), r["total"], r["truncated"])
		}
		one := time.Since(began)
		seen, n := pages("file_tree", 10_000, 20)
		took, grew := time.Since(began), d.rss()-before
		t.Logf("a page of list_directory in %v, %d pages of file_tree in %v, memory grew by %d KiB", one, n, took-one, grew>>10)
		if len(seen) != all {
			t.Errorf("%d names on %d pages", len(seen), n)
		}
		if took > 3*time.Minute || grew > 256<<20 {
			t.Errorf("it took %v and %d MiB", took, grew>>20)
		}
	})
}
