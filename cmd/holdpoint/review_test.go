package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"holdpoint/op"
)

// reviewDaemon holds one card. It answers only reviewers, as the contract says.
func reviewDaemon(t *testing.T, card string) *fake {
	f := newFake(t)
	reviewer := func(r *http.Request) bool {
		t := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		return t == "operator-secret" || t == "login-secret"
	}
	forbidden := `{"error":{"code":"forbidden","message":"this needs a reviewer"}}`
	f.mux.HandleFunc("GET /v1/approvals", func(w http.ResponseWriter, r *http.Request) {
		if !reviewer(r) {
			send(w, 403, forbidden)
			return
		}
		send(w, 200, `{"approvals":[`+card+`]}`)
	})
	f.mux.HandleFunc("GET /v1/approvals/ap_1", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("wait") != "":
			send(w, 200, `{"id":"ap_1","state":"executed","note":"","reply":`+doneDelete+`}`)
		case !reviewer(r):
			send(w, 200, `{"id":"ap_1","state":"pending","note":"","reply":null}`)
		default:
			send(w, 200, `{"id":"ap_1","state":"pending","note":"","reply":null,"card":`+card+`}`)
		}
	})
	f.mux.HandleFunc("GET /v1/approvals/ap_1/reach", func(w http.ResponseWriter, r *http.Request) {
		send(w, 200, `{"logged":9,"covered":3,"rejected":1,"turned_down":[{"id":"ap_0","by":"ann","note":"never that one"}]}`)
	})
	f.mux.HandleFunc("POST /v1/approvals/ap_1/answer", func(w http.ResponseWriter, r *http.Request) {
		if !reviewer(r) {
			send(w, 403, forbidden)
			return
		}
		var body struct{ Answer string }
		json.NewDecoder(r.Body).Decode(&body)
		if body.Answer == "reject" {
			send(w, 200, `{"id":"ap_1","state":"rejected","note":"no"}`)
			return
		}
		send(w, 200, `{"id":"ap_1","state":"executing","note":"","reply":null}`)
	})
	f.mux.HandleFunc("POST /v1/login", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Passphrase string }
		json.NewDecoder(r.Body).Decode(&body)
		if body.Passphrase != "open sesame" || r.Header.Get("Authorization") != "" {
			send(w, 401, `{"error":{"code":"unauthenticated","message":"wrong passphrase"}}`)
			return
		}
		send(w, 200, `{"token":"login-secret","role":"reviewer","expires_at":"2099-01-01T00:00:00Z"}`)
	})
	return f
}

// answers counts what reached the daemon as an answer.
func (f *fake) answers() (n int) {
	for _, r := range f.requests() {
		if strings.HasSuffix(r.path, "/answer") && r.token != "agent-secret" {
			n++
		}
	}
	return n
}

