//go:build linux

package shellexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdpoint/internal/reach"
)

// attempts are what a confined program must not be able to do, and the same program without
// confinement can.
var attempts = reach.With(map[string]reach.Try{
	// The first process of the namespace keeps powers that what it starts must not borrow;
	// and the settings of the machine ask for the user's number, not for a capability.
	"first":  func(string, int) error { _, err := os.Open("/proc/1/mem"); return err },
	"sysctl": func(string, int) error { return openFor("/proc/sys/kernel/core_pattern") },
})

// rootOnly are those that an ordinary user, or here nobody, can do without confinement
// either: the first process is the machine's own there, and another one inside.
var rootOnly = map[string]func(uid int) bool{"first": func(int) bool { return true }, "sysctl": func(uid int) bool { return uid != 0 }}

func openFor(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// openBinary copies this test binary to where every user can run it.
func openBinary(t *testing.T, dir string) string {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "tester")
	program(t, name, b)
	return name
}

// program writes one that is to be run. No process begins meanwhile: it would hold the file
// open for writing until its own program runs, and nobody can run such a file.
func program(t *testing.T, at string, b []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(at, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// asUser is one run inside of a process of another user: the test binary, started again,
// is the daemon there.
func asUser(self, root string, confined bool, out string, pid int) (Result, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(root, &st); err != nil {
		return Result{}, err
	}
	f, err := os.Open(self)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	return Run(context.Background(), Spec{Program: f, Argv: []string{"tester", "attempt", out, strconv.Itoa(pid)}, Env: []string{"PATH=/usr/bin:/bin"}, Root: root, RootDev: st.Dev,
		RootIno: st.Ino, Dir: root, Timeout: 30 * time.Second, Confined: confined})
}

func daemonMain(args []string) {
	pid, _ := strconv.Atoi(args[4])
	r, err := asUser(args[0], args[1], args[2] == "true", args[3], pid)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"termination": r.Termination, "failure": r.Failure, "stdout": string(r.Stdout.Head), "stderr": string(r.Stderr.Head), "levels": r.Levels})
}

func TestConfinement(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this test changes users, which needs root")
	}
	for _, uid := range []int{0, 65534} {
		for _, confined := range []bool{true, false} {
			t.Run(fmt.Sprintf("uid %d confined %v", uid, confined), func(t *testing.T) {
				out := reach.Beyond(t, uid)
				base, err := os.MkdirTemp("", "hpconfine")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(base) })
				root := filepath.Join(base, "ws")
				if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(root, 0o755), os.Chown(root, uid, uid)); err != nil {
					t.Fatal(err)
				}
				self := openBinary(t, base)
				cred := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
				victim := exec.Command("/bin/sleep", "60")
				victim.SysProcAttr = cred
				if err := victim.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { victim.Process.Kill(); victim.Wait() }()
				cmd := exec.Command(self, "daemon", self, root, strconv.FormatBool(confined), out, strconv.Itoa(victim.Process.Pid))
				cmd.SysProcAttr, cmd.Dir = cred, base
				raw, err := cmd.CombinedOutput()
				var r struct {
					Termination, Failure, Stdout, Stderr string
					Levels                               []Level
				}
				if err != nil || json.Unmarshal(raw, &r) != nil || r.Termination != Exited {
					t.Fatalf("%v\n%s", err, raw)
				}
				got := map[string]string{}
				if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil || len(got) != len(attempts) {
					t.Fatalf("%v\n%s", err, raw)
				}
				for name, why := range got {
					t.Logf("%-8s %s", name, why)
					if confined && why == "" {
						t.Errorf("%s succeeded from inside", name)
					}
					if !confined && why != "" && !(rootOnly[name] != nil && rootOnly[name](uid)) {
						t.Errorf("%s fails without confinement, so it proves nothing: %s", name, why)
					}
				}
				for _, l := range r.Levels {
					if confined && !l.On {
						t.Errorf("%s is off: %s", l.Name, l.Detail)
					}
				}
			})
		}
	}
}

