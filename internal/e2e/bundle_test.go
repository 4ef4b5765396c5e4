package e2e

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSupportBundle plants secrets wherever something of a user's can stand, and looks for
// each in all that the bundle holds.
func TestSupportBundle(t *testing.T) {
	t.Parallel()
	base := shortDir(t)
	root, state := filepath.Join(base, "planted-root"), filepath.Join(base, "planted-state")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d := quickOn(t, root, state, `protected = ["planted-pattern/**"]
[serve]
roots = ["planted-name=/planted-dir"]
[profiles.planted-profile]
about = "planted-about"
max_targets = 12345
[[notify]]
kind = "webhook"
url = "https://127.0.0.1:9/planted-url"
`, nil)
	d.env = []string{"HOLDPOINT_CONFIG=" + filepath.Join(base, "holdpoint.toml")}
	write(t, filepath.Join(root, "planted-file"), "planted-content\n")
	secret := d.token(M{"name": "planted-agent", "role": "agent"})
	d.http("POST", "/v1/call", secret, M{"op": "edit_file", "args": M{"path": "planted-file", "old_string": "content", "new_string": "planted-argument"}, "session": "planted-session", "intent": "planted-intent"})
	held := must(t, d.call("delete_file", M{"path": "planted-file"}), "review")
	d.answer(held, "reject", "planted-note")
	file := filepath.Join(base, "bundle.tar.gz")
	if exit, out, errs := d.cli("support-bundle", file); exit != 0 {
		t.Fatalf("%d %s %s", exit, out, errs)
	}
	text := untar(t, file)
	for _, plant := range []string{"planted", base, d.Agent, secret, d.reviewer(), passphrase, filepath.Base(base)} {
		for name, body := range text {
			if strings.Contains(body, plant) {
				t.Errorf("%s tells %q:\n%s", name, plant, body)
			}
		}
	}
	for name, wants := range map[string]string{"status.json": `"review_auth": "token"`, "config.json": "12345", "audit.json": `"destructive_operation"`, "doctor.json": "openat2", "version.json": `"linux"`, "environment.json": "HOLDPOINT_STATE"} {
		if !strings.Contains(text["holdpoint-bundle/"+name], wants) {
			t.Errorf("%s lacks %s: %s", name, wants, text["holdpoint-bundle/"+name])
		}
	}
	if exit, _, errs := d.cli("support-bundle", file); exit == 0 || !strings.Contains(errs, "not there yet") {
		t.Errorf("a file was written over: %s", errs)
	}
}

func untar(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(b)
	}
}
