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
	PublicURL  string   `toml:"public_url"`
	TLSCert    string   `toml:"tls_cert"`
	TLSKey     string   `toml:"tls_key"`
	Proxies    []string `toml:"trusted_proxies"`
	Insecure   bool     `toml:"insecure_listen"`
}

// fromFile fills in the flags that were not given.
func (f *serveFlags) fromFile(c *cobra.Command, s serveFile) {
	for flag, v := range map[string]struct {
		dst *string
		say string
	}{"listen": {&f.listen, s.Listen}, "review-auth": {&f.reviewAuth, s.ReviewAuth}, "public-url": {&f.reach.publicURL, s.PublicURL},
		"tls-cert": {&f.reach.tlsCert, s.TLSCert}, "tls-key": {&f.reach.tlsKey, s.TLSKey}} {
		if !c.Flags().Changed(flag) && v.say != "" {
			*v.dst = v.say
		}
	}
	if !c.Flags().Changed("root") && len(s.Roots) > 0 {
		f.roots = s.Roots
	}
	if !c.Flags().Changed("trusted-proxy") && len(s.Proxies) > 0 {
		f.reach.proxies = s.Proxies
	}
	if !c.Flags().Changed("insecure-listen") {
		f.reach.insecure = s.Insecure
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
