// Command holdpoint is the daemon and everything that talks to it, in one binary.
//
// The files of this package parse a command line, ask the daemon and show its answer.
// Nothing here decides, approves or changes a workspace file.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"holdpoint/fileops"
	"holdpoint/shellexec"
)

// Streams is what a command may touch of the process around it.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	TTY      bool // Out is a terminal
	InTTY    bool // In is a terminal
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == shellexec.HelperArg {
		os.Exit(shellexec.Helper())
	}
	if len(os.Args) == 3 && os.Args[1] == shellexec.AsideArg {
		os.Exit(shellexec.AsideMain(os.Args[2], os.Stdin, os.Stdout, fileops.Parse))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv,
		TTY:   term.IsTerminal(int(os.Stdout.Fd())),
		InTTY: term.IsTerminal(int(os.Stdin.Fd())),
	})
	stop()
	os.Exit(code)
}

// commands are those that are no clients, or want more than a client has.
var commands = []func(*app) *cobra.Command{serveCommand, hubCommand, doctorCommand, rulesCommand, modeCommand, profileCommand, cleanCommand, configCommand, notifyCommand, mcpCommand, initCommand, manCommand, bundleCommand}

// run does one command line and gives its exit code.
func run(ctx context.Context, args []string, s Streams) int {
	a := &app{Streams: s, now: time.Now, local: openLocal, extra: commands}
	return a.execute(ctx, args)
}
