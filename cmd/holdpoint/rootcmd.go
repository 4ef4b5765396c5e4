package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) rootsCommand() *cobra.Command {
	return a.group("root", "List, add and remove the roots that the daemon serves",
		&cobra.Command{Use: "list", Short: "List the roots", Args: noArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				return a.asOwn(c.Context(), "", func(cl *client) error { return a.rootList(c.Context(), cl) })
			}},
		&cobra.Command{Use: "add [NAME=]DIR", Short: "Serve one more directory", Args: oneArg("a directory"),
			RunE: func(c *cobra.Command, args []string) error { return a.rootAdd(c.Context(), args[0]) }},
		&cobra.Command{Use: "remove NAME", Short: "Stop serving a root; its files stay", Args: oneArg("the name, key or directory of a root"),
			RunE: func(c *cobra.Command, args []string) error { return a.rootRemove(c.Context(), args[0]) }})
}

func (a *app) rootList(ctx context.Context, c *client) error {
	var s statusInfo
	if _, err := c.get(ctx, "/v1/status", &s); err != nil {
		return err
	}
	if a.json {
		a.printJSON(append([]rootInfo{}, s.Roots...))
		return nil
	}
	a.showRoots(s.Roots)
	return nil
}

func (a *app) rootAdd(ctx context.Context, word string) error {
	name, dir, named := strings.Cut(word, "=")
	if !named || isDir(word) {
		name, dir = "", word
	}
	// The daemon runs elsewhere, so a relative name would mean another directory there.
	full, err := filepath.Abs(dir)
	if err != nil || !isDir(full) {
		return usagef("%s is no directory here", dir)
	}
	body := map[string]string{"dir": full}
	if name != "" {
		body["name"] = name
	}
	return a.asReviewer(ctx, "", func(c *client) error {
		var r rootInfo
		raw, err := c.do(ctx, http.MethodPost, "/v1/roots", body, &r)
		if err != nil {
			return err
		}
		if a.json {
			a.printJSON(raw)
		} else {
			fmt.Fprintf(a.Out, "Serving %s as %s.\n", line(first(r.Dir, full)), line(first(r.Name, name, r.Key)))
		}
		return nil
	})
}

func (a *app) rootRemove(ctx context.Context, word string) error {
	return a.asReviewer(ctx, "", func(c *client) error {
		name, err := c.rootNamed(ctx, word)
		if err != nil {
			return err
		}
		raw, err := c.do(ctx, http.MethodDelete, "/v1/roots/"+url.PathEscape(name), nil, nil)
		if err != nil {
			return err
		}
		if a.json && len(raw) > 0 {
			a.printJSON(raw)
		} else if !a.json {
			fmt.Fprintf(a.Out, "No longer serving %s; its files are untouched.\n", line(word))
		}
		return nil
	})
}
