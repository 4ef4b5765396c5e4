package e2e

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostileRounds is how often each kind of hostile writer meets an edit.
const hostileRounds = 200

// TestHostile lets this process write a file while the daemon edits it. Whatever happens
// first, no byte of the other writer may be lost: it stands in the file, or the log names a
// late write and both versions can be had.
func TestHostile(t *testing.T) {
	seed := seedOf(t)
	d := start(t)
	for i, k := range []struct {
		name  string
		write func(t *testing.T, path, mark string)
	}{
		{"D48 (part) no write in place is lost to 200 edits", writeInPlace},
		{"no write with truncation is lost to 200 edits", writeTruncating},
		{"no file renamed over it is lost to 200 edits", writeByRename},
	} {
		t.Run(k.name, func(t *testing.T) {
			h := &hostile{d: d, name: fmt.Sprintf("target%d", i), write: k.write, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
			for n := range hostileRounds {
				h.round(t, n)
			}
			t.Logf("%d rounds: %v", hostileRounds, h.counts)
			if h.counts["edited"] == 0 {
				t.Error("no edit ever got through, so the two never met")
			}
		})
	}
	t.Run("a file that another program holds open for writing is busy_writer, and left alone", func(t *testing.T) {
		path := filepath.Join(d.Root, "held")
		write(t, path, "base\n")
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := d.call("edit_file", M{"path": "held", "old_string": "base", "new_string": "edited"})
		if code(r) != "busy_writer" || text(r, "error", "retry") != "same" || r["effects_executed"] == true {
			t.Errorf("got %v, want busy_writer", r)
		}
		if _, err := f.WriteAt([]byte("mine"), 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got := read(t, path); got != "mine\n" {
			t.Errorf("got %q, want what the holder wrote", got)
		}
		must(t, d.call("edit_file", M{"path": "held", "old_string": "mine", "new_string": "edited"}), "done")
	})
}

// TestLateWrite takes the two ways in which a write can land in a file that is no longer at
// its name, and waits for neither to happen by chance.
func TestLateWrite(t *testing.T) {
	t.Parallel() // it mostly waits
	t.Run("a write into the kept version is named by the log, shown, and no undo runs over it", func(t *testing.T) {
		d := start(t)
		path := filepath.Join(d.Root, "f")
		write(t, path, "base\n")
		reopen := oldInode(t, path)
		r := must(t, d.call("edit_file", M{"path": "f", "old_string": "base", "new_string": "edited"}), "done")
		if err := reopen("late\n", 0); err != nil {
			t.Fatal(err)
		}
		(&hostile{d: d, name: "f"}).late(t, 0, text(r, "operation_id"), "late")
		exit, out, _ := d.cli("log")
		if exit != 0 || !strings.Contains(out, "another program wrote") {
			t.Errorf("holdpoint log says nothing of it: %d %s", exit, out)
		}
		if got := d.undo(r); code(got) != "undo_conflict" || read(t, path) != "edited\n" {
			t.Errorf("the undo: %v, the file %q", got["error"], read(t, path))
		}
	})
	t.Run("a write into the new version is kept when the edit is taken back, also over a restart", func(t *testing.T) {
		d, reply, reopen := slowEdit(t)
		path := filepath.Join(d.Root, "f")
		if err := os.WriteFile(path, []byte("mine\n"), 0); err != nil { // goes into the daemon's file
			t.Fatal(err)
		}
		if err := reopen("", syscall.O_NONBLOCK); err == nil { // and this breaks the lease on the other
			t.Fatal("the file that was put away has no lease")
		}
		if r := <-reply; code(r) != "stale_precondition" || read(t, path) != "base\n" {
			t.Fatalf("got %v and %q, want stale_precondition and what stood there", r, read(t, path))
		}
		h := &hostile{d: d, name: "f"}
		h.late(t, 0, "", "mine")
		d.restart()
		h.late(t, 1, "", "mine")
	})
	t.Run("I106 (part) an edit that can be neither finished nor taken back loses nothing, and the next start settles it", func(t *testing.T) {
		d, reply, reopen := slowEdit(t)
		path := filepath.Join(d.Root, "f")
		immutable(t, path, true) // no rename can take it away again
		defer immutable(t, path, false)
		if err := reopen("", syscall.O_NONBLOCK); err == nil {
			t.Fatal("the file that was put away has no lease")
		}
		r := <-reply
		if code(r) != "unknown_outcome" || r["effects_executed"] != true {
			t.Fatalf("got %v, want unknown_outcome that says it may have changed something", r)
		}
		immutable(t, path, false)
		d.restart()
		if read(t, path) != "edited\n" {
			t.Fatalf("after the restart: %q", read(t, path))
		}
		_, o := d.http("GET", "/v1/operations/"+text(r, "operation_id"), d.Agent, nil)
		if must(t, d.undo(o), "done"); read(t, path) != "base\n" {
			t.Errorf("after its undo: %q", read(t, path))
		}
	})
}

// slowEdit starts an edit of a file f with a daemon that is held for a while after each
// rename, and returns when the new version stands at its name and nothing was checked yet.
func slowEdit(t *testing.T) (d *daemon, reply chan M, reopen func(string, int) error) {
	t.Helper()
	root, state := dirs(t)
	d = &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock")}
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	d.run("strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=renameat2", "-e", "inject=renameat2:delay_exit=250000")
	path := filepath.Join(root, "f")
	write(t, path, "base\n")
	reopen = oldInode(t, path)
	reply = make(chan M, 1)
	go func() { reply <- d.call("edit_file", M{"path": "f", "old_string": "base", "new_string": "edited"}) }()
	for end := time.Now().Add(time.Minute); read(t, path) != "edited\n"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the edit never came")
		}
	}
	return d, reply, reopen
}

