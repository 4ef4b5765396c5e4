package main

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal runs the command on a pseudo terminal. Each answer is typed when its prompt
// has appeared; all that the terminal got comes back.
func (f *fake) terminal(env []string, dialog [][2]string, args ...string) ran {
	f.t.Helper()
	master, slave := openPTY(f.t)
	defer master.Close()
	c := f.command(args...)
	c.Env = append(c.Env, env...)
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		f.t.Fatal(err)
	}
	slave.Close()
	limit := time.AfterFunc(20*time.Second, func() { c.Process.Kill() })
	defer limit.Stop()
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	for from := 0; ; {
		n, err := master.Read(buf)
		seen.Write(buf[:n])
		if len(dialog) > 0 {
			if i := strings.Index(seen.String()[from:], dialog[0][0]); i >= 0 {
				from += i + len(dialog[0][0])
				io.WriteString(master, dialog[0][1])
				dialog = dialog[1:]
			}
		}
		if err != nil { // EIO: the last holder of the other end is gone
			break
		}
	}
	code := f.ended(c.Wait())
	if len(dialog) > 0 {
		f.t.Errorf("never asked %q; got %q", dialog[0][0], seen.String())
	}
	// The terminal driver writes CR before each LF; that is not the command's.
	return ran{code, strings.ReplaceAll(seen.String(), "\r\n", "\n"), ""}
}

func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
