package flow

import (
	"os"
	"path/filepath"
	"testing"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// TestLifted takes back what lets a call run between its judgement and its turn, which a
// client cannot time: a call that waits for its paths must not run on a grant, a rule or a
// mode that is no more.
func TestLifted(t *testing.T) {
	o := OpenNew(t, Config{ReviewAuth: "token", AllowYolo: true})
	e, j, root := o.Engine, o.Journal, o.Root
	token, _, err := e.CreateToken(t.Context(), TokenSpec{Name: "a", Role: op.Agent})
	if err != nil {
		t.Fatal(err)
	}
	agent, person := op.Caller{Token: token.ID, Name: "a", Role: op.Agent}, op.Caller{Token: "tk_p", Name: "p", Role: op.Reviewer}
	file := filepath.Join(root, "f")
	remember := func() (journal.Rule, error) {
		c := judged(t, e, agent, op.Request{Op: op.DeleteFile, Args: op.Object{"path": "f"}}, op.Review)
		r := journal.Rule{ID: j.NewID("ru_"), Kind: journal.RememberedRule, Root: c.ws.Key, Token: token.ID, Identity: e.identity(c.call)}
		c.close()
		return r, e.keepRule(t.Context(), r, "rule.added")
	}
	for _, c := range []struct {
		name string
		rule func() (journal.Rule, error)
		call op.Request
	}{
		{"a grant", func() (journal.Rule, error) {
			return e.Grant(t.Context(), person, RuleSpec{Agent: "a", Scope: "session", Session: "s", MaxCount: 1})
		}, op.Request{Op: op.WriteFile, Args: op.Object{"path": "f", "content": "two\n"}, Session: "s"}},
		{"the mode yolo", func() (journal.Rule, error) {
			return e.SetMode(t.Context(), person, RuleSpec{Agent: "a", Mode: op.Yolo, Confirm: true})
		}, op.Request{Op: op.DeleteFile, Args: op.Object{"path": "f"}}},
		{"a remembered rule", remember, op.Request{Op: op.DeleteFile, Args: op.Object{"path": "f"}}},
	} {
		t.Run("X29 (part) "+c.name+" that is revoked takes effect on a call that waits", func(t *testing.T) {
			for _, revoked := range []bool{true, false} {
				if err := os.WriteFile(file, []byte("one\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				rule, err := c.rule()
				if err != nil {
					t.Fatal(err)
				}
				waits := judged(t, e, agent, c.call, op.Auto)
				if revoked {
					if _, err := e.RevokeRule(t.Context(), person, rule.ID); err != nil {
						t.Fatal(err)
					}
				}
				r := e.perform(t.Context(), waits.call, waits.made, "")
				waits.close()
				b, _ := os.ReadFile(file)
				if revoked && (r.Status == op.Done || r.Error == nil || r.Error.Code != op.Stale || string(b) != "one\n") {
					t.Errorf("after it was revoked: %v %v, and the file holds %q", r.Status, r.Error, b)
				}
				if !revoked && (r.Status != op.Done || string(b) == "one\n") {
					t.Errorf("not revoked: %v %v", r.Status, r.Error)
				}
				if !revoked {
					if _, err := e.RevokeRule(t.Context(), person, rule.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// waiting is a judged call that has not been carried out.
type waiting struct {
	*call
	made op.Decision
}

func judged(t *testing.T, e *Engine, by op.Caller, req op.Request, want op.Verdict) waiting {
	t.Helper()
	c, err := e.open(t.Context(), by, req, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.look(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	d, err := e.judge(t.Context(), c, true)
	if err != nil || d.Verdict != want {
		t.Fatalf("got %+v %v, want %s", d, err, want)
	}
	return waiting{c, d}
}

// A rule of an older form names its call in another way. What it names must be exactly this
// call in the form of today, so that it covers nothing.
func TestOlderRules(t *testing.T) {
	o := OpenNew(t, Config{ReviewAuth: "token"})
	e, j, root := o.Engine, o.Journal, o.Root
	token, _, err := e.CreateToken(t.Context(), TokenSpec{Name: "a", Role: op.Agent})
	if err != nil {
		t.Fatal(err)
	}
	agent := op.Caller{Token: token.ID, Name: "a", Role: op.Agent}
	if err := os.WriteFile(filepath.Join(root, "f"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Run("C72 rules of an older form cover no call that is bound to its target", func(t *testing.T) {
		req := op.Request{Op: op.DeleteFile, Args: op.Object{"path": "f"}}
		c := judged(t, e, agent, req, op.Review)
		today := e.identity(c.call)
		c.close()
		for _, older := range []string{"", "delete_file", "delete_file:f", "delete_file:f#", "delete_file:f#sha256:00", today[:len(today)-1], today + " ", "*"} {
			for _, kind := range []string{journal.RememberedRule, "always_allow", ""} {
				r := journal.Rule{ID: j.NewID("ru_"), Kind: kind, Root: c.ws.Key, Token: token.ID, Identity: older, Scope: "session"}
				if err := e.keepRule(t.Context(), r, "rule.added"); err != nil {
					t.Fatal(err)
				}
			}
			judged(t, e, agent, req, op.Review).close()
		}
		if err := e.keepRule(t.Context(), journal.Rule{ID: j.NewID("ru_"), Kind: journal.RememberedRule, Root: c.ws.Key, Token: token.ID, Identity: today}, "rule.added"); err != nil {
			t.Fatal(err)
		}
		judged(t, e, agent, req, op.Auto).close() // the form of today does
	})
}
