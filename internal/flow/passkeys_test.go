package flow_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"holdpoint/internal/flow"
	"holdpoint/op"
	"holdpoint/review"
)

// TestRegisterBesideKeys: where a person's keys cannot be asked on this page, a session does
// for a passkey only where it could enroll any key. A provider signs in whom it likes.
func TestRegisterBesideKeys(t *testing.T) {
	ctx, state := t.Context(), filepath.Join(t.TempDir(), "state")
	j, l := flow.OpenState(t, state)
	e := flow.New(flow.Config{Version: "test"}, j, l, nil)
	defer e.Close()
	e.PasskeySite(review.Site{ID: "localhost", Origin: "http://localhost:7117"})
	now := time.Now()
	operator := op.Caller{Token: "session", Name: "reviewer", Role: op.Operator, LoggedIn: now}
	begins := func(by op.Caller) bool {
		t.Helper()
		next, err := e.BeginPasskey(ctx, by, review.Proof{})
		if made, err := e.Me(ctx, by); err != nil || made.Register != (len(next.Create) > 0) {
			t.Errorf("%s is told %v %v, and gets %s", by.Name, made.Register, err, next.Create)
		}
		return err == nil && len(next.Create) > 0
	}
	signedIn := op.Caller{Token: "session", Name: "ada", Role: op.Reviewer, LoggedIn: now}
	if !begins(signedIn) {
		t.Error("who has no key cannot begin with one")
	}
	for i, name := range []string{"ada", "reviewer"} {
		if _, err := e.AddReviewer(ctx, operator, review.Reviewer{Name: name, Kind: review.Ed25519, Public: bytes.Repeat([]byte{byte(i)}, 32)}); err != nil {
			t.Fatal(err)
		}
	}
	late := operator
	late.LoggedIn = now.Add(-6 * time.Minute)
	for what, c := range map[string]struct {
		by   op.Caller
		want bool
	}{"somebody whom a provider signed in": {signedIn, false}, "an operator who signed in just now": {operator, true}, "an operator who signed in before": {late, false}} {
		if begins(c.by) != c.want {
			t.Errorf("%s: registers is not %v", what, c.want)
		}
	}
}
