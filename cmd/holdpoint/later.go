package main

import (
	"slices"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// later names the commands of the contract that this build may not have, so that each is
// answered as not available instead of unknown.
var later = []string{"serve", "mcp", "init", "doctor", "diff", "export", "forget", "clean", "gc", "verify", "repair", "replay",
	"attach", "hub", "rules", "mode", "config", "notify"}

// addLater adds those that are not there.
func (a *app) addLater(root *cobra.Command) {
	for _, name := range later {
		if slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name }) {
			continue
		}
		root.AddCommand(&cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(c *cobra.Command, args []string) error {
				a.json = a.json || slices.Contains(args, "--json")
				return op.Fail(op.NotAvailable, "holdpoint "+name+" is not in this version").Do("holdpoint --help lists what is")
			}})
	}
}
