//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reaches are what a program that a person released must not be able to do while it is
// confined, and can do when it is not. Each gets the place outside, which holds the
// addresses, and the number of a process of the same user.
var reaches = map[string]func(out string, pid int) error{
	"write":  func(out string, _ int) error { return os.WriteFile(out+"/file", []byte("x"), 0o644) },
	"create": func(out string, _ int) error { return os.WriteFile(out+"/made", nil, 0o644) },
	"remove": func(out string, _ int) error { return os.Remove(out + "/gone") },
	"chmod":  func(out string, _ int) error { return os.Chmod(out+"/file", 0o600) },
	"utimes": func(out string, _ int) error { return os.Chtimes(out+"/file", time.Now(), time.Now()) },
	"xattr":  func(out string, _ int) error { return unix.Setxattr(out+"/file", "user.t", []byte("x"), 0) },
	"signal": func(_ string, pid int) error { return syscall.Kill(pid, syscall.SIGCONT) },
	"ptrace": func(_ string, pid int) error { return unix.PtraceSeize(pid) },
	"proc":   func(_ string, pid int) error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); return err },
	"unix":   func(out string, _ int) error { return spoken("unix", out+"/socket") },
	"tcp":    func(out string, _ int) error { return spoken("tcp", note(out, "tcp")) },
	"udp":    func(out string, _ int) error { return spoken("udp", note(out, "udp")) },
	"mptcp": func(out string, _ int) error {
		a, err := net.ResolveTCPAddr("tcp4", note(out, "tcp"))
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())})
	},
	"token": func(out string, _ int) error { _, err := os.ReadFile(note(out, "state") + "/tokens/agent"); return err },
	// With whatever token it finds, or with that of an agent, which it was given here.
	"daemon": func(out string, _ int) error {
		c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{Dial: func(string, string) (net.Conn, error) {
			return net.Dial("unix", note(out, "state")+"/holdpoint.sock")
		}}}
		req, _ := http.NewRequest("GET", "http://x/v1/status", nil)
		req.Header.Set("Authorization", "Bearer "+note(out, "agent"))
		r, err := c.Do(req)
		if err == nil && r.StatusCode != 200 {
			return errors.New(r.Status)
		}
		return err
	},
}

func note(out, name string) string {
	b, _ := os.ReadFile(filepath.Join(out, name))
	return string(b)
}

// spoken says something to an echo on the host and hears it.
func spoken(network, addr string) error {
	c, err := net.DialTimeout(network, addr, 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}

// beReaching is the life of the test binary as such a program.
func beReaching() bool {
	if len(os.Args) != 4 || os.Args[1] != "reach" {
		return false
	}
	pid, _ := strconv.Atoi(os.Args[3])
	got := map[string]string{}
	for name, try := range reaches {
		got[name] = ""
		if err := try(os.Args[2], pid); err != nil {
			got[name] = err.Error()
		}
	}
	json.NewEncoder(os.Stdout).Encode(got)
	return true
}

// beyond makes a place outside with things to reach, of one user.
func beyond(t *testing.T, uid int) string {
	dir, err := os.MkdirTemp("/var", "hpbeyond")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, c := range []struct{ network, addr string }{{"unix", dir + "/socket"}, {"tcp4", "127.0.0.1:0"}} {
		l, err := net.Listen(c.network, c.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if c.network == "tcp4" {
			write(t, dir+"/tcp", l.Addr().String())
		}
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go func() { io.Copy(c, c); c.Close() }()
			}
		}()
	}
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	write(t, dir+"/udp", u.LocalAddr().String())
	go func() {
		b := make([]byte, 8)
		for n, from, err := u.ReadFrom(b); err == nil; n, from, err = u.ReadFrom(b) {
			u.WriteTo(b[:n], from)
		}
	}()
	write(t, dir+"/file", "old")
	write(t, dir+"/gone", "")
	for _, p := range []string{"", "/file", "/gone", "/socket"} {
		if err := os.Chown(dir+p, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestProcessReach(t *testing.T) {
	t.Parallel()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []int{0, 65534} {
		for _, confined := range []bool{true, false} {
			t.Run(fmt.Sprintf("what a released program reaches through the daemon, as uid %d, confined %v", uid, confined), func(t *testing.T) {
				root, state := dirs(t)
				os.Chmod(filepath.Dir(binary), 0o755)
				for p := filepath.Dir(root); p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
					os.Chmod(p, 0o755)
				}
				os.Mkdir(state, 0o700)
				if err := os.WriteFile(filepath.Join(root, "tester"), self, 0o755); err != nil {
					t.Fatal(err)
				}
				for _, p := range []string{root, state} {
					if err := os.Chown(p, uid, uid); err != nil {
						t.Fatal(err)
					}
				}
				user := []string{"setpriv", fmt.Sprintf("--reuid=%d", uid), fmt.Sprintf("--regid=%d", uid), "--clear-groups"}
				d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), args: []string{"--review-auth", "token"}}
				if !confined {
					file := filepath.Join(filepath.Dir(state), "holdpoint.toml")
					write(t, file, "[process]\nconfinement = \"off\"\n")
					d.args = append(d.args, "--config", file)
				}
				d.run(append(user, "env", "HOME=/nonexistent")...)
				d.operator()
				t.Cleanup(func() { d.stop(syscall.SIGTERM) })
				out := beyond(t, uid)
				write(t, out+"/state", state)
				write(t, out+"/agent", d.Agent)
				victim := exec.Command(user[0], append(user[1:], "/bin/sleep", "60")...)
				if err := victim.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { victim.Process.Kill(); victim.Wait() }()
				until(t, "another user's process", func() bool {
					return strings.HasPrefix(note(fmt.Sprintf("/proc/%d", victim.Process.Pid), "comm"), "sleep")
				})
				r := d.approve(d.call("workspace_shell", M{"command": "./tester", "args": []string{"reach", out, strconv.Itoa(victim.Process.Pid)}}))
				got := map[string]string{}
				if err := json.Unmarshal([]byte(text(r, "result", "stdout")), &got); err != nil || len(got) != len(reaches) {
					t.Fatalf("%v: %v", err, r)
				}
				for name, why := range got {
					if confined == (why == "") {
						t.Errorf("%s: %q", name, why)
					}
				}
				if word := text(r, "result", "confinement", "level"); word != map[bool]string{true: "full", false: "none"}[confined] {
					t.Errorf("confinement is %s", word)
				}
			})
		}
	}
}
