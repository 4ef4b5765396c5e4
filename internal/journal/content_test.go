package journal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// leaks lists the files of a state that hold a text.
func leaks(t *testing.T, dir, secret string) (where []string) {
	t.Helper()
	filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(secret)) {
				where = append(where, filepath.Base(p))
			}
		}
		return nil
	})
	return where
}

// TestForgetApproval ends the content of approvals, also of such that an older program wrote.
func TestForgetApproval(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	ctx := context.Background()
	bare := func([]byte) []byte { return []byte("bare") }
	row := func(j *Journal, request string) Approval {
		a := held(j, request)
		a.Request = []byte(`{"content":"` + strings.Repeat(secret+" ", 400) + `"}`)
		a.Card = []byte(`{"title":"T","diff":"` + strings.Repeat(secret+" ", 900) + `"}`)
		return a
	}
	same := func(t *testing.T, j *Journal, want Approval) {
		t.Helper()
		got, err := j.Approval(ctx, want.ID)
		if err != nil || got.Forgotten || !bytes.Equal(got.Request, want.Request) || !bytes.Equal(got.Card, want.Card) || got.Intent != want.Intent {
			t.Fatalf("got %.200v %v", got, err)
		}
	}
	gone := func(t *testing.T, j *Journal, id op.ID, state string) {
		t.Helper()
		got, err := j.Approval(ctx, id)
		if err != nil || !got.Forgotten || got.Request != nil || got.Card != nil || got.State != state {
			t.Fatalf("got %.200v %v", got, err)
		}
	}
	ended := func(t *testing.T, j *Journal, a Approval) {
		t.Helper()
		_, err := j.Answer(ctx, a.ID, Answer{Answer: "approve", By: "p", Token: "tk_2"}, time.Now())
		if err := errors.Join(err, j.Claim(ctx, a.ID)); err != nil {
			t.Fatal(err)
		}
		if _, err := j.ForgetApproval(ctx, a.ID, "o", bare); !errors.Is(err, op.BusyWriter) {
			t.Fatalf("while it runs: %v", err)
		}
		if err := j.Finish(ctx, a.ID, Executed, "", []byte(secret)); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("what a card showed is in no file afterwards, and the terms stay", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		j := open(t, dir)
		var all []Approval
		for i := range 30 { // so that pages split and rows move
			a := row(j, "")
			a.RequestID = string(rune('a' + i))
			if err := j.AddApproval(ctx, a); err != nil {
				t.Fatal(err)
			}
			same(t, j, a)
			all = append(all, a)
		}
		ended(t, j, all[0])
		if len(leaks(t, dir, secret)) == 0 {
			t.Fatal("nothing to forget: the test shows nothing")
		}
		for i, a := range all {
			out, err := j.ForgetApproval(ctx, a.ID, "o", bare)
			if err != nil || i == 0 && string(out.Reply) != "bare" {
				t.Fatalf("%v %q", err, out.Reply)
			}
		}
		if err := j.Scrub(ctx); err != nil {
			t.Fatal(err)
		}
		if where := leaks(t, dir, secret); len(where) > 0 {
			t.Fatalf("still in %v", where)
		}
		gone(t, j, all[0].ID, Executed)
		gone(t, j, all[1].ID, Cancelled)
		if _, err := j.Answer(ctx, all[1].ID, Answer{Answer: "approve", By: "p", Token: "tk_2"}, time.Now()); !errors.Is(err, op.Cancelled) {
			t.Errorf("an approval of it: %v", err)
		}
		if bad, err := j.Check(ctx); err != nil || len(bad) > 0 {
			t.Errorf("check: %v %v", bad, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open(t, dir)
		defer j.Close()
		gone(t, j, all[2].ID, Cancelled)
	})

	t.Run("only the key can make content look forgotten, and nothing makes it another", func(t *testing.T) {
		j := fresh(t)
		a := row(j, "r")
		if err := j.AddApproval(ctx, a); err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{"UPDATE approval_content SET card = x'77'", "UPDATE approval_content SET request = x'77', card = x''", "DELETE FROM approval_content",
			"REPLACE INTO approval_content (seq, request, card, digest) SELECT seq, x'77', card, digest FROM approval_content"} {
			if err := try(j, q); err == nil {
				t.Errorf("%s: went through", q)
			}
		}
		same(t, j, a)
		raw(t, j, "UPDATE approval_content SET request = x'', card = x''")
		if _, err := j.Approval(ctx, a.ID); !errors.Is(err, op.StateCorrupt) {
			t.Errorf("emptied by hand: %v", err)
		}
		if bad, err := j.Check(ctx); err != nil || len(bad) == 0 {
			t.Errorf("check does not name it: %v", err)
		}
	})

	t.Run("content that schema 3 has in its terms is parted from them, and can be forgotten", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		j := open(t, dir)
		a, b := row(j, "r1"), row(j, "r2")
		if err := errors.Join(j.AddApproval(ctx, a), j.AddApproval(ctx, b)); err != nil {
			t.Fatal(err)
		}
		ended(t, j, a)
		raw(t, j, "DROP TRIGGER approvals_terms")
		for i, x := range []Approval{a, b} { // as schema 3 wrote them
			r := row3(t, j, x)
			raw(t, j, "UPDATE approvals SET request = ?, card = ?, digest = ? WHERE seq = ?", x.Request, x.Card, j.termsDigest(approvals, r), i+1)
		}
		raw(t, j, "DROP TABLE approval_content")
		raw(t, j, approvals.termsTrigger())
		raw(t, j, "DROP TABLE op_snapshots")
		raw(t, j, "PRAGMA user_version = 3")
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open(t, dir)
		defer j.Close()
		same(t, j, a)
		same(t, j, b)
		if bad, err := j.Check(ctx); err != nil || len(bad) > 0 {
			t.Fatalf("check: %v %v", bad, err)
		}
		for _, x := range []Approval{a, b} {
			if _, err := j.ForgetApproval(ctx, x.ID, "o", bare); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Scrub(ctx); err != nil {
			t.Fatal(err)
		}
		if where := leaks(t, dir, secret); len(where) > 0 {
			t.Fatalf("still in %v", where)
		}
		gone(t, j, a.ID, Executed)
		gone(t, j, b.ID, Cancelled)
	})
}

// row3 gives a row with the content in its terms.
func row3(t *testing.T, j *Journal, a Approval) row {
	t.Helper()
	r, err := j.one(context.Background(), approvals, string(a.ID))
	if err != nil {
		t.Fatal(err)
	}
	have, err := approvalOf(r)
	if err != nil {
		t.Fatal(err)
	}
	have.Request, have.Card = a.Request, a.Card
	r.terms = have.terms()
	return r
}
