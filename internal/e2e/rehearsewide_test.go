//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRehearseWide lands and undoes more replaced files than the daemon may have handles.
// HOLDPOINT_REHEARSE_WIDE=20000 makes it as many files, half of them removed.
func TestRehearseWide(t *testing.T) {
	t.Parallel()
	files := 600
	if n, err := strconv.Atoi(os.Getenv("HOLDPOINT_REHEARSE_WIDE")); err == nil {
		files, patience = n, 20*time.Minute
	}
	root, state := dirs(t)
	for i := range files {
		write(t, filepath.Join(root, fmt.Sprintf("d%d", i%97), fmt.Sprintf("f%d", i)), fmt.Sprintf("old %d\n", i))
	}
	d := underOn(t, root, state, "prlimit", "--nofile=1024:1024")
	before := digest(t, root)
	open := func() int {
		list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
		return len(list)
	}
	cpu := func() time.Duration { // of the daemon so far
		var skip string
		var user, sys int64
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
		fmt.Sscanf(string(b[strings.LastIndexByte(string(b), ')')+2:]), "%s %s %s %s %s %s %s %s %s %s %s %d %d", &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user, &sys)
		return time.Duration(user+sys) * 10 * time.Millisecond
	}
	idle := open()
	t.Run("a landing of more files than there are handles is whole, is undone and done again by credentials of a bounded size", func(t *testing.T) {
		d := on(d, t)
		begin := time.Now()
		_, set := d.rehearsal("find . -name 'f*[02468]' | xargs sed -i s/old/new/; find . -name 'f*[13579]' -delete", M{"timeout_ms": 600000})
		card := time.Since(begin)
		used := cpu()
		begin = time.Now()
		done := d.land(set)
		must(t, done, "done")
		landed, used := time.Since(begin), cpu()-used
		after := digest(t, root)
		if after == before || read(t, filepath.Join(root, "d0", "f0")) != "new 0\n" || d.has("d1/f1") {
			t.Fatal("not all of it landed")
		}
		begin = time.Now()
		undone := d.undo(done)
		took := time.Since(begin)
		must(t, undone, "done")
		if digest(t, root) != before {
			t.Fatal("the undo did not bring it back")
		}
		again := d.undo(undone)
		must(t, again, "done")
		if digest(t, root) != after {
			t.Fatal("the redo did not do it again")
		}
		must(t, d.undo(again), "done")
		cred, _ := json.Marshal(done["undo_credential"])
		if n := len(objects(object(done["undo_credential"])["effects"])); len(cred) > 1<<20 || n != 500 || object(done["undo_credential"])["more"] != float64(files-500) {
			t.Errorf("the credential has %d bytes and names %d of %d effects", len(cred), n, files)
		}
		if n := open(); n > idle+20 {
			t.Errorf("%d handles are open, %d before", n, idle)
		}
		t.Logf("%d files: card after %v, landed in %v (%v of CPU), undone in %v, credential of %d bytes", files, card, landed, used, took, len(cred))
	})
	t.Run("a file written in between makes a long landing stale, and nothing of it lands", func(t *testing.T) {
		d := on(d, t)
		_, set := d.rehearsal("find . -name 'f*' | xargs sed -i s/old/new/", M{"timeout_ms": 600000})
		last := filepath.Join(root, "d3", "f3")
		f, err := os.OpenFile(last, os.O_WRONLY, 0) // a writer that holds it open over the landing
		if err != nil {
			t.Fatal(err)
		}
		stale := d.land(set)
		f.Close()
		if code := text(stale, "error", "code"); code != "busy_writer" && code != "stale_precondition" {
			t.Fatalf("got %.600v", stale)
		}
		if digest(t, root) != before {
			t.Fatal("some of it landed")
		}
	})
	t.Run("a long landing that is killed is whole or absent", func(t *testing.T) {
		d := on(d, t)
		_, set := d.rehearsal("find . -name 'f*' | xargs sed -i s/old/new/", M{"timeout_ms": 600000})
		id := text(set, "approval_id")
		shown := text(d.card(M{"approval": M{"id": id}}), "shown_digest")
		go d.tryHTTP("POST", "/v1/approvals/"+id+"/answer", d.reviewer(), M{"answer": "approve", "shown_digest": shown})
		for end := time.Now().Add(patience); read(t, filepath.Join(root, "d0", "f0")) != "new 0\n"; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nothing landed")
			}
		}
		d.stop(syscall.SIGKILL)
		if digest(t, root) == before {
			t.Fatal("nothing had landed")
		}
		begin := time.Now()
		d.run("prlimit", "--nofile=1024:1024")
		d.operator()
		t.Logf("settled in %v", time.Since(begin))
		is := read(t, filepath.Join(root, fmt.Sprintf("d%d", (files-1)%97), fmt.Sprintf("f%d", files-1)))
		whole := is == fmt.Sprintf("new %d\n", files-1)
		if now := digest(t, root); !whole && now != before {
			t.Fatal("neither whole nor absent")
		}
		t.Logf("whole %v", whole)
	})
}
