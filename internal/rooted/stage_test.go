//go:build linux

package rooted

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// userEntry is an ACL as the attribute holds it: rw for the owner, r for user 1234, and so on.
func userEntry() []byte {
	e := func(tag, perm uint16, id uint32) []byte {
		return []byte{byte(tag), 0, byte(perm), 0, byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)}
	}
	const no = 0xffffffff
	return slices.Concat([]byte{2, 0, 0, 0}, e(0x01, 6, no), e(0x02, 4, 1234), e(0x04, 4, no), e(0x10, 6, no), e(0x20, 0, no))
}

// meta is what must survive a new version of a file.
func meta(t *testing.T, path string) (Info, map[string]string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	i, _, err := lookAt(int(f.Fd()), "")
	must(t, err)
	a, err := attributes(int(f.Fd()))
	must(t, err)
	return i, a
}

// A new version of a file has its mode, owner, ACL and attributes, and going back too
// (data cases 25, 26, 30, 31a).
func TestStageKeepsMetadata(t *testing.T) {
	rootOnly(t)
	defer unix.Umask(unix.Umask(0o022))
	rows := []struct {
		name string
		set  func(t *testing.T, path string)
	}{
		{"executable", func(t *testing.T, p string) { must(t, os.Chmod(p, 0o755)) }},
		{"group writable under a umask", func(t *testing.T, p string) { must(t, os.Chmod(p, 0o664)) }},
		{"setuid", func(t *testing.T, p string) { must(t, unix.Chmod(p, 0o4755)) }},
		{"setgid", func(t *testing.T, p string) { must(t, unix.Chmod(p, 0o2755)) }},
		{"sticky", func(t *testing.T, p string) { must(t, unix.Chmod(p, 0o1644)) }},
		{"read-only", func(t *testing.T, p string) { must(t, os.Chmod(p, 0o444)) }},
		{"owner", func(t *testing.T, p string) { must(t, os.Chown(p, 1000, 1001)) }},
		{"owner and setuid", func(t *testing.T, p string) {
			must(t, os.Chown(p, 1000, 1000))
			must(t, unix.Chmod(p, 0o6755))
		}},
		{"attributes", func(t *testing.T, p string) {
			must(t, unix.Setxattr(p, "user.k", []byte("v"), 0))
			must(t, unix.Setxattr(p, "user.empty", nil, 0))
			must(t, unix.Setxattr(p, "user.large", bytes.Repeat([]byte("x"), 1500), 0))
			must(t, unix.Setxattr(p, "trusted.t", []byte("v"), 0))
		}},
		{"ACL", func(t *testing.T, p string) { must(t, unix.Setxattr(p, aclAccess, userEntry(), 0)) }},
		{"capability", func(t *testing.T, p string) {
			v := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
			must(t, unix.Setxattr(p, "security.capability", v, 0))
		}},
		{"inode flags", func(t *testing.T, p string) {
			f, err := os.Open(p)
			must(t, err)
			defer f.Close()
			flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS) // those that are its form on the disk stay
			must(t, err)
			must(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|0x40|0x80))
		}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			b := onDisk(t, Options{})
			b.write("ws/f", "old")
			r.set(t, b.path("ws/f"))
			flags := func() uint32 {
				f, err := os.Open(b.path("ws/f"))
				must(t, err)
				defer f.Close()
				v, _ := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
				return v & carriedFlags
			}
			was, attrs, bits := Info{}, map[string]string{}, flags()
			was, attrs = meta(t, b.path("ws/f"))
			steps := b.mustDo(b.swap("f", "new", "s1"))
			b.reads("ws/f", "new")
			for _, turn := range []string{"written", "undone", "redone"} {
				now, nowAttrs := meta(t, b.path("ws/f"))
				if now.Mode != was.Mode || now.UID != was.UID || now.GID != was.GID || flags() != bits {
					t.Errorf("%s: mode %04o %d:%d flags %x, want %04o %d:%d %x", turn, now.Mode, now.UID, now.GID, flags(), was.Mode, was.UID, was.GID, bits)
				}
				if len(nowAttrs) != len(attrs) {
					t.Errorf("%s: %d attributes, want %d", turn, len(nowAttrs), len(attrs))
				}
				for k, v := range attrs {
					if got, there := nowAttrs[k]; !there || got != v {
						t.Errorf("%s: %s is %d bytes, want %d", turn, k, len(got), len(v))
					}
				}
				if turn != "redone" {
					inv := op.Inverse(steps)
					inv[0].Inode = 0
					steps = b.mustDo(inv...)
				}
			}
			b.reads("ws/f", "new")
		})
	}
}