func TestApproveOnATerminal(t *testing.T) {
	pass := [2]string{"Reviewer's passphrase: ", "open sesame\r"}
	ask := "Delete 1 file? Type yes to approve: "
	t.Run("I87 approving asks once more with the same words and rejecting does not", func(t *testing.T) {
		f := reviewDaemon(t, theCard)
		r := f.terminal(nil, [][2]string{pass, {ask, "yes\r"}}, "review", "approve", "ap_1")
		r.wants(t, 0, "Delete 1 file", "delete a (file, 3 bytes)", "destructive_operation", "  | -hi", `"clean up"`, "30 days", "expires in", "Approved", "holdpoint undo op_1")
		if strings.Contains(r.out, "open sesame") {
			t.Errorf("the passphrase was shown: %q", r.out)
		}
		sameJSON(t, f.last("/v1/approvals/ap_1/answer").body, `{"answer":"approve","remember":false,"note":"","shown_digest":"blake3:abc"}`)
		r = f.terminal(nil, [][2]string{pass}, "review", "reject", "ap_1", "--note", "not that one").wants(t, 0, "Rejected: Delete 1 file")
		if strings.Contains(r.out, "Type yes") {
			t.Errorf("reject asked: %q", r.out)
		}
		sameJSON(t, f.last("/v1/approvals/ap_1/answer").body, `{"answer":"reject","remember":false,"note":"not that one","shown_digest":"blake3:abc"}`)
	})
	t.Run("I91 a single key does not approve", func(t *testing.T) {
		f := reviewDaemon(t, theCard)
		for _, typed := range []string{"y\r", "\r", "Y\r", "yess\r", "no\r", "\x04"} {
			f.terminal([]string{"HOLDPOINT_REVIEW_PASSPHRASE=open sesame"}, [][2]string{{ask, typed}}, "review", "approve", "ap_1").wants(t, 3, "still waits")
		}
		// The kernel may throw away what is written around an interrupt, so only the outcome counts.
		f.terminal([]string{"HOLDPOINT_REVIEW_PASSPHRASE=open sesame"}, [][2]string{{ask, "yes\x03"}}, "review", "approve", "ap_1").wants(t, 3)
		if f.answers() != 0 {
			t.Error("something was answered")
		}
	})
	t.Run("the interrupt key ends the prompts", func(t *testing.T) {
		f := reviewDaemon(t, theCard)
		f.terminal(nil, [][2]string{{pass[0], "op\x03"}}, "review", "approve", "ap_1").wants(t, 1, "interrupted")
		f.terminal(nil, [][2]string{{pass[0], "\r"}}, "review", "approve", "ap_1").wants(t, 2, "HOLDPOINT_REVIEW_PASSPHRASE")
		if f.answers() != 0 {
			t.Error("something was answered")
		}
	})
	t.Run("a wrong passphrase may be typed again", func(t *testing.T) {
		f := reviewDaemon(t, theCard)
		f.terminal(nil, [][2]string{{pass[0], "wrong\r"}, pass, {ask, "yes\r"}}, "review", "approve", "ap_1").wants(t, 0, "Not taken: wrong passphrase")
		f.terminal(nil, [][2]string{{pass[0], "a\r"}, {pass[0], "b\r"}, {pass[0], "c\r"}}, "review", "reject", "ap_1").wants(t, 4, "unauthenticated")
	})
	t.Run("I88 the exact call is shown when asked for", func(t *testing.T) {
		f := reviewDaemon(t, theCard)
		f.secret("operator", "operator-secret")
		call := `{"op":"delete_file","args":{"path":"a"}}`
		if r := f.process("review", "show", "ap_1").wants(t, 0); strings.Contains(r.out, call) {
			t.Errorf("shown unasked: %s", r.out)
		}
		f.process("review", "show", "ap_1", "--exact").wants(t, 0, call)
	})
}

func TestWhatDestroysAsks(t *testing.T) {
	for name, c := range map[string]struct {
		edit [2]string
		want bool
	}{
		"delete":             {[2]string{"", ""}, true},
		"an edit":            {[2]string{`"op":"delete_file","tier":"T4"`, `"op":"edit_file","tier":"T2"`}, false},
		"a process":          {[2]string{`"op":"delete_file","tier":"T4"`, `"op":"workspace_shell","tier":"T3"`}, false},
		"a deleting process": {[2]string{`"op":"delete_file","tier":"T4"`, `"op":"workspace_shell","tier":"T4"`}, true},
		"the daemon says so": {[2]string{`"op":"delete_file","tier":"T4"`, `"op":"edit_file","tier":"T2","effect":"destructive"`}, true},
		"a write":            {[2]string{`"op":"delete_file","tier":"T4"`, `"op":"edit_file","tier":"T2","effect":"write"`}, false},
		"no tier":            {[2]string{`"op":"delete_file","tier":"T4"`, `"op":"edit_file"`}, true},
		"an unknown act":     {[2]string{`"op":"delete_file","tier":"T4"`, `"op":"newer","tier":"T2"`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := reviewDaemon(t, strings.Replace(theCard, c.edit[0], c.edit[1], 1))
			f.secret("operator", "operator-secret")
			r := f.runWith(with{tty: true, in: "no\n"}, "review", "approve", "ap_1")
			if asked := strings.Contains(r.err, "Type yes"); asked != c.want || (f.answers() == 0) != c.want {
				t.Errorf("asked %v, answers %d; %q", asked, f.answers(), r.err)
			}
		})
	}
}

