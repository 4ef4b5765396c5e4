package reach

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Try is one attempt. It gets the place outside, which holds the addresses, and the number of
// a process of the same user.
type Try func(out string, pid int) error

// Tries are those that hold for every confinement.
var Tries = map[string]Try{
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
	"tcp":    func(out string, _ int) error { return spoken("tcp", Note(out, "tcp")) },
	"udp":    func(out string, _ int) error { return spoken("udp", Note(out, "udp")) },
	"mptcp":  func(out string, _ int) error { return multipath(Note(out, "tcp")) },
}

// With gives Tries and more.
func With(more map[string]Try) map[string]Try {
	all := maps.Clone(Tries)
	maps.Copy(all, more)
	return all
}

// Print makes each try in the process under test, and prints why it failed; nothing where it
// did not.
func Print(tries map[string]Try, out string, pid int) {
	got := map[string]string{}
	for name, try := range tries {
		got[name] = ""
		if err := try(out, pid); err != nil {
			got[name] = err.Error()
		}
	}
	json.NewEncoder(os.Stdout).Encode(got)
}

// Note reads an address, or what else a test has put down outside.
func Note(out, name string) string {
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

func multipath(addr string) error {
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())})
}

// Beyond makes a place outside with things to reach, of one user.
func Beyond(t testing.TB, uid int) string {
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
			note(t, dir+"/tcp", l.Addr().String())
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
	note(t, dir+"/udp", u.LocalAddr().String())
	go func() {
		b := make([]byte, 8)
		for n, from, err := u.ReadFrom(b); err == nil; n, from, err = u.ReadFrom(b) {
			u.WriteTo(b[:n], from)
		}
	}()
	note(t, dir+"/file", "old")
	note(t, dir+"/gone", "")
	for _, p := range []string{"", "/file", "/gone", "/socket"} {
		if err := os.Chown(dir+p, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func note(t testing.TB, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
