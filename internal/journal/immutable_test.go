package journal

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// TestTermsRefuseSQL goes past all methods: the database itself must refuse.
func TestTermsRefuseSQL(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	o, a := sample(j, "r"), held(j, "a")
	if err := errors.Join(j.Begin(ctx, o), j.AddApproval(ctx, a), j.AddToken(ctx, Token{ID: "tk_1", Name: "n", Role: op.Agent}, "0123456789abcdef"),
		j.AddRule(ctx, Rule{ID: "ru_1", Kind: GrantRule, Token: "tk_1"})); err != nil {
		t.Fatal(err)
	}
	value := map[string]string{text: "'other'", number: "77", bytes_: "x'77'"}
	for _, tb := range tables {
		t.Run(tb.name, func(t *testing.T) {
			columns := slices.Concat(tb.terms, []column{{"seq", number}, {"digest", bytes_}})
			if !tb.byName {
				columns = append(columns, column{"rowid", number}, column{"oid", number}, column{"_rowid_", number})
			}
			list := "seq, " + names(tb.terms, "?c") + ", digest, " + names(tb.state, "?c") + ", mark"
			replace := fmt.Sprintf("REPLACE INTO %s (%s) SELECT %s FROM %[1]s LIMIT 1", tb.name, list, strings.Replace(list, tb.terms[1].name, value[tb.terms[1].kind], 1))
			attempts := []string{}
			for _, c := range columns {
				attempts = append(attempts, fmt.Sprintf("UPDATE %s SET %s = %s", tb.name, c.name, value[c.kind]),
					fmt.Sprintf("UPDATE OR REPLACE %s SET %s = %s", tb.name, strings.ToUpper(c.name), value[c.kind]))
			}
			if tb.kept {
				attempts = append(attempts, "DELETE FROM "+tb.name, replace, strings.Replace(replace, "REPLACE", "INSERT OR REPLACE", 1),
					fmt.Sprintf("INSERT INTO %[1]s (%[2]s) SELECT %[3]s FROM %[1]s WHERE true ON CONFLICT (%[4]s) DO UPDATE SET %[5]s = excluded.%[5]s", tb.name, list,
						strings.Replace(list, tb.terms[1].name, value[tb.terms[1].kind], 1), tb.terms[0].name, tb.terms[1].name))
			}
			before := dump(t, j, tb)
			for _, sql := range attempts {
				if err := try(j, sql); err == nil || !strings.Contains(err.Error(), "never change") && !strings.Contains(err.Error(), "ever deleted") {
					t.Errorf("%s: %v", sql, err)
				}
			}
			if after := dump(t, j, tb); after != before {
				t.Fatalf("rows changed\n%s\n%s", before, after)
			}
			// Without the guards the same statements go through: the guards are what refuses.
			raw(t, j, "SAVEPOINT without")
			raw(t, j, "DROP TRIGGER "+tb.name+"_terms")
			raw(t, j, attempts[2])
			if tb.kept {
				raw(t, j, "DROP TRIGGER "+tb.name+"_kept")
				raw(t, j, replace)
				raw(t, j, "DELETE FROM "+tb.name)
			}
			raw(t, j, "ROLLBACK TO without")
			raw(t, j, "RELEASE without")
			if after := dump(t, j, tb); after != before {
				t.Fatal("the rows were not put back")
			}
		})
	}
}