func TestApproveWithoutATerminal(t *testing.T) {
	f := reviewDaemon(t, theCard)
	f.run("review", "approve", "ap_1").wants(t, 2, "HOLDPOINT_REVIEW_PASSPHRASE")
	env := map[string]string{"HOLDPOINT_REVIEW_PASSPHRASE": "open sesame"}
	r := f.runWith(with{env: env}, "review", "approve", "ap_1", "--json", "--remember", "--note", "go").wants(t, 0)
	// What the rule would have covered is said before it is made, what was turned down by name.
	if r.wants(t, 0, "3 run", "people turned 1", "ap_0", "ann", "never that one"); f.last("/v1/approvals/ap_1/reach").path == "" {
		t.Error("the reach was not asked for")
	}
	sameJSON(t, r.out, doneDelete)
	sameJSON(t, f.last("/v1/approvals/ap_1/answer").body, `{"answer":"approve","remember":true,"note":"go","shown_digest":"blake3:abc"}`)
	// On a terminal --json is the second step as well.
	f.runWith(with{env: env, tty: true}, "review", "approve", "ap_1", "--json").wants(t, 0)

	r = f.runWith(with{env: env}, "review", "list", "--json").wants(t, 0)
	sameJSON(t, r.out, `[`+theCard+`]`)
	f.runWith(with{env: env}, "review", "list").wants(t, 0, "ap_1", "T4", "Delete 1 file", "expires in", "delete a (file, 3 bytes)")
	f.runWith(with{env: env}, "review").wants(t, 0, "ap_1")
	sameJSON(t, f.runWith(with{env: env}, "review", "show", "ap_1", "--json").wants(t, 0).out, theCard)
	f.runWith(with{env: map[string]string{"HOLDPOINT_REVIEW_PASSPHRASE": "wrong"}}, "review", "list").wants(t, 4, "was not taken")
}

func TestWhoAnswers(t *testing.T) {
	f := reviewDaemon(t, theCard)
	t.Run("an agent's token cannot", func(t *testing.T) {
		f.runWith(with{env: map[string]string{"HOLDPOINT_TOKEN": "agent-secret"}}, "review", "approve", "ap_1").wants(t, 4, "forbidden", "HOLDPOINT_REVIEW_PASSPHRASE")
		if f.answers() != 0 {
			t.Error("answered")
		}
	})
	t.Run("an agent's token and the passphrase can", func(t *testing.T) {
		f.runWith(with{env: map[string]string{"HOLDPOINT_TOKEN": "agent-secret", "HOLDPOINT_REVIEW_PASSPHRASE": "open sesame"}}, "review", "approve", "ap_1").wants(t, 0)
		if got := f.last("/v1/approvals/ap_1/answer").token; got != "login-secret" {
			t.Errorf("token %q", got)
		}
	})
	t.Run("a reviewer's own token is used as it is", func(t *testing.T) {
		f.runWith(with{env: map[string]string{"HOLDPOINT_TOKEN": "operator-secret"}}, "review", "reject", "ap_1").wants(t, 0)
		if got := f.last("/v1/approvals/ap_1/answer").token; got != "operator-secret" {
			t.Errorf("token %q", got)
		}
	})
	t.Run("the operator's token file of review-auth=token", func(t *testing.T) {
		f.secret("operator", "operator-secret")
		f.run("review", "reject", "ap_1").wants(t, 0)
	})
}

func TestApproveSaysHowItEnded(t *testing.T) {
	for code, want := range map[op.Code]int{op.Stale: 5, op.NotFound: 6, op.Expired: 7} {
		f := newFake(t)
		f.secret("operator", "operator-secret")
		f.answer("GET /v1/approvals/ap_1", 200, `{"id":"ap_1","state":"pending","card":`+theCard+`}`)
		f.answer("POST /v1/approvals/ap_1/answer", 200, `{"id":"ap_1","state":"failed","reply":{"status":"failed","op":"delete_file","effects":[],"effects_executed":false,"error":{"code":"`+string(code)+`","message":"m"}}}`)
		f.run("review", "approve", "ap_1").wants(t, want, string(code))
	}
	f := newFake(t)
	f.secret("operator", "operator-secret")
	f.answer("GET /v1/approvals/ap_1", 200, `{"id":"ap_1","state":"rejected","card":`+theCard+`}`)
	f.answer("POST /v1/approvals/ap_1/answer", 409, `{"error":{"code":"already_answered","message":"rejected before"}}`)
	f.run("review", "approve", "ap_1").wants(t, 5, "already_answered")
}
