package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/zeebo/blake3"

	"holdpoint/op"
	"holdpoint/review"
)

// hubFlagsOf say by which hub, and with which key, a card is answered.
type throughHub struct{ at, key string }

func (h *throughHub) flags(c *cobra.Command) {
	c.PersistentFlags().StringVar(&h.at, "hub", "", "the cards of a hub at this address, such as https://hub.example.org")
	c.PersistentFlags().StringVar(&h.key, "key", "", "`FILE` of the key that signs an answer through the hub")
}

// through asks a hub in place of a daemon. Its passphrase is not a reviewer's: it shows
// cards and answers none.
func (h throughHub) through(ctx context.Context, a *app, do func(*client) error) (err error) {
	u, err := url.Parse(h.at)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return usagef("--hub takes https://HOST, or http://localhost:PORT on the same machine")
	}
	t := &http.Transport{}
	c := &client{http: &http.Client{Transport: t, CheckRedirect: noRedirect}, base: strings.TrimSuffix(h.at, "/"), where: h.at, daemon: true,
		close: func() error { t.CloseIdleConnections(); return nil }}
	defer func() { err = errors.Join(err, c.close()) }()
	pass := a.Env(hubPassphraseEnv)
	if pass == "" && a.InTTY {
		if pass, err = a.askSecret(ctx, "The hub's passphrase: "); err != nil {
			return err
		}
	}
	if pass == "" {
		return usagef("the hub asks for its passphrase: run this on a terminal, or set %s", hubPassphraseEnv)
	}
	if c.token, err = login(ctx, c, pass); err != nil {
		return err
	}
	return do(c)
}

// answer signs an answer here and has the hub carry it. What is shown and signed is what
// the digest is of: a hub that showed something else is found out before.
func (h throughHub) answer(ctx context.Context, a *app, c *client, id string, w decisionWords) error {
	key, err := readSigner(h.key)
	if err != nil {
		return err
	}
	k, err := c.verifiedCard(ctx, id)
	if err != nil {
		return err
	}
	if w.answer == "approve" && a.InTTY && !a.json {
		fmt.Fprint(a.Err, a.cardText(k, false))
		if k.destroys() {
			if err := a.askAgain(ctx, k.Title); err != nil {
				return err
			}
		}
	}
	s := review.Statement{Card: op.ID(id), ShownDigest: k.ShownDigest, Answer: w.answer, Remember: w.remember, Note: w.note}
	body := map[string]any{"answer": w.answer, "remember": w.remember, "note": w.note, "shown_digest": k.ShownDigest,
		"proof": map[string]any{"signature": ed25519.Sign(key, s.Digest())}}
	var after struct {
		State string  `json:"state"`
		Code  op.Code `json:"code"`
	}
	raw, err := c.do(ctx, http.MethodPost, "/v1/approvals/"+escapeID(op.ID(id))+"/answer", body, &after)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
	} else {
		fmt.Fprintf(a.Out, "%s: %s\n", line(joined(" ", after.State, string(after.Code))), line(k.Title))
	}
	if after.Code != "" {
		return exitWith(op.ExitStatus(after.Code))
	}
	return nil
}

// verifiedCard gives the card of a hub from the very bytes that its digest is of.
func (c *client) verifiedCard(ctx context.Context, id string) (k card, err error) {
	var p struct {
		State string          `json:"state"`
		Shown json.RawMessage `json:"shown"`
		Why   string          `json:"why"`
		Card  struct {
			ShownDigest string `json:"shown_digest"`
		} `json:"card"`
	}
	if _, err := c.get(ctx, "/v1/approvals/"+escapeID(op.ID(id)), &p); err != nil {
		return k, err
	}
	if p.State != "pending" {
		return k, op.Fail(op.AlreadyAnswered, "the card waits no longer: it is "+line(p.State))
	}
	sum := blake3.Sum256(p.Shown)
	if err = json.Unmarshal(p.Shown, &k); err != nil || "blake3:"+hex.EncodeToString(sum[:]) != p.Card.ShownDigest || string(k.ID) != id {
		return k, op.Fail(op.Stale, joined("; ", "the hub does not show what the card's digest is of", line(p.Why))).Do("answer it on the machine")
	}
	k.ShownDigest, k.State = p.Card.ShownDigest, p.State
	return k, nil
}

// readSigner reads a key that nobody else can.
func readSigner(file string) (ed25519.PrivateKey, error) {
	if file == "" {
		return nil, usagef("an answer through a hub is signed: give --key FILE, which review keygen makes")
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, op.Fail(op.NotFound, "the key cannot be read").Because(err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, op.Fail(op.StateUnsafe, "the key can be read by others: "+info.Mode().String()).Do("chmod 600 it, or make a new one where others may have read it")
	}
	b, err := readSmall(file)
	if err != nil {
		return nil, op.Fail(op.NotFound, "the key cannot be read").Because(err)
	}
	block, _ := pem.Decode(b)
	if block != nil {
		if k, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, is := k.(ed25519.PrivateKey); is {
				return key, nil
			}
		}
	}
	return nil, op.Fail(op.BadRequest, "the file holds no Ed25519 key").Do("holdpoint review keygen FILE makes one")
}

func (a *app) keygenCommand() *cobra.Command {
	return &cobra.Command{Use: "keygen FILE", Short: "Make a key that signs answers through a hub; its public half is enrolled on each machine", Args: oneArg("the file to make"),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := os.Lstat(args[0]); err == nil {
				return op.Fail(op.Exists, "the file is there already")
			}
			public, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return err
			}
			der, err := x509.MarshalPKCS8PrivateKey(private)
			if err != nil {
				return err
			}
			if err := writeSecret(args[0], strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))); err != nil {
				return err
			}
			text := base64.StdEncoding.EncodeToString(public)
			if a.json {
				a.printJSON(map[string]any{"key": text})
				return nil
			}
			fmt.Fprintln(a.Out, text)
			return nil
		}}
}
