package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) protectCommand() *cobra.Command {
	var root string
	c := a.group("protect", "See which paths are protected, and why",
		&cobra.Command{Use: "list", Short: "List the patterns and where each comes from", Args: noArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				return a.asOwn(c.Context(), root, func(cl *client) error { return a.protectList(c.Context(), cl, root) })
			}},
		&cobra.Command{Use: "test PATH", Short: "Say whether a path is protected, sensitive or ignored", Args: oneArg("a path"),
			RunE: func(c *cobra.Command, args []string) error {
				return a.asOwn(c.Context(), root, func(cl *client) error { return a.protectTest(c.Context(), cl, root, args[0]) })
			}})
	c.PersistentFlags().StringVar(&root, "root", "", "the root by name, key or directory")
	return c
}

func (a *app) protectList(ctx context.Context, c *client, root string) error {
	name, err := c.rootNamed(ctx, root)
	if err != nil {
		return err
	}
	var got struct {
		Patterns []struct {
			Pattern string `json:"pattern"`
			From    string `json:"from"`
			Group   string `json:"group"`
			Why     string `json:"why"`
		} `json:"patterns"`
	}
	raw, err := c.get(ctx, query("/v1/protect", "root", name), &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	var rows [][]string
	for _, p := range got.Patterns {
		rows = append(rows, []string{line(p.Pattern), line(p.From), line(first(p.Why, p.Group))})
	}
	table(a.Out, rows)
	return nil
}

func (a *app) protectTest(ctx context.Context, c *client, root, path string) error {
	name, err := c.rootNamed(ctx, root)
	if err != nil {
		return err
	}
	var got struct {
		Protected     bool   `json:"protected"`
		ProtectedBy   string `json:"protected_by"`
		ProtectedFrom string `json:"protected_from"`
		Sensitive     bool   `json:"sensitive"`
		Ignored       bool   `json:"ignored"`
	}
	raw, err := c.get(ctx, query("/v1/protect/test", "root", name, "path", path), &got)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(raw)
		return nil
	}
	says := "not protected"
	if got.Protected {
		says = fmt.Sprintf("protected by %s (%s)", line(first(got.ProtectedBy, "an unnamed pattern")), line(got.ProtectedFrom))
	}
	if got.Sensitive {
		says += ", sensitive"
	}
	if got.Ignored {
		says += ", ignored by git"
	}
	fmt.Fprintf(a.Out, "%s: %s\n", line(path), says)
	return nil
}
