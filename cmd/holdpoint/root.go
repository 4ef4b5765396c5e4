package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// app is one run of the command line.
type app struct {
	Streams
	now   func() time.Time
	local localEngine                 // runs calls in process; may be nil
	extra []func(*app) *cobra.Command // commands that are no clients: serve, init, doctor

	socket, state, tokenFile string // flags
	json                     bool

	hubOf *throughHub // of review; nil before the commands are made

	inRoot  string // the root directory, once an engine was opened in this process
	started bool   // a command has begun, so that an error is no longer one of usage
	secret  bool   // a secret was given as a flag
	lines   *bufio.Reader
}

// exitCode ends a command whose outcome has already been shown.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// exitWith is nil for 0.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return exitCode(code)
}

// usageError says that the command line itself is wrong: exit 2.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// execute runs one command line.
func (a *app) execute(ctx context.Context, args []string) int {
	root := a.rootCommand()
	if len(args) > 0 && args[0] == "--version" { // what people type first at a program that they do not know
		args = append([]string{"version"}, args[1:]...)
	}
	root.SetArgs(append([]string{}, args...))
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.InitDefaultCompletionCmd() // writes to what is set by now
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // the library shows its help for a shell that it does not know
			c.Args, c.RunE = knownSub, needsSub
		}
	}
	cmd, err := root.ExecuteContextC(ctx)
	return a.finish(cmd, err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "holdpoint",
		Short:         "Hold the risky calls of agents for a person; run and undo the rest",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
		},
	}
	f := root.PersistentFlags()
	f.StringVar(&a.socket, "socket", "", "the daemon's socket (else HOLDPOINT_SOCKET)")
	f.StringVar(&a.state, "state", "", "the state directory (else HOLDPOINT_STATE)")
	f.StringVar(&a.tokenFile, "token-file", "", "file or descriptor (/dev/fd/3) that holds the token")
	f.BoolVar(&a.json, "json", false, "answer in JSON")
	for _, name := range []string{"token", "passphrase"} {
		f.Var(&refusedFlag{a}, name, "refused: a command line is readable by others")
		f.Lookup(name).NoOptDefVal = "refused"
		f.Lookup(name).Hidden = true
	}
	root.SetFlagErrorFunc(a.flagError)
	for _, make := range a.extra {
		root.AddCommand(make(a))
	}
	root.AddCommand(a.callCommand(), a.preflightCommand(), a.reviewCommand(), a.undoCommand(), a.logCommand(), a.sessionsCommand(), a.showCommand(),
		a.statusCommand(), a.watchCommand(), a.runsCommand(), a.attachCommand(), a.protectCommand(), a.policyCommand(), a.auditCommand(), a.rootsCommand(), a.tokenCommand(), a.pairCommand(), a.reviewerCommand(), a.versionCommand(),
		a.diffCommand(), a.exportCommand(), a.forgetCommand(), a.gcCommand(), a.verifyCommand(), a.repairCommand(), a.replayCommand())
	a.addLater(root)
	return root
}

// group makes a command that only holds others, and answers an unknown one with the nearest.
func (a *app) group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.AddCommand(subs...)
	c.Args = knownSub
	c.RunE = needsSub
	return c
}

func needsSub(c *cobra.Command, _ []string) error {
	return usagef("%s needs one of: %s", c.CommandPath(), strings.Join(subNames(c), ", "))
}

func knownSub(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	names := subNames(c)
	return usagef("%s has no command %q; %s", c.CommandPath(), args[0], orNearest(args[0], names, "it has "+strings.Join(names, ", ")))
}

func subNames(c *cobra.Command) []string {
	var names []string
	for _, s := range c.Commands() {
		if !s.Hidden {
			names = append(names, s.Name())
		}
	}
	return names
}

// refusedFlag takes no value: a secret in argv is readable by every user of the machine.
type refusedFlag struct{ a *app }

func (*refusedFlag) String() string { return "" }
func (*refusedFlag) Type() string   { return "" }

func (f *refusedFlag) Set(string) error {
	f.a.secret = true
	return errors.New("refused")
}

// flagError words a bad flag. The text of the flag library repeats the value, so it must
// not be used for a refused secret.
func (a *app) flagError(c *cobra.Command, err error) error {
	if a.secret {
		return usagef("a secret does not belong on a command line, where every user of this machine can read it; " +
			"use HOLDPOINT_TOKEN or --token-file FILE (/dev/fd/3 works), for a reviewer HOLDPOINT_REVIEW_PASSPHRASE, and treat the one just typed as known")
	}
	return usageError(err.Error())
}

// finish shows what is left to show of an error and gives the exit code.
func (a *app) finish(cmd *cobra.Command, err error) int {
	var code exitCode
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage) || !a.started:
		fmt.Fprintf(a.Err, "holdpoint: %s\n", op.Visible(firstLine(err), false))
		fmt.Fprintf(a.Err, "  see: %s --help\n", cmd.CommandPath())
		return 2
	}
	e := asError(err)
	if a.json {
		a.printJSON(map[string]any{"error": e})
	} else {
		a.showError(e)
	}
	return op.ExitStatus(e.Code)
}

// firstLine cuts the suggestions that the command library appends on further lines down
// to one line of the same words.
func firstLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// asError gives every failure a code; an interrupt is the caller's own wish.
func asError(err error) *op.Error {
	if errors.Is(err, context.Canceled) && op.AsError(err).Code == op.Internal {
		return op.Fail(op.Internal, "interrupted before an answer came").Do("a call that had been sent may still run: holdpoint log")
	}
	return op.AsError(err)
}

// showError words a failure for a person: code, sentence, place, and what to do instead.
func (a *app) showError(e *op.Error) {
	fmt.Fprintf(a.Err, "holdpoint: %s: %s\n", line(string(e.Code)), line(e.Message))
	for _, more := range [][2]string{{"path", showPath(e.Path)}, {"argument", line(e.Field)}, {"now", line(string(e.CurrentHash))}, {"instead", line(e.Hint)}} {
		if more[1] != "" {
			fmt.Fprintf(a.Err, "  %s: %s\n", more[0], more[1])
		}
	}
	if e.Diff != "" {
		fmt.Fprintf(a.Err, "  changed since:\n%s", block(e.Diff, a.diffLine))
	}
	if e.NoDiff != "" {
		fmt.Fprintf(a.Err, "  no diff of what changed: %s\n", line(e.NoDiff))
	}
	if e.StillApplies != nil {
		fmt.Fprintf(a.Err, "  the same change still applies: %v\n", *e.StillApplies)
	}
}
