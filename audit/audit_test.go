//go:build linux

package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdpoint/audit"
	"holdpoint/op"
)

var key = []byte("a key of thirty-two bytes, or so")

// clock counts seconds from a fixed moment.
func clock() func() time.Time {
	t := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time { t = t.Add(time.Second); return t }
}

func open(t *testing.T, dir string) *audit.Log {
	t.Helper()
	l, err := audit.Open(dir, key, audit.Options{Now: clock()})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func record(i int) audit.Record {
	return audit.Record{Kind: audit.Call, Tool: op.EditFile, Decision: audit.AutoExecute, Reason: op.ReasonLowImpact, Pinned: true,
		Agent: "coder", OperationID: op.ID(fmt.Sprintf("op_%d", i)), Outcome: "done", Undo: true}
}

// filled is a closed log of n records and the head taken of it.
func filled(t *testing.T, n int) (dir string, head audit.Head) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "audit")
	l := open(t, dir)
	for i := 1; i <= n; i++ {
		if _, err := l.Append(record(i)); err != nil {
			t.Fatal(err)
		}
	}
	head, err := l.Head()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, head
}

func logFile(dir string) string { return filepath.Join(dir, audit.FileName) }

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRecord(t *testing.T) {
	t.Run("C135 each line has the agreed fields in the agreed form", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "audit")
		l := open(t, dir)
		d := op.Decision{Verdict: op.Review, Reason: op.ReasonDestructive, Also: []op.Reason{op.ReasonProtected}, Mandatory: true,
			TrustedPolicyID: "nightly", GrantID: "gr_1", Pinned: true}
		r := audit.Of(audit.Call, op.DeleteFile, d)
		r.Agent, r.WorkflowID, r.ExecutionID, r.ApprovalID, r.OperationID = "coder", "wf", "run-7", "ap_1", "op_1"
		r.Outcome, r.Undo = "review", true
		for _, r := range []audit.Record{r, {Kind: audit.End}} {
			if _, err := l.Append(r); err != nil {
				t.Fatal(err)
			}
		}
		lines := strings.Split(string(read(t, logFile(dir))), "\n")
		want := []string{
			`{"seq":1,"time":"2026-03-01T12:00:01Z","prev":"genesis","kind":"call","tool":"delete_file","decision":"require_user_approval",` +
				`"reason":"destructive_operation","also":["protected_target"],"mandatory":true,"trusted_policy_id":"nightly","grant_id":"gr_1",` +
				`"pinned":true,"agent":"coder","workflow_id":"wf","execution_id":"run-7","approval_id":"ap_1","operation_id":"op_1","outcome":"review","undo":true}`,
			`{"seq":2,"time":"2026-03-01T12:00:02Z","prev":"` + audit.HashOf(lines[0]) + `","kind":"end","tool":"","decision":"","reason":"","also":[],"mandatory":false,` +
				`"trusted_policy_id":"","grant_id":"","pinned":false,"agent":"","workflow_id":"","execution_id":"","approval_id":"","operation_id":"","outcome":"","undo":false}`,
			"",
		}
		for i := range want {
			if i >= len(lines) || lines[i] != want[i] {
				t.Errorf("line %d\n got %s\nwant %s", i, lines[i], want[i])
			}
		}
	})

	t.Run("a verdict has its word and an unknown one refuses", func(t *testing.T) {
		for v, want := range map[op.Verdict]string{op.Auto: "auto_execute", op.Review: "require_user_approval", op.Refuse: "refuse", 77: "refuse"} {
			if got := audit.Of(audit.Call, op.ViewFile, op.Decision{Verdict: v}).Decision; got != want {
				t.Errorf("verdict %d: got %q, want %q", v, got, want)
			}
		}
	})

	t.Run("encoding gives the same JSON as the standard library would, and parses back", func(t *testing.T) {
		r := record(1)
		r.Also = []op.Reason{op.ReasonBatch}
		r.Time = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := audit.Encode(r); string(got) != string(want) {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		if got, err := audit.Parse(want); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("got %+v, %v", got, err)
		}
	})

	t.Run("C136 (part) text that strays into a record does not reach the file", func(t *testing.T) {
		const canary = "CANARY/etc/shadow sk-secret"
		dir := filepath.Join(t.TempDir(), "audit")
		l := open(t, dir)
		r := audit.Record{Kind: canary, Tool: canary, Decision: canary, Reason: canary, Also: []op.Reason{canary}, Outcome: canary,
			ApprovalID: canary, OperationID: canary}
		if _, err := l.Append(r); err != nil {
			t.Fatal(err)
		}
		if b := read(t, logFile(dir)); bytes.Contains(b, []byte("CANARY")) || bytes.Contains(b, []byte("shadow")) {
			t.Errorf("the line holds the canary: %s", b)
		}
		for i := range reflect.TypeFor[audit.Record]().NumField() {
			name := strings.ToLower(reflect.TypeFor[audit.Record]().Field(i).Name)
			for _, bad := range []string{"path", "arg", "content", "target", "message", "intent"} {
				if strings.Contains(name, bad) {
					t.Errorf("a record has a field %s", name)
				}
			}
		}
	})

	t.Run("hostile labels are one line, visible and bounded", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "audit")
		l := open(t, dir)
		r := record(1)
		r.Agent = "a\n{\"seq\":9}\x1b[2K\u202e\u200b\xff"
		r.WorkflowID = strings.Repeat("é\u200b", 5000)
		r.Also = make([]op.Reason, 1000)
		got, err := l.Append(r)
		if err != nil {
			t.Fatal(err)
		}
		b := read(t, logFile(dir))
		if bytes.Count(b, []byte("\n")) != 1 || len(b) > 2048 {
			t.Errorf("got %d bytes with %d line ends", len(b), bytes.Count(b, []byte("\n")))
		}
		if want := `a\u{000A}{"seq":9}\u{001B}[2K\u{202E}\u{200B}\xFF`; got.Agent != want {
			t.Errorf("got %q, want %q", got.Agent, want)
		}
		if back, err := l.Tail(1); err != nil || !reflect.DeepEqual(back[0], got) {
			t.Errorf("read back %+v, %v; want %+v", back, err, got)
		}
	})
}