func dump(t *testing.T, j *Journal, tb *table) string {
	t.Helper()
	j.w.turn.Lock()
	defer j.w.turn.Unlock()
	rows, err := j.w.conn.QueryContext(context.Background(), tb.selectSQL("ORDER BY seq"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		r, err := j.scan(tb, rows)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%v\n", r)
	}
	return b.String()
}

// TestTermsKeep calls every public method and compares the terms after each.
func TestTermsKeep(t *testing.T) {
	t.Run("I34 no method changes the terms of an approval, an operation or a token", func(t *testing.T) {
		j := fresh(t)
		ctx := context.Background()
		o, a := sample(j, "r1"), held(j, "r2")
		token := Token{ID: "tk_9", Name: "n", Role: op.Agent, Roots: []string{"k"}, Clearance: 2, Created: time.Unix(5, 0).UTC()}
		secret := strings.Repeat("s", 32)
		undo := sample(j, "r3")
		undo.Undoes = o.ID
		again, lost := sample(j, "r4"), sample(j, "r5")
		other := held(j, "r6")
		calls := []struct {
			method string
			do     func() error
		}{
			{"AddApproval", func() error { return j.AddApproval(ctx, a) }},
			{"AddToken", func() error { return j.AddToken(ctx, token, secret) }},
			{"Begin", func() error { return j.Begin(ctx, o) }},
			{"Commit", func() error { return j.Commit(ctx, o.ID, []byte("reply"), "") }},
			{"AddApproval", func() error { // the same ids with other terms
				b := held(j, "r9")
				b.ID, b.Intent = a.ID, "changed"
				return want(j.AddApproval(ctx, b), op.Internal)
			}},
			{"AddToken", func() error {
				return want(j.AddToken(ctx, Token{ID: token.ID, Role: op.Operator}, secret+"x"), op.Exists)
			}},
			{"Begin", func() error {
				p := sample(j, "r10")
				p.ID, p.Intent = o.ID, "changed"
				return want(j.Begin(ctx, p), op.Internal)
			}},
			{"Begin", func() error { return j.Begin(ctx, undo) }},
			{"NoteLate", func() error { return j.NoteLate(ctx, o.ID, []string{"line"}) }},
			{"Commit", func() error { return j.Commit(ctx, undo.ID, nil, o.ID) }},
			{"Begin", func() error { return j.Begin(ctx, again) }},
			{"Abort", func() error { return j.Abort(ctx, again.ID, "stale") }},
			{"Begin", func() error { return j.Begin(ctx, lost) }},
			{"Fail", func() error { return j.Fail(ctx, lost.ID, "why", nil) }},
			{"CommitLater", func() error {
				p := sample(j, "r30")
				err := j.Begin(ctx, p)
				j.CommitLater(p.ID, []byte("reply"))
				return err
			}},
			{"Dropped", func() error { return j.Dropped(ctx, o.ID) }},
			{"Answer", func() error {
				_, err := j.Answer(ctx, a.ID, Answer{Answer: "approve", By: "p", Remember: true, Note: "n", ShownDigest: "x"}, time.Now())
				return err
			}},
			{"Claim", func() error { return j.Claim(ctx, a.ID) }},
			{"Finish", func() error { return j.Finish(ctx, a.ID, Executed, o.ID, []byte("reply")) }},
			{"AddApproval", func() error { return j.AddApproval(ctx, other) }},
			{"Expire", func() error { _, err := j.Expire(ctx, time.Now().Add(time.Minute)); return err }},
			{"Cancel", func() error { _, err := j.Cancel(ctx, other.ID, "p"); return err }},
			{"Expire", func() error { _, err := j.Expire(ctx, time.Now().Add(9*time.Hour)); return err }},
			{"RevokeToken", func() error { return j.RevokeToken(ctx, token.ID) }},
			{"AddRule", func() error { return j.AddRule(ctx, Rule{ID: "ru_1", Kind: GrantRule, Token: token.ID, MaxCount: 1}) }},
			{"UseRule", func() error { return j.UseRule(ctx, "ru_1", 3) }},
			{"UseRule", func() error { return want(j.UseRule(ctx, "ru_1", 3), op.NotAvailable) }},
			{"RevokeRule", func() error { _, err := j.RevokeRule(ctx, "ru_1", "p"); return err }},
			{"PutReceipt", func() error { return j.PutReceipt(ctx, Receipt{Token: "tk_1", RequestID: "r20", Reply: []byte("x")}) }},
			{"Forget", func() error { _, err := j.Forget(ctx, time.Now().Add(time.Hour)); return err }},
			{"ForgetContent", func() error { return j.ForgetContent(ctx, lost.ID, nil) }},
			{"ForgetApproval", func() error {
				_, err := j.ForgetApproval(ctx, other.ID, "p", func(b []byte) []byte { return b })
				return err
			}},
			{"Scrub", func() error { return j.Scrub(ctx) }},
			{"SetMeta", func() error { return j.SetMeta(ctx, "k", "v") }},
			{"PutAudit", func() error { return j.PutAudit(ctx, "k", []byte("line")) }},
			{"ClearAudit", func() error { return j.ClearAudit(ctx, "k", string(a.ID), string(o.ID)) }},
			{"PutBlob", func() error { _, _, err := j.PutBlob(ctx, strings.NewReader("b")); return err }},
			{"DropBlob", func() error { return j.DropBlob(ctx, "blake3:"+op.Digest(strings.Repeat("0", 64))) }},
			{"Check", func() error {
				bad, err := j.Check(ctx)
				if len(bad) > 0 {
					t.Errorf("check: %v", bad)
				}
				return err
			}},
		}
		reading := strings.Fields("Approval Approvals CountApprovals Blob Blobs HasBlob Dir Expired Key Meta NewID Notes Operation Operations CountApprovals Rules RulesFor Outbox Receipt TokenBySecret Tokens Unsettled Basis EachApproval EachOperation WalkOperations FlushTimes NamesSlot Slots Unnamed ChangedSince Sessions Halted")
		known := append([]string{"Close"}, reading...) // reads are called by the comparison or cannot write: their connections are query_only
		for _, c := range calls {
			known = append(known, c.method)
		}
		for m := range reflect.TypeFor[*Journal]().Methods() {
			if !slices.Contains(known, m.Name) {
				t.Errorf("the method %s is not called here", m.Name)
			}
		}
		for i, c := range calls {
			if err := c.do(); err != nil {
				t.Fatalf("%d %s: %v (%v)", i, c.method, err, op.AsError(err).Err)
			}
			compareTerms(t, j, i, a, o, token, secret)
		}
		if err := want(try2(j.readers.ExecContext(ctx, "UPDATE tokens SET revoked = 0")), op.Internal); err != nil {
			t.Error("a reading connection could write")
		}
	})
}

func try2(_ any, err error) error { return err }

// want turns an expected failure into success.
func want(err error, code op.Code) error {
	if err != nil && op.AsError(err).Code == code {
		return nil
	}
	return fmt.Errorf("got %v, want %s", err, code)
}

func compareTerms(t *testing.T, j *Journal, step int, a Approval, o Operation, token Token, secret string) {
	t.Helper()
	ctx := context.Background()
	if got, err := j.Approval(ctx, a.ID); err == nil {
		got.State, got.Answer, got.Operation, got.CancelledBy, got.Reply, got.Changed, got.Seq = "", nil, "", "", nil, time.Time{}, 0
		if !reflect.DeepEqual(got, a) {
			t.Fatalf("step %d: approval\ngot  %+v\nwant %+v", step, got, a)
		}
	} else {
		t.Fatal(err)
	}
	if got, err := j.Operation(ctx, o.ID); err == nil {
		got.State, got.UndoneBy, got.Why, got.Late, got.Reply, got.Dropped, got.Seq = "", "", "", nil, nil, false, 0
		if !reflect.DeepEqual(got, o) {
			t.Fatalf("step %d: operation\ngot  %+v\nwant %+v", step, got, o)
		}
	} else if step >= 2 {
		t.Fatal(err)
	}
	list, err := j.Tokens(ctx)
	if step >= 1 && (err != nil || len(list) != 1) {
		t.Fatal(list, err)
	}
	if len(list) == 1 {
		list[0].Revoked = false
		if !reflect.DeepEqual(list[0], token) {
			t.Fatalf("step %d: token %+v", step, list[0])
		}
	}
}
