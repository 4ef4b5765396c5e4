//go:build linux

package rooted

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The races are run against a second process: this test binary again, in another role.
const roleEnv = "HOLDPOINT_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "swapper":
		swapperRole(os.Args[1])
	case "writer":
		writerRole(os.Args[1], os.Args[2])
	case "without lease":
		withoutLeaseRole()
	case "rival":
		rivalRole(os.Args[1])
	case "shut":
		shutRole(os.Args[1])
	case "stranger":
		strangerRole(os.Args[1])
	case "cell":
		cellRole(os.Args[1:])
	}
}

// self starts this binary in a role.
func self(role string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Env = append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0") // else each one ends a second late
	c.Stderr = os.Stderr
	return c
}

// count reads how many attempts to make from the environment.
func count(t *testing.T, env string, def int) int {
	t.Helper()
	v := os.Getenv(env)
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	must(t, err)
	return n
}

// fastDir is a folder for many short rounds: in memory where there is such a place.
func fastDir(t *testing.T) string {
	t.Helper()
	top := os.Getenv("HOLDPOINT_TEST_DIR")
	if top == "" {
		top = "/dev/shm"
	}
	if i, err := os.Stat(top); err != nil || !i.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(top, "rooted")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// spin waits a moment too short for a timer.
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.Gosched()
	}
}

// swapperRole exchanges ws/d and ws/l until its input ends.
func swapperRole(ws string) {
	gone := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(gone) }()
	d, l := filepath.Join(ws, "d"), filepath.Join(ws, "l")
	for swaps := 0; ; swaps++ {
		select {
		case <-gone:
			if swaps%2 == 1 { // d is the directory again
				_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE)
				swaps++
			}
			fmt.Println(swaps)
			return
		default:
		}
		if err := unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE); err != nil {
			fmt.Fprintln(os.Stderr, "swapper:", err)
			os.Exit(1)
		}
		if swaps%2 == 0 {
			spin(time.Duration(rand.IntN(30)) * time.Microsecond) // d leads out
		} else {
			spin(time.Duration(rand.IntN(200)) * time.Microsecond)
		}
	}
}

const rivalText = "rival"

// rivalRole replaces the file f of the directory that ws/d is, wherever that stands, until
// its input ends. It takes what stood there in the same moment, and tells it. What it took goes
// out of the root first, where nobody follows: between a look at it and its removal in the
// directory, a change of ours that is taken back may put there what the rival replaced in
// truth, and the rival would remove that without having told it.
func rivalRole(ws string) {
	gone := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(gone) }()
	dir := -1
	for dir < 0 { // the other process may have a link there just now
		dir, _ = unix.Open(filepath.Join(ws, "d"), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	}
	within := func(name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir, name) }
	taken := filepath.Join(filepath.Dir(ws), "taken by the rival")
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for n := 0; ; n++ {
		select {
		case <-gone:
			return
		default:
		}
		mine := fmt.Sprint(rivalText, " ", n)
		err := os.WriteFile(within("mine"), []byte(mine), 0o644)
		if err == nil {
			err = unix.Renameat2(dir, "mine", dir, "f", unix.RENAME_EXCHANGE)
		}
		if err == nil {
			err = os.Rename(within("mine"), taken)
		}
		var was []byte
		if err == nil {
			was, err = os.ReadFile(taken)
		}
		if err == nil {
			err = os.Remove(taken) // so that the next is another file
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "rival:", err)
			os.Exit(1)
		}
		fmt.Fprintf(out, "%s over %s\n", mine, was)
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
	}
}

// writerRole writes to a file in one manner each time it is told: "open N" or "go N skew".
func writerRole(manner, file string) {
	in := bufio.NewScanner(os.Stdin)
	var held *os.File
	for in.Scan() {
		var what string
		var n, skew int
		_, _ = fmt.Sscan(in.Text(), &what, &n, &skew)
		var err error
		if what == "open" {
			held, err = os.OpenFile(file, os.O_WRONLY, 0)
		} else {
			spin(time.Duration(skew) * time.Microsecond)
			err = hostileWrite(manner, file, n, &held)
		}
		fmt.Println(err == nil, err)
	}
}

func hostileWrite(manner, file string, n int, held **os.File) error {
	text := hostileText(n)
	switch manner {
	case "rename":
		if err := os.WriteFile(file+".tmp", text, 0o644); err != nil {
			return err
		}
		return os.Rename(file+".tmp", file)
	case "in place":
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt(text, 0)
		return err
	case "truncate":
		return os.WriteFile(file, text, 0o644)
	case "held":
		defer (*held).Close()
		_, err := (*held).WriteAt(text, 0)
		return err
	}
	return nil // quiet
}

func hostileText(n int) []byte { return fmt.Appendf(nil, "<hostile %09d>", n) }
