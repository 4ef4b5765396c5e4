package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDamage hurts the files of a state that was closed, one at a time: the daemon names
// it, at the start or to verify, and gives nothing else out as good.
// HOLDPOINT_FLIPS sets how many bits are flipped in the database.
func TestDamage(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	bin, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	d := quick(t, "")
	d.stop(syscall.SIGTERM)
	d.bin = bin
	d.run()
	d.operator()
	write(t, filepath.Join(d.Root, "f.txt"), "old\n")
	edit := must(t, d.call("edit_file", M{"path": "f.txt", "old_string": "old", "new_string": "new"}), "done")
	for i := range 12 {
		must(t, d.call("write_file", M{"path": fmt.Sprintf("n/%d.txt", i), "content": strings.Repeat("x", 100*i+1)}), "done")
	}
	view := func() (string, bool) {
		_, o := d.http("GET", "/v1/operations?limit=100", d.reviewerToken, nil)
		if o["error"] != nil {
			return fmt.Sprint(o["error"]), false
		}
		b, _ := json.Marshal(o["operations"])
		return string(b), true
	}
	want, _ := view()
	tree := digest(t, d.Root)
	d.stop(syscall.SIGTERM)
	state, good := d.State, filepath.Join(shortDir(t), "good")
	if err := exec.Command("cp", "-a", state, good).Run(); err != nil {
		t.Fatal(err)
	}
	fresh := func() {
		t.Helper()
		d.stop(syscall.SIGTERM)
		if err := os.RemoveAll(state); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command("cp", "-a", good, state).Run(); err != nil {
			t.Fatal(err)
		}
	}
	// up starts the daemon if it starts; else it gives its words.
	up := func() (string, bool) {
		t.Helper()
		d.Log = &logBuffer{}
		cmd := exec.Command(bin, append([]string{"serve", "--root", d.Root}, d.args...)...)
		cmd.Env, cmd.Stdout, cmd.Stderr = d.environ(), d.Log, d.Log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		for {
			select {
			case <-ended:
				return d.Log.String(), false
			case <-time.After(10 * time.Millisecond):
			}
			if r, err := d.client().Get("http://holdpoint/readyz"); err == nil {
				if r.Body.Close(); r.StatusCode == 200 {
					t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
					d.cmd = &exec.Cmd{Process: cmd.Process}
					return "", true
				}
			}
		}
	}
	down := func() {
		if d.cmd != nil && d.cmd.Process != nil {
			syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		}
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if _, err := d.client().Get("http://holdpoint/readyz"); err != nil {
				break
			}
		}
		d.cmd = nil
	}
	refused := func(t *testing.T, name string) {
		t.Helper()
		words, started := up()
		if started {
			down()
			t.Fatalf("the daemon started over a damaged %s", name)
		}
		if !strings.Contains(words, "state_corrupt") || strings.Contains(words, "panic") || strings.Contains(words, "goroutine ") {
			t.Errorf("%s: %s", name, words)
		}
	}
	at := func(name string) string { return filepath.Join(state, name) }
	t.Run("C99 (part) a part of the state that is gone, empty or cut is named, and the daemon does not begin anew on it", func(t *testing.T) {
		for _, name := range []string{"journal.db", "key", "mark"} {
			for _, size := range []int64{-1, 0, 7} {
				if fresh(); size < 0 {
					os.Remove(at(name))
				} else if err := os.Truncate(at(name), size); err != nil {
					t.Fatal(err)
				}
				if name == "mark" && size < 0 {
					continue // then making the state was never finished, and it is finished
				}
				refused(t, fmt.Sprintf("%s of %d bytes", name, size))
			}
		}
		fresh()
		if err := os.Truncate(at("journal.db"), 4096*3); err != nil {
			t.Fatal(err)
		}
		if words, started := up(); started {
			code, out, _ := d.cli("verify")
			if down(); code == 0 || !strings.Contains(out, "journal") {
				t.Errorf("a database of three pages: verify %d %s", code, out)
			}
		} else if !strings.Contains(words, "state_corrupt") {
			t.Errorf("a database of three pages: %s", words)
		}
		fresh()
	})
	t.Run("C99 (part) a flipped bit of the database is named, or lies where nothing reads, and no other rows are given out", func(t *testing.T) {
		flips := 6
		fmt.Sscan(os.Getenv("HOLDPOINT_FLIPS"), &flips)
		whole, err := os.ReadFile(filepath.Join(good, "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		atStart, toVerify, toRead, harmless := 0, 0, 0, 0
		row := &tried{What: "flipped bit", On: filesystemOf(t, state), Of: "database"}
		defer func() { row.Refused = atStart + toVerify + toRead; row.tell(t) }()
		for i := range flips {
			fresh()
			row.Tried++
			bad := bytes.Clone(whole)
			pos, bit := rng.IntN(len(bad)), byte(1)<<rng.IntN(8)
			if i%2 == 0 { // half of them where there is something
				for n := 0; n < 1000 && bad[pos] == 0; n++ {
					pos = rng.IntN(len(bad))
				}
			}
			bad[pos] ^= bit
			if err := os.WriteFile(at("journal.db"), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			words, started := up()
			if !started {
				if atStart++; !strings.Contains(words, "state_corrupt") && !strings.Contains(words, "state_unsafe") {
					t.Errorf("bit %d of byte %d: %s", bit, pos, words)
				}
				continue
			}
			got, read := view()
			code, out, errs := d.cli("verify")
			switch {
			case read && got != want:
				row.Lost++
				t.Errorf("bit %d of byte %d: other rows are given out, verify says %d %s", bit, pos, code, out)
			case !read:
				if toRead++; !strings.Contains(got, "state_corrupt") {
					t.Errorf("bit %d of byte %d: %s", bit, pos, got)
				}
				if code == 0 {
					t.Errorf("bit %d of byte %d: verify is content: %s%s", bit, pos, out, errs)
				}
			case code != 0:
				toVerify++
			default:
				harmless++
			}
			down()
		}
		t.Logf("damage: %d bits of the database flipped: %d named at the start, %d to who reads, %d to verify, %d where nothing reads; 0 given out as good", flips, atStart, toRead, toVerify, harmless)
		fresh()
	})
	t.Run("C99 (part) a kept version and the audit log that were touched are named by verify, repair invents nothing, and the undo refuses", func(t *testing.T) {
		flip := func(path string) {
			t.Helper()
			b, err := os.ReadFile(path)
			if err != nil || len(b) == 0 {
				t.Fatalf("%s: %v", path, err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// The store goes by inodes, so that the state in place is hurt and not its copy.
		var kept, line string
		filepath.WalkDir(state, func(p string, e fs.DirEntry, err error) error {
			if b, _ := os.ReadFile(p); string(b) == "old\n" {
				kept = p
			} else if bytes.Contains(b, []byte(`"seq":1,`)) && strings.Contains(p, "/audit/") {
				line = p
			}
			return nil
		})
		if kept == "" || line == "" {
			t.Fatalf("kept %q, audit %q", kept, line)
		}
		flip(kept)
		if words, started := up(); !started {
			t.Fatalf("with a damaged kept version the daemon must start: %s", words)
		}
		for _, word := range []string{"verify", "repair"} {
			if code, out, errs := d.cli(word); code != 1 || !strings.Contains(out, "damaged_pre_image") || strings.Contains(out, "damaged_pre_image (mended)") {
				t.Errorf("%s: %d %s%s", word, code, out, errs)
			}
		}
		if r := d.undo(edit); code(r) != "undo_conflict" {
			t.Errorf("the undo: %v %v", r["status"], r["error"])
		}
		if digest(t, d.Root) != tree {
			t.Error("the tree changed")
		}
		down()
		flip(kept) // as it was
		flip(line)
		if words, started := up(); started {
			if code, out, _ := d.cli("verify"); code != 1 || !strings.Contains(out, "audit:") {
				t.Errorf("verify over a touched audit log: %d %s", code, out)
			}
			down()
		} else if !strings.Contains(words, "state_corrupt") {
			t.Errorf("a touched audit log: %s", words)
		}
	})
}
