package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// runView is what is read of a run.
type runView struct {
	ID          op.ID     `json:"run_id"`
	State       string    `json:"state"`
	Command     string    `json:"command"`
	Agent       string    `json:"agent"`
	Pty         bool      `json:"pty"`
	Background  bool      `json:"background"`
	Started     time.Time `json:"started_at"`
	Termination string    `json:"termination"`
	Exit        *int      `json:"exit_code"`
	Signal      string    `json:"signal"`
	StoppedBy   string    `json:"stopped_by"`
	Stdout      int64     `json:"stdout_bytes"`
}

// state is one word or two on how it stands.
func (v runView) state() string {
	switch {
	case v.State == "running":
		return "running"
	case v.Exit != nil:
		return "exit " + strconv.Itoa(*v.Exit)
	case v.StoppedBy != "":
		return "stopped by " + v.StoppedBy
	}
	return first(v.Signal, v.Termination, v.State)
}

func (a *app) runsCommand() *cobra.Command {
	return a.group("runs", "List, read and stop running programs", a.runsListCommand(), a.runsTailCommand(), a.runsStopCommand())
}

func (a *app) runsListCommand() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List what runs and what ended lately", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.asWatcher(c.Context(), "", func(cl *client) error {
				var got struct {
					Runs []runView `json:"runs"`
				}
				raw, err := cl.get(c.Context(), "/v1/runs", &got)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(raw)
					return nil
				}
				var rows [][]string
				for _, v := range got.Runs {
					kind := ""
					if v.Pty {
						kind = "session"
					} else if v.Background {
						kind = "background"
					}
					rows = append(rows, []string{line(string(v.ID)), line(v.state()), kind, v.Started.Local().Format("15:04:05"), line(v.Agent), line(v.Command)})
				}
				if len(rows) == 0 {
					fmt.Fprintln(a.Out, "Nothing runs.")
				}
				table(a.Out, rows)
				return nil
			})
		}}
}

func (a *app) runsTailCommand() *cobra.Command {
	var follow bool
	var size int
	var stream string
	c := &cobra.Command{Use: "tail ID", Short: "Show what a program prints", Args: oneArg("the id of a run"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.asWatcher(c.Context(), "", func(cl *client) error {
				if follow {
					_, err := a.followRun(c.Context(), cl, args[0], "")
					return err
				}
				return a.tailRun(c.Context(), cl, args[0], stream, size)
			})
		}}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "show all of it from the beginning, as it comes, until it ends")
	c.Flags().IntVar(&size, "bytes", 16<<10, "how much of the end to show")
	c.Flags().StringVar(&stream, "stream", "stdout", "stdout, stderr, or typed: what was typed into a session")
	return c
}

func (a *app) tailRun(ctx context.Context, c *client, id, stream string, size int) error {
	var got struct {
		Content       string `json:"content"`
		ContentBase64 string `json:"content_base64"`
	}
	raw, err := c.get(ctx, query("/v1/runs/"+escapeID(op.ID(id))+"/output", "stream", stream, "tail", strconv.Itoa(size)), &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	return a.passOn(piece{Content: got.Content, ContentBase64: got.ContentBase64})
}

func (a *app) runsStopCommand() *cobra.Command {
	return &cobra.Command{Use: "stop ID", Short: "End a program with all that it started", Args: oneArg("the id of a run"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.asWatcher(c.Context(), "", func(cl *client) error {
				var v runView
				raw, err := cl.do(c.Context(), http.MethodPost, "/v1/runs/"+escapeID(op.ID(args[0]))+"/stop", struct{}{}, &v)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(raw)
					return nil
				}
				fmt.Fprintf(a.Out, "%s: %s\n", line(string(v.ID)), line(v.state()))
				return nil
			})
		}}
}

// piece is a part of what a program prints.
type piece struct {
	Stream        string `json:"stream"`
	Content       string `json:"content"`
	ContentBase64 string `json:"content_base64"`
}

// passOn gives it to the same stream here: as it is to what is no terminal, safe to one.
func (a *app) passOn(p piece) error {
	b := []byte(p.Content)
	if p.ContentBase64 != "" {
		var err error
		if b, err = base64.StdEncoding.DecodeString(p.ContentBase64); err != nil {
			return op.Fail(op.Internal, "the daemon's output is not understood").Because(err)
		}
	}
	if a.TTY {
		b = []byte(op.Visible(strings.ReplaceAll(string(b), "\r\n", "\n"), true))
	}
	to := a.Out
	if p.Stream == "stderr" || a.json { // the one answer stands alone
		to = a.Err
	}
	_, err := to.Write(b)
	return err
}

// followRun shows what a run prints until it ends. With attach it is in sight of a person.
func (a *app) followRun(ctx context.Context, c *client, id, attach string) (runView, error) {
	return c.follow(ctx, id, "", attach, a.passOn)
}

// follow reads the events of a run, and goes on where it was when the connection breaks.
func (c *client) follow(ctx context.Context, id, place, attach string, show func(piece) error) (runView, error) {
	for broken := 0; ; {
		run, ended, err := c.followOnce(ctx, query("/v1/runs/"+escapeID(op.ID(id))+"/events", "from", place, "attach", attach), func(at string, p piece) error {
			place, broken = at, 0
			return show(p)
		})
		if ended || err != nil || ctx.Err() != nil {
			return run, errors.Join(err, ctx.Err())
		}
		if broken++; broken > 3 {
			return run, op.Fail(op.NotReady, "the connection to "+c.where+" ends again and again")
		}
	}
}

// followOnce is one connection: it is not ended when that broke before the run did.
func (c *client) followOnce(ctx context.Context, path string, show func(string, piece) error) (run runView, ended bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return run, false, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(r)
	if err != nil {
		return run, false, c.broken(ctx, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	if resp.StatusCode != http.StatusOK {
		lines.Scan()
		return run, false, answer{resp.StatusCode, lines.Bytes()}.failure()
	}
	place, kind := "", ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "id":
			place = value
		case name == "event":
			kind = value
		case name == "data" && kind == "output":
			var p piece
			if err := json.Unmarshal([]byte(value), &p); err != nil {
				return run, false, op.Fail(op.Internal, "the daemon's events are not understood").Because(err)
			}
			if err := show(place, p); err != nil {
				return run, false, err
			}
		case name == "data" && kind == "end":
			return run, true, json.Unmarshal([]byte(value), &run)
		}
	}
	return run, false, nil // the connection ended; what was shown is remembered
}
