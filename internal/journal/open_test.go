//go:build unix

package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdpoint/op"
)

// refused opens a state that must be refused with a code, naming something.
func refused(t *testing.T, dir string, code op.Code, naming string) {
	t.Helper()
	j, err := Open(dir, Options{CreatedOK: true})
	if err == nil {
		j.Close()
		t.Fatalf("opened, want %s", code)
	}
	if !errors.Is(err, code) || !strings.Contains(err.Error(), naming) {
		t.Fatalf("got %v, want %s naming %q", err, code, naming)
	}
}

func TestOpenMakesOnlyWhenTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	if _, err := Open(dir, Options{}); !errors.Is(err, op.NotFound) {
		t.Fatalf("got %v, want not_found", err)
	}
	if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("something was made")
	}
	j := open(t, dir)
	key, id := j.Key(), j.NewID("op_")
	if len(key) != 32 || j.Dir() != dir || len(id) < len("op_")+26 || id == j.NewID("op_") {
		t.Fatalf("key %d bytes, dir %s, id %s", len(key), j.Dir(), id)
	}
	key[0]++
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if k := j.Key(); k[0]+1 != key[0] || string(k[1:]) != string(key[1:]) {
		t.Fatal("another key after reopening, or a key that callers can change")
	}
}

func TestOpenRefusesUnsafePlaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test changes owners and must run as root")
	}
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	cases := []struct {
		name, naming string
		make         func(dir string) error
	}{
		{"group can write", "state", func(d string) error { return errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o770)) }},
		{"world can read", "state", func(d string) error { return errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o705)) }},
		{"another owner", "state", func(d string) error { return errors.Join(os.Mkdir(d, 0o700), os.Chown(d, 12345, 0)) }},
		{"a link", "symbolic link", func(d string) error {
			return errors.Join(os.Mkdir(d+"-real", 0o700), os.Symlink(d+"-real", d))
		}},
		{"a file", "not a directory", func(d string) error { return os.WriteFile(d, nil, 0o600) }},
		{"parent open to all", "writable by all", func(d string) error { return os.Chmod(filepath.Dir(d), 0o777) }},
		{"existing under a parent open to all", "writable by all", func(d string) error {
			return errors.Join(os.Mkdir(d, 0o700), os.Chmod(filepath.Dir(d), 0o777))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			parent := at(strings.ReplaceAll(c.name, " ", "-"))
			dir := filepath.Join(parent, "state")
			if err := errors.Join(os.Mkdir(parent, 0o755), c.make(dir)); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, op.StateUnsafe, c.naming)
			if made := content(t, parent); len(made) > 1 || len(made) == 1 && c.name != "a file" {
				t.Fatalf("something was made inside: %v", made)
			}
		})
	}
	t.Run("sticky parent is good", func(t *testing.T) {
		parent := at("sticky")
		if err := errors.Join(os.Mkdir(parent, 0o755), os.Chmod(parent, 0o777|fs.ModeSticky)); err != nil {
			t.Fatal(err)
		}
		open(t, filepath.Join(parent, "state")).Close()
	})
	for _, name := range []string{keyName, markName, dataName, lockName, headName} {
		t.Run("loose mode of "+name, func(t *testing.T) {
			dir := at("loose-" + name)
			open(t, dir).Close()
			if err := os.Chmod(filepath.Join(dir, name), 0o640); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, op.StateUnsafe, name)
		})
	}
	t.Run("a link in place of the key", func(t *testing.T) {
		dir := at("linked")
		open(t, dir).Close()
		key := filepath.Join(dir, keyName)
		if err := errors.Join(os.Rename(key, at("elsewhere")), os.Symlink(at("elsewhere"), key)); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, op.StateUnsafe, keyName)
	})
}

func TestModesWhateverTheUmask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "state")
	_, lines := start(t, "umask", dir)
	for lines.Scan() && lines.Text() != "ready" {
	}
	seen := 0
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if seen++; info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || seen < 10 { // deep, state, blobs, one blob, lock, key, mark, head, journal.db, -wal, -shm
		t.Fatalf("saw %d names, %v", seen, err)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	c, lines := start(t, "hold", dir)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatal("the child did not open")
	}
	refused(t, dir, op.StateLocked, "another process")
	c.Process.Signal(syscall.SIGKILL)
	c.Wait()
	j := open(t, dir)
	defer j.Close()
	refused(t, dir, op.StateLocked, "another process") // also from this one
}