// immutable sets or clears the flag by which a file system refuses to change a file.
func immutable(t *testing.T, path string, on bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const flag = 0x10 // FS_IMMUTABLE_FL of the kernel's headers
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		t.Fatal(err)
	}
	if flags |= flag; !on {
		flags &^= flag
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags)); err != nil {
		t.Fatal(err)
	}
}

// oldInode holds a file open for reading, which no lease minds, and gives a way to write to
// that very file when it has left its name.
func oldInode(t *testing.T, path string) func(text string, flags int) error {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func(text string, flags int) error {
		w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_WRONLY|flags, 0)
		if err != nil {
			return err
		}
		defer w.Close()
		_, err = w.WriteAt([]byte(text), 0)
		return err
	}
}

// hostile is one file that two write.
type hostile struct {
	d      *daemon
	name   string
	write  func(t *testing.T, path, mark string)
	rng    *rand.Rand
	took   time.Duration // an edit, about
	counts map[string]int
}

func (h *hostile) round(t *testing.T, n int) {
	t.Helper()
	path := filepath.Join(h.d.Root, h.name)
	mark := fmt.Sprintf("mark-%06d", n)
	write(t, path, "base\n-----------\n")
	reply, took := make(chan M, 1), make(chan time.Duration, 1)
	began := time.Now()
	go func() {
		reply <- h.d.call("edit_file", M{"path": h.name, "old_string": "base", "new_string": "edited"})
		took <- time.Since(began)
	}()
	time.Sleep(time.Duration(h.rng.Int64N(int64(h.took*5/4) + 1)))
	h.write(t, path, mark)
	r := <-reply
	h.took = (3*h.took + <-took) / 4
	outcome := "edited"
	if text(r, "status") != "done" {
		switch outcome = code(r); outcome {
		case "stale_precondition", "busy_writer", "no_match": // of a file that was empty for a moment
		default:
			t.Fatalf("round %d: %v", n, r)
		}
	}
	h.count(outcome)
	if strings.Contains(read(t, path), mark) {
		return
	}
	h.count("late")
	h.late(t, n, text(r, "operation_id"), mark)
}

func (h *hostile) count(what string) {
	if h.counts == nil {
		h.counts = map[string]int{}
	}
	h.counts[what]++
}

// late asserts that a write that is not in the file is named by the log and shown.
func (h *hostile) late(t *testing.T, n int, id, mark string) {
	t.Helper()
	_, log := h.d.http("GET", "/v1/operations?path="+h.name+"&limit=5", h.d.Agent, nil)
	for _, o := range log["operations"].([]any) {
		o := o.(M)
		lines, _ := o["late"].([]any)
		if len(lines) == 0 || id != "" && o["id"] != id {
			continue
		}
		if !strings.Contains(fmt.Sprint(lines...), "late_write") {
			t.Fatalf("round %d: the log says %v", n, lines)
		}
		_, shown := h.d.http("GET", "/v1/operations/"+text(o, "id"), h.d.Agent, nil)
		seen := map[string]bool{}
		versions, _ := shown["versions"].([]any)
		for _, v := range versions {
			b, _ := base64.StdEncoding.DecodeString(text(v.(M), "content_base64"))
			seen[text(v.(M), "which")] = true
			if strings.Contains(string(b), mark) && text(v.(M), "which") == "kept" {
				seen["mark"] = true
			}
		}
		if !seen["kept"] || !seen["current"] || !seen["mark"] {
			t.Fatalf("round %d: the versions do not show both: %v", n, versions)
		}
		return
	}
	t.Fatalf("round %d: %s is neither in the file nor in the log: %v", n, mark, log)
}

func writeInPlace(t *testing.T, path, mark string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 64)
	k, _ := f.Read(b)
	if _, err := f.WriteAt([]byte(mark), int64(strings.Index(string(b[:k]), "\n")+1)); err != nil {
		t.Fatal(err)
	}
}

func writeTruncating(t *testing.T, path, mark string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("base\n"+mark+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeByRename(t *testing.T, path, mark string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte("base\n"+mark+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
