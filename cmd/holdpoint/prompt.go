package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// askSecret reads a line that the terminal does not show; empty when none is given. The
// terminal is switched before the prompt is written, so that nothing typed at once shows.
// The interrupt key, which sends no signal meanwhile, an end of input and a signal that ends
// the process are context.Canceled.
func (a *app) askSecret(ctx context.Context, prompt string) (string, error) {
	f, ok := a.In.(*os.File)
	if !ok {
		fmt.Fprint(a.Err, prompt)
		return a.readLine(ctx)
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(f.Fd()), before)
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{f, a.Err}, "")
	p, err := orInterrupted(ctx, func() (string, error) { return t.ReadPassword(prompt) })
	if errors.Is(err, io.EOF) {
		fmt.Fprint(a.Err, "\r\n")
		return "", context.Canceled
	}
	return p, err
}

// readLine reads one line of the input; at its end it is empty.
func (a *app) readLine(ctx context.Context) (string, error) {
	if a.lines == nil {
		a.lines = bufio.NewReader(a.In)
	}
	return orInterrupted(ctx, func() (string, error) {
		s, err := a.lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return strings.TrimRight(s, "\r\n"), nil
	})
}

// orInterrupted gives what read gives, or ctx's error as soon as there is one. A read of a
// terminal cannot be ended from outside; after an interrupt it stays until the process
// ends, which is next.
func orInterrupted(ctx context.Context, read func() (string, error)) (string, error) {
	type got struct {
		text string
		err  error
	}
	ch := make(chan got, 1)
	go func() {
		text, err := read()
		ch <- got{text, err}
	}()
	select {
	case g := <-ch:
		return g.text, g.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
