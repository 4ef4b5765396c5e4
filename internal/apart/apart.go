// Package apart is for tests that take a filesystem away: it runs them in a mount namespace
// of their own. Only tests use it.
package apart

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// mark is in the environment of a test that is on its own.
const mark = "HOLDPOINT_TEST_APART"

// Run runs the test again, alone and with env besides, and reports whether it did; the
// caller returns then. A program that somebody confines meanwhile copies the mounts that it
// finds: it would keep a filesystem alive that the test takes for gone, and mounting that
// again would find it as it was. The deadline of the test binary holds. An ordinary user is
// root of a user namespace in there, as far as what is his own goes.
func Run(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(mark) != "" {
		return false
	}
	args := []string{"-m", "--propagation", "private"}
	if os.Geteuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	args = append(args, os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
	if at, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout", time.Until(at).String())
	}
	cmd := exec.Command("unshare", args...)
	cmd.Env = append(append(os.Environ(), mark+"=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("apart: %v", err)
	}
	t.Logf("%s", out)
	return true
}
