//go:build linux

package shellexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// viewed gives a spec a view beside its root.
func viewed(t testing.TB, s *Spec) (upper string) {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(s.Root), "hpview")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.Chmod(filepath.Join(dir, "work", "work"), 0o700)
		os.RemoveAll(dir)
	})
	var open [2]*os.File
	for i, name := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if open[i], err = os.Open(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { open[i].Close() })
	}
	s.View = &View{Upper: open[0], Work: open[1]}
	return filepath.Join(dir, "upper")
}

func TestView(t *testing.T) {
	t.Run("what is written lies in the upper directory, and the root is as it was", func(t *testing.T) {
		s := shell(t, "echo new > a; rm b; mv c d; mkdir e; rm -r f; mkdir f; pwd")
		for _, name := range []string{"a", "b", "c", "f/x"} {
			os.MkdirAll(filepath.Dir(filepath.Join(s.Root, name)), 0o755)
			os.WriteFile(filepath.Join(s.Root, name), []byte("old\n"), 0o644)
		}
		upper := viewed(t, &s)
		r := mustRun(t, s)
		if r.Exit == nil || *r.Exit != 0 || all(r.Stdout) != s.Root+"\n" || !on(r.Levels, LevelView) {
			t.Fatalf("got %q %q %v", all(r.Stdout), all(r.Stderr), r.Levels)
		}
		for _, name := range []string{"a", "b", "c", "f/x"} {
			if b, err := os.ReadFile(filepath.Join(s.Root, name)); err != nil || string(b) != "old\n" {
				t.Errorf("%s: %q %v", name, b, err)
			}
		}
		for _, name := range []string{"d", "e"} {
			if _, err := os.Lstat(filepath.Join(s.Root, name)); err == nil {
				t.Errorf("%s is in the root", name)
			}
		}
		if b, _ := os.ReadFile(filepath.Join(upper, "a")); string(b) != "new\n" {
			t.Errorf("upper: %q", b)
		}
	})
	t.Run("a directory of the root cannot be renamed: programs that rename by themselves meet EXDEV", func(t *testing.T) {
		s := shell(t, "exec 2>&1; perl -e 'rename(\"dir\", \"to\") or print \"$!\\n\"'")
		os.Mkdir(filepath.Join(s.Root, "dir"), 0o755)
		viewed(t, &s)
		r := mustRun(t, s)
		if r.Seen == nil || !slices.Equal(r.Seen.Moved, []string{"dir"}) {
			t.Errorf("seen: %+v", r.Seen)
		}
		if got := all(r.Stdout); !strings.Contains(got, unix.EXDEV.Error()) && !strings.Contains(strings.ToLower(got), "cross-device") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a directory that the program made, or made anew, can be renamed, and is not told", func(t *testing.T) {
		s := shell(t, "mkdir own; perl -e 'rename(\"own\", \"to\") or die'; rm -r dir; mkdir dir; perl -e 'rename(\"dir\", \"other\") or die'; mv file moved")
		os.Mkdir(filepath.Join(s.Root, "dir"), 0o755)
		os.WriteFile(filepath.Join(s.Root, "file"), nil, 0o644)
		viewed(t, &s)
		if r := mustRun(t, s); r.Exit == nil || *r.Exit != 0 || r.Seen != nil {
			t.Errorf("got %+v %+v %q", r, r.Seen, all(r.Stderr))
		}
	})
	t.Run("a view whose place cannot be one is not run without it", func(t *testing.T) {
		s := shell(t, "touch ran")
		viewed(t, &s)
		s.View.Work = s.View.Upper // the same directory twice
		s.Needs = []string{LevelUser, LevelView}
		r := mustRun(t, s)
		if _, err := os.Stat(s.Root + "/ran"); !errors.Is(err, os.ErrNotExist) || r.Termination != NoSandbox {
			t.Errorf("got %+v", r)
		}
	})
}

// BenchmarkStartView tells what the start of a rehearsal costs, the making of its place with
// it, beside that of a plain confined run, over roots of several sizes: with a helper that
// stands ready, as in the daemon, and without. The two take turns, and the medians are what
// is compared.
func BenchmarkStartView(b *testing.B) {
	for _, files := range []int{10_000, 100_000} {
		if testing.Short() && files > 10_000 {
			continue
		}
		s := shell(b, ":")
		fill(b, s.Root, files)
		for _, spare := range []bool{true, false} {
			plain, rehearsed := startViewed(b, s, spare, max(b.N, 40))
			fmt.Printf("uid %d, %6d files, a helper ready %-5v  confined %7.3f ms  rehearsed %7.3f ms  %5.2f times\n", os.Geteuid(), files, spare,
				plain.Seconds()*1e3, rehearsed.Seconds()*1e3, rehearsed.Seconds()/plain.Seconds())
		}
	}
}

// fill makes empty files, a thousand in a directory.
func fill(b *testing.B, root string, files int) {
	for i := range files {
		name := filepath.Join(root, fmt.Sprintf("d%d", i/1000), fmt.Sprint(i))
		if i%1000 == 0 {
			os.Mkdir(filepath.Dir(name), 0o755)
		}
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// startViewed gives the medians of a plain confined start and of a rehearsal's.
func startViewed(b *testing.B, s Spec, spare bool, rounds int) (plain, rehearsed time.Duration) {
	if spare {
		s.Spares = &Spares{}
		defer s.Spares.Close()
	}
	var of [2][]time.Duration
	for round := range rounds {
		for i := range of {
			for spare && round > 0 && s.Spares.Ready() < 1 {
				time.Sleep(time.Millisecond)
			}
			run := s
			begin := time.Now()
			if i == 1 {
				viewed(b, &run)
			}
			if r := mustRun(b, run); r.Exit == nil || *r.Exit != 0 || i == 1 && !on(r.Levels, LevelView) {
				b.Fatalf("got %+v", r)
			}
			of[i] = append(of[i], time.Since(begin))
		}
	}
	for i := range of {
		slices.Sort(of[i])
	}
	return of[0][rounds/2], of[1][rounds/2]
}
