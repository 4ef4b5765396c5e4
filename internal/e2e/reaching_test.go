package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/internal/ports"
	"holdpoint/op"
)

// certify writes a certificate of a serial number for names, signed by itself.
func certify(t *testing.T, cert, key string, serial int64, names ...string) *x509.CertPool {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	kb, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kb})))
	pool := x509.NewCertPool()
	leaf, _ := x509.ParseCertificate(der)
	pool.AddCert(leaf)
	return pool
}

// socketOnly puts a token into the state that is good on the socket alone, as serve makes
// one for the operator where people answer by token.
func (d *daemon) socketOnly() string {
	d.t.Helper()
	d.stop(syscall.SIGTERM)
	j, err := journal.Open(d.State, journal.Options{})
	if err != nil {
		d.t.Fatal(err)
	}
	const secret = "hp_for_the_socket_alone_in_one_test"
	if err := errors.Join(j.AddToken(d.t.Context(), journal.Token{ID: j.NewID("tk_"), Name: "local", Role: op.Observer, SocketOnly: true}, secret), j.Close()); err != nil {
		d.t.Fatal(err)
	}
	d.run()
	d.operator()
	return secret
}

func TestReaching(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	cert, key := filepath.Join(filepath.Dir(state), "tls.pem"), filepath.Join(filepath.Dir(state), "tls.key")
	pool := certify(t, cert, key, 1, "review.test", "localhost")
	addr := ports.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	d := quickOn(t, root, state, "", nil, "--listen", addr, "--tls-cert", cert, "--tls-key", key, "--public-url", "https://pages.test/", "--trusted-proxy", "127.0.0.1")
	local := d.socketOnly()
	web := func(pool *x509.CertPool) *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "review.test"}}}
	}
	ask := func(method, path, token, body string, set func(*http.Request)) (int, M, *http.Response) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "pages.test"
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if set != nil {
			set(req)
		}
		r, err := web(pool).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		out := M{}
		json.Unmarshal(b, &out)
		return r.StatusCode, out, r
	}
	write(t, filepath.Join(root, "f"), "one\n")
	t.Run("I113 (part) over TLS the public name is served, a foreign host or origin is not, and a proxy counts only where it is trusted", func(t *testing.T) {
		for _, c := range []struct {
			host, forwarded, origin string
			want                    int
		}{
			{"pages.test", "", "", 200}, {"pages.test:443", "", "", 200}, {"localhost:" + port, "", "", 200}, {"review.test:" + port, "", "", 200},
			{"evil.test", "", "", 403}, {"pages.test:99", "", "", 403}, {"evil.test:" + port, "", "", 403},
			{"inside:80", "pages.test", "", 200}, {"pages.test", "evil.test", "", 403},
			{"pages.test", "", "https://pages.test", 200}, {"pages.test", "", "https://evil.test", 403},
		} {
			got, out, _ := ask("GET", "/v1/status", d.Agent, "", func(r *http.Request) {
				r.Host = c.host
				if c.forwarded != "" {
					r.Header.Set("X-Forwarded-Host", c.forwarded)
				}
				if c.origin != "" {
					r.Header.Set("Origin", c.origin)
				}
			})
			if got != c.want || got == 403 && code(out) != "bad_origin" {
				t.Errorf("%+v: got %d %v", c, got, out)
			}
		}
		if r, err := http.Get("http://" + addr + "/healthz"); err == nil {
			r.Body.Close()
			if r.StatusCode == 200 {
				t.Error("plain HTTP is served too")
			}
		}
	})
	t.Run("a review_url names the public address and holds no secret", func(t *testing.T) {
		held := must(t, d.call("delete_file", M{"path": "f"}), "review")
		if got, want := text(held, "approval", "review_url"), "https://pages.test/#/approvals/"+idOf(held); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("I112 a phone is paired by a code of 8 plain characters, good once and for 5 minutes, gone after 5 wrong guesses; one refusal for all; its token is kept as a hash and can be revoked", func(t *testing.T) {
		for range 8 {
			_, o := d.http("POST", "/v1/pair", d.reviewerToken, M{"name": "x"})
			ends, err := time.Parse(time.RFC3339, text(o, "expires_at"))
			if c, left := text(o, "code"), time.Until(ends); err != nil || len(c) != 8 || strings.Trim(c, "23456789ABCDEFGHJKMNPQRSTVWXYZ") != "" || left > 5*time.Minute || left < 4*time.Minute {
				t.Fatalf("the code is %v, %v", o, err)
			}
		}
		rc, out, errs := d.cli("pair", "--name", "my-phone")
		if rc != 0 || !strings.Contains(out, "https://pages.test/#/pair/") || !strings.Contains(out, "█") {
			t.Fatalf("exit %d\n%s%s", rc, out, errs)
		}
		_, after, _ := strings.Cut(out, "/#/pair/")
		secret := after[:8]
		claim := func(c string) (int, M) {
			status, out, _ := ask("POST", "/v1/pair/claim", "", fmt.Sprintf(`{"code":%q}`, c), nil)
			return status, out
		}
		if status, out := d.http("POST", "/v1/pair", d.Agent, M{"name": "x"}); status != 403 {
			t.Errorf("an agent opens a code: %d %v", status, out)
		}
		status, got := claim(strings.ToLower(secret[:4]) + "-" + secret[4:])
		if status != 200 || text(got, "role") != "reviewer" {
			t.Fatal(status, got)
		}
		token := text(got, "token")
		used, first := claim(secret)
		if used != 401 {
			t.Error("it is good twice", used, first)
		}
		if s, list, _ := ask("GET", "/v1/approvals?state=pending", token, "", nil); s != 200 || len(objects(list["approvals"])) != 1 {
			t.Error(s, list)
		}
		if s, _, _ := ask("GET", "/v1/tokens", token, "", nil); s != 403 {
			t.Error("the phone is an operator:", s)
		}
		_, roster := d.http("GET", "/v1/tokens", d.reviewerToken, nil)
		if s := fmt.Sprint(roster); !strings.Contains(s, "my-phone") || strings.Contains(s, token) {
			t.Error(s)
		}
		err := filepath.Walk(state, func(p string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() && strings.Contains(read(t, p), strings.TrimPrefix(token, "hp_")) {
				t.Errorf("%s holds the token", p)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if s, out := d.http("DELETE", "/v1/tokens/"+text(got, "id"), d.reviewerToken, nil); s != 200 {
			t.Error(s, out)
		}
		if s, _, _ := ask("GET", "/v1/status", token, "", nil); s != 401 {
			t.Error("the revoked phone gets in:", s)
		}
		_, opened := d.http("POST", "/v1/pair", d.reviewerToken, M{"name": "x"})
		for i := range 5 {
			if s, out := claim("2222222" + fmt.Sprint(3+i)); s != 401 || fmt.Sprint(out) != fmt.Sprint(first) {
				t.Errorf("another refusal: %d %v, %v", s, out, first)
			}
		}
		if s, out := claim(text(opened, "code")); s != 401 || fmt.Sprint(out) != fmt.Sprint(first) {
			t.Errorf("the right code after five wrong ones: %d %v", s, out)
		}
	})
	t.Run("U49 whatever is wrong with a token or a code the words are the same, and the audit alone has the exact cause; a flood is not in it", func(t *testing.T) {
		gone := d.token(M{"name": "left-us", "role": "agent"})
		_, roster := d.http("GET", "/v1/tokens", d.reviewerToken, nil)
		for _, o := range objects(roster["tokens"]) {
			if text(o, "name") == "left-us" {
				d.http("DELETE", "/v1/tokens/"+text(o, "id"), d.reviewerToken, nil)
			}
		}
		brief := d.token(M{"name": "brief", "role": "agent", "expires": "1ms"})
		time.Sleep(2 * time.Millisecond)
		_, one, _ := ask("GET", "/v1/status", gone, "", nil)
		for _, token := range []string{"hp_made_up", brief, local, "hps_made_up", "hp_ not even a token"} {
			if s, two, _ := ask("GET", "/v1/status", token, "", nil); s != 401 || fmt.Sprint(one) != fmt.Sprint(two) {
				t.Errorf("the words differ: %v, %v", one, two)
			}
		}
		for range 120 {
			d.http("GET", "/v1/status", "hp_flood", nil)
		}
		_, log := d.http("GET", "/v1/audit?n=1000", d.reviewerToken, nil)
		causes, names, lines := map[string]int{}, map[string]int{}, 0
		for _, r := range objects(log["records"]) {
			if text(r, "kind") == "access" {
				lines++
				causes[text(r, "outcome")]++
				names[text(r, "agent")]++
			}
		}
		if causes["token_revoked"] == 0 || causes["token_unknown"] == 0 || causes["token_expired"] != 1 || causes["socket_only"] != 1 || causes["code_used"] != 1 || causes["code_wrong"] != 5 || causes["code_guessed"] != 1 || names["left-us"] != 1 || names["brief"] != 1 || lines != 51 || causes["more_refused"] != 1 {
			t.Errorf("%d lines: %v %v", lines, causes, names)
		}
		if _, m := d.http("GET", "/metrics", d.Agent, nil); strings.Contains(text(m, "raw"), "holdpoint_denied_total 1\n") || !strings.Contains(text(m, "raw"), "holdpoint_denied_total 1") {
			t.Errorf("the counter does not go on:\n%s", text(m, "raw"))
		}
		if s, v := d.http("POST", "/v1/audit/verify", d.reviewerToken, M{}); s != 200 || v["error"] != nil {
			t.Error(s, v)
		}
	})
	t.Run("a changed certificate is used without a restart, a broken one is not", func(t *testing.T) {
		serial := func() string {
			_, _, r := ask("GET", "/healthz", "", "", nil)
			return r.TLS.PeerCertificates[0].SerialNumber.String()
		}
		until := func(what string, ok func() bool) {
			t.Helper()
			for end := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("no %s:\n%s", what, d.Log)
				}
			}
		}
		if got := serial(); got != "1" {
			t.Fatal(got)
		}
		old := read(t, cert)
		write(t, cert, "broken")
		until("word of the broken one", func() bool {
			serial()
			return strings.Contains(d.Log.String(), "cannot be used, the one before goes on")
		})
		write(t, cert, old)
		pool.AppendCertsFromPEM([]byte(old))
		next := certify(t, cert, key, 2, "review.test")
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGHUP)
		until("new certificate", func() bool {
			c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: next, ServerName: "review.test"})
			if err != nil {
				return false
			}
			defer c.Close()
			return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64() == 2
		})
	})
}

