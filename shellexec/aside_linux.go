package shellexec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// AsideArg is the first argument by which this binary parses one text and ends.
const AsideArg = "parse-aside"

const (
	asideTime   = 20 * time.Second // of the clock
	asideCPU    = 10               // seconds
	asideMemory = 768 << 20        // bytes beyond those that it begins with
	asideStack  = 256 << 20
	asideText   = 96 << 20 // that it answers with
)

// asides bounds how many run at once: together they take no more than a few times
// asideMemory.
var asides = make(chan struct{}, 2)

// Aside lets a process of this binary run a parser on a text and gives what it wrote. It
// has no environment, and ends with the call.
func Aside(ctx context.Context, parser string, text []byte) ([]byte, error) {
	select {
	case asides <- struct{}{}:
		defer func() { <-asides }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, asideTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", AsideArg, parser)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.WaitDelay = []string{}, "/", bytes.NewReader(text), time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(out, asideText+1))
	if err != nil || len(b) > asideText {
		cancel()
	}
	if ended := cmd.Wait(); err == nil {
		err = ended
	}
	if err == nil && len(b) > asideText {
		err = op.Fail(op.TooLarge, "the answer is too long")
	}
	return b, err
}

// AsideMain is the process: it binds itself, reads the text, parses and answers.
func AsideMain(parser string, in io.Reader, out io.Writer, parse func(parser string, text []byte) ([]byte, bool)) int {
	debug.SetMaxStack(asideStack)
	for what, most := range map[int]uint64{unix.RLIMIT_DATA: writable() + asideMemory, unix.RLIMIT_CPU: asideCPU, unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return 3
		}
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return 3
	}
	b, ok := parse(parser, text)
	if !ok {
		return 3
	}
	if _, err := out.Write(b); err != nil {
		return 3
	}
	return 0
}

// writable tells how many bytes this process has mapped to write to, as RLIMIT_DATA counts.
func writable() (n uint64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 256 << 20
	}
	for line := range strings.Lines(string(status)) {
		if kib, is := strings.CutPrefix(line, "VmData:"); is {
			fmt.Sscanf(kib, "%d", &n)
		}
	}
	return n << 10
}
