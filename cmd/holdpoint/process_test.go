package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
)

// command makes this binary, as the command, ready to run against the fake.
func (f *fake) command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	// The race detector sleeps for a second at the end of a process unless told not to.
	c.Env = []string{beMain + "=1", "GORACE=atexit_sleep_ms=0", "HOLDPOINT_STATE=" + f.dir, "HOME=" + f.dir, "NO_COLOR=1"}
	return c
}

// process runs the command in a process of its own, without a terminal.
func (f *fake) process(args ...string) ran {
	f.t.Helper()
	var out, errs bytes.Buffer
	c := f.command(args...)
	c.Stdout, c.Stderr = &out, &errs
	return ran{f.ended(c.Run()), out.String(), errs.String()}
}

func (f *fake) ended(err error) int {
	f.t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	if exit != nil {
		return exit.ExitCode()
	}
	return 0
}