func TestListenRefusals(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	t.Run("beyond loopback without TLS it does not start unless it is told so", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			exit int
			says string
		}{
			{[]string{"--listen", "0.0.0.0:0"}, 6, "--insecure-listen"},
			{[]string{"--listen", "0.0.0.0:0", "--tls-cert", "/nonexistent"}, 2, "belong together"},
			{[]string{"--listen", "0.0.0.0:0", "--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"}, 1, "certificate"},
			{[]string{"--public-url", "https://x.test/sub"}, 2, "--public-url"},
			{[]string{"--trusted-proxy", "proxy.test"}, 2, "--trusted-proxy"},
		} {
			if exit, out := refuses(t, root, state, nil, c.args...); exit != c.exit || !strings.Contains(out, c.says) {
				t.Errorf("%v: exit %d %s", c.args, exit, out)
			}
		}
		addr := strings.Replace(ports.Addr(t), "127.0.0.1", "0.0.0.0", 1)
		d := quickOn(t, root, state, "", nil, "--listen", addr, "--insecure-listen")
		eventually(t, "it says what that means", func() bool { return strings.Contains(d.Log.String(), "whoever reads along") })
		for host, want := range map[string]int{"": 200, "rebound.test": 403} {
			req, _ := http.NewRequest("GET", "http://"+strings.Replace(addr, "0.0.0.0", "127.0.0.1", 1)+"/v1/status", nil)
			req.Header.Set("Authorization", "Bearer "+d.Agent)
			if host != "" {
				req.Host = host
			}
			r, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != want {
				t.Errorf("host %q: %d", host, r.StatusCode)
			}
		}
	})
}
