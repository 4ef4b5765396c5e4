package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/audit"
	"holdpoint/op"
)

func TestSecretsStayOffTheCommandLine(t *testing.T) {
	t.Run("S80 a token flag is refused and not repeated", func(t *testing.T) {
		f := newFake(t)
		f.answer("POST /v1/call", 200, doneDelete)
		for _, args := range [][]string{
			{"call", "delete_file", "path=a", "--token", "c4n4ry"}, {"--token=c4n4ry", "call", "delete_file", "path=a"}, {"status", "--token"},
			{"review", "approve", "ap_1", "--passphrase", "c4n4ry"}, {"token", "list", "--passphrase=c4n4ry", "--json"},
		} {
			r := f.process(args...).wants(t, 2, "--token-file", "HOLDPOINT_TOKEN", "HOLDPOINT_REVIEW_PASSPHRASE")
			if strings.Contains(r.out+r.err, "c4n4ry") {
				t.Errorf("%q repeats the secret: %q %q", args, r.out, r.err)
			}
		}
		if n := len(f.requests()); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
		c := f.command("call", "delete_file", "path=a", "--token-file", "/dev/fd/3")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c.ExtraFiles = []*os.File{r}
		w.WriteString("by-descriptor\n")
		w.Close()
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		r.Close()
		if got := f.last("/v1/call").token; got != "by-descriptor" {
			t.Errorf("token %q", got)
		}
	})
}

func TestTokens(t *testing.T) {
	f := newFake(t)
	f.answer("POST /v1/call", 200, doneDelete)
	file := filepath.Join(f.dir, "mine")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.runWith(with{env: map[string]string{"HOLDPOINT_TOKEN": "from-env"}}, "call", "delete_file", "path=a", "--token-file", file).wants(t, 0)
	if got := f.last("/v1/call").token; got != "from-file" {
		t.Errorf("token %q", got)
	}
	r := f.runWith(with{env: map[string]string{"HOLDPOINT_TOKEN": "two\r\nlines-c4n4ry"}}, "call", "delete_file", "path=a").wants(t, 6, "does not hold one token")
	if strings.Contains(r.out+r.err, "c4n4ry") {
		t.Errorf("the secret is shown: %q", r.err)
	}
	os.Remove(filepath.Join(f.dir, "tokens", "agent"))
	f.run("call", "delete_file", "path=a").wants(t, 2, "HOLDPOINT_TOKEN", "tokens/agent")

	f.answer("POST /v1/tokens", 200, `{"id":"tk_1","token":"s3cret","role":"agent"}`)
	f.answer("GET /v1/status", 200, `{"roots":[{"name":"app","key":"k1","dir":"/nowhere"}]}`)
	f.secret("operator", "operator-secret")
	create := []string{"token", "create", "--role", "agent", "--name", "ci", "--root", "app", "--workflow", "nightly", "--profile", "p", "--expires", "30d"}
	r = f.run(create...).wants(t, 0, "shown this once")
	if r.out != "s3cret\n" {
		t.Errorf("standard output is not the token alone: %q", r.out)
	}
	sameJSON(t, f.last("/v1/tokens").body, `{"role":"agent","name":"ci","roots":["k1"],"workflow":"nightly","profile":"p","expires":"720h0m0s"}`)
	sameJSON(t, f.run(append(create, "--json")...).wants(t, 0).out, `{"id":"tk_1","token":"s3cret","role":"agent"}`)
}

