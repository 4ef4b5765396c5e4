package main

import "github.com/spf13/cobra"

// serveFile is what the configuration says in place of flags of serve.
type serveFile struct {
	Roots      []string `toml:"roots"`
	Listen     string   `toml:"listen"`
	ReviewAuth string   `toml:"review_auth"`
	NATS       string   `toml:"nats"`
	NATSCreds  string   `toml:"nats_creds"`
	NATSCA     string   `toml:"nats_ca"`
	NATSHubKey string   `toml:"nats_hub_key"`
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
	for flag, v := range map[string]struct {
		to   *string
		from string
	}{"nats": {&f.nats.url, s.NATS}, "nats-creds": {&f.nats.creds, s.NATSCreds}, "nats-ca": {&f.nats.ca, s.NATSCA}, "nats-hub-key": {&f.nats.hubKey, s.NATSHubKey}} {
		if !c.Flags().Changed(flag) && v.from != "" {
			*v.to = v.from
		}
	}
}
