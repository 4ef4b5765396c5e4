package gitread

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holdpoint/op"
)

// BenchmarkStatus compares status on 100,000 files with git's in the same run.
func BenchmarkStatus(b *testing.B) {
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100_000 {
		p := filepath.Join(dir, fmt.Sprintf("d%02d/e%02d", i/5000, i/100%50), fmt.Sprintf("f%02d.go", i%100))
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(p, fmt.Appendf(nil, "package p\n\nconst n = %d\n", i), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	run := func(args ...string) {
		c := exec.Command("git", append([]string{"-c", "gc.auto=0", "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0")
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	run("init", "-q")
	run("add", "-A")
	run("commit", "-q", "-m", "all")
	time.Sleep(1100 * time.Millisecond) // so that no entry was written in the moment of the index
	run("update-index", "--refresh")
	root := openRoot(b, dir)
	b.Run("git", func(b *testing.B) {
		for b.Loop() {
			run("status", "--porcelain")
		}
	})
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			out, err := Read(context.Background(), Options{Root: root, Path: ".", Rules: rules{}}, &op.GitStatusArgs{})
			if err != nil || out["clean"] != true {
				b.Fatal(out, err)
			}
		}
	})
}