func TestSocketRule(t *testing.T) {
	for _, c := range []struct {
		socket, state string
		env           map[string]string
		want          string
		named         bool
	}{
		{"/x.sock", "/s", map[string]string{"HOLDPOINT_SOCKET": "/y.sock"}, "/x.sock", true},
		{"", "/s", map[string]string{"HOLDPOINT_SOCKET": "/y.sock"}, "/y.sock", true},
		{"", "/s", map[string]string{"HOLDPOINT_STATE": "/t", "XDG_RUNTIME_DIR": "/run/u"}, "/s/holdpoint.sock", false},
		{"", "", map[string]string{"HOLDPOINT_STATE": "/t", "XDG_RUNTIME_DIR": "/run/u"}, "/t/holdpoint.sock", false},
		{"", "", map[string]string{"XDG_RUNTIME_DIR": "/run/u"}, "/run/u/holdpoint/holdpoint.sock", false},
	} {
		got, named := SocketPath(c.socket, c.state, func(k string) string { return c.env[k] })
		if got != c.want || named != c.named {
			t.Errorf("%+v: got %s, %v", c, got, named)
		}
	}
	env := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
	if got := DefaultSocket(env(nil)); !strings.HasPrefix(got, "/tmp/holdpoint-") {
		t.Errorf("got %s", got)
	}
	if got := DefaultState(env(map[string]string{"HOME": "/h", "XDG_STATE_HOME": "relative"})); got != "/h/.local/state/holdpoint" {
		t.Errorf("got %s", got)
	}
	if got := StatePath("", env(map[string]string{"XDG_STATE_HOME": "/x", "HOLDPOINT_STATE": "/y"})); got != "/y" {
		t.Errorf("got %s", got)
	}
}