func TestLog(t *testing.T) {
	t.Run("C134 (part) each append is one record, in order, from many goroutines and over restarts", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "audit")
		const workers, each = 8, 25
		for round := range 2 {
			l := open(t, dir)
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for i := range each {
						if err := l.Ready(); err != nil {
							t.Errorf("ready: %v", err)
						}
						if _, err := l.Append(record(1000*w + 100*round + i)); err != nil {
							t.Errorf("append: %v", err)
						}
					}
				})
			}
			wg.Wait()
			l.Close()
		}
		res, err := audit.Verify(dir, nil, nil)
		if err != nil || res.Err != nil || res.Records != 2*workers*each {
			t.Fatalf("got %+v, %v", res, err)
		}
		all, err := open(t, dir).Tail(1 << 20)
		if err != nil || len(all) != 2*workers*each {
			t.Fatalf("got %d records, %v", len(all), err)
		}
		for i, r := range all {
			if r.Seq != int64(i+1) {
				t.Fatalf("record %d has seq %d", i+1, r.Seq)
			}
		}
	})

	t.Run("C137 (part) the log is a file of its own that only grows", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "audit")
		l := open(t, dir)
		var before []byte
		for i := range 20 {
			if _, err := l.Append(record(i)); err != nil {
				t.Fatal(err)
			}
			now := read(t, logFile(dir))
			if !bytes.HasPrefix(now, before) || bytes.Count(now, []byte("\n")) != i+1 {
				t.Fatalf("after record %d the file is not what it was and one line", i+1)
			}
			before = now
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("got %v, %v; want the log alone", entries, err)
		}
	})

	t.Run("S82 (part) directory and file are private whatever the umask", func(t *testing.T) {
		for _, mask := range []int{0, 0o022} {
			old := syscall.Umask(mask)
			dir := filepath.Join(t.TempDir(), "state", "audit")
			l := open(t, dir)
			l.Append(record(1))
			syscall.Umask(old)
			for path, want := range map[string]os.FileMode{filepath.Dir(dir): 0o700, dir: 0o700, logFile(dir): 0o600} {
				info, err := os.Stat(path)
				if err != nil || info.Mode().Perm() != want {
					t.Errorf("umask %o: %s has %v, %v; want %o", mask, path, info.Mode(), err, want)
				}
			}
		}
	})

	t.Run("S83 (part) a log that others could have prepared is refused and left alone", func(t *testing.T) {
		for name, spoil := range map[string]func(dir string) error{
			"directory open to the group": func(d string) error { return os.Chmod(d, 0o770) },
			"file open to all":            func(d string) error { return os.Chmod(logFile(d), 0o606) },
			"file of another user":        func(d string) error { return os.Chown(logFile(d), 12345, 12345) },
			"directory of another user":   func(d string) error { return os.Chown(d, 12345, 12345) },
			"file with a second name":     func(d string) error { return os.Link(logFile(d), d+".link") },
			"link in the file's place": func(d string) error {
				return errors.Join(os.Rename(logFile(d), d+".real"), os.Symlink(d+".real", logFile(d)))
			},
			"pipe in the file's place": func(d string) error {
				return errors.Join(os.Remove(logFile(d)), syscall.Mkfifo(logFile(d), 0o600))
			},
			"link in the directory's place": func(d string) error {
				return errors.Join(os.Rename(d, d+".real"), os.Symlink(d+".real", d))
			},
		} {
			if strings.HasSuffix(name, "of another user") && os.Geteuid() != 0 {
				t.Log("as root only: " + name + ", who is not an ordinary user's to be")
				continue
			}
			dir, _ := filled(t, 2)
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := audit.Open(dir, key, audit.Options{}); !errors.Is(err, op.StateUnsafe) {
				t.Errorf("%s: got %v, want state_unsafe", name, err)
			}
		}
	})

	t.Run("S98 (part) a second process is kept out", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "audit")
		l := open(t, dir)
		if _, err := audit.Open(dir, key, audit.Options{}); !errors.Is(err, op.StateLocked) {
			t.Errorf("got %v, want state_locked", err)
		}
		l.Close()
		open(t, dir)
	})

	t.Run("the outbox can be put back any number of times", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "audit")
		add := func(l *audit.Log, key string, r audit.Record, want bool) {
			t.Helper()
			if got, err := l.AppendUnique(key, r); err != nil || got != want {
				t.Errorf("key %q: got %v, %v; want %v", key, got, err, want)
			}
		}
		l := open(t, dir)
		if _, err := l.Append(record(1)); err != nil {
			t.Fatal(err)
		}
		add(l, "1", record(1), false) // there already
		add(l, "2", record(2), true)
		add(l, "2", record(2), false)
		end := record(2)
		end.Kind = audit.End
		add(l, "2end", end, true)                          // another kind
		add(l, "3", audit.Record{Kind: audit.Call}, true)  // no ids: the key alone tells
		add(l, "3", audit.Record{Kind: audit.Call}, false) //
		add(l, "4", audit.Record{Kind: audit.Call}, true)  //
		add(l, "", audit.Record{Kind: audit.Call}, true)   // neither
		add(l, "5", audit.Record{Kind: "x", ApprovalID: "a"}, true)
		l.Close()
		l = open(t, dir)
		add(l, "another key", record(1), false)
		add(l, "2end", end, false)
		add(l, "9", record(9), true)
		pending, err := audit.Parse(audit.Encode(record(9)))
		if err != nil {
			t.Fatal(err)
		}
		add(l, "10", pending, false)
		if all, err := l.Tail(100); err != nil || len(all) != 8 {
			t.Errorf("got %d records, %v; want 8", len(all), err)
		}
	})

	t.Run("tail gives the last records, oldest first", func(t *testing.T) {
		dir, _ := filled(t, 500) // more than the first window it reads
		l := open(t, dir)
		for _, n := range []int{0, 1, 7, 499, 500, 1000} {
			got, err := l.Tail(n)
			if err != nil || len(got) != min(n, 500) {
				t.Fatalf("tail %d: got %d, %v", n, len(got), err)
			}
			for i, r := range got {
				if want := int64(500 - len(got) + 1 + i); r.Seq != want {
					t.Fatalf("tail %d: place %d has seq %d, want %d", n, i, r.Seq, want)
				}
			}
		}
	})

	t.Run("a closed log says so", func(t *testing.T) {
		l := open(t, filepath.Join(t.TempDir(), "audit"))
		l.Close()
		_, appended := l.Append(record(1))
		_, headed := l.Head()
		_, tailed := l.Tail(1)
		for i, err := range []error{l.Ready(), l.Sync(), appended, headed, tailed} {
			if !errors.Is(err, op.IOError) {
				t.Errorf("%d: got %v, want io_error", i, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}
