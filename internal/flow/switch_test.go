package flow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// A daemon that stops between the rule of an approved switch and the end of its row leaves
// no doubt: the rule is named after the row.
func TestSwitchSettled(t *testing.T) {
	for name, want := range map[string]string{"the rule was made": journal.Executed, "it was not": journal.FailedEnd} {
		t.Run("C131, I106 (part) "+name, func(t *testing.T) {
			ctx, base := t.Context(), t.TempDir()
			root, state := filepath.Join(base, "ws"), filepath.Join(base, "state")
			if err := os.Mkdir(root, 0o755); err != nil {
				t.Fatal(err)
			}
			j, l := flow.OpenState(t, state)
			wide := flow.Profile{Profile: op.DefaultProfile(), Visible: true}
			wide.RequireApproval = false
			start := func() *flow.Engine {
				e := flow.New(flow.Config{Version: "test", Settings: flow.Settings{Profiles: map[string]flow.Profile{"wide": wide}}}, j, l, nil)
				if _, err := e.AddRoot(ctx, flow.RootSpec{Dir: root}); err != nil {
					t.Fatal(err)
				}
				if err := e.Recover(ctx); err != nil {
					t.Fatal(err)
				}
				return e
			}
			e := start()
			if err := e.SetPassphrase(ctx, "only for tests 1"); err != nil {
				t.Fatal(err)
			}
			token, _, err := e.CreateToken(ctx, flow.TokenSpec{Name: "a", Role: op.Agent})
			if err != nil {
				t.Fatal(err)
			}
			by := op.Caller{Token: token.ID, Name: "a", Role: op.Agent}
			held := e.Call(ctx, by, op.Request{Op: op.SwitchProfile, Args: op.Object{"profile": "wide"}}, nil)
			if held.Status != op.Held {
				t.Fatalf("got %+v", held)
			}
			id := held.Approval.ID
			row, err := j.Approval(ctx, id)
			if err == nil {
				_, err = j.Answer(ctx, id, journal.Answer{Answer: "approve", By: "p", ShownDigest: row.ShownDigest}, row.Created)
			}
			if err == nil {
				err = j.Claim(ctx, id)
			}
			if err == nil && want == journal.Executed {
				err = j.AddRule(ctx, journal.Rule{ID: op.ID("ru_" + strings.TrimPrefix(string(id), "ap_")), Kind: journal.ProfileRule, Token: token.ID, Agent: "a", Profile: "wide", By: "p"})
			}
			if err != nil {
				t.Fatal(err)
			}
			e.Close()
			e = start()
			defer e.Close()
			if row, err = j.Approval(ctx, id); err != nil || row.State != want {
				t.Errorf("the row is %s, %v, want %s", row.State, err, want)
			}
			r := e.Call(ctx, by, op.Request{Op: op.ListProfiles, Args: op.Object{}}, nil)
			if m, _ := r.Result.(map[string]any); (m["current"] == "wide") != (want == journal.Executed) {
				t.Errorf("it stands under %v", m["current"])
			}
		})
	}
}
