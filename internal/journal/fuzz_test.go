//go:build unix

package journal

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"holdpoint/op"
)

// FuzzRecovery does something to the write-ahead log that a killed daemon left: other
// bytes at a place, and less of it. The journal opens with the first of its records whole
// and without a hole, and goes on, or says that its state is corrupt.
func FuzzRecovery(f *testing.F) {
	base := f.TempDir()
	dir := filepath.Join(base, "state")
	j := open(f, dir)
	raw(f, j, "PRAGMA wal_autocheckpoint=0")
	var told []op.ID
	for i := range 6 {
		o := sample(j, fmt.Sprint(i))
		if err := j.Begin(f.Context(), o); err != nil {
			f.Fatal(err)
		}
		if err := j.Commit(f.Context(), o.ID, []byte("reply"), ""); err != nil {
			f.Fatal(err)
		}
		told = append(told, o.ID)
	}
	files := map[string][]byte{}
	for _, name := range []string{"key", "mark", "head", dataName, dataName + "-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			f.Fatal(err)
		} else if err == nil {
			files[name] = b
		}
	}
	first, err := j.Operation(f.Context(), told[0])
	if err != nil {
		f.Fatal(err)
	}
	steps, _ := json.Marshal(first.Steps)
	j.Close()
	wal := files[dataName+"-wal"]
	if len(wal) < 20_000 {
		f.Fatalf("a log of %d bytes", len(wal))
	}
	f.Add(uint32(0), uint32(0), []byte{})
	f.Add(uint32(5000), uint32(0), []byte{0})
	f.Add(uint32(40), uint32(9000), []byte("xxxxxxxx"))
	f.Add(uint32(8), uint32(4), make([]byte, 32))
	n := 0
	f.Fuzz(func(t *testing.T, at, cut uint32, with []byte) {
		n++
		state := filepath.Join(base, fmt.Sprint("copy", n))
		defer os.RemoveAll(state)
		if err := os.MkdirAll(filepath.Join(state, "blobs"), 0o700); err != nil {
			t.Fatal(err)
		}
		log := append([]byte(nil), wal...)
		copy(log[int(at)%len(log):], with)
		log = log[:len(log)-int(cut)%len(log)]
		for name, b := range files {
			if name == dataName+"-wal" {
				b = log
			}
			if err := os.WriteFile(filepath.Join(state, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		j, err := Open(state, Options{})
		if err != nil {
			if op.AsError(err).Code != op.StateCorrupt {
				t.Fatalf("at %d, cut %d: %v", at, cut, err)
			}
			return
		}
		defer j.Close()
		list, err := j.Operations(t.Context(), Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for k, o := range list { // newest first
			if want := told[len(list)-1-k]; o.ID != want {
				t.Fatalf("row %d is %s, want %s", o.Seq, o.ID, want)
			}
			if o.State == Committed && string(o.Reply) != "reply" {
				t.Fatalf("row %d has the reply %q", o.Seq, o.Reply)
			}
			whole, err := j.Operation(t.Context(), o.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(whole.Steps); string(got) != string(steps) {
				t.Fatalf("row %d has the steps %s", o.Seq, got)
			}
		}
		if err := j.Begin(t.Context(), sample(j, "")); err != nil {
			t.Fatal(err)
		}
	})
}
