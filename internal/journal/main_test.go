//go:build unix

package journal

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdpoint/op"

	"golang.org/x/sys/unix"
)

const childVariable = "JOURNAL_TEST_CHILD"

// TestMain runs this binary as a child where a test needs a process that can be killed,
// limited, or started under another umask.
func TestMain(m *testing.M) {
	if what := os.Getenv(childVariable); what != "" {
		if err := child(what, os.Args[len(os.Args)-1]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child does one job on a state directory and tells each acknowledged step as a line.
func child(what, dir string) error {
	ctx := context.Background()
	say := func(words ...any) { fmt.Println(words...) }
	switch what {
	case "umask":
		syscall.Umask(0)
	case "limit":
		signal.Ignore(syscall.SIGXFSZ)
	}
	j, err := Open(dir, Options{CreatedOK: true})
	if err != nil {
		say("open", op.AsError(err).Code)
		return nil
	}
	say("open")
	switch what {
	case "hold":
		time.Sleep(time.Minute)
	case "umask":
		if err := j.Begin(ctx, sample(j, "r")); err != nil {
			return err
		}
		if _, _, err := j.PutBlob(ctx, strings.NewReader("bytes")); err != nil {
			return err
		}
		say("ready")
		time.Sleep(time.Minute)
	case "work":
		for i := 0; ; i++ {
			o := sample(j, fmt.Sprintf("r%d", i))
			if err := j.Begin(ctx, o); err != nil {
				return err
			}
			say("begin", o.ID, time.Now().UnixNano())
			if err := j.Commit(ctx, o.ID, []byte("reply"), ""); err != nil {
				return err
			}
			say("commit", o.ID, time.Now().UnixNano())
			a := held(j, fmt.Sprintf("a%d", i))
			if err := j.AddApproval(ctx, a); err != nil {
				return err
			}
			say("held", a.ID, time.Now().UnixNano())
			if _, err := j.Answer(ctx, a.ID, Answer{Answer: "approve", By: "p"}, time.Now()); err != nil {
				return err
			}
			say("answered", a.ID, time.Now().UnixNano())
		}
	case "edits":
		return edits(ctx, j, say)
	case "limit":
		return limited(ctx, j, say)
	}
	return nil
}

// edits records what goes into the log of intents, now and then something that does not, in
// two callers at once.
func edits(ctx context.Context, j *Journal, say func(...any)) error {
	failed := make(chan error)
	for n := range 2 {
		go func() {
			for i := 1; ; i++ {
				o := edit(j)
				if i%40 == 0 {
					o = sample(j, "")
				}
				if err := j.Begin(ctx, o); err != nil {
					failed <- err
					return
				}
				say("begin", o.ID, time.Now().UnixNano())
				if i%7 > 0 {
					j.CommitLater(o.ID, []byte("reply"))
				}
				if n > 0 {
					time.Sleep(time.Millisecond)
				}
			}
		}()
	}
	return <-failed
}

// edit is an operation that goes into the log of intents.
func edit(j *Journal) Operation {
	o := sample(j, "")
	o.Steps, o.Basis, o.AuditLine = o.Steps[:1], []byte(`{"from":1}`), []byte(`{"line":1}`)
	return o
}

// limited writes until the system refuses to let a file grow, then tries on.
func limited(ctx context.Context, j *Journal, say func(...any)) error {
	limit := unix.Rlimit{Cur: 200 << 10, Max: 200 << 10}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for {
		o := sample(j, "")
		if err := j.Begin(ctx, o); err != nil {
			say("refused", op.AsError(err).Code)
			break
		}
		say("begin", o.ID)
	}
	limit.Cur = limit.Max
	for range 3 {
		say("again", op.AsError(j.Begin(ctx, sample(j, ""))).Code)
	}
	_, err := j.Operations(ctx, Filter{})
	say("read", err)
	return nil
}

// start runs this test binary as a child.
func start(t *testing.T, what, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$", dir)
	c.Env = append(os.Environ(), childVariable+"="+what)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	return c, bufio.NewScanner(out)
}
