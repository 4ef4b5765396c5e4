//go:build linux

package shellexec

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdpoint/internal/reach"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == HelperArg {
		os.Exit(Helper())
	}
	if len(os.Args) == 4 && os.Args[1] == "attempt" {
		pid, _ := strconv.Atoi(os.Args[3])
		reach.Print(attempts, os.Args[2], pid)
		return
	}
	if len(os.Args) == 7 && os.Args[1] == "daemon" {
		daemonMain(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// shell gives a spec that runs a script in a fresh root.
func shell(t testing.TB, script string) Spec {
	t.Helper()
	path, err := Find("sh", "/usr/bin:/bin", "/")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open("sh", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	root, err := os.MkdirTemp("", "hpexec") // not t.TempDir: its long name is under a directory of mode 0700 elsewhere
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	var st syscall.Stat_t
	if err := syscall.Stat(root, &st); err != nil {
		t.Fatal(err)
	}
	return Spec{Program: p.File, Argv: []string{"sh", "-c", script}, Env: Environ(os.Getenv, nil, nil, os.Getenv("PATH"), Private),
		Root: root, RootDev: st.Dev, RootIno: st.Ino, Dir: root, Timeout: 10 * time.Second, Confined: true}
}

func mustRun(t testing.TB, s Spec) Result {
	t.Helper()
	r, err := Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func all(s Stream) string { return string(s.Head) + string(s.Tail) }

func TestLevels(t *testing.T) {
	levels, err := Probe(context.Background(), shell(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range levels {
		t.Logf("%s %v %s", l.Name, l.On, l.Detail)
		if !l.On {
			t.Errorf("%s is off: %s", l.Name, l.Detail)
		}
	}
	r := mustRun(t, shell(t, "echo hi; echo x > made; ls /; ls /dev; cat /proc/self/status | grep Cap; exit 3"))
	t.Logf("%+v\n%s\n%s", r.Termination, all(r.Stdout), all(r.Stderr))
	if r.Exit == nil || *r.Exit != 3 || !strings.HasPrefix(all(r.Stdout), "hi\n") {
		t.Errorf("got %+v %q %q", r, all(r.Stdout), all(r.Stderr))
	}
}
