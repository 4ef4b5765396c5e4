//go:build linux

package rooted

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// both runs a test with the kernel's walk and with our own.
func both(t *testing.T, f func(t *testing.T, o Options)) {
	t.Helper()
	t.Run("openat2", func(t *testing.T) { f(t, Options{}) })
	t.Run("by names", func(t *testing.T) { f(t, Options{NoOpenat2: true}) })
}

// bench is a root and a store in a folder of their own, with a place outside beside them.
type bench struct {
	t    *testing.T
	top  string // holds ws, store, OUT
	ws   string
	root *Root
	st   *Store

	within context.Context // of crashAt's Apply; nil is none
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	return benchIn(t, fastDir(t), o)
}

// onDisk is a bench where a sync takes its time and files have all their attributes.
func onDisk(t *testing.T, o Options) *bench {
	t.Helper()
	return benchIn(t, t.TempDir(), o)
}

func benchIn(t *testing.T, top string, o Options) *bench {
	t.Helper()
	b := &bench{t: t, top: top, ws: filepath.Join(top, "ws")}
	for _, d := range []string{b.ws, filepath.Join(top, "OUT")} {
		must(t, os.MkdirAll(d, 0o755))
	}
	var err error
	b.root, err = Open(b.ws, o)
	must(t, err)
	if os.Getenv(inPieces) != "" {
		b.root.whole = 0
	}
	if os.Getenv(asCopies) != "" {
		b.st, err = OpenCopies(filepath.Join(top, "store"), b.root)
	} else {
		b.st, err = OpenStore(filepath.Join(top, "store"), b.root)
	}
	must(t, err)
	t.Cleanup(func() { _ = b.st.Close(); _ = b.root.Close() })
	return b
}

// inPieces in the environment has every list of steps carried out one step at a time.
const inPieces = "HOLDPOINT_TEST_PIECES"

// asCopies in the environment gives every bench a store of copies.
const asCopies = "HOLDPOINT_TEST_COPIES"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rootOnly skips, aloud, what only root can set up: mounts, owners, capabilities.
func rootOnly(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root for mounts, owners or capabilities")
	}
}

// wants fails unless err is of the code; the empty code wants no error.
func wants(t *testing.T, err error, code op.Code) {
	t.Helper()
	if code == "" && err != nil || code != "" && !errors.Is(err, code) {
		t.Errorf("got %v, want %q", err, code)
	}
}

func (b *bench) path(name string) string { return filepath.Join(b.top, name) }

func (b *bench) write(name, content string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	must(b.t, os.WriteFile(b.path(name), []byte(content), 0o644))
}

func (b *bench) link(target, name string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	must(b.t, os.Symlink(target, b.path(name)))
}

// reads fails unless the file has this content; "<absent>" wants nothing there.
func (b *bench) reads(name, want string) {
	b.t.Helper()
	got, err := os.ReadFile(b.path(name))
	if os.IsNotExist(err) {
		got, err = []byte("<absent>"), nil
	}
	if err != nil || string(got) != want {
		b.t.Errorf("%s: got %q %v, want %q", name, got, err, want)
	}
}

func (b *bench) look(p op.Path, follow bool) *Node {
	b.t.Helper()
	n, err := b.root.Look(ctx(), p, follow)
	must(b.t, err)
	b.t.Cleanup(n.Close)
	return n
}

// lookErr expects the look to fail.
func (b *bench) lookErr(p op.Path, follow bool) error {
	n, err := b.root.Look(ctx(), p, follow)
	if err == nil {
		n.Close()
	}
	return err
}

func (b *bench) state(p op.Path) op.State {
	b.t.Helper()
	n, err := b.root.Look(ctx(), p, false)
	must(b.t, err)
	defer n.Close()
	s, err := n.State(ctx())
	must(b.t, err)
	return s
}

// swap plans to replace a file: the new bytes are staged, with the old one's metadata.
func (b *bench) swap(p op.Path, content, slot string) op.Step {
	b.t.Helper()
	n, err := b.root.Look(ctx(), p, false)
	must(b.t, err)
	defer n.Close()
	before, err := n.State(ctx())
	must(b.t, err)
	s, err := b.st.Stage(ctx(), slot, strings.NewReader(content), Meta{Like: n})
	must(b.t, err)
	return op.Step{Do: op.Swap, Path: p, Slot: slot, Before: before, After: s.State, Inode: s.Inode}
}

func (b *bench) place(p op.Path, content, slot string) op.Step {
	b.t.Helper()
	s, err := b.st.Stage(ctx(), slot, strings.NewReader(content), Meta{})
	must(b.t, err)
	return op.Step{Do: op.Place, Path: p, Slot: slot, Before: op.State{Kind: op.Absent}, After: s.State, Inode: s.Inode}
}

func (b *bench) take(p op.Path, slot string) op.Step {
	return op.Step{Do: op.Take, Path: p, Slot: slot, Before: b.state(p), After: op.State{Kind: op.Absent}}
}

func (b *bench) move(p, to op.Path) op.Step {
	s := b.state(p)
	return op.Step{Do: op.Move, Path: p, To: to, Before: s, After: s}
}

func mkdirStep(p op.Path) op.Step {
	return op.Step{Do: op.MakeDir, Path: p, Before: op.State{Kind: op.Absent}, After: op.State{Kind: op.Directory}}
}

// do holds and applies.
func (b *bench) do(o HoldOptions, steps ...op.Step) ([]op.Step, Report, error) {
	h, err := b.root.Hold(ctx(), b.st, steps, o)
	if err != nil {
		return nil, Report{}, err
	}
	defer h.Close()
	r, err := h.Apply(ctx())
	return h.Steps(), r, err
}

func (b *bench) mustDo(steps ...op.Step) []op.Step {
	b.t.Helper()
	s, _, err := b.do(HoldOptions{}, steps...)
	must(b.t, err)
	return s
}

func ctx() context.Context { return context.Background() }

// fds counts this process's handles.
func fds(t *testing.T) int {
	t.Helper()
	for stacks := make([]byte, 1<<20); strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*Store).begin"); {
		time.Sleep(time.Millisecond) // a flush holds its handle until it is through
	}
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}