func TestInsideTheRoot(t *testing.T) {
	s := shell(t, `mkdir a b && echo x > a/f && mv a/f b/g && ln b/g b/h && chmod 600 b/g && cat b/g && echo y > /tmp/t && cat /tmp/t && ls /run | wc -l`)
	r := mustRun(t, s)
	if got := all(r.Stdout); got != "x\ny\n0\n" || r.Exit == nil || *r.Exit != 0 {
		t.Errorf("got %q %q", got, all(r.Stderr))
	}
	if _, err := os.Stat("/tmp/t"); err == nil {
		t.Error("the private temp is the host's")
	}
	s = shell(t, `echo x > .env; rm -f .env; echo y >> .git/config; mv .git .old; echo new > plain; cat .env`)
	for name, text := range map[string]string{".env": "secret\n", ".git/config": "conf\n"} {
		p := filepath.Join(s.Root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s.ReadOnly = []string{".env", ".git", "not-there"}
	r = mustRun(t, s)
	b, _ := os.ReadFile(s.Root + "/.git/config")
	if all(r.Stdout) != "secret\n" || string(b) != "conf\n" {
		t.Errorf("protected files changed: %q %q %q", all(r.Stdout), b, all(r.Stderr))
	}
	if _, err := os.Stat(s.Root + "/plain"); err != nil {
		t.Error("the root cannot be written", err)
	}
	s.ReadOnly = nil
	mustRun(t, s)
	if _, err := os.Stat(s.Root + "/.old"); err != nil {
		t.Error("without the guard nothing happens either, so the test proves nothing")
	}
}

func TestHidden(t *testing.T) {
	dir, err := os.MkdirTemp("/var", "hpstate")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(dir+"/token", []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := shell(t, "cat "+dir+"/token; ls "+dir)
	if got := all(mustRun(t, s).Stdout); !strings.Contains(got, "canary") {
		t.Fatalf("the place is not readable without hiding: %q", got)
	}
	s.Hide = []string{dir}
	if got := all(mustRun(t, s).Stdout); got != "" {
		t.Errorf("the daemon's place shows: %q", got)
	}
}

func TestNeeds(t *testing.T) {
	t.Run("S105 a promised level that is missing: nothing runs", func(t *testing.T) {
		s := shell(t, "touch ran")
		s.Needs = []string{LevelUser, "a level of another kernel"}
		r := mustRun(t, s)
		if _, err := os.Stat(s.Root + "/ran"); err == nil || r.Termination != NoSandbox {
			t.Errorf("got %+v", r)
		}
	})
}

func TestWithoutNamespaces(t *testing.T) {
	out := reach.Beyond(t, os.Geteuid())
	victim := exec.Command("/bin/sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Process.Kill(); victim.Wait() }()
	s := shell(t, fmt.Sprintf("echo x > %s/file; kill -CONT %d && echo reached; echo in > made; cat made; setsid sleep 65.5 &", out, victim.Process.Pid))
	s.Needs = []string{LevelAccess, LevelSyscall} // what a probe gives where no namespace can be had
	r := mustRun(t, s)
	b, _ := os.ReadFile(out + "/file")
	if string(b) != "old" || all(r.Stdout) != "in\n" || r.Exit == nil {
		t.Errorf("got %q, %q %q %s", b, all(r.Stdout), all(r.Stderr), r.Termination)
	}
	for _, l := range r.Levels {
		if want := l.Name == LevelAccess || l.Name == LevelSyscall || l.Name == LevelNames || l.Name == LevelCount && os.Geteuid() != 0; l.On != want {
			t.Errorf("%s: on %v", l.Name, l.On)
		}
	}
	if got := alive("sleep\x0065.5"); len(got) > 0 || r.Leftovers != 1 {
		t.Errorf("left: %q, %d counted", got, r.Leftovers)
	}
}

func TestNamesHeld(t *testing.T) {
	names := []string{".git", ".codex", ".vscode", ".env", "CLAUDE.md"}
	script := `R=$PWD; mkdir .git; mkdir -p .codex/x; mkdir -p ./sub/../.vscode; echo x > .env; echo x > $PWD/CLAUDE.md; ln -s .env way; echo x > way; touch t && mv t .git; ln t .Git; ln -s . .codex
mkdir real && ln -s real .git && echo x > .git/config; cd /proc/self/cwd && echo x > .env
cd "$R/sub" && mkdir .git && echo deep > ../plain; cd "$R"; mkdir .codex2; echo y > way2; mv way2 way3; python3 -c 'import os; os.mkdir(".git")' 2>&1 | grep -c Permission; sleep 0.1`
	got := func(hold bool) (here []string) {
		s := shell(t, script)
		if hold {
			s.Names = names
		}
		if err := os.Mkdir(s.Root+"/sub", 0o755); err != nil {
			t.Fatal(err)
		}
		r := mustRun(t, s)
		t.Logf("%s %s", all(r.Stdout), all(r.Stderr))
		for _, want := range []string{"sub/.git", "plain", ".codex2", "way3"} {
			if _, err := os.Lstat(filepath.Join(s.Root, want)); err != nil {
				t.Errorf("hold %v: %v", hold, err)
			}
		}
		for _, n := range append(names, ".Git") {
			if _, err := os.Lstat(filepath.Join(s.Root, n)); err == nil {
				here = append(here, n)
			}
		}
		return here
	}
	if here := got(true); len(here) > 0 {
		t.Errorf("made all the same: %q", here)
	}
	if here := got(false); len(here) < len(names) {
		t.Errorf("without the guard only %q are made, so the test proves little", here)
	}
}
