package e2e

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
		{"S33 (part) no write in place is lost to 200 edits", writeInPlace},
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
	reply := make(chan M)
	began := time.Now()
	go func() {
		r := h.d.call("edit_file", M{"path": h.name, "old_string": "base", "new_string": "edited"})
		h.took = (3*h.took + time.Since(began)) / 4
		reply <- r
	}()
	time.Sleep(time.Duration(h.rng.Int64N(int64(h.took*5/4) + 1)))
	h.write(t, path, mark)
	r := <-reply
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
