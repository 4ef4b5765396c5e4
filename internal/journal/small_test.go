package journal

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

func TestTokens(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	now := time.Unix(1700000000, 0).UTC()
	tok := Token{ID: "tk_a", Name: "ci", Role: op.Agent, Roots: []string{"k1", "k2"}, Workflow: "w", Profile: "p", Clearance: 3, Created: now, Expires: now.Add(time.Hour), SocketOnly: true}
	secret := strings.Repeat("secret", 6)
	if err := j.AddToken(ctx, tok, secret); err != nil {
		t.Fatal(err)
	}
	if got, err := j.TokenBySecret(ctx, secret, now); err != nil || !reflect.DeepEqual(got, tok) {
		t.Fatalf("%+v %v", got, err)
	}
	far := Token{ID: "tk_far", Expires: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	if err := j.AddToken(ctx, far, secret+"far"); err != nil {
		t.Fatal(err)
	}
	if _, err := j.TokenBySecret(ctx, secret+"far", now); err != nil {
		t.Errorf("a token with a far end: %v", err)
	}
	if err := want(j.AddToken(ctx, Token{ID: "tk_b"}, secret), op.Exists); err != nil {
		t.Error(err)
	}
	if err := want(j.AddToken(ctx, Token{ID: "tk_c"}, "short"), op.Internal); err != nil {
		t.Error(err)
	}
	refusal := func(secret string, at time.Time) string {
		got, err := j.TokenBySecret(ctx, secret, at)
		if !errors.Is(err, op.Unauthenticated) || !reflect.DeepEqual(got, Token{}) {
			t.Fatalf("%+v %v", got, err)
		}
		return err.Error()
	}
	words := []string{refusal("", now), refusal(secret+"x", now), refusal(secret, now.Add(time.Hour))}
	if err := j.RevokeToken(ctx, tok.ID); err != nil {
		t.Fatal(err)
	}
	words = append(words, refusal(secret, now))
	for _, w := range words {
		if w != words[0] {
			t.Errorf("refusals differ: %q", words)
		}
	}
	if err := want(j.RevokeToken(ctx, "tk_none"), op.NotFound); err != nil {
		t.Error(err)
	}
	j.Close()
	for path, bytes := range content(t, j.Dir()) {
		if strings.Contains(bytes, secret) {
			t.Errorf("%s holds the secret", path)
		}
	}
}

func TestMetaAndOutbox(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	if v, err := j.Meta(ctx, "absent"); v != "" || err != nil {
		t.Fatal(v, err)
	}
	if err := errors.Join(j.SetMeta(ctx, "k", "one"), j.SetMeta(ctx, "k", "two")); err != nil {
		t.Fatal(err)
	}
	if v, err := j.Meta(ctx, "k"); v != "two" || err != nil {
		t.Fatal(v, err)
	}
	if err := want(j.SetMeta(ctx, identityMeta, "x"), op.Internal); err != nil {
		t.Error(err)
	}
	o, a := sample(j, ""), held(j, "")
	o.AuditLine, a.AuditKey, a.AuditLine = []byte("call"), "key of a", []byte("hold")
	begun(t, j, o)
	added(t, j, a)
	refusedOne := sample(j, "")
	refusedOne.ID, refusedOne.AuditKey, refusedOne.AuditLine = o.ID, "not there", []byte("x")
	if err := want(j.Begin(ctx, refusedOne), op.Internal); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.PutAudit(ctx, "third", []byte("end")), j.PutAudit(ctx, string(o.ID), []byte("call, better"))); err != nil {
		t.Fatal(err)
	}
	check := func(want []AuditEntry) {
		t.Helper()
		if got, err := j.Outbox(ctx); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q %v", got, err)
		}
	}
	check([]AuditEntry{{string(o.ID), []byte("call, better")}, {"key of a", []byte("hold")}, {"third", []byte("end")}})
	if err := j.ClearAudit(ctx, string(o.ID), "third", "absent"); err != nil {
		t.Fatal(err)
	}
	check([]AuditEntry{{"key of a", []byte("hold")}})
}

func TestBlobs(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	d, n, err := j.PutBlob(ctx, strings.NewReader("some bytes"))
	if err != nil || n != 10 || len(d) != len("blake3:")+64 {
		t.Fatal(d, n, err)
	}
	if b, err := j.Blob(ctx, d); string(b) != "some bytes" || err != nil {
		t.Fatal(string(b), err)
	}
	file := filepath.Join(j.Dir(), blobsName, strings.TrimPrefix(string(d), "blake3:"))
	if err := os.WriteFile(file, []byte("some bytez"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Blob(ctx, d); !errors.Is(err, op.StateCorrupt) {
		t.Fatal(err)
	}
	if bad, err := j.Check(ctx); err != nil || len(bad) != 1 || !strings.Contains(bad[0], string(d)) {
		t.Fatal(bad, err)
	}
	if again, _, err := j.PutBlob(ctx, strings.NewReader("some bytes")); again != d || err != nil {
		t.Fatal(again, err)
	}
	if b, err := j.Blob(ctx, d); string(b) != "some bytes" || err != nil {
		t.Fatal("keeping the same bytes again did not mend them")
	}
	if all, err := j.Blobs(ctx); err != nil || len(all) != 1 || all[d] != 10 || !j.HasBlob(d) {
		t.Fatal(all, err)
	}
	broken := errors.New("source broke")
	if _, _, err := j.PutBlob(ctx, failing{broken}); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := errors.Join(j.DropBlob(ctx, d), j.DropBlob(ctx, d)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []op.Digest{d, "", "blake3:../key", "blake3:" + op.Digest(strings.Repeat("A", 64))} {
		if _, err := j.Blob(ctx, bad); !errors.Is(err, op.NotFound) || j.HasBlob(bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(j.Dir(), blobsName)); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	half := filepath.Join(j.Dir(), blobsName, tempMark+"half")
	if err := os.WriteFile(half, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := j.Dir()
	j.Close()
	defer open(t, dir).Close()
	if _, err := os.Lstat(half); err == nil {
		t.Error("a half-written blob stayed")
	}
}

type failing struct{ err error }

func (f failing) Read(p []byte) (int, error) { return copy(p, "x"), f.err }

func TestClosed(t *testing.T) {
	j := fresh(t)
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	if err := want(j.Begin(t.Context(), sample(j, "")), op.NotReady); err != nil {
		t.Error(err)
	}
	if _, err := j.Operations(t.Context(), Filter{}); err == nil {
		t.Error("a closed journal was read")
	}
}

// TestCloseWhileWriting ends the journal under many writers: what was acknowledged is
// there, and nobody hangs.
func TestCloseWhileWriting(t *testing.T) {
	j := fresh(t)
	acked := make([][]op.ID, 16)
	codes := tally(17, func(i int) error {
		if i == 16 {
			time.Sleep(20 * time.Millisecond)
			return j.Close()
		}
		for {
			o := sample(j, "")
			if err := j.Begin(t.Context(), o); err != nil {
				return err
			}
			acked[i] = append(acked[i], o.ID)
		}
	})
	if codes[""] != 1 || codes[op.NotReady] != 16 {
		t.Fatalf("got %v", codes)
	}
	again := open(t, j.Dir())
	defer again.Close()
	n := 0
	for _, ids := range acked {
		for _, id := range ids {
			n++
			if _, err := again.Operation(t.Context(), id); err != nil {
				t.Errorf("acknowledged, not there: %v", err)
			}
		}
	}
	if all, err := again.Operations(t.Context(), Filter{}); err != nil || len(all) != n {
		t.Errorf("%d rows, %d acknowledged, %v", len(all), n, err)
	}
}