// A socket that somebody else could have put there gets no token and no passphrase.
func TestForeignSocketDirectory(t *testing.T) {
	f := newFake(t)
	f.answer("POST /v1/call", 200, doneDelete)
	f.run("call", "delete_file", "path=a").wants(t, 0)
	before := len(f.requests())
	if err := os.Chmod(f.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f.run("call", "delete_file", "path=a").wants(t, 1, "state_unsafe")
	if len(f.requests()) != before {
		t.Error("the token was sent")
	}
	// Named by the caller, it is the caller's choice.
	f.run("call", "delete_file", "path=a", "--socket", f.socket).wants(t, 0)
	if err := os.Chmod(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Log("giving the directory to another user needs root; only its mode was tried")
		return
	}
	if err := os.Chown(f.dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	f.run("call", "delete_file", "path=a").wants(t, 1, "state_unsafe")
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"HOLDPOINT_STATE": dir, "HOLDPOINT_TOKEN": "t"}
	runLine(t, with{env: env}, "status").wants(t, 1, "not_ready", "no daemon answers at "+dir, "holdpoint serve", "--state "+dir)
	runLine(t, with{env: env}, "status", "--socket", "/"+strings.Repeat("x", 200)).wants(t, 6, "invalid_path", "107")
	r := runLine(t, with{env: env}, "call", "view_file", "path=a", "--json").wants(t, 1)
	if reply, err := parseReply([]byte(r.out)); err != nil || reply.Status != op.Failed || reply.Error.Code != op.NotReady {
		t.Errorf("%v: %s", err, r.out)
	}
}

// A connection that ends before the answer leaves the outcome open, and the words say so.
func TestBrokenConnection(t *testing.T) {
	f := newFake(t)
	f.mux.HandleFunc("POST /v1/call", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	f.run("call", "delete_file", "path=a").wants(t, 1, "not_ready", "holdpoint log", "--request-id")
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	f := newFake(t)
	f.mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	f.run("status").wants(t, 1)
	for _, r := range f.requests() {
		if r.path == "/elsewhere" {
			t.Error("the token went elsewhere")
		}
	}
}

func TestStatusAndRoots(t *testing.T) {
	f := newFake(t)
	f.secret("operator", "operator-secret")
	status := `{"version":"1","roots":[{"name":"app","key":"k1","dir":"` + f.dir + `","store":"beside","ready":true}],"review_auth":"token",
		"warnings":["programs of the same user can approve"],"pending":2,"policy":{"state":"ok","file":"p.json"}}`
	f.answer("GET /v1/status", 200, status)
	f.run("status").wants(t, 0, "2 cards", "holdpoint review list", "app", "ready", "store beside", "same user can approve", "p.json")
	sameJSON(t, f.run("status", "--json").wants(t, 0).out, status)
	f.answer("POST /v1/roots", 200, `{"name":"new","key":"k2","dir":"`+f.dir+`"}`)
	f.answer("DELETE /v1/roots/k1", 200, `{}`)
	f.run("root", "add", "new="+f.dir).wants(t, 0, "as new")
	if got := f.last("/v1/roots"); got.token != "operator-secret" || !strings.Contains(got.body, `"dir":"`+f.dir+`"`) {
		t.Errorf("got %v", got)
	}
	f.run("root", "add", "/no/such/dir").wants(t, 2, "no directory")
	f.run("root", "remove", f.dir).wants(t, 0, "untouched")
	f.run("root", "list").wants(t, 0, "app")
}

func TestPolicyFiles(t *testing.T) {
	rows := `{"name":"r","request":{"op":"view_file"},"profile":{"allow_read":true,"mode":"auto"},"facts":{},"environment":{}}`
	runLine(t, with{in: rows}, "policy", "judge").wants(t, 0, `"reason":"read_only"`)
	runLine(t, with{in: rows}, "policy", "judge", "-").wants(t, 0, `"reason":"read_only"`)
	runLine(t, with{in: `{"nonsense":1}`}, "policy", "judge").wants(t, 6, "line 1", "nonsense")
	runLine(t, with{}, "policy", "judge", "/no/such/file").wants(t, 2)

	dir, err := os.MkdirTemp(homeless(t), "policy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	good := `{"policies":[{"id":"nightly","workflow_ids":["w"],"operations":["delete_file"],"roots":["/srv/app"]}]}`
	file := filepath.Join(dir, "policy.json")
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	runLine(t, with{}, "policy", "check", file).wants(t, 0, "policies: 1", "nightly", "delete_file", "no daemon answered")
	runLine(t, with{in: good}, "policy", "check", "-").wants(t, 0, "nightly")
	runLine(t, with{in: `{"policies":[{"id":"x"}]}`}, "policy", "check", "-").wants(t, 6, "policy_invalid")
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	runLine(t, with{}, "policy", "check", file).wants(t, 6, "policy_unsafe_permissions")
}

// homeless is a directory that others cannot write, unlike the usual temporary one.
func homeless(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return home
}

func TestAuditWithoutADaemon(t *testing.T) {
	state := t.TempDir()
	env := map[string]string{"HOLDPOINT_STATE": state}
	runLine(t, with{env: env}, "audit", "verify").wants(t, 6, "not_found")
	l, err := audit.Open(filepath.Join(state, "audit"), make([]byte, 32), audit.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Append(audit.Record{Kind: audit.Call, Tool: op.EditFile, Decision: audit.AutoExecute, Reason: op.ReasonLowImpact}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	runLine(t, with{env: env}, "audit", "verify").wants(t, 0, "3 records in order")
	file := filepath.Join(state, "audit", audit.FileName)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	runLine(t, with{env: env}, "audit", "verify").wants(t, 1, "state_corrupt", "record:")
}

func TestAuditByTheDaemon(t *testing.T) {
	f := newFake(t)
	f.answer("GET /v1/audit", 200, `{"records":[{"seq":7,"time":"2026-01-01T00:00:00Z","kind":"call","tool":"edit_file","decision":"auto_execute","reason":"low_impact_scoped_change","also":[]}]}`)
	f.answer("GET /v1/audit/head", 200, `{"seq":7,"hash":"blake3:aa","time":"2026-01-01T00:00:00Z","seal":"s"}`)
	f.answer("POST /v1/audit/verify", 200, `{"records":7}`)
	f.run("audit", "tail", "-n", "3").wants(t, 0, "7", "auto_execute", "edit_file")
	if got := f.last("/v1/audit").path; got != "/v1/audit?n=3" {
		t.Errorf("asked %s", got)
	}
	head := f.run("audit", "head").wants(t, 0).out
	f.runWith(with{in: head}, "audit", "verify", "--head", "-").wants(t, 0, "7 records in order")
	sameJSON(t, f.last("/v1/audit/verify").body, `{"head":`+head+`}`)
	f.runWith(with{in: "{}"}, "audit", "verify", "--head", "-").wants(t, 6, "holds no head")
}
