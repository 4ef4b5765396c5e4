package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/bridge/notify"
	"holdpoint/internal/flow"
	"holdpoint/op"
	"holdpoint/review"
)

// notifyFile is one [[notify]] of the configuration. A secret lies in a file of its own,
// so that the configuration can be shown to others.
type notifyFile struct {
	Kind       string   `toml:"kind"`
	URL        string   `toml:"url"`
	URLFile    string   `toml:"url_file"`    // for addresses that are secrets themselves
	SecretFile string   `toml:"secret_file"` // webhook: signs; ntfy: access token
	Command    []string `toml:"command"`
}

func targets(list []notifyFile) ([]notify.Target, error) {
	var out []notify.Target
	for i, n := range list {
		t := notify.Target{Kind: notify.Kind(n.Kind), URL: n.URL, Command: n.Command}
		for _, f := range []struct {
			file string
			to   *string
		}{{n.URLFile, &t.URL}, {n.SecretFile, &t.Secret}} {
			if f.file == "" {
				continue
			}
			b, err := readSmall(f.file)
			if err != nil {
				return nil, fmt.Errorf("notify %d: %s cannot be read", i+1, f.file)
			}
			*f.to = strings.TrimSpace(string(b))
		}
		if t.Kind == notify.Desktop && len(t.Command) == 0 {
			program, err := notify.Notifier(exec.LookPath)
			if err != nil {
				return nil, fmt.Errorf("notify %d: %w", i+1, err)
			}
			t.Command = []string{program}
		} else if t.Kind == notify.Desktop {
			return nil, fmt.Errorf("notify %d: a desktop target has its kind and nothing else", i+1)
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("notify %d: %w", i+1, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// notifyTargets reads the targets of the configuration.
func notifyTargets(flag string, env func(string) string) ([]notify.Target, error) {
	file, _, err := readConfigFile(flag, env)
	if err != nil {
		return nil, err
	}
	return targets(file.Notify)
}

func newSender() *notify.Sender {
	return &notify.Sender{Client: notify.NewClient(), Run: func(ctx context.Context, argv, env []string) error {
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "DISPLAY=" + os.Getenv("DISPLAY"),
			"WAYLAND_DISPLAY=" + os.Getenv("WAYLAND_DISPLAY"), "DBUS_SESSION_BUS_ADDRESS=" + os.Getenv("DBUS_SESSION_BUS_ADDRESS"), "XDG_RUNTIME_DIR=" + os.Getenv("XDG_RUNTIME_DIR")}, env...)
		c.WaitDelay = time.Second
		return c.Run()
	}}
}

// teller tells people of each held call. Without targets it does nothing at all.
type teller struct {
	o       *opened
	sender  *notify.Sender
	targets []notify.Target
	link    func(op.ID) string
	warn    func(string)
	done    chan struct{}
}

// flood is how many calls may wait in one go before they are told as one message.
const flood = 5

// tellPeople starts the teller; the returned stop waits for what is on its way, within a
// bound.
func tellPeople(ctx context.Context, o *opened, list []notify.Target, link func(op.ID) string, warn func(string)) (stop func()) {
	if len(list) == 0 {
		return func() {}
	}
	t := &teller{o: o, sender: newSender(), targets: list, link: link, warn: warn, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go t.run(ctx)
	return func() { cancel(); <-t.done }
}

func (t *teller) run(ctx context.Context) {
	defer close(t.done)
	_, more, cancel := t.o.engine.Subscribe(1 << 62)
	defer func() { cancel() }()
	for {
		var ids []op.ID
		select {
		case <-ctx.Done():
			return
		case e, ok := <-more:
			if !ok { // fell behind: what came meanwhile is on the page
				_, more, cancel = t.o.engine.Subscribe(1 << 62)
				continue
			}
			ids = append(ids, heldBy(e)...)
		}
		for more := more; len(more) > 0; {
			e, ok := <-more
			if !ok {
				break
			}
			ids = append(ids, heldBy(e)...)
		}
		t.tell(ctx, ids)
	}
}

func heldBy(e flow.Event) []op.ID {
	id, _ := e.Data["approval_id"].(op.ID)
	if e.Type != "approval.requested" || id == "" {
		return nil
	}
	return []op.ID{id}
}

func (t *teller) tell(ctx context.Context, ids []op.ID) {
	now := time.Now().UTC()
	if len(ids) > flood {
		m := notify.Message{Type: "approval.requested", ID: ids[0], Title: fmt.Sprintf("%d calls", len(ids)), Time: now}
		if t.link != nil {
			m.Link, _, _ = strings.Cut(t.link(""), "#")
		}
		t.send(ctx, m)
		return
	}
	for _, id := range ids {
		row, err := t.o.journal.Approval(ctx, id)
		if err != nil || row.State != "pending" {
			continue
		}
		m := notify.Message{Type: "approval.requested", ID: id, Title: review.CardOf(row).Title, Time: now}
		if t.link != nil {
			m.Link = t.link(id)
		}
		t.send(ctx, m)
	}
}

func (t *teller) send(ctx context.Context, m notify.Message) {
	for i, target := range t.targets {
		if err := t.sender.Send(ctx, target, m); err != nil && ctx.Err() == nil {
			t.warn(fmt.Sprintf("notify %d (%s): %v; the card waits all the same", i+1, target.Kind, err))
		}
	}
}

func notifyCommand(a *app) *cobra.Command {
	var config string
	test := &cobra.Command{Use: "test", Short: "Send a test message to every configured target", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.notifyTest(c.Context(), config) }}
	test.Flags().StringVar(&config, "config", "", "the configuration (else HOLDPOINT_CONFIG, else the user's)")
	return a.group("notify", "Tell people that something waits", test)
}

// notifyTest tries each target once and says how it went.
func (a *app) notifyTest(ctx context.Context, config string) error {
	list, err := notifyTargets(config, a.Env)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return op.Fail(op.BadRequest, "no [[notify]] target is configured").Do("add one to the configuration: kind and url, or kind and command")
	}
	s := newSender()
	m := notify.Message{Type: "test", ID: op.ID(fmt.Sprintf("test_%d", a.now().UnixNano())), Title: "A test of Holdpoint's notifications", Time: a.now().UTC()}
	type outcome struct {
		Target int    `json:"target"`
		Kind   string `json:"kind"`
		Sent   bool   `json:"sent"`
		Error  string `json:"error,omitempty"`
	}
	var all []outcome
	failed := false
	for i, t := range list {
		r := outcome{i + 1, string(t.Kind), true, ""}
		if err := s.Send(ctx, t, m); err != nil {
			r.Sent, r.Error, failed = false, op.Visible(err.Error(), false), true
		}
		all = append(all, r)
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
	}
	if a.json {
		a.printJSON(all)
	} else {
		for _, r := range all {
			word := "sent"
			if !r.Sent {
				word = "not sent: " + r.Error
			}
			fmt.Fprintf(a.Out, "%d  %-8s %s\n", r.Target, line(r.Kind), word)
		}
	}
	if failed {
		return exitWith(1)
	}
	return nil
}
