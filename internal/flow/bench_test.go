package flow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/flow"
	"holdpoint/op"
)

// engine opens one on a new state and workspace.
func engine(b testing.TB) (*flow.Engine, op.Caller, string) {
	o := flow.OpenNew(b, flow.Config{})
	return o.Engine, op.Caller{Token: "tk_bench", Name: "bench", Role: op.Agent}, o.Root
}

func text(size int) string {
	line := "the quick brown fox jumps over the lazy dog\n"
	return "rev = 000000\n" + strings.Repeat(line, size/len(line))
}

func BenchmarkView4K(b *testing.B)   { benchView(b, 4<<10) }
func BenchmarkView200K(b *testing.B) { benchView(b, 200<<10) }

func benchView(b *testing.B, size int) {
	e, by, root := engine(b)
	os.WriteFile(filepath.Join(root, "a.txt"), []byte(text(size)), 0o644)
	for b.Loop() {
		if r := e.Call(b.Context(), by, op.Request{Op: op.ViewFile, Args: op.Object{"path": "a.txt"}}, nil); r.Status != op.Done {
			b.Fatal(r.Error)
		}
	}
}

func BenchmarkEdit4K(b *testing.B)  { benchEdit(b, 4<<10) }
func BenchmarkEdit40K(b *testing.B) { benchEdit(b, 40<<10) }

// benchEdit is a durable edit with its undo credential, transport apart.
func benchEdit(b *testing.B, size int) {
	e, by, root := engine(b)
	os.WriteFile(filepath.Join(root, "a.txt"), []byte(text(size)), 0o644)
	i := 0
	for b.Loop() {
		args := op.Object{"path": "a.txt", "old_string": fmt.Sprintf("rev = %06d", i), "new_string": fmt.Sprintf("rev = %06d", i+1)}
		if r := e.Call(b.Context(), by, op.Request{Op: op.EditFile, Args: args}, nil); r.Status != op.Done {
			b.Fatal(r.Error)
		}
		i++
	}
}

// BenchmarkPreflightEdit is decision plus preflight of one edit, in process.
func BenchmarkPreflightEdit(b *testing.B) {
	e, by, root := engine(b)
	os.WriteFile(filepath.Join(root, "a.txt"), []byte(text(4<<10)), 0o644)
	req := op.Request{Op: op.EditFile, Args: op.Object{"path": "a.txt", "old_string": "rev = 000000", "new_string": "rev = 000001"}}
	for b.Loop() {
		if p := e.Preflight(b.Context(), by, req, nil); p.Error != nil {
			b.Fatal(p.Error)
		}
	}
}

// BenchmarkFacts10k looks at 10,000 files of 6 KiB in one preflight: first, and once more
// when they are known.
func BenchmarkFacts10k(b *testing.B) {
	for _, again := range []bool{false, true} {
		b.Run(map[bool]string{false: "first", true: "again"}[again], func(b *testing.B) {
			e, by, root := engine(b)
			var paths []string
			for i := range 10_000 {
				p := fmt.Sprintf("d%d/f%d.go", i/100, i)
				os.MkdirAll(filepath.Dir(filepath.Join(root, p)), 0o755)
				os.WriteFile(filepath.Join(root, p), []byte(text(6<<10)), 0o644)
				paths = append(paths, p)
			}
			time.Sleep(100 * time.Millisecond)
			for n := 0; b.Loop(); n++ {
				if !again {
					for i, p := range paths { // so that nothing of it is known
						when := time.Unix(int64(n), int64(i))
						os.Chtimes(filepath.Join(root, p), when, when)
					}
					b.StopTimer()
					time.Sleep(100 * time.Millisecond)
					b.StartTimer()
				}
				if p := e.Facts(b.Context(), by, "", paths, op.Page{}); p.Error != nil || !p.Facts.Available {
					b.Fatal(p.Error)
				}
			}
		})
	}
}
