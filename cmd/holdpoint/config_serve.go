package main

import "github.com/spf13/cobra"

// serveFile is what the configuration says in place of flags of serve.
type serveFile struct {
	Roots      []string `toml:"roots"`
	Listen     string   `toml:"listen"`
	ReviewAuth string   `toml:"review_auth"`
}

// fromFile fills in the flags that were not given.
func (f *serveFlags) fromFile(c *cobra.Command, s serveFile) {
	if !c.Flags().Changed("root") && len(s.Roots) > 0 {
		f.roots = s.Roots
	}
	if !c.Flags().Changed("listen") && s.Listen != "" {
		f.listen = s.Listen
	}
	if !c.Flags().Changed("review-auth") && s.ReviewAuth != "" {
		f.reviewAuth = s.ReviewAuth
	}
}
