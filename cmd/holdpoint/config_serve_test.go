package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

// TestServeLayers lays the flags of serve over the managed file over the user's.
func TestServeLayers(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	user := file("user.toml", "[serve]\nlisten = \"127.0.0.1:1\"\npublic_url = \"https://user.example\"\ntls_cert = \"c\"\ntls_key = \"k\"\ntrusted_proxies = [\"10.0.0.1\"]\ninsecure_listen = true\n")
	managed := file("managed.toml", "[serve]\npublic_url = \"https://managed.example\"\ntrusted_proxies = [\"10.0.0.2\", \"10.0.0.3\"]\nreview_auth = \"passkey\"\n")
	read := func(t *testing.T, args ...string) serveFlags {
		t.Helper()
		got, _, err := readConfigFile(user, func(name string) string { return map[string]string{"HOLDPOINT_MANAGED_CONFIG": managed}[name] })
		if err != nil {
			t.Fatal(err)
		}
		f := serveFlags{reviewAuth: "passphrase"}
		c := &cobra.Command{}
		c.Flags().StringVar(&f.listen, "listen", "", "")
		c.Flags().StringVar(&f.reviewAuth, "review-auth", "passphrase", "")
		c.Flags().StringArrayVar(&f.roots, "root", nil, "")
		f.reach.flags(c)
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		f.fromFile(c, got.Serve)
		return f
	}
	t.Run("the managed file wins over the user's, key by key", func(t *testing.T) {
		f := read(t)
		if f.reach.publicURL != "https://managed.example" || f.listen != "127.0.0.1:1" || f.reach.tlsCert != "c" || f.reach.tlsKey != "k" || f.reviewAuth != "passkey" || !f.reach.insecure ||
			!slices.Equal(f.reach.proxies, []string{"10.0.0.2", "10.0.0.3"}) {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("a flag that is given wins over both", func(t *testing.T) {
		f := read(t, "--public-url", "https://flag.example", "--trusted-proxy", "10.0.0.9", "--insecure-listen=false", "--tls-cert", "other", "--review-auth", "token", "--listen", "127.0.0.1:2")
		if f.reach.publicURL != "https://flag.example" || f.listen != "127.0.0.1:2" || f.reach.tlsCert != "other" || f.reach.tlsKey != "k" || f.reviewAuth != "token" || f.reach.insecure ||
			!slices.Equal(f.reach.proxies, []string{"10.0.0.9"}) {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("what is wrong under oidc stops the start by its name", func(t *testing.T) {
		for text, want := range map[string]string{
			"[oidc]\nissuer = \"http://id.example\"\nclient_id = \"c\"\n":                                  "oidc: the issuer must be an https address",
			"[oidc]\nissuer = \"https://id.example\"\n":                                                    "oidc: the provider needs a client_id",
			"[oidc]\nissuer = \"https://id.example\"\nclient_id = \"c\"\n[oidc.people]\nada = \"ada\"\n":   `oidc.people: "ada" is neither an address nor group:NAME`,
			"[oidc]\nissuer = \"https://id.example\"\nclient_id = \"c\"\n[oidc.people]\n\"a@b\" = \"*\"\n": `oidc.people: "*" must be a name of A-Z a-z 0-9 . _ : -, or "*" for a group whose members keep their own`,
			"[oidc]\nclient_id = \"c\"\n":                                                                  "oidc.issuer is missing",
		} {
			_, err := readConfig(file("bad.toml", text), func(string) string { return "" })
			if err == nil || !slices.Contains([]string{"the configuration " + filepath.Join(dir, "bad.toml") + ": " + want}, asError(err).Message) {
				t.Errorf("%s: got %v", text, err)
			}
		}
	})
}
