package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asRootOnly skips what an ordinary user cannot show. The words are those that
// internal/requirements looks for: no step of a hostile case is left out without them.
func asRootOnly(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("as root only: " + why)
	}
}

// rootToo reports whether a part of a step is to be shown as well, which only root can set
// up; an ordinary user's log says why it is not.
func rootToo(t testing.TB, why string) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("as root only: " + why)
		return false
	}
	return true
}

// anothers makes a file or an empty directory another user's. An ordinary user has no second
// uid: he takes one that whoever started the tests has laid out.
func anothers(t testing.TB, p *string) bool {
	t.Helper()
	if os.Geteuid() == 0 {
		if err := os.Chown(*p, 1234, 1234); err != nil {
			t.Fatal(err)
		}
		return true
	}
	there := os.Getenv("HOLDPOINT_TEST_ANOTHER")
	if there == "" {
		return rootToo(t, "what another user made: an ordinary user has no second uid")
	}
	kind := "file"
	if info, err := os.Stat(*p); err == nil && info.IsDir() {
		kind = "dir"
	}
	*p = filepath.Join(there, kind)
	return true
}

// entriesOf names what is in a directory; of one that is closed to us, and stays so, nothing.
func entriesOf(t testing.TB, dir string) []string {
	t.Helper()
	if _, err := os.ReadDir(dir); errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return names(t, dir)
}

// inMounts gives the words before a daemon's own that start it in a mount namespace, once
// script has laid the mounts; args are its $1 and on. An ordinary user may mount in a user
// namespace alone, as its root: another one inside of it gives the daemon its uid back.
func inMounts(script string, args ...string) []string {
	wrap, back := []string{"unshare", "--mount", "--propagation", "private"}, ""
	if uid := os.Geteuid(); uid != 0 {
		wrap = append(wrap, "--user", "--map-root-user")
		back = fmt.Sprintf("unshare --user --map-user=%d --map-group=%d ", uid, os.Getegid())
	}
	line := fmt.Sprintf(`%s && shift %d && exec %s"$@"`, script, len(args), back)
	return append(append(wrap, "sh", "-c", line, "sh"), args...)
}

// noNetwork gives the words that start a daemon without any network.
func noNetwork() []string {
	if os.Geteuid() != 0 {
		return []string{"unshare", "--user", "--map-current-user", "--net"}
	}
	return []string{"unshare", "--net"}
}

// TestAsUser runs a slice of the hostile cases once more with tests, daemons and all as an
// ordinary user; make security-user runs every one.
func TestAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	t.Parallel()
	slice := []string{"TestOutside", "TestLinks", "TestMounts", "TestProcessBesideMount", "TestSpecialFiles"}
	dir := shortDir(t)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{os.Args[0], binary} { // go test and TestMain keep theirs to themselves
		for p := filepath.Dir(file); p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
			os.Chmod(p, 0o755)
		}
	}
	cmd := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", os.Args[0], "-test.v", "-test.timeout", "5m", "-test.run", "^("+strings.Join(slice, "|")+")$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, apartBinary+"="+binary)
	out, err := cmd.CombinedOutput()
	for _, name := range slice {
		if !strings.Contains(string(out), "--- PASS: "+name+" (") {
			t.Errorf("%s did not pass", name)
		}
	}
	if err != nil || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("%v\n%s", err, out)
	}
}
