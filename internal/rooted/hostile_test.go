//go:build linux

package rooted

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// cell is one kind of hostile writer against one kind of our side, over many rounds.
type cell struct {
	Manner, Side                         string
	Rounds                               int
	Landed, Refused, Diverted, Lost      int
	Found, Weak, WriterFailed, Elsewhere int
	Bad                                  string
}

// sides: with a lease; in a process that may not lease the files of another user; with the
// lease left out; and, to show what the protocol is for, checking and then renaming.
var (
	manners = []string{"quiet", "rename", "in place", "truncate", "held"}
	sides   = []string{"lease", "not owner", "no lease"}
)

// A second process writes the file, in one of several manners, at about the moment at
// which it is replaced here. Its bytes are in the file or in the store afterwards, always,
// and where they are in a pre-image that is found out.
func TestHostileWriters(t *testing.T) {
	rootOnly(t)
	n := count(t, "HOLDPOINT_HOSTILE_N", 300)
	naiveLost := 0
	for _, side := range append(sides, "check then rename") {
		for _, manner := range manners {
			t.Run(side+", "+manner, func(t *testing.T) {
				c := runCell(t, manner, side, n)
				t.Logf("%d rounds: landed %d, refused %d, diverted %d (found %d), lost %d", c.Rounds, c.Landed, c.Refused, c.Diverted, c.Found, c.Lost)
				if c.Bad != "" {
					t.Fatal(c.Bad)
				}
				if side == "check then rename" {
					naiveLost += c.Lost
					return
				}
				checkCell(t, c)
			})
		}
	}
	if naiveLost == 0 {
		t.Error("checking and then renaming lost nothing: the rounds show nothing")
	}
}

func checkCell(t *testing.T, c cell) {
	t.Helper()
	if c.Lost != 0 {
		t.Errorf("%d foreign writes are lost", c.Lost)
	}
	if c.Found != c.Diverted {
		t.Errorf("%d writes went into a pre-image, %d were found", c.Diverted, c.Found)
	}
	if c.WriterFailed != 0 {
		t.Errorf("the writer failed %d times", c.WriterFailed)
	}
	switch {
	case c.Manner == "quiet" && c.Landed != c.Rounds:
		t.Errorf("without a writer only %d of %d landed", c.Landed, c.Rounds)
	case c.Manner == "held" && c.Side == "lease" && c.Refused != c.Rounds:
		t.Errorf("only %d of %d were refused although a writer held the file", c.Refused, c.Rounds)
	case c.Manner != "held" && c.Landed*100 < c.Rounds: // on a machine that others keep busy the writer is nearly always in time
		t.Errorf("only %d of %d landed", c.Landed, c.Rounds)
	case c.Side == "lease" && c.Weak != 0 || c.Side != "lease" && c.Weak != c.Landed:
		t.Errorf("%d of %d landed are called weak", c.Weak, c.Landed)
	}
}

func runCell(t *testing.T, manner, side string, n int) cell {
	t.Helper()
	dir := fastDir(t)
	if side != "not owner" {
		return rounds(dir, manner, side, n)
	}
	c := self("without lease", dir, manner, side, strconv.Itoa(n))
	out, err := c.Output()
	must(t, err)
	var got cell
	must(t, json.Unmarshal(out, &got))
	return got
}

// withoutLeaseRole starts the binary once more, unable to lease what it does not own: the
// capability leaves the bounding set, which the next program then starts with.
func withoutLeaseRole() {
	runtime.LockOSThread()
	const capLease = 28
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, capLease, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "cannot drop the capability:", err)
		os.Exit(1)
	}
	_ = os.Setenv(roleEnv, "cell")
	err := syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func cellRole(args []string) {
	n, _ := strconv.Atoi(args[3])
	_ = json.NewEncoder(os.Stdout).Encode(rounds(args[0], args[1], args[2], n))
}

// rounds plays one cell; it runs in a process without testing too, so failures of the
// harness come back in Bad.
func rounds(dir, manner, side string, n int) (c cell) {
	c = cell{Manner: manner, Side: side, Rounds: n}
	g, err := newGame(dir, manner, side)
	if err != nil {
		c.Bad = err.Error()
		return c
	}
	defer g.close()
	for i := range n {
		if i == 0 {
			if err := g.measure(); err != nil {
				c.Bad = err.Error()
				return c
			}
		}
		if err := g.round(i, &c); err != nil {
			c.Bad = fmt.Sprintf("round %d: %v", i, err)
			return c
		}
	}
	return c
}

type game struct {
	dir, file, side, manner string
	root                    *Root
	st                      *Store
	writer                  *exec.Cmd
	tell                    io.WriteCloser
	hear                    *bufio.Reader
	took                    time.Duration // by one of our changes, about
}

