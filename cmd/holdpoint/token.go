package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

func (a *app) tokenCommand() *cobra.Command {
	return a.group("token", "Make, list and revoke tokens", a.tokenCreateCommand(),
		&cobra.Command{Use: "list", Short: "List tokens; their secrets are not kept", Args: noArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				return a.asReviewer(c.Context(), "", func(cl *client) error { return a.tokenList(c.Context(), cl) })
			}},
		&cobra.Command{Use: "revoke ID", Short: "End a token at once", Args: oneArg("the id of a token"),
			RunE: func(c *cobra.Command, args []string) error {
				return a.asReviewer(c.Context(), "", func(cl *client) error {
					raw, err := cl.do(c.Context(), http.MethodDelete, "/v1/tokens/"+url.PathEscape(args[0]), nil, nil)
					if err != nil {
						return err
					}
					if a.json && len(raw) > 0 {
						a.printJSON(raw)
					} else if !a.json {
						fmt.Fprintf(a.Out, "Revoked %s.\n", line(args[0]))
					}
					return nil
				})
			}})
}

// newToken is the body that makes a token.
type newToken struct {
	Role     op.Role  `json:"role"`
	Name     string   `json:"name"`
	Roots    []string `json:"roots,omitempty"`
	Workflow string   `json:"workflow,omitempty"`
	Profile  string   `json:"profile,omitempty"`
	Expires  string   `json:"expires,omitempty"` // a duration from now, by the daemon's clock
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var t newToken
	var role string
	var expires durationFlag
	roles := []string{string(op.Agent), string(op.Observer), string(op.Reviewer), string(op.Operator)}
	c := &cobra.Command{Use: "create --role ROLE --name NAME", Short: "Make a token and print it once", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if t.Role = op.Role(role); !slices.Contains(roles, role) {
				return usagef("--role must be agent, observer, reviewer or operator")
			}
			if t.Name == "" {
				return usagef("--name is missing: what the audit and the cards call its holder")
			}
			if expires.set {
				t.Expires = expires.d.String()
			}
			// Without a daemon the one directory that is named is opened here, as CI does.
			dir := ""
			if len(t.Roots) == 1 && isDir(t.Roots[0]) {
				dir = t.Roots[0]
			}
			return a.asReviewer(c.Context(), dir, func(cl *client) error { return a.tokenCreate(c.Context(), cl, t) })
		}}
	s := c.Flags()
	s.StringVar(&role, "role", "", "agent, observer, reviewer or operator")
	s.StringVar(&t.Name, "name", "", "the holder's name")
	s.StringSliceVar(&t.Roots, "root", nil, "only this root, by name, key or directory; may come several times")
	s.StringVar(&t.Workflow, "workflow", "", "the workflow id that trusted policies name")
	s.StringVar(&t.Profile, "profile", "", "the profile of its calls")
	s.Var(&expires, "expires", "end after this while, as 30d")
	return c
}

// tokenCreate prints the secret on standard output alone, so that it can be taken into a
// file or a variable; it is not shown again.
func (a *app) tokenCreate(ctx context.Context, c *client, t newToken) error {
	roots := t.Roots
	t.Roots = nil
	for _, r := range roots {
		name, err := c.rootNamed(ctx, r)
		if err != nil {
			return err
		}
		t.Roots = append(t.Roots, name)
	}
	var got struct {
		ID    op.ID   `json:"id"`
		Token string  `json:"token"`
		Role  op.Role `json:"role"`
	}
	if _, err := c.do(ctx, http.MethodPost, "/v1/tokens", t, &got); err != nil {
		return err
	}
	if a.json {
		a.printJSON(got)
		return nil
	}
	fmt.Fprintf(a.Err, "%s, role %s; the token is shown this once:\n", line(string(got.ID)), line(string(got.Role)))
	fmt.Fprintln(a.Out, line(got.Token))
	return nil
}

func (a *app) tokenList(ctx context.Context, c *client) error {
	var got struct {
		Tokens []struct {
			ID        op.ID     `json:"id"`
			Name      string    `json:"name"`
			Role      op.Role   `json:"role"`
			Workflow  string    `json:"workflow"`
			Profile   string    `json:"profile"`
			ExpiresAt time.Time `json:"expires_at"`
			Roots     []string  `json:"roots"`
			Revoked   bool      `json:"revoked"`
		} `json:"tokens"`
	}
	raw, err := c.get(ctx, "/v1/tokens", &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	var rows [][]string
	for _, t := range got.Tokens {
		state := a.until(t.ExpiresAt)
		if t.Revoked {
			state = "revoked"
		}
		rows = append(rows, []string{line(string(t.ID)), line(string(t.Role)), line(t.Name),
			line(joined(", ", labeled("root", strings.Join(t.Roots, " ")), labeled("workflow", t.Workflow), labeled("profile", t.Profile), state))})
	}
	table(a.Out, rows)
	return nil
}
