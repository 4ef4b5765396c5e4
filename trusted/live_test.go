//go:build linux

package trusted

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type started struct {
	*Live
	file    string
	notices chan Status
}

func start(t *testing.T) started {
	t.Helper()
	s := started{file: filepath.Join(realTemp(t), "policy.json"), notices: make(chan Status, 100)}
	write(t, s.file, good, 0o644)
	var err error
	s.Live, err = Watch(context.Background(), s.file, env(), func(now Status) {
		select {
		case s.notices <- now:
		default: // nobody reads that many
		}
	})
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// told waits for a notice of the state; nobody asks Current meanwhile, so that it comes
// from watching alone.
func (s started) told(t *testing.T, state, text string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case got := <-s.notices:
			if got.State == state && strings.Contains(got.Error, text) {
				return
			}
		case <-deadline:
			t.Fatalf("no notice of %s with %q; now %+v", state, text, s.Status())
		}
	}
}

func (s started) trusts(t *testing.T, want int) {
	t.Helper()
	if got := len(s.Current().Policies()); got != want {
		t.Errorf("%d entries, want %d; %+v", got, want, s.Status())
	}
}

// faults are ways for a good file to turn bad, each with the state it must give.
var faults = map[string]struct {
	make        func(t *testing.T, file string)
	state, text string
}{
	"half saved": {func(t *testing.T, f string) { must(t, os.WriteFile(f, []byte("{"), 0o644)) }, StateBad, "line 1"},
	"emptied":    {func(t *testing.T, f string) { must(t, os.Truncate(f, 0)) }, StateBad, "line 1"},
	"removed":    {func(t *testing.T, f string) { must(t, os.Remove(f)) }, StateBad, "no such file"},
	"open":       {func(t *testing.T, f string) { must(t, os.Chmod(f, 0o666)) }, StateUnsafe, "mode 0666"},
	"foreign": {func(t *testing.T, f string) {
		if os.Geteuid() != 0 {
			t.Skip("as root only: a policy that is given to another user")
		}
		must(t, os.Chown(f, 4321, -1))
	}, StateUnsafe, "user 4321"},
	"second name": {func(t *testing.T, f string) { must(t, os.Link(f, f+".2")) }, StateUnsafe, "second name"},
	"a link": {func(t *testing.T, f string) {
		must(t, os.Rename(f, f+".2"))
		must(t, os.Symlink(f+".2", f))
	}, StateUnsafe, "is a link"},
	"renamed over": {func(t *testing.T, f string) {
		must(t, os.Rename(write(t, f+".new", strings.Replace(good, `"/srv/a"`, `"*"`, 1), 0o644), f))
	}, StateBad, "line 14: policies[1].roots[0]"},
}

