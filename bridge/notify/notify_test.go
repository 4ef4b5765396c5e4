package notify

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		t    Target
		ok   bool
	}{
		{"the zero target", Target{}, false},
		{"a webhook", Target{Kind: Webhook, URL: "https://example.org/x", Secret: "s"}, true},
		{"in the clear", Target{Kind: Webhook, URL: "http://example.org/x"}, false},
		{"in the clear on this machine", Target{Kind: Ntfy, URL: "http://127.0.0.1:8080/t"}, true},
		{"a name that only begins like this machine", Target{Kind: Ntfy, URL: "http://127.0.0.1.example.org/t"}, false},
		{"a password in the address", Target{Kind: Slack, URL: "https://a:b@example.org/"}, false},
		{"a file", Target{Kind: Webhook, URL: "file:///etc/passwd"}, false},
		{"a command", Target{Kind: Command, Command: []string{"true"}}, true},
		{"a command without one", Target{Kind: Command}, false},
		{"a command with an address", Target{Kind: Command, Command: []string{"true"}, URL: "https://example.org"}, false},
		{"another kind", Target{Kind: "mail", URL: "https://example.org"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.t.Check(); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSend(t *testing.T) {
	answers := []int{}
	tries, last := 0, ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		tries, last = tries+1, string(b)
		if len(answers) > 0 {
			if answers[0] == 302 {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(answers[0])
			answers = answers[1:]
		}
	}))
	defer s.Close()
	sender := &Sender{Client: NewClient(), Wait: func(int) time.Duration { return time.Millisecond }}
	m := Message{Type: "approval.requested", ID: "ap_1", Title: "Delete 1 file \u202e<!channel> & more", Link: "http://localhost/#/approvals/ap_1", Time: time.Unix(1, 0)}
	for _, c := range []struct {
		name    string
		answers []int
		tries   int
		ok      bool
	}{
		{"the first answer is enough", nil, 1, true},
		{"what may pass is tried again", []int{503, 429}, 3, true},
		{"five times and no more", []int{500, 500, 500, 500, 500, 500}, 5, false},
		{"a refusal is not tried again", []int{403}, 1, false},
		{"a redirect is not followed", []int{302}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers, tries = c.answers, 0
			if err := sender.Send(context.Background(), Target{Kind: Slack, URL: s.URL + "/secret-path"}, m); (err == nil) != c.ok || tries != c.tries {
				t.Errorf("got %v after %d tries, want %d", err, tries, c.tries)
			}
		})
	}
	t.Run("I89 (part) what a title could do to the reader is spelled out or escaped", func(t *testing.T) {
		answers = nil
		sender.Send(context.Background(), Target{Kind: Slack, URL: s.URL}, m)
		if strings.Contains(last, "\u202e") || strings.Contains(last, "<!channel>") || !strings.Contains(last, `\\u{202E}`) {
			t.Errorf("got %s", last)
		}
	})
	t.Run("an error names no address", func(t *testing.T) {
		err := sender.Send(context.Background(), Target{Kind: Slack, URL: "http://127.0.0.1:1/secret-path"}, m)
		if err == nil || strings.Contains(err.Error(), "secret-path") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a command gets the title in its environment and nothing in its arguments", func(t *testing.T) {
		sender.Run = func(_ context.Context, argv, env []string) error {
			if len(argv) != 1 || !strings.Contains(strings.Join(env, "\n"), `HOLDPOINT_TITLE=Delete 1 file \u{202E}`) {
				t.Errorf("got %q %q", argv, env)
			}
			return errors.New("exit 1")
		}
		if err := sender.Send(context.Background(), Target{Kind: Command, Command: []string{"tell"}}, m); err == nil {
			t.Error("its failure was not told")
		}
	})
}
