package protected

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

func TestSensitiveNames(t *testing.T) {
	for _, p := range []op.Path{"credentials", "conf/credentials.yml", "Secrets.YAML", "a/api_keys.txt", "api-key.json", ".secrets", ".htpasswd", ".pgpass",
		"wallet.dat", "id_dsa", "x.ppk", "office.ovpn", "krb5.keytab", "client_secret_123.json", "gha-creds-1.json", "passwords.csv", ".credentials.json",
		"AuthKey.p8", "secrets.json.", "sec\u200brets.env", ".aws_credentials"} {
		if !Sensitive(p, nil) {
			t.Errorf("%q: got false", p)
		}
	}
	for _, p := range []op.Path{".", "", "main.go", "credentials.go", "secrets.rs", "password.ts", "src/secrets/mod.rs", "token.go", "tokens.json", "keys.md",
		"credentials/readme.md", "passwords_test.py", "secret.md", "keyboard.js", "apikey.service.ts", "PasswordField.tsx", "p8", "ovpn", "shadow.css", "design-tokens.yaml", "docs/secrets.html"} {
		if Sensitive(p, nil) {
			t.Errorf("%q: got true", p)
		}
	}
}

// filled gives n bytes of an alphabet, so that no test file holds what looks like a token.
func filled(r *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

func TestSensitiveContent(t *testing.T) {
	r := seed(t)
	const alpha = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	const alphanum = alpha + "abcdefghijklmnopqrstuvwxyz23456789"
	pem := func(label, between string) string {
		return "-----BEGIN " + label + "-----" + between + filled(r, alphanum, 64)
	}
	t.Run("private keys", func(t *testing.T) {
		for _, s := range []string{
			pem("PRIVATE KEY", "\n"), "  text\n" + pem("RSA PRIVATE KEY", "\r\n"), pem("OPENSSH PRIVATE KEY", "\n"), pem("EC PRIVATE KEY", "\n    "),
			pem("RSA PRIVATE KEY", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n"), pem("PGP PRIVATE KEY BLOCK", "\nVersion: 2\n\n"),
			`{"private_key": "` + pem("PRIVATE KEY", `\n`) + `"}`, `KEY="` + pem("PRIVATE KEY", `\\n`), "const k = \"" + pem("PRIVATE KEY", "\\n\" +\n\t\""),
			"PuTTY-User-Key-File-3: ssh-rsa", "AGE-SECRET-KEY-1" + filled(r, alpha+"0123456789", 58),
			pem("CERTIFICATE", "\n") + pem("PRIVATE KEY", "\n"),
			"-----BEGIN EC PRIVATE KEY-----\n" + filled(r, alphanum, 16) + "\n-----END EC PRIVATE KEY-----\n",
		} {
			if !Sensitive("x", []byte(s)) {
				t.Errorf("%q: got false", s)
			}
		}
	})
	t.Run("tokens of every shape, and not within a word or cut short", func(t *testing.T) {
		for _, s := range shapes {
			var alphabet strings.Builder
			for b := byte(1); b < 128; b++ {
				if s.member(b) && b != '0' && b != 'x' && b != 'X' {
					alphabet.WriteByte(b)
				}
			}
			body := s.holds
			if s.holds != "" && strings.Contains("-_.", s.holds) {
				body = filled(r, "abcdefghk", 1) + s.holds
			}
			body += filled(r, alphabet.String(), s.min-len(body))
			token := s.prefix + body
			for _, around := range []string{"%s", "key = \"%s\"\n", "a %s b", "\n%s\n", "Bearer %s", "x=%s&y=1"} {
				if text := fmt.Sprintf(around, token); !Sensitive("x", []byte(text)) {
					t.Errorf("%q: got false", text)
				}
			}
			short := token[:len(token)-1] + "!"
			in := func(text string) bool {
				for i := range len(text) {
					if s.at([]byte(text), i) {
						return true
					}
				}
				return false
			}
			if in(short) || in("my"+token) || in("my_"+token) || in(s.prefix) || in(s.prefix+strings.Repeat("x", s.min)) {
				t.Errorf("%q: too eager", s.prefix)
			}
		}
	})
	t.Run("ordinary text", func(t *testing.T) {
		for _, s := range []string{"", "password := os.Getenv(\"PASSWORD\")", "-----BEGIN PRIVATE KEY-----", "if strings.HasPrefix(s, \"-----BEGIN RSA PRIVATE KEY-----\") {\n\treturn decodeTheKeyThatFollowsTheHeader(s)",
			pem("PUBLIC KEY", "\n"), pem("CERTIFICATE", "\n"), "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nMIIE...\n-----END PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nBASE64\n-----END PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n" + filled(r, alphanum, 16) + "\n", "AKIA" + "IOSFODNN7EXAMPLE",
			"ghp_" + strings.Repeat("x", 36), "ghp_" + strings.Repeat("ab", 18), "sk-learn and sk-ant-ics", "SG.v1", "AIza...", "npm_config_registry", "hf_hub_download(\"a\")", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----\nName: x"} {
			if Sensitive("x", []byte(s)) {
				t.Errorf("%q: got true", s)
			}
		}
	})
	t.Run("this package's own files", func(t *testing.T) {
		files, err := filepath.Glob("*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("no files: %v", err)
		}
		for _, f := range files {
			content, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if Sensitive(op.Path(f), content) {
				t.Errorf("%s: got true", f)
			}
		}
	})
}

// TestSensitivePairs holds the search by pairs against one that looks at every place.
func TestSensitivePairs(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	header := keyHeader + "RSA PRIVATE KEY-----\n" + filled(r, "abcdefghij", 64)
	everywhere := func(b []byte) bool {
		for i := range b {
			if bytes.HasPrefix(b[i:], []byte(keyHeader)) && privateKey(b[i:]) {
				return true
			}
			for _, s := range shapes {
				if s.at(b, i) {
					return true
				}
			}
		}
		return false
	}
	found := 0
	for range 3_000 {
		var b []byte
		for range r.IntN(4) {
			b = append(b, filled(r, "ab -_.\n\"S", r.IntN(5))...)
			s := shapes[r.IntN(len(shapes))]
			switch r.IntN(4) {
			case 0:
				b = append(b, s.prefix[:r.IntN(len(s.prefix))]...)
			case 1:
				b = append(b, header[:r.IntN(len(header))]...)
			default:
				b = append(b, s.prefix+filled(r, "abcdefghijkKLMNOPQ23", s.min)...)
			}
		}
		want := everywhere(b)
		if want {
			found++
		}
		if got := sensitiveContent(b); got != want {
			t.Fatalf("%q: got %v, want %v", b, got, want)
		}
	}
	if found < 30 {
		t.Errorf("only %d of the texts held a secret", found)
	}
}

func BenchmarkSensitive(b *testing.B) {
	content := []byte(strings.Repeat("for i := range items { total += items[i].Price * 3 } // sum\n", 1100))
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		Sensitive("src/a.go", content)
	}
}
