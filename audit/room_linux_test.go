package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"holdpoint/audit"
	"holdpoint/op"
)

// mounted gives the test a small file system that nobody else sees. The test's goroutine
// stays on a thread of its own, which ends with it.
func mounted(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: a mount of one's own needs root")
	}
	dir := t.TempDir()
	runtime.LockOSThread()
	for _, step := range []error{
		unix.Unshare(unix.CLONE_NEWNS),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("none", dir, "tmpfs", 0, options),
	} {
		if step != nil {
			t.Fatalf("no mount: %v", step)
		}
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// hog takes all the room that is left.
func hog(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "hog"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			return
		}
	}
}

func TestRoom(t *testing.T) {
	t.Run("C138 (part) room is promised before the effect and kept on a full disk", func(t *testing.T) {
		base := mounted(t, "size=512k")
		dir := filepath.Join(base, "audit")
		l := open(t, dir)
		if err := l.Ready(); err != nil {
			t.Fatalf("ready on an empty disk: %v", err)
		}
		hog(t, base)
		promised, written := 0, 0
		for i := range 5000 {
			ready := l.Ready()
			before := fileSize(t, dir)
			if _, err := l.Append(record(i)); err != nil {
				if ready == nil {
					t.Fatalf("record %d was promised room: %v", i, err)
				}
				if !errors.Is(err, op.NoSpace) || fileSize(t, dir) != before {
					t.Fatalf("record %d: got %v, %d bytes after %d", i, err, fileSize(t, dir), before)
				}
				break
			}
			if ready == nil {
				promised = int(fileSize(t, dir))
			} else if !errors.Is(ready, op.NoSpace) {
				t.Fatalf("got %v, want no_space", ready)
			}
			written = int(fileSize(t, dir))
		}
		if promised == 0 || written-promised < 60<<10 || written > 512<<10 {
			t.Errorf("after the last promise at %d bytes the log grew to %d; want 64 KiB more or nearly", promised, written)
		}
		if err := l.Ready(); !errors.Is(err, op.NoSpace) {
			t.Errorf("full: got %v, want no_space", err)
		}
		if res := verify(t, dir, nil); res.Err != nil || res.Torn != 0 {
			t.Errorf("the full log: %+v", res)
		}
		if err := os.Remove(filepath.Join(base, "hog")); err != nil {
			t.Fatal(err)
		}
		if err := l.Ready(); err != nil {
			t.Errorf("ready with room again: %v", err)
		}
		if _, err := l.Append(record(1)); err != nil {
			t.Errorf("append with room again: %v", err)
		}
	})

	t.Run("C138 (part) a disk that is full from the start", func(t *testing.T) {
		base := mounted(t, "size=64k")
		hog(t, base)
		l, err := audit.Open(filepath.Join(base, "audit"), key, audit.Options{})
		if err == nil {
			t.Cleanup(func() { l.Close() })
			err = l.Ready()
		}
		if !errors.Is(err, op.NoSpace) {
			t.Errorf("got %v, want no_space", err)
		}
	})

	t.Run("C138 (part) a file system that is read-only", func(t *testing.T) {
		base := mounted(t, "size=1m")
		dir := filepath.Join(base, "audit")
		l := open(t, dir)
		l.Append(record(1))
		l.Close()
		if err := unix.Mount("none", base, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := audit.Open(dir, key, audit.Options{}); !errors.Is(err, op.ReadOnlyFilesystem) {
			t.Errorf("got %v, want read_only_filesystem", err)
		}
		if res := verify(t, dir, nil); res.Err != nil || res.Records != 1 {
			t.Errorf("verify there: %+v", res)
		}
	})

	t.Run("C138 (part) a log that turned read-only, was cut, added to, replaced or taken away under the daemon", func(t *testing.T) {
		flags := func(t *testing.T, path string, set bool) {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			const immutable = 0x10
			v, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
			if err != nil {
				t.Fatal(err)
			}
			if v &^= immutable; set {
				v |= immutable
			}
			if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, v); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			name        string
			spoil, mend func(t *testing.T, path string)
			want        op.Code
		}{
			{"immutable", func(t *testing.T, p string) { flags(t, p, true) }, func(t *testing.T, p string) { flags(t, p, false) }, op.IOError},
			{"cut", func(t *testing.T, p string) { must(t, os.Truncate(p, 10)) }, nil, op.StateCorrupt},
			{"added to", func(t *testing.T, p string) { write(t, p, append(read(t, p), 'x')) }, nil, op.StateCorrupt},
			{"replaced", func(t *testing.T, p string) {
				write(t, p+".copy", read(t, p))
				must(t, os.Rename(p+".copy", p))
			}, nil, op.StateCorrupt},
			{"removed", func(t *testing.T, p string) { must(t, os.Remove(p)) }, nil, op.IOError},
			{"moved away with its directory", func(t *testing.T, p string) {
				must(t, os.Rename(filepath.Dir(p), filepath.Dir(p)+".away"))
			}, nil, op.IOError},
		} {
			dir := filepath.Join(t.TempDir(), "audit")
			l := open(t, dir)
			if _, err := l.Append(record(1)); err != nil {
				t.Fatal(err)
			}
			if err := l.Ready(); err != nil {
				t.Fatalf("%s: before: %v", c.name, err)
			}
			c.spoil(t, logFile(dir))
			if err := l.Ready(); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %s", c.name, err, c.want)
			}
			if c.mend != nil {
				c.mend(t, logFile(dir))
				if err := l.Ready(); err != nil {
					t.Errorf("%s: mended: %v", c.name, err)
				}
			}
		}
	})
}

func fileSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(logFile(dir))
	must(t, err)
	return info.Size()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkReady(b *testing.B) {
	l, err := audit.Open(filepath.Join(b.TempDir(), "audit"), key, audit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for b.Loop() {
		if err := l.Ready(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	l, err := audit.Open(filepath.Join(b.TempDir(), "audit"), key, audit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for b.Loop() {
		if _, err := l.Append(record(1)); err != nil {
			b.Fatal(err)
		}
	}
}