func TestLive(t *testing.T) {
	t.Run("C114 a file that turns bad means no entries at once, and status says so", func(t *testing.T) {
		for name, fault := range faults {
			t.Run(name, func(t *testing.T) {
				s := start(t)
				s.trusts(t, 2)
				fault.make(t, s.file)
				s.trusts(t, 0)
				if got := s.Status(); got.State != fault.state || !strings.Contains(got.Error, fault.text) || got.File != s.file {
					t.Errorf("status %+v, want %s with %q", got, fault.state, fault.text)
				}
				os.Remove(s.file)
				os.Remove(s.file + ".2")
				write(t, s.file, good, 0o644)
				s.trusts(t, 2)
				if got := s.Status(); got.State != StateOK || got.Error != "" {
					t.Errorf("status after the repair: %+v", got)
				}
			})
		}
	})
	t.Run("C114 the loss and the repair are announced without anybody asking", func(t *testing.T) {
		for name, fault := range faults {
			t.Run(name, func(t *testing.T) {
				s := start(t)
				fault.make(t, s.file)
				s.told(t, fault.state, fault.text)
				must(t, os.RemoveAll(s.file))
				os.Remove(s.file + ".2")
				must(t, os.Rename(write(t, s.file+".tmp", good, 0o644), s.file))
				s.told(t, StateOK, "")
			})
		}
	})
	t.Run("S101 a half-saved policy suspends trust, names the line, and cannot be started with", func(t *testing.T) {
		s := start(t)
		must(t, os.WriteFile(s.file, []byte("{\n\"policies\": ["), 0o644))
		s.trusts(t, 0)
		if got := s.Status(); got.State != StateBad || !strings.HasPrefix(got.Error, "line 2:") {
			t.Errorf("status %+v", got)
		}
		refused(t, s.file, env(), "policy_invalid", "line 2")
	})
	t.Run("no event is needed for a change to count", func(t *testing.T) {
		s := start(t)
		s.Close() // from here on nobody watches
		must(t, os.WriteFile(s.file, []byte("{"), 0o644))
		s.trusts(t, 0)
		write(t, s.file, good, 0o644)
		s.trusts(t, 2)
	})
	t.Run("a rewrite of the same size within the same clock tick counts", func(t *testing.T) {
		s := start(t)
		s.Close()
		other := strings.Replace(good, "wf-1", "wf-9", 2)
		for i := range 200 {
			text, want := good, "wf-1"
			if i%2 == 0 {
				text, want = other, "wf-9"
			}
			must(t, os.WriteFile(s.file, []byte(text), 0o644))
			if got := s.Current().Policies()[0].WorkflowIDs[0]; got != want {
				t.Fatalf("round %d: %s, want %s", i, got, want)
			}
		}
	})
	t.Run("a file stamped shortly before it was read is read again", func(t *testing.T) {
		// Where the kernel's stamps are coarse, the case above needs this; here it may not.
		file := write(t, filepath.Join(realTemp(t), "f"), good, 0o644)
		info, err := os.Lstat(file)
		must(t, err)
		id := identify(info)
		for after, want := range map[time.Duration]bool{0: true, settle / 2: true, -time.Hour: true, 2 * settle: false, time.Hour: false} {
			if got := (mark{id, id.stamp().Add(after)}).changed(file); got != want {
				t.Errorf("read %v after the stamp: to be read again %v, want %v", after, got, want)
			}
		}
	})
	t.Run("a directory that is exchanged counts", func(t *testing.T) {
		s := start(t)
		dir := filepath.Dir(s.file)
		must(t, os.Rename(dir, dir+".old"))
		t.Cleanup(func() { os.RemoveAll(dir + ".old") })
		s.trusts(t, 0)
		must(t, os.Mkdir(dir, 0o755))
		write(t, s.file, good, 0o644)
		s.trusts(t, 2)
	})
	t.Run("with no file named nothing is trusted", func(t *testing.T) {
		l, err := Watch(t.Context(), "", env(), nil)
		must(t, err)
		defer l.Close()
		if len(l.Current().Policies()) != 0 || l.Status() != (Status{State: StateNone}) {
			t.Errorf("%+v", l.Status())
		}
		must(t, l.SetWorkspaces([]string{"/"}))
	})
	t.Run("many may ask while the file changes, and a cancelled context ends the watch", func(t *testing.T) {
		s := start(t)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 200 {
					if n := len(s.Current().Policies()); n != 0 && n != 2 {
						t.Errorf("%d entries", n)
					}
				}
			})
		}
		for i := range 50 {
			must(t, os.WriteFile(s.file, []byte([]string{"{", good}[i%2]), 0o644))
		}
		wg.Wait()
		s.trusts(t, 2)
	})
}

func BenchmarkCurrent(b *testing.B) {
	file := filepath.Join(b.TempDir(), "policy.json")
	if err := os.WriteFile(file, []byte(good), 0o644); err != nil {
		b.Fatal(err)
	}
	l, err := Watch(b.Context(), file, env(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	time.Sleep(2 * settle)
	l.Current()
	for b.Loop() {
		l.Current()
	}
}
