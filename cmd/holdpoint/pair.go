package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/skip2/go-qrcode"
	"github.com/spf13/cobra"

	"holdpoint/op"
)

func (a *app) pairCommand() *cobra.Command {
	name := "phone"
	var expires durationFlag
	c := &cobra.Command{Use: "pair", Short: "Put a reviewer's phone on, by a code that is good once", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			body := map[string]string{"name": name}
			if expires.set {
				body["expires"] = expires.d.String()
			}
			return a.asReviewer(c.Context(), "", func(cl *client) error { return a.pair(c.Context(), cl, body) })
		}}
	c.Flags().StringVar(&name, "name", name, "what the audit and the cards call who answers there")
	c.Flags().Var(&expires, "expires", "end the phone's token after this while, as 12h (the default) or 30d")
	return c
}

func (a *app) pair(ctx context.Context, c *client, body map[string]string) error {
	var got struct {
		Code    string    `json:"code"`
		Expires time.Time `json:"expires_at"`
		URL     string    `json:"url"`
	}
	raw, err := c.do(ctx, http.MethodPost, "/v1/pair", body, &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	if got.URL == "" {
		fmt.Fprintln(a.Err, "The daemon listens on no address: start it with --listen, and with --public-url or --tls-cert for a phone.")
	} else {
		qr, err := qrcode.New(got.URL, qrcode.Medium)
		if err != nil {
			return op.Fail(op.Internal, "the picture of the address cannot be made").Because(err)
		}
		fmt.Fprint(a.Out, qr.ToSmallString(false))
		fmt.Fprintln(a.Out, line(got.URL))
	}
	fmt.Fprintf(a.Out, "code %s-%s, good once and for 5 minutes; who has it can approve\n", line(got.Code)[:4], line(got.Code)[4:])
	return nil
}
