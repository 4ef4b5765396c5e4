package main

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// reviewerRow is an entry of the roster as the daemon shows it.
type reviewerRow struct {
	ID      op.ID     `json:"id"`
	Name    string    `json:"name"`
	Kind    string    `json:"kind"`
	Account string    `json:"account"`
	Device  string    `json:"device"`
	By      string    `json:"by"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
	Revoked time.Time `json:"revoked_at"`
	Used    time.Time `json:"used_at"`
	Live    bool      `json:"live"`
}

func (a *app) reviewerCommand() *cobra.Command {
	return a.group("reviewer", "The roster of people who answer, with their keys", a.reviewerAddCommand(),
		&cobra.Command{Use: "list", Short: "List the roster, ended entries too", Args: noArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				return a.asReviewer(c.Context(), "", func(cl *client) error { return a.reviewerList(c.Context(), cl) })
			}},
		&cobra.Command{Use: "revoke ID|NAME", Short: "End one entry at once, or all of a person's with their tokens", Args: oneArg("an id of the list, or a name"),
			RunE: func(c *cobra.Command, args []string) error {
				return a.asReviewer(c.Context(), "", func(cl *client) error { return a.reviewerRevoke(c.Context(), cl, args[0]) })
			}})
}

func (a *app) reviewerAddCommand() *cobra.Command {
	var name, key, account, passkey, device string
	var roots []string
	var expires durationFlag
	c := &cobra.Command{Use: "add --name NAME --key FILE|BASE64 | --account ACCOUNT | --passkey TEXT", Args: noArgs,
		Short: "Enroll a signing key, an account of the identity provider, or a passkey of a hub's page; others are registered on the page",
		RunE: func(c *cobra.Command, _ []string) error {
			body := map[string]any{"name": name}
			switch {
			case name == "" || given(key, account, passkey) != 1:
				return usagef("give --name, and one of --key, --account and --passkey")
			case passkey != "":
				body["kind"], body["passkey"] = "passkey", passkey
			case key != "":
				public, err := ed25519Key(key)
				if err != nil {
					return err
				}
				body["kind"], body["public"] = "ed25519", base64.StdEncoding.EncodeToString(public)
			default:
				body["kind"], body["account"] = "oidc", account
			}
			if device != "" {
				body["device"] = device
			}
			if len(roots) > 0 {
				body["roots"] = roots
			}
			if expires.set {
				body["expires"] = expires.d.String()
			}
			return a.asReviewer(c.Context(), "", func(cl *client) error {
				var got reviewerRow
				raw, err := cl.do(c.Context(), http.MethodPost, "/v1/reviewers", body, &got)
				if err == nil && a.json {
					a.printJSON(raw)
				} else if err == nil {
					fmt.Fprintf(a.Out, "Enrolled %s as %s.\n", line(string(got.ID)), line(got.Name))
				}
				return err
			})
		}}
	f := c.Flags()
	f.StringVar(&name, "name", "", "what the audit and the cards call the person")
	f.StringVar(&key, "key", "", "the public half of an ed25519 key: a PEM file, or base64 of its 32 bytes")
	f.StringVar(&account, "account", "", "an email address as the identity provider gives it")
	f.StringVar(&passkey, "passkey", "", "the `TEXT` that the page of a hub shows of a passkey made there")
	f.StringVar(&device, "device", "", "a word for the key, such as laptop")
	f.StringSliceVar(&roots, "root", nil, "review only this workspace; may come several times")
	f.Var(&expires, "expires", "end the entry after this while, such as 90d")
	return c
}

// given counts the texts that are not empty.
func given(texts ...string) (n int) {
	for _, t := range texts {
		if t != "" {
			n++
		}
	}
	return n
}

// ed25519Key reads a public key from a PEM file or from its own base64.
func ed25519Key(given string) ([]byte, error) {
	if b, err := base64.StdEncoding.DecodeString(given); err == nil && len(b) == ed25519.PublicKeySize {
		return b, nil
	}
	bad := op.Fail(op.BadRequest, "--key is no ed25519 public key").Do("give a PEM file, as openssl pkey -pubout writes it, or base64 of the 32 bytes")
	data, err := readSmall(given)
	if err != nil {
		return nil, bad.Because(err)
	}
	if b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(data))); err == nil && len(b) == ed25519.PublicKeySize {
		return b, nil
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, bad
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if public, ok := parsed.(ed25519.PublicKey); err == nil && ok {
		return public, nil
	}
	return nil, bad.Because(err)
}

func (a *app) reviewerList(ctx context.Context, c *client) error {
	var got struct {
		Reviewers []reviewerRow `json:"reviewers"`
	}
	raw, err := c.get(ctx, "/v1/reviewers", &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	if len(got.Reviewers) == 0 {
		fmt.Fprintln(a.Err, "Nobody is on the roster: whoever has the passphrase or a reviewer's token answers.")
		return nil
	}
	rows := make([][]string, 0, len(got.Reviewers))
	for _, r := range got.Reviewers {
		rows = append(rows, []string{line(string(r.ID)), line(r.Name), line(r.Kind), line(first(r.Account, r.Device, "-")), a.rosterState(r)})
	}
	table(a.Out, rows)
	return nil
}

// rosterState words whether an entry counts, and since or until when.
func (a *app) rosterState(r reviewerRow) string {
	day := func(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
	switch {
	case !r.Revoked.IsZero():
		return "revoked " + day(r.Revoked)
	case !r.Live:
		return "expired " + day(r.Expires)
	case !r.Expires.IsZero():
		return "until " + day(r.Expires)
	case !r.Used.IsZero():
		return "used " + day(r.Used)
	}
	return "since " + day(r.Created)
}

func (a *app) reviewerRevoke(ctx context.Context, c *client, which string) error {
	var got struct {
		Revoked []reviewerRow `json:"revoked"`
	}
	raw, err := c.do(ctx, http.MethodDelete, "/v1/reviewers/"+url.PathEscape(which), nil, &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	for _, r := range got.Revoked {
		fmt.Fprintf(a.Out, "Revoked %s: %s of %s.\n", line(string(r.ID)), line(r.Kind), line(r.Name))
	}
	return nil
}
