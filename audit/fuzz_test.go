package audit_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"holdpoint/audit"
	"holdpoint/op"
)

// FuzzLog cuts a log and puts other bytes at its end. It opens with its first records whole
// and goes on, or is refused as corrupt and left as it is; what verify says agrees.
func FuzzLog(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "audit")
	l, err := audit.Open(dir, key, audit.Options{Now: clock()})
	if err != nil {
		f.Fatal(err)
	}
	for i := 1; i <= 4; i++ {
		if _, err := l.Append(record(i)); err != nil {
			f.Fatal(err)
		}
	}
	l.Close()
	whole, err := os.ReadFile(logFile(dir))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(0), []byte{})
	f.Add(uint16(5), []byte{})
	f.Add(uint16(0), make([]byte, 300))
	f.Add(uint16(20), []byte("{\"seq\":4}\n"))
	f.Add(uint16(400), []byte("\n\n"))
	f.Fuzz(func(t *testing.T, cut uint16, tail []byte) {
		now := append(bytes.Clone(whole[:len(whole)-int(cut)%(len(whole)+1)]), tail...)
		if err := os.WriteFile(logFile(dir), now, 0o600); err != nil {
			t.Fatal(err)
		}
		said, _ := audit.Verify(dir, nil, key)
		l, err := audit.Open(dir, key, audit.Options{Now: clock()})
		if err != nil {
			left, _ := os.ReadFile(logFile(dir))
			if !errors.Is(err, op.StateCorrupt) || !bytes.Equal(left, now) || said.Err == nil {
				t.Fatalf("%v, and verify %+v", err, said)
			}
			return
		}
		defer l.Close()
		if said.Err != nil {
			t.Fatalf("it opens, and verify says %v", said.Err)
		}
		left, _ := os.ReadFile(logFile(dir))
		// The last line has no successor that speaks for it: that one is the head's to tell.
		if past := left[:bytes.LastIndexByte(bytes.TrimSuffix(left, []byte("\n")), '\n')+1]; !bytes.HasPrefix(whole, past) {
			t.Fatalf("the log now holds what was never appended: %q", left)
		}
		if int64(bytes.Count(left, []byte("\n"))) != said.Records {
			t.Fatalf("%d records stand, verify saw %d", bytes.Count(left, []byte("\n")), said.Records)
		}
		r, err := l.Append(record(9))
		if err != nil || r.Seq != said.Records+1 {
			t.Fatalf("append: %+v %v", r, err)
		}
	})
}
