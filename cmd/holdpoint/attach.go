package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"holdpoint/op"
)

// detachKey leaves a session and lets it run on: control and ].
const detachKey = 0x1d

func (a *app) attachCommand() *cobra.Command {
	var watch bool
	c := &cobra.Command{Use: "attach ID", Short: "Join a terminal session that a person released", Args: oneArg("the id of a run or of its approval"),
		Long: "Join a terminal session that a person released. What you type goes to it, as a reviewer's own; Ctrl-] leaves it running.\n" +
			"What the session prints reaches this terminal as it is: attach only to what you would run.",
		RunE: func(c *cobra.Command, args []string) error {
			if watch {
				return a.asWatcher(c.Context(), "", func(cl *client) error {
					_, err := a.followRun(c.Context(), cl, args[0], "")
					return err
				})
			}
			return a.asReviewer(c.Context(), "", func(cl *client) error { return a.attach(c.Context(), cl, args[0]) })
		}}
	c.Flags().BoolVar(&watch, "watch", false, "only look on")
	return c
}

// lastShown is how much of what a session showed before is shown to whoever joins it.
const lastShown = 16 << 10

// attach joins this terminal and the session's until one of them ends.
func (a *app) attach(ctx context.Context, c *client, id string) error {
	if !c.daemon {
		return op.Fail(op.NotReady, "a session belongs to a daemon, and none runs")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := "/v1/runs/" + escapeID(op.ID(id))
	var v runView
	if _, err := c.get(ctx, path, &v); err != nil {
		return err
	}
	if v.Pty && v.State == "running" {
		back, err := a.raw(ctx, c, path)
		if err != nil {
			return err
		}
		defer back()
		go func() {
			defer cancel()
			a.typeInto(ctx, c, path)
		}()
	}
	from := fmt.Sprintf("%d-0", max(0, v.Stdout-lastShown)) // what a screen holds; the rest is in the transcript
	run, err := c.follow(ctx, string(v.ID), from, "true", func(p piece) error {
		b := []byte(p.Content)
		if p.ContentBase64 != "" {
			var err error
			if b, err = base64.StdEncoding.DecodeString(p.ContentBase64); err != nil {
				return op.Fail(op.Internal, "the daemon's output is not understood").Because(err)
			}
		}
		_, err := a.Out.Write(b)
		return err
	})
	if ctx.Err() != nil {
		fmt.Fprintf(a.Err, "\r\nLeft; it runs on. Join again: %s\r\n", a.command("attach "+line(string(v.ID))))
		return nil
	}
	if err == nil {
		fmt.Fprintf(a.Err, "\r\nThe session ended: %s\r\n", line(run.state()))
	}
	return err
}

// raw hands this terminal's keys over as they are pressed and tells the session its size,
// now and whenever it changes. The returned function puts the terminal back.
func (a *app) raw(ctx context.Context, c *client, path string) (func(), error) {
	in, ok := a.In.(*os.File)
	if !ok || !a.InTTY {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, op.Fail(op.IOError, "this terminal cannot be switched").Because(err)
	}
	tell := func() {
		if cols, rows, err := term.GetSize(int(in.Fd())); err == nil {
			// The next change tells it again.
			_, _ = c.do(ctx, http.MethodPost, path+"/resize", map[string]int{"rows": rows, "cols": cols}, nil)
		}
	}
	tell()
	changes := make(chan os.Signal, 1)
	if resized != nil {
		signal.Notify(changes, resized)
	}
	go func() {
		for {
			select {
			case <-changes:
				tell()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(changes)
		term.Restore(int(in.Fd()), before)
	}, nil
}

// typeInto sends what is typed here until the detaching key, or until the session takes
// no more. The end of an input that is no terminal is only the end of the typing.
func (a *app) typeInto(ctx context.Context, c *client, path string) {
	b := make([]byte, 4096)
	for {
		n, err := a.In.Read(b)
		leave := false
		for i := range n {
			if a.InTTY && b[i] == detachKey {
				n, leave = i, true
				break
			}
		}
		if n > 0 {
			if _, bad := c.do(ctx, http.MethodPost, path+"/input", map[string]string{"text_base64": base64.StdEncoding.EncodeToString(b[:n])}, nil); bad != nil {
				if ctx.Err() == nil {
					fmt.Fprintf(a.Err, "\r\nnot typed: %s\r\n", line(bad.Error()))
				}
			}
		}
		switch {
		case leave:
			return
		case err == io.EOF && !a.InTTY:
			<-ctx.Done()
			return
		case err != nil:
			return
		}
	}
}
