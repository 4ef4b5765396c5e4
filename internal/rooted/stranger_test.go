//go:build linux

package rooted

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdpoint/op"
)

// A daemon without privileges, on a file that its group lets it write but another user
// owns: a new version would change the owner, so there is none (data case 31b). What is
// its own it changes, and what it may not read it says so.
func TestStranger(t *testing.T) {
	rootOnly(t)
	dir := fastDir(t)
	must(t, os.Chmod(dir, 0o755))
	ws := filepath.Join(dir, "ws")
	must(t, os.MkdirAll(filepath.Join(ws, "locked"), 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	for _, f := range []struct {
		name     string
		uid, gid int
		mode     os.FileMode
	}{{"theirs", 1000, 2000, 0o664}, {"own", 3000, 2000, 0o640}, {"secret", 1000, 1000, 0o600}, {"locked/f", 3000, 3000, 0o644}} {
		p := filepath.Join(ws, f.name)
		must(t, os.WriteFile(p, []byte("old"), 0o644))
		must(t, os.Chown(p, f.uid, f.gid))
		must(t, os.Chmod(p, f.mode))
	}
	for _, d := range []string{ws, filepath.Join(dir, "state")} {
		must(t, os.Chown(d, 3000, 2000))
	}
	must(t, os.Chmod(ws, 0o775))
	c := self("stranger", dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 3000, Gid: 3000, Groups: []uint32{2000}}}
	out, err := c.Output()
	must(t, err)
	want := "theirs metadata_loss\nown \nsecret permission_denied\nlocked/f permission_denied\n"
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	for name, content := range map[string]string{"theirs": "old", "own": "new", "secret": "old", "locked/f": "old"} {
		if got, err := os.ReadFile(filepath.Join(ws, name)); err != nil || string(got) != content {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "state", "store")); len(left) != 2 { // the pre-image of own, and what was staged for locked/f
		t.Errorf("in the store: %v", left)
	}
}

func strangerRole(dir string) {
	r, err := Open(filepath.Join(dir, "ws"), Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := OpenStore(filepath.Join(dir, "state", "store"), r)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, p := range []op.Path{"theirs", "own", "secret", "locked/f"} {
		code := op.Code("")
		if err := strangerEdit(r, s, p, fmt.Sprint("s", i)); err != nil {
			code = op.AsError(err).Code
		}
		fmt.Println(p, code)
	}
}

func strangerEdit(r *Root, s *Store, p op.Path, slot string) error {
	n, err := r.Look(ctx(), p, true)
	if err != nil {
		return err
	}
	defer n.Close()
	before, err := n.State(ctx())
	if err != nil {
		return err
	}
	st, err := s.Stage(ctx(), slot, strings.NewReader("new"), Meta{Like: n})
	if err != nil {
		return err
	}
	h, err := r.Hold(ctx(), s, []op.Step{{Do: op.Swap, Path: p, Slot: slot, Before: before, After: st.State, Inode: st.Inode}}, HoldOptions{})
	if err != nil {
		return err
	}
	defer h.Close()
	_, err = h.Apply(ctx())
	return err
}

// A crash while a directory that its owner may not write is on the move leaves it with the
// right to write that was lent to him: who settles takes it away, wherever it stands.
func TestSettleShut(t *testing.T) {
	rootOnly(t)
	dir := fastDir(t)
	must(t, os.Chmod(dir, 0o755))
	for _, d := range []string{"ws", "state"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
		must(t, os.Chown(filepath.Join(dir, d), 3000, 3000))
	}
	c := self("shut", dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 3000, Gid: 3000}}
	out, err := c.Output()
	must(t, err)
	want := "before the move: undone, mode 0555\nafter the move: done, mode 0555\nanother mode: undone, mode 0775\n"
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func shutRole(dir string) {
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(0)
		}
	}
	r, err := Open(filepath.Join(dir, "ws"), Options{})
	must(err)
	s, err := OpenStore(filepath.Join(dir, "state", "store"), r)
	must(err)
	at := filepath.Join(r.Dir(), "d")
	for i, c := range []struct {
		name  string
		moved bool
		left  os.FileMode
	}{{"before the move", false, 0o755}, {"after the move", true, 0o755}, {"another mode", false, 0o775}} {
		os.Chmod(at, 0o755)
		must(os.MkdirAll(filepath.Join(at, "in"), 0o755))
		must(os.Chmod(at, 0o555))
		n, err := r.Look(ctx(), "d", false)
		must(err)
		before, err := n.State(ctx())
		must(err)
		n.Close()
		step := op.Step{Do: op.Take, Path: "d", Slot: fmt.Sprint("s", i), Before: before, After: op.State{Kind: op.Absent}}
		must(os.Chmod(at, c.left))
		if c.moved {
			must(os.Rename(at, filepath.Join(dir, "state", "store", step.Slot)))
		}
		got, err := r.Settle(ctx(), s, []op.Step{step})
		must(err)
		word := "undone"
		if got.Done {
			word = "done"
		}
		info, err := os.Stat(at)
		if err != nil {
			info, err = os.Stat(filepath.Join(dir, "state", "store", step.Slot))
		}
		must(err)
		fmt.Printf("%s: %s, mode %04o\n", c.name, word, info.Mode().Perm())
	}
}