func newGame(dir, manner, side string) (*game, error) {
	g := &game{dir: dir, file: filepath.Join(dir, "ws", "f"), side: side, manner: manner}
	if err := os.MkdirAll(filepath.Dir(g.file), 0o755); err != nil {
		return nil, err
	}
	var err error
	if g.root, err = Open(filepath.Dir(g.file), Options{}); err != nil {
		return nil, err
	}
	open := OpenStore
	if os.Getenv(asCopies) != "" {
		open = OpenCopies
	}
	if g.st, err = open(filepath.Join(dir, "store"), g.root); err != nil {
		return nil, err
	}
	g.writer = self("writer", manner, g.file)
	g.tell, _ = g.writer.StdinPipe()
	out, err := g.writer.StdoutPipe()
	g.hear = bufio.NewReader(out)
	if err != nil {
		return nil, err
	}
	return g, g.writer.Start()
}

func (g *game) close() {
	_ = g.tell.Close()
	_ = g.writer.Wait()
	_ = g.st.Close()
	_ = g.root.Close()
}

func (g *game) ask(format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(g.tell, format+"\n", args...); err != nil {
		return "", err
	}
	return g.hear.ReadString('\n')
}

// measure times our change without a writer.
func (g *game) measure() error {
	const times = 8
	for range times {
		if err := g.reset(); err != nil {
			return err
		}
		step, err := g.plan(0, base)
		if err != nil {
			return err
		}
		began := time.Now()
		if _, _, err := g.cas(step); err != nil {
			return err
		}
		g.took += time.Since(began) / times
		if err := g.sweep(); err != nil {
			return err
		}
	}
	return nil
}

var base = bytes.Repeat([]byte("b"), 256)

func (g *game) reset() error {
	_ = os.Remove(g.file)
	if err := os.WriteFile(g.file, base, 0o644); err != nil {
		return err
	}
	return os.Chown(g.file, 1000, 1000)
}

func (g *game) round(i int, c *cell) error {
	if err := g.reset(); err != nil {
		return err
	}
	if g.manner == "held" {
		if a, err := g.ask("open %d 0", i); err != nil || !strings.HasPrefix(a, "true") {
			return fmt.Errorf("the writer could not open: %s %w", a, err)
		}
	}
	step, err := g.plan(i, base)
	if err != nil {
		return err
	}
	skews := max(250, 2*int(g.took.Microseconds())) // so that on a slow disk some writes come after ours
	heard := make(chan string, 1)
	go func() {
		a, _ := g.ask("go %d %d", i, rand.IntN(skews))
		heard <- a
	}()
	spin(time.Duration(rand.IntN(250)) * time.Microsecond)
	weak, done, err := g.cas(step)
	answer := <-heard
	switch {
	case err == nil:
		c.Landed++
	case errors.Is(err, op.Stale), errors.Is(err, op.BusyWriter):
		c.Refused++
	default:
		return err
	}
	if weak {
		c.Weak++
	}
	if !strings.HasPrefix(answer, "true") {
		c.WriterFailed++
	} else if g.manner != "quiet" {
		if err := g.whereabouts(i, done, err == nil, c); err != nil {
			return err
		}
	}
	return g.sweep()
}

func (g *game) plan(i int, base []byte) (op.Step, error) {
	n, err := g.root.Look(ctx(), "f", true)
	if err != nil {
		return op.Step{}, err
	}
	defer n.Close()
	s, err := g.st.Stage(ctx(), "s1", strings.NewReader(strings.Repeat("n", 256)+fmt.Sprint(i)), Meta{Like: n})
	return op.Step{Do: op.Swap, Path: "f", Slot: "s1", Before: op.State{Kind: op.File, Hash: HashBytes(base)}, After: s.State, Inode: s.Inode}, err
}

// cas replaces the file by the protocol, or by looking first and then renaming over it.
func (g *game) cas(step op.Step) (weak bool, done []op.Step, err error) {
	if g.side == "check then rename" {
		now, err := os.ReadFile(g.file)
		if err != nil || HashBytes(now) != step.Before.Hash {
			return false, nil, stale("f", "it changed")
		}
		return false, nil, os.Rename(filepath.Join(g.dir, "store", "s1"), g.file)
	}
	h, err := g.root.Hold(ctx(), g.st, []op.Step{step}, HoldOptions{NoLease: g.side == "no lease", WaitWriter: time.Millisecond})
	if err != nil {
		return false, nil, err
	}
	defer h.Close()
	r, err := h.Apply(ctx())
	return r.Weak, h.Steps(), err
}

// whereabouts finds what the writer wrote.
func (g *game) whereabouts(i int, done []op.Step, landed bool, c *cell) error {
	if now, err := os.ReadFile(g.file); err == nil && bytes.Contains(now, hostileText(i)) {
		return nil
	}
	slots, err := g.st.Slots()
	if err != nil {
		return err
	}
	for _, s := range slots {
		b, err := os.ReadFile(filepath.Join(g.dir, "store", s))
		if err != nil || !bytes.Contains(b, hostileText(i)) {
			continue
		}
		if !landed {
			c.Elsewhere++ // kept beside a refusal, and told there
			return nil
		}
		c.Diverted++
		if l, err := g.st.Verify(ctx(), done[0]); err == nil && l != nil {
			c.Found++
		}
		return nil
	}
	c.Lost++
	return nil
}

func (g *game) sweep() error {
	slots, err := g.st.Slots()
	if err != nil {
		return err
	}
	for _, s := range slots {
		if err := g.st.Drop(s); err != nil {
			return err
		}
	}
	return nil
}