// What cannot be carried is named before anything changes.
func TestStageMetadataLoss(t *testing.T) {
	rootOnly(t)
	b := onDisk(t, Options{})
	top := "/dev/shm"
	dir, err := os.MkdirTemp(top, "rooted")
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, unix.Mount("ramfs", dir, "ramfs", 0, "")) // has neither attributes nor flags
	defer unix.Unmount(dir, unix.MNT_DETACH)
	poor := benchIn(t, dir, Options{})
	b.write("ws/f", "old")
	must(t, unix.Setxattr(b.path("ws/f"), "user.k", []byte("v"), 0))
	_, err = poor.st.Stage(ctx(), "s1", strings.NewReader("new"), Meta{Like: b.look("f", true)})
	wants(t, err, op.MetadataLoss)
	if err == nil || !strings.Contains(err.Error(), "user.k") {
		t.Errorf("it is not named: %v", err)
	}
	if left, _ := poor.st.Slots(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestStageFrozen(t *testing.T) {
	rootOnly(t)
	b := onDisk(t, Options{})
	b.write("ws/f", "old")
	out, err := exec.Command("chattr", "+i", b.path("ws/f")).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v", out, err)
	}
	defer exec.Command("chattr", "-i", b.path("ws/f")).Run()
	n := b.look("f", true)
	if !n.Info.Frozen {
		t.Error("it does not show")
	}
	_, err = b.st.Stage(ctx(), "s1", strings.NewReader("new"), Meta{Like: n})
	wants(t, err, op.PermissionDenied)
	_, _, err = b.do(HoldOptions{}, b.take("f", "s2"))
	wants(t, err, op.PermissionDenied)
	b.reads("ws/f", "old")
}

// New files are what a plain create makes (data case 27).
func TestStageCreate(t *testing.T) {
	rootOnly(t)
	defer unix.Umask(unix.Umask(0))
	b := onDisk(t, Options{})
	must(t, os.Mkdir(b.path("ws/acl"), 0o755))
	must(t, unix.Setxattr(b.path("ws/acl"), aclDefault, userEntry(), 0))
	must(t, os.Mkdir(b.path("ws/gid"), 0o755))
	must(t, os.Chown(b.path("ws/gid"), 0, 4321))
	must(t, unix.Chmod(b.path("ws/gid"), 0o2755))
	must(t, os.Mkdir(b.path("ws/plain"), 0o755))
	for _, umask := range []int{0o022, 0o002, 0o077} {
		for _, dir := range []op.Path{"plain", "acl", "gid"} {
			for _, perm := range []uint32{0o666, 0o755, 0o600} {
				unix.Umask(umask)
				file := b.path("ws/" + string(dir) + "/direct")
				fd, err := unix.Open(file, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, perm)
				must(t, err)
				closeFD(fd)
				want, wantAttrs := meta(t, file)
				s, err := b.st.Stage(ctx(), "s", strings.NewReader("x"), Meta{Dir: b.look(dir, true), Perm: perm})
				must(t, err)
				got, gotAttrs := meta(t, b.path("store/s"))
				if got.Mode != want.Mode || got.GID != want.GID || got.UID != want.UID || gotAttrs[aclAccess] != wantAttrs[aclAccess] || s.State.Mode != want.ModeString() {
					t.Errorf("%s %o under %o: %04o gid %d acl %x, want %04o gid %d acl %x", dir, perm, umask, got.Mode, got.GID, gotAttrs[aclAccess], want.Mode, want.GID, wantAttrs[aclAccess])
				}
				must(t, os.Remove(file))
				must(t, b.st.Drop("s"))
			}
		}
	}
	unix.Umask(0o077)
	s, err := b.st.Stage(ctx(), "s", strings.NewReader("x"), Meta{Perm: 0o755, Exact: true})
	if err != nil || s.State.Mode != "0755" {
		t.Errorf("exact: %v %v", s, err)
	}
	unix.Umask(0o022)
	s, err = b.st.Stage(ctx(), "z", strings.NewReader("x"), Meta{})
	if err != nil || s.State.Mode != "0644" {
		t.Errorf("zero meta: %v %v", s, err)
	}
}

