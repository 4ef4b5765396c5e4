//go:build linux

package rooted

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"holdpoint/internal/apart"
	"holdpoint/op"
)

// Power is cut at a point of a change: whatever was not synced is gone. After Settle it is
// all or nothing, no file is torn, and after Apply returned it is all. By default a few
// points on ext4; HOLDPOINT_POWERLOSS=all takes every point, on XFS as well.
func TestPowerLoss(t *testing.T) {
	rootOnly(t)
	if apart.Run(t) {
		return
	}
	kinds, every := []string{"ext4"}, 5
	if os.Getenv("HOLDPOINT_POWERLOSS") == "all" {
		kinds, every = []string{"ext4", "xfs"}, 1
	}
	for _, kind := range kinds {
		points := powerPoints(t)
		for n := 2; n <= points+1; n++ {
			if n%every != 2%every && n <= points {
				continue
			}
			t.Run(fmt.Sprintf("%s point %d of %d", kind, n, points), func(t *testing.T) { powerLoss(t, kind, n, points) })
		}
	}
}

// powerPoints counts the guard points of the plan.
func powerPoints(t *testing.T) (n int) {
	b, steps := powerPlan(t, fastDir(t))
	h, err := b.root.Hold(ctx(), b.st, steps, HoldOptions{Guard: func(string) { n++ }})
	must(t, err)
	defer h.Close()
	_, err = h.Apply(ctx())
	must(t, err)
	return n
}

func powerPlan(t *testing.T, dir string) (*bench, []op.Step) {
	b := benchIn(t, dir, Options{})
	b.write("ws/f", "old f")
	b.write("ws/gone", "old gone")
	b.write("ws/tree/x", "x")
	b.write("ws/from", "moved")
	must(t, unix.Syncfs(b.st.fd)) // what stood there before is on the disk
	return b, []op.Step{b.swap("f", "new f", "s-f"), mkdirStep("made"), b.place("made/new", strings.Repeat("new", 3000), "s-new"),
		b.take("gone", "s-gone"), b.take("tree", "s-tree"), b.move("from", "made/to")}
}

func powerLoss(t *testing.T, kind string, n, points int) {
	d := newDisk(t, kind)
	b, steps := powerPlan(t, d.dir)
	start := b.tree()
	rec, crashed, point, err := b.crashAt(n, steps, nil)
	if crashed == (n > points) || !crashed && err != nil {
		t.Fatalf("crashed %v at %q, %v", crashed, point, err)
	}
	_ = b.st.Close()
	_ = b.root.Close()
	d.cut()
	a := b.again()
	a.t = t
	got := a.settle(rec)
	tree := a.tree()
	if got.Done == (tree == start) || len(got.Conflicts) > 0 {
		t.Errorf("%s: settled %+v:\n%s\nat the start\n%s", point, got, tree, start)
	}
	if !crashed && !got.Done {
		t.Errorf("it was reported as done and is not:\n%s", tree)
	}
	if got.Done {
		a.reads("ws/f", "new f")
		a.reads("ws/made/new", strings.Repeat("new", 3000))
		a.reads("store/s-f", "old f")
		a.reads("store/s-gone", "old gone")
		a.reads("store/s-tree/x", "x")
		a.reads("ws/made/to", "moved")
	}
	_ = a.st.Close()
	_ = a.root.Close()
}

// disk is a file system of its own in an image.
type disk struct {
	t          *testing.T
	image, dir string
}

func newDisk(t *testing.T, kind string) *disk {
	t.Helper()
	top := fastDir(t)
	d := &disk{t: t, image: filepath.Join(top, "image"), dir: filepath.Join(top, "mnt")}
	must(t, os.Mkdir(d.dir, 0o755))
	size := map[string]int64{"ext4": 16 << 20, "xfs": 300 << 20}[kind]
	f, err := os.Create(d.image)
	must(t, err)
	must(t, f.Truncate(size))
	must(t, f.Close())
	run(t, slices.Concat([]string{"mkfs." + kind, "-q"}, []string{d.image})...)
	d.mount()
	t.Cleanup(func() { _ = unix.Unmount(d.dir, unix.MNT_DETACH) })
	return d
}

func (d *disk) mount() {
	d.t.Helper()
	run(d.t, "mount", "-o", "loop", d.image, d.dir)
}

// cut stops the file system without writing anything more, and mounts it again.
func (d *disk) cut() {
	d.t.Helper()
	const shutdown, withoutLog = 0x8004587d, 2
	fd, err := unix.Open(d.dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(d.t, err)
	must(d.t, unix.IoctlSetPointerInt(fd, shutdown, withoutLog))
	closeFD(fd)
	run(d.t, "umount", d.dir)
	d.mount()
}

func run(t *testing.T, argv ...string) {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v %s", argv, err, out)
	}
}

// What a change put in place and the next one put away, without a flush of its own then, is
// whole after the power was cut: its bytes were flushed before it got its name.
func TestPowerLossSolid(t *testing.T) {
	rootOnly(t)
	if apart.Run(t) {
		return
	}
	d := newDisk(t, "ext4")
	b := benchIn(t, d.dir, Options{})
	if !b.st.Features().FineTimes {
		t.Skip("this file system gives changes that follow one another the same time: everything is flushed")
	}
	b.write("ws/f", "old")
	one, two := strings.Repeat("one", 5000), strings.Repeat("two", 5000)
	b.mustDo(b.swap("f", one, "s-1"))
	h, err := b.root.Hold(ctx(), b.st, []op.Step{b.swap("f", two, "s-2")}, HoldOptions{})
	must(t, err)
	if h.acts[0].flush != nil {
		t.Error("it was flushed, so that this case shows nothing")
	}
	_, err = h.Apply(ctx())
	must(t, err)
	h.Close()
	_ = b.st.Close()
	_ = b.root.Close()
	d.cut()
	a := b.again()
	a.t = t
	a.reads("ws/f", two)
	a.reads("store/s-2", one)
	a.reads("store/s-1", "old")
	_ = a.st.Close()
	_ = a.root.Close()
}