func TestOpenFindsWhatIsGone(t *testing.T) {
	base := t.TempDir()
	remove := func(name string) func(string) error {
		return func(d string) error { return os.Remove(filepath.Join(d, name)) }
	}
	write := func(name, text string) func(string) error {
		return func(d string) error { return os.WriteFile(filepath.Join(d, name), []byte(text), 0o600) }
	}
	other := filepath.Join(base, "other")
	open(t, other).Close()
	borrow := func(name string) func(string) error {
		return func(d string) error {
			b, err := os.ReadFile(filepath.Join(other, name))
			return errors.Join(err, os.WriteFile(filepath.Join(d, name), b, 0o600))
		}
	}
	patch := func(at int64, b ...byte) func(string) error {
		return func(d string) error {
			f, err := os.OpenFile(filepath.Join(d, dataName), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(b, at)
			return errors.Join(err, f.Close())
		}
	}
	for _, c := range []struct {
		name   string
		code   op.Code
		naming string
		harm   func(dir string) error
	}{
		{"database cut to nothing", op.StateCorrupt, "empty", write(dataName, "")},
		{"database gone", op.StateCorrupt, "gone", remove(dataName)},
		{"database is text", op.StateCorrupt, "begin like", write(dataName, strings.Repeat("x", 8192))},
		{"database cut to a page", op.StateCorrupt, "damaged", func(d string) error { return os.Truncate(filepath.Join(d, dataName), 4096) }},
		{"database cut by a page", op.StateCorrupt, "damaged", func(d string) error {
			info, err := os.Stat(filepath.Join(d, dataName))
			return errors.Join(err, os.Truncate(filepath.Join(d, dataName), info.Size()-4096))
		}},
		{"database of another state", op.StateCorrupt, "", borrow(dataName)},
		{"key gone", op.StateCorrupt, "key", remove(keyName)},
		{"key short", op.StateCorrupt, "31 bytes", write(keyName, strings.Repeat("k", 31))},
		{"key of another state", op.StateCorrupt, "key", borrow(keyName)},
		{"mark damaged", op.StateCorrupt, "mark", write(markName, "what")},
		{"mark cut", op.StateCorrupt, "mark", write(markName, "holdpoint state, schema 1, identity ")},
		{"mark empty", op.StateCorrupt, "mark", write(markName, "")},
		{"mark of a newer program", op.StateUnsafe, "schema 900", write(markName, "holdpoint state, schema 900, identity x\n")},
		{"database of a newer program", op.StateUnsafe, "schema 200", patch(60, 0, 0, 0, 200)},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(base, strings.ReplaceAll(c.name, " ", "-"))
			j := open(t, dir)
			if err := errors.Join(j.Begin(t.Context(), sample(j, "r")), j.Close(), c.harm(dir)); err != nil {
				t.Fatal(err)
			}
			before := content(t, dir)
			refused(t, dir, c.code, c.naming)
			if c.code == op.StateUnsafe && !same(before, content(t, dir)) {
				t.Fatal("a state of a newer program was written to")
			}
		})
	}
	t.Run("mark not yet written is no harm", func(t *testing.T) {
		dir := filepath.Join(base, "unmarked")
		open(t, dir).Close()
		if err := os.Remove(filepath.Join(dir, markName)); err != nil {
			t.Fatal(err)
		}
		open(t, dir).Close()
	})
	t.Run("a making that ended half way begins again", func(t *testing.T) {
		dir := filepath.Join(base, "half")
		if err := errors.Join(os.Mkdir(dir, 0o700), write(keyName, strings.Repeat("k", 32))(dir), write(dataName, "")(dir), write("tmp-mark", "hold")(dir)); err != nil {
			t.Fatal(err)
		}
		open(t, dir).Close()
	})
	t.Run("a trigger dropped", func(t *testing.T) {
		dir := filepath.Join(base, "untriggered")
		j := open(t, dir)
		raw(t, j, "DROP TRIGGER approvals_terms")
		j.Close()
		refused(t, dir, op.StateCorrupt, "triggers")
	})
}