type failing struct{ after int }

func (f *failing) Read(b []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, unix.EIO
	}
	return copy(b, "some bytes"), nil
}

func TestStageFailures(t *testing.T) {
	b := onDisk(t, Options{})
	before := fds(t)
	_, err := b.st.Stage(ctx(), "s", &failing{3}, Meta{})
	wants(t, err, op.IOError)
	c, cancel := context.WithCancel(ctx())
	cancel()
	_, err = b.st.Stage(c, "s", strings.NewReader("x"), Meta{})
	wants(t, err, op.Cancelled)
	for _, bad := range []string{"", ".", "..", ".x", "a/b", "A", "a b", strings.Repeat("x", 65)} {
		if _, err := b.st.Stage(ctx(), bad, strings.NewReader("x"), Meta{}); !errors.Is(err, op.Internal) {
			t.Errorf("slot %q: %v", bad, err)
		}
	}
	if left, _ := b.st.Slots(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	_, err = b.st.Stage(ctx(), "s", strings.NewReader("first"), Meta{})
	must(t, err)
	_, err = b.st.Stage(ctx(), "s", strings.NewReader("second"), Meta{})
	wants(t, err, op.Exists)
	b.reads("store/s", "first")
	if after := fds(t); after != before {
		t.Errorf("handles: %d before, %d after", before, after)
	}
}

// A full disk leaves the file as it was and nothing in the store (data case 33).
func TestStageNoSpace(t *testing.T) {
	rootOnly(t)
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=96k"))
	defer unix.Unmount(dir, unix.MNT_DETACH)
	b := benchIn(t, dir, Options{})
	old := strings.Repeat("o", 40<<10)
	b.write("ws/f", old)
	_, err := b.st.Stage(ctx(), "s", strings.NewReader(strings.Repeat("n", 90<<10)), Meta{Like: b.look("f", true)})
	wants(t, err, op.NoSpace)
	b.reads("ws/f", old)
	if left, _ := b.st.Slots(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	// The same where the copy of a pre-image finds no room.
	step := b.swap("f", "n", "s")
	b.write("ws/ballast", strings.Repeat("b", 20<<10))
	_, _, err = b.do(HoldOptions{NoLease: true}, step)
	wants(t, err, op.NoSpace)
	b.reads("ws/f", old)
	if left, _ := b.st.Slots(); !slices.Equal(left, []string{"s"}) {
		t.Errorf("left %v", left)
	}
}

func TestStageCopy(t *testing.T) {
	b := onDisk(t, Options{})
	f, err := os.Create(b.path("ws/sparse"))
	must(t, err)
	must(t, f.Truncate(64<<20))
	_, _ = f.WriteAt([]byte("middle"), 20<<20)
	_, _ = f.WriteAt([]byte("end"), 50<<20)
	must(t, f.Close())
	n := b.look("sparse", true)
	s, err := b.st.StageCopy(ctx(), "s", n, Meta{})
	must(t, err)
	d, size, err := n.Hash(ctx())
	must(t, err)
	if s.State.Hash != d || s.State.Size != size {
		t.Errorf("got %v, want %s %d", s.State, d, size)
	}
	if now, err := b.st.State(ctx(), "s"); err != nil || now != s.State {
		t.Errorf("in the store: %v %v", now, err)
	}
	var st unix.Stat_t
	must(t, unix.Stat(b.path("store/s"), &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("the holes are filled: %d blocks", st.Blocks)
	}
	for _, content := range []string{"", "x", strings.Repeat("y", 300_000)} {
		b.write("ws/f", content)
		s, err := b.st.StageCopy(ctx(), "c", b.look("f", true), Meta{})
		if err != nil || s.State.Hash != HashBytes([]byte(content)) || s.State.Size != int64(len(content)) {
			t.Errorf("%d bytes: %v %v", len(content), s, err)
		}
		must(t, b.st.Drop("c"))
	}
}

func TestStore(t *testing.T) {
	rootOnly(t)
	b := onDisk(t, Options{})
	if f := b.st.Features(); !f.Exchange || !f.Lease || !f.TmpFile {
		t.Errorf("features %+v", f)
	}
	if left, err := b.st.Slots(); err != nil || len(left) > 0 {
		t.Errorf("the probe left %v %v", left, err)
	}
	must(t, os.Chmod(b.path("store"), 0o755))
	_, err := OpenStore(b.path("store"), b.root)
	wants(t, err, op.StateUnsafe)
	must(t, os.Chmod(b.path("store"), 0o700))
	must(t, os.Chown(b.path("store"), 1000, 0))
	_, err = OpenStore(b.path("store"), b.root)
	wants(t, err, op.StateUnsafe)
	must(t, os.Chown(b.path("store"), 0, 0))
	b.link("store", "storelink")
	_, err = OpenStore(b.path("storelink"), b.root)
	wants(t, err, op.StateUnsafe)
	b.write("file", "x")
	_, err = OpenStore(b.path("file"), b.root)
	wants(t, err, op.StateUnsafe)

	// A default ACL above is not stamped on what is staged.
	must(t, os.Mkdir(b.path("acl"), 0o755))
	must(t, unix.Setxattr(b.path("acl"), aclDefault, userEntry(), 0))
	st, err := OpenStore(b.path("acl/store"), b.root)
	must(t, err)
	defer st.Close()
	_, err = st.Stage(ctx(), "s", strings.NewReader("x"), Meta{})
	must(t, err)
	if _, a := meta(t, b.path("acl/store/s")); a[aclAccess] != "" {
		t.Error("inherited an ACL")
	}

	s, err := b.st.StageLink("l", "../OUT/x")
	if err != nil || s.State.Hash != HashBytes([]byte("../OUT/x")) || s.State.Target != "../OUT/x" {
		t.Errorf("%v %v", s, err)
	}
	if ino, err := b.st.Inode("l"); ino != s.Inode || err != nil {
		t.Errorf("inode %d %v", ino, err)
	}
	_, err = b.st.State(ctx(), "none")
	wants(t, err, op.NotFound)
	_, err = b.st.Inode("none")
	wants(t, err, op.NotFound)
	must(t, b.st.Drop("none"))

	// Dropping a tree stays in it.
	b.write("OUT/keep", "keep")
	b.write("store/tree/a/b", "x")
	b.link("../../../OUT", "store/tree/a/out")
	must(t, os.Chmod(b.path("store/tree/a"), 0o000))
	must(t, b.st.Drop("tree"))
	b.reads("OUT/keep", "keep")
	if _, err := os.Lstat(b.path("store/tree")); !os.IsNotExist(err) {
		t.Error("the tree is still there")
	}
	f, err := b.st.Open("l")
	wants(t, err, op.NotAFile)
	_, err = b.st.Stage(ctx(), "f", strings.NewReader("bytes"), Meta{})
	must(t, err)
	f, err = b.st.Open("f")
	must(t, err)
	defer f.Close()
	if got, _ := io.ReadAll(f); string(got) != "bytes" {
		t.Errorf("read %q", got)
	}
	if list, _ := b.st.Slots(); !slices.Equal(list, []string{"f", "l"}) {
		t.Errorf("slots %v in %s", list, filepath.Base(b.top))
	}
}
