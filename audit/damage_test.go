//go:build linux

package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/audit"
	"holdpoint/op"
)

func verify(t *testing.T, dir string, head *audit.Head) audit.Result {
	t.Helper()
	res, err := audit.Verify(dir, head, key)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	return res
}

// TestTampering covers what a hand does to the file between two runs.
func TestTampering(t *testing.T) {
	const n = 8
	lines := func(b []byte) [][]byte { return bytes.SplitAfter(bytes.TrimSuffix(b, nil), []byte("\n"))[:n] }

	t.Run("S97 (part) a flipped byte is found at its record, wherever it is", func(t *testing.T) {
		dir, head := filled(t, n)
		whole := read(t, logFile(dir))
		seed := time.Now().UnixNano()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		f, err := os.OpenFile(logFile(dir), os.O_WRONLY, 0)
		must(t, err)
		defer f.Close()
		put := func(b byte, at int) {
			t.Helper()
			_, err := f.WriteAt([]byte{b}, int64(at))
			must(t, err)
		}
		at := 0
		for i, line := range lines(whole) {
			number := int64(i + 1)
			for j := range line {
				flipped := whole[at+j] ^ byte(1<<rnd.IntN(8))
				put(flipped, at+j)
				res := verify(t, dir, &head)
				put(whole[at+j], at+j)
				if res.Err == nil || !errors.Is(res.Err, op.StateCorrupt) {
					t.Fatalf("seed %d: record %d byte %d: not found: %+v", seed, number, j, res)
				}
				// The end of a line that is lost joins two records: the first of them is named.
				if res.At != number || !strings.Contains(res.Err.Message, fmt.Sprintf("record %d ", number)) {
					t.Fatalf("seed %d: record %d byte %d %q: named %d: %v", seed, number, j, flipped, res.At, res.Err)
				}
			}
			at += len(line)
		}
	})

	for _, c := range []struct {
		name  string
		spoil func(l [][]byte) [][]byte
		at    int64
		start bool // seen at start too, without a head
	}{
		{"two records swapped", func(l [][]byte) [][]byte { l[4], l[5] = l[5], l[4]; return l }, 5, true},
		{"the last two swapped", func(l [][]byte) [][]byte { l[n-1], l[n-2] = l[n-2], l[n-1]; return l }, n - 1, true},
		{"one left out", func(l [][]byte) [][]byte { return append(l[:6], l[7:]...) }, 7, true},
		{"one twice", func(l [][]byte) [][]byte { return append(l[:7:7], l[6:]...) }, 8, true},
		{"the first left out", func(l [][]byte) [][]byte { return l[1:] }, 1, true},
		{"an empty line", func(l [][]byte) [][]byte { l[3] = append([]byte("\n"), l[3]...); return l }, 4, true},
		{"an outcome rewritten", func(l [][]byte) [][]byte { l[2] = bytes.Replace(l[2], []byte(`"done"`), []byte(`"kept"`), 1); return l }, 3, true},
		{"a line that never ends", func(l [][]byte) [][]byte { l[3] = append(bytes.Repeat([]byte(" "), 100_000), l[3]...); return l }, 4, false},
		{"the last three cut", func(l [][]byte) [][]byte { return l[:n-3] }, n - 2, false},
		{"all cut", func(l [][]byte) [][]byte { return nil }, 1, false},
		{"an older copy", func(l [][]byte) [][]byte { return l[:4] }, 5, false},
		{"an outcome of the last rewritten", func(l [][]byte) [][]byte {
			l[n-1] = bytes.Replace(l[n-1], []byte(`"done"`), []byte(`"kept"`), 1)
			return l
		}, n, false},
	} {
		t.Run("S97 (part) "+c.name, func(t *testing.T) {
			dir, head := filled(t, n)
			spoilt := bytes.Join(c.spoil(lines(read(t, logFile(dir)))), nil)
			write(t, logFile(dir), spoilt)
			if res := verify(t, dir, &head); res.Err == nil || res.At != c.at || res.Records != c.at-1 {
				t.Errorf("verify: got %+v, want record %d", res, c.at)
			}
			if _, err := audit.Open(dir, key, audit.Options{Head: &head}); !errors.Is(err, op.StateCorrupt) {
				t.Errorf("start with the head: got %v, want state_corrupt", err)
			}
			if c.start {
				_, err := audit.Open(dir, key, audit.Options{})
				if !errors.Is(err, op.StateCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("record %d ", c.at)) {
					t.Errorf("start: got %v, want state_corrupt naming record %d", err, c.at)
				}
			}
			if now := read(t, logFile(dir)); !bytes.Equal(now, spoilt) {
				t.Error("the damaged file was rewritten")
			}
		})
	}

	t.Run("X59 a cut or a rewrite of the append-only log shows against a head kept elsewhere", func(t *testing.T) {
		dir, head := filled(t, n)
		if res := verify(t, dir, &head); res.Err != nil || res.Records != n {
			t.Fatalf("untouched: got %+v", res)
		}
		whole := read(t, logFile(dir))
		for keep := range len(whole) { // at every byte
			if keep%7 != 0 && whole[max(0, keep-1)] != '\n' {
				continue
			}
			write(t, logFile(dir), whole[:keep])
			want := int64(bytes.Count(whole[:keep], []byte("\n")))
			if res := verify(t, dir, &head); res.Err == nil || res.At != want+1 {
				t.Fatalf("cut at %d: got %+v, want record %d", keep, res, want+1)
			}
		}
		// The whole file written anew, chain and all, by somebody who can write it.
		other, _ := filled(t, 0)
		l := open(t, other)
		for i := 1; i <= n; i++ {
			r := record(i)
			r.Outcome = "failed"
			if _, err := l.Append(r); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		if res := verify(t, other, nil); res.Err != nil {
			t.Fatalf("the forgery must hold by itself, else this shows nothing: %+v", res)
		}
		if res := verify(t, other, &head); res.Err == nil || res.At != n {
			t.Errorf("rewritten: got %+v", res)
		}
		if _, err := audit.Open(other, key, audit.Options{Head: &head}); !errors.Is(err, op.StateCorrupt) {
			t.Errorf("start on the forgery: got %v, want state_corrupt", err)
		}
	})

	t.Run("a log that went on since the head was taken is whole", func(t *testing.T) {
		dir, head := filled(t, n)
		l, err := audit.Open(dir, key, audit.Options{Head: &head})
		if err != nil {
			t.Fatal(err)
		}
		l.Append(record(n + 1))
		l.Close()
		if res := verify(t, dir, &head); res.Err != nil || res.Records != n+1 {
			t.Errorf("got %+v", res)
		}
	})

	t.Run("a head is sealed", func(t *testing.T) {
		dir, head := filled(t, n)
		b, err := json.Marshal(head)
		if err != nil {
			t.Fatal(err)
		}
		var back audit.Head
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if res := verify(t, dir, &back); res.Err != nil {
			t.Fatalf("after its way over JSON: %+v", res)
		}
		for name, forge := range map[string]func(h *audit.Head){
			"seq":  func(h *audit.Head) { h.Seq-- },
			"hash": func(h *audit.Head) { h.Hash = audit.HashOf("x") },
			"time": func(h *audit.Head) { h.Time = h.Time.Add(time.Nanosecond) },
			"seal": func(h *audit.Head) { h.Seal = "" },
		} {
			h := head
			forge(&h)
			if res := verify(t, dir, &h); !errors.Is(res.Err, op.StateCorrupt) {
				t.Errorf("%s: got %+v", name, res)
			}
			if _, err := audit.Open(dir, key, audit.Options{Head: &h}); !errors.Is(err, op.StateCorrupt) {
				t.Errorf("%s at start: got %v", name, err)
			}
		}
		if res, _ := audit.Verify(dir, &head, []byte("some other key of enough bytes")); res.Err == nil {
			t.Error("another key's head was taken")
		}
		if res, err := audit.Verify(dir, &head, nil); err != nil || res.Err != nil {
			t.Errorf("without a key: %+v, %v", res, err)
		}
	})

	t.Run("damage beyond the window that start reads is verify's to find", func(t *testing.T) {
		dir, head := filled(t, 3500)
		b := read(t, logFile(dir))
		if len(b) < 1<<20+100_000 {
			t.Fatalf("the log is too short to show it: %d bytes", len(b))
		}
		b[bytes.IndexByte(b, '\n')-20] ^= 1
		write(t, logFile(dir), b)
		l, err := audit.Open(dir, key, audit.Options{Head: &head})
		if err != nil {
			t.Fatalf("start: %v", err)
		}
		l.Close()
		if res := verify(t, dir, nil); res.Err == nil || res.At != 1 {
			t.Errorf("verify: got %+v, want record 1", res)
		}
	})
}

// TestCrash covers what a kill or a power cut leaves.
func TestCrash(t *testing.T) {
	const n = 3
	goesOn := func(t *testing.T, dir string, keep int64, prefix []byte, torn bool) {
		t.Helper()
		res := verify(t, dir, nil)
		if res.Err != nil || res.Records != keep || (res.Torn > 0) != torn {
			t.Fatalf("verify before: got %+v, want %d records, torn %v", res, keep, torn)
		}
		l, err := audit.Open(dir, key, audit.Options{})
		if err != nil {
			t.Fatalf("start: %v", err)
		}
		defer l.Close()
		if (l.Recovered() != "") != torn || torn && !strings.Contains(l.Recovered(), fmt.Sprintf("record %d ", keep)) {
			t.Fatalf("recovered says %q, want torn %v after record %d", l.Recovered(), torn, keep)
		}
		if now := read(t, logFile(dir)); !bytes.Equal(now, prefix) {
			t.Fatalf("the whole records changed: %q", now)
		}
		r, err := l.Append(record(99))
		if err != nil || r.Seq != keep+1 {
			t.Fatalf("append: %+v, %v", r, err)
		}
		if res := verify(t, dir, nil); res.Err != nil || res.Records != keep+1 || res.Torn != 0 {
			t.Fatalf("verify after: %+v", res)
		}
	}

	t.Run("S98 (part) the last record cut at every byte is dropped and said so", func(t *testing.T) {
		dir, _ := filled(t, n)
		whole := read(t, logFile(dir))
		last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
		for cut := last; cut <= len(whole); cut++ {
			write(t, logFile(dir), whole[:cut])
			if cut == len(whole) {
				goesOn(t, dir, n, whole, false)
			} else {
				goesOn(t, dir, n-1, whole[:last], cut > last)
			}
		}
	})

	t.Run("S98 (part) the first record cut, and a log of no bytes", func(t *testing.T) {
		dir, _ := filled(t, 1)
		whole := read(t, logFile(dir))
		for _, cut := range []int{0, 1, 50, len(whole) - 1} {
			write(t, logFile(dir), whole[:cut])
			goesOn(t, dir, 0, nil, cut > 0)
		}
	})

	t.Run("S98 (part) a tail of zeros, and blocks that were never written", func(t *testing.T) {
		dir, _ := filled(t, n)
		whole := read(t, logFile(dir))
		last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
		zeros := func(k int) []byte { return make([]byte, k) }
		hole := bytes.Clone(whole)
		copy(hole[last+10:], zeros(40))
		head := bytes.Clone(whole)
		copy(head[last:], zeros(100))
		for name, c := range map[string]struct {
			bytes []byte
			keep  int64
		}{
			"zeros after a whole record":    {append(bytes.Clone(whole), zeros(5000)...), n},
			"many zeros":                    {append(bytes.Clone(whole), zeros(300_000)...), n},
			"zeros after half a record":     {append(bytes.Clone(whole[:last+30]), zeros(4096)...), n - 1},
			"a hole in the last record":     {hole, n - 1},
			"the last record's start holed": {head, n - 1},
			"nothing but zeros":             {zeros(4096), 0},
		} {
			write(t, logFile(dir), c.bytes)
			prefix := whole
			if c.keep == n-1 {
				prefix = whole[:last]
			} else if c.keep == 0 {
				prefix = nil
			}
			t.Log(name)
			goesOn(t, dir, c.keep, prefix, true)
		}
	})

	t.Run("S98 (part) zeros in an earlier record are no crash's work", func(t *testing.T) {
		dir, _ := filled(t, n)
		b := read(t, logFile(dir))
		copy(b[20:], make([]byte, 40))
		write(t, logFile(dir), b)
		if _, err := audit.Open(dir, key, audit.Options{}); !errors.Is(err, op.StateCorrupt) {
			t.Errorf("start: got %v", err)
		}
		if res := verify(t, dir, nil); res.Err == nil || res.At != 1 {
			t.Errorf("verify: got %+v", res)
		}
		if now := read(t, logFile(dir)); !bytes.Equal(now, b) {
			t.Error("the damaged file was rewritten")
		}
	})

	t.Run("a record dropped as torn can be put back from the outbox", func(t *testing.T) {
		dir, head := filled(t, n)
		whole := read(t, logFile(dir))
		write(t, logFile(dir), whole[:len(whole)-5])
		l := open(t, dir)
		for i := 1; i <= n; i++ {
			if wrote, err := l.AppendUnique("", record(i)); err != nil || wrote != (i == n) {
				t.Errorf("record %d: wrote %v, %v", i, wrote, err)
			}
		}
		l.Close()
		if res := verify(t, dir, nil); res.Records != head.Seq || res.Err != nil {
			t.Errorf("got %+v", res)
		}
	})

	t.Run("verify of nothing at all is an error, not a fault of the log", func(t *testing.T) {
		if _, err := audit.Verify(filepath.Join(t.TempDir(), "none"), nil, nil); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}
