// Package notify tells people that something waits: by ntfy, Slack, a signed webhook, the
// desktop's own notifications or a command of the operator's.
//
// It sends a title and a link, never a path, an argument or content, and only where the
// operator configured a target. It does not promise delivery: a card waits whether or not
// anybody heard of it.
package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdpoint/op"
)

// Kind is the way to reach a person.
type Kind string

const (
	Ntfy    Kind = "ntfy"
	Slack   Kind = "slack"
	Webhook Kind = "webhook"
	Command Kind = "command"
	Desktop Kind = "desktop" // of the session of the user that the daemon runs as
)

// Target is one place to send to.
type Target struct {
	Kind    Kind
	URL     string   // ntfy, slack, webhook
	Secret  string   // webhook: signs each delivery; ntfy: the access token; may be empty
	Command []string // command: the program and its arguments; desktop: the program that Notifier found
}

// Check refuses a target that could not work, or would send its secret in the clear.
func (t Target) Check() error {
	if t.Kind == Command {
		if len(t.Command) == 0 || t.Command[0] == "" || t.URL != "" || t.Secret != "" {
			return errors.New("a command target has a command and nothing else")
		}
		return nil
	}
	if t.Kind == Desktop {
		if len(t.Command) != 1 || t.URL != "" || t.Secret != "" {
			return errors.New("a desktop target has its kind and nothing else")
		}
		return nil
	}
	if t.Kind != Ntfy && t.Kind != Slack && t.Kind != Webhook {
		return errors.New("kind must be ntfy, slack, webhook, desktop or command")
	}
	u, err := url.Parse(t.URL)
	local := err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1")
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return errors.New("url must be an address like https://host/path, without a password in it")
	case u.Scheme != "https" && !(u.Scheme == "http" && local):
		return errors.New("url must begin with https://, or with http:// on this machine")
	case len(t.Command) > 0:
		return errors.New("only a command target has a command")
	case t.Kind == Slack && t.Secret != "":
		return errors.New("a slack target has its secret in its url")
	}
	return nil
}

// Message is all that leaves the machine.
type Message struct {
	Type  string    `json:"type"` // approval.requested, or test
	ID    op.ID     `json:"id"`
	Title string    `json:"title"`
	Link  string    `json:"link,omitempty"`
	Time  time.Time `json:"time"`
}

// Sender delivers messages. Client and Run must be set where a target needs them.
type Sender struct {
	Client *http.Client
	// Run starts a command of the operator's with further environment, and waits for it.
	Run func(ctx context.Context, argv, env []string) error
	// Wait is how long to pause before attempt n (1, 2, ...); nil is 1, 2, 4, 8 seconds.
	Wait func(n int) time.Duration
}

// attempts is how often a delivery is tried; timeout bounds each try.
const (
	attempts = 5
	timeout  = 10 * time.Second
)

// NewClient gives a client that follows no redirect: a signed delivery goes where the
// operator said and nowhere else.
func NewClient() *http.Client {
	return &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Send delivers one message to one target, trying again what may yet work. Its error names
// no address and no secret.
func (s *Sender) Send(ctx context.Context, t Target, m Message) error {
	m.Title = op.Visible(m.Title, false)
	var err error
	for n := 1; ; n++ {
		var again bool
		if t.Kind == Command || t.Kind == Desktop {
			again, err = s.command(ctx, t, m)
		} else {
			again, err = s.post(ctx, t, m)
		}
		if err == nil || !again || n == attempts {
			return err
		}
		pause := time.Second << (n - 1)
		if s.Wait != nil {
			pause = s.Wait(n)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *Sender) command(ctx context.Context, t Target, m Message) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if t.Kind == Desktop {
		return false, s.Run(ctx, desktop(t.Command[0], m), nil)
	}
	// The title travels in the environment: it is nobody's option and no part of a shell line.
	return false, s.Run(ctx, t.Command, []string{"HOLDPOINT_EVENT=" + m.Type, "HOLDPOINT_ID=" + string(m.ID), "HOLDPOINT_TITLE=" + m.Title, "HOLDPOINT_LINK=" + m.Link})
}

func (s *Sender) post(ctx context.Context, t Target, m Message) (again bool, err error) {
	r, err := request(ctx, t, m)
	if err != nil {
		return false, err
	}
	resp, err := s.Client.Do(r)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // the outer one holds the address, which may be a secret
		}
		return true, fmt.Errorf("no answer: %w", err)
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests, fmt.Errorf("it answered %d", resp.StatusCode)
	}
	return false, nil
}

func request(ctx context.Context, t Target, m Message) (*http.Request, error) {
	var body, kind string
	switch t.Kind {
	case Ntfy:
		body, kind = "Waits for a person: "+m.Title, "text/plain; charset=utf-8"
	case Slack:
		b, err := json.Marshal(map[string]any{"text": slackText(m), "mrkdwn": false, "unfurl_links": false})
		if err != nil {
			return nil, err
		}
		body, kind = string(b), "application/json"
	default:
		b, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		body, kind = string(b), "application/json"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, strings.NewReader(body))
	if err != nil {
		return nil, errors.New("the address is not one")
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("User-Agent", "holdpoint")
	switch t.Kind {
	case Ntfy:
		r.Header.Set("Title", "Holdpoint")
		if m.Link != "" {
			r.Header.Set("Click", m.Link)
		}
		if t.Secret != "" {
			r.Header.Set("Authorization", "Bearer "+t.Secret)
		}
	case Webhook:
		at := strconv.FormatInt(m.Time.Unix(), 10)
		r.Header.Set("Holdpoint-Delivery", string(m.ID)) // the same at every try
		r.Header.Set("Holdpoint-Timestamp", at)
		if t.Secret != "" {
			r.Header.Set("Holdpoint-Signature", Sign(t.Secret, at, body))
		}
	}
	return r, nil
}

// Sign gives the signature of a delivery: HMAC-SHA256 over the time, a dot and the body.
func Sign(secret, at, body string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(at + "." + body))
	return "sha256=" + hex.EncodeToString(h.Sum(nil))
}

// slackText escapes the three characters that begin a mention or a link there.
func slackText(m Message) string {
	text := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace("Waits for a person: " + m.Title)
	if m.Link != "" {
		text += "\n" + m.Link
	}
	return text
}
