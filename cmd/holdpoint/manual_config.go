package main

import (
	"reflect"
	"strings"
)

// configKey is one key of the configuration, with the value that the template shows.
type configKey struct{ name, usual string }

// configKeys walks the configuration's own type, so that a key cannot be forgotten.
// Words in capitals stand for names that the operator chooses.
func configKeys() (keys []configKey) {
	var walk func(typ reflect.Type, at string)
	walk = func(typ reflect.Type, at string) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, t := at+f.Tag.Get("toml"), f.Type
			for t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			switch {
			case t.Kind() == reflect.Struct:
				walk(t, name+".")
			case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
				walk(t.Elem(), name+".NAME.")
			case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Map:
				keys = append(keys, configKey{name: name + ".OPERATION.ARGUMENT"})
			case t.Kind() == reflect.Map && name == "floors":
				keys = append(keys, configKey{name: name + ".OPERATION"})
			case t.Kind() == reflect.Map && name == "oidc.people":
				keys = append(keys, configKey{name: name + ".ACCOUNT"})
			case t.Kind() == reflect.Map:
				keys = append(keys, configKey{name: name + ".TIER"})
			case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
				walk(t.Elem(), name+"[].")
			default:
				keys = append(keys, configKey{name: name, usual: usualOf(name)})
			}
		}
	}
	walk(reflect.TypeFor[fileConfig](), "")
	return keys
}

// usualOf finds the value that the template shows for a key.
func usualOf(name string) string {
	section, want := "", strings.NewReplacer("profiles.NAME.", "profiles.default.", "[].", ".").Replace(name)
	for _, l := range strings.Split(configTemplate, "\n") {
		l = strings.TrimPrefix(l, "#")
		switch key, value, ok := strings.Cut(l, " = "); {
		case strings.HasPrefix(l, "["):
			section = strings.Trim(l, "[]") + "."
		case ok && section+key == want:
			return value
		}
	}
	return ""
}

// configWords says of each key what it does. The test of the manual holds it to the type:
// neither a key without a word nor a word without a key.
var configWords = map[string]string{
	"serve.roots":                          "the workspaces, as DIR or NAME=DIR, where --root is not given",
	"serve.listen":                         "also serve HTTP on this address, where --listen is not given",
	"serve.review_auth":                    "how reviewers prove themselves, where --review-auth is not given",
	"serve.nats":                           "the NATS servers to connect out to, where --nats is not given",
	"serve.nats_creds":                     "the file with the machine's NATS credentials, where --nats-creds is not given",
	"serve.nats_ca":                        "the file with the authorities of the NATS servers, where --nats-ca is not given",
	"serve.nats_hub_key":                   "the hub that what cards show is sealed for, where --nats-hub-key is not given",
	"serve.public_url":                     "where people reach the page, where --public-url is not given",
	"serve.tls_cert":                       "the certificate of the address, where --tls-cert is not given",
	"serve.tls_key":                        "the certificate's key, where --tls-key is not given",
	"serve.trusted_proxies":                "proxies whose X-Forwarded-Host is believed, where --trusted-proxy is not given",
	"serve.insecure_listen":                "listen beyond loopback without TLS, where --insecure-listen is not given",
	"oidc.issuer":                          "the OpenID provider that signs reviewers in; absent is none",
	"oidc.client_id":                       "what the provider knows this daemon by",
	"oidc.client_secret_file":              "the file of the client's secret; absent is a public client",
	"oidc.scopes":                          "what is asked for beside openid and email",
	"oidc.groups_claim":                    "the claim that lists a person's groups",
	"oidc.allow_unverified_email":          "take an address that the provider has not verified",
	"oidc.people.ACCOUNT":                  "the name of an address here, or of group:NAME; \"*\" lets members keep their own",
	"store":                                "where displaced files are kept: beside the state or the root, or \"in-root\"",
	"keep":                                 "life of undo credentials",
	"store_max":                            "what all stores together may hold; a change that does not fit is refused",
	"durability":                           "\"relaxed\" flushes no change: faster, and a power cut can take an acknowledged change with both versions of the file",
	"protected":                            "further protected patterns, in the syntax of .gitignore; they only add",
	"deadlines.TIER":                       "how long a card of the tier T0 to T4 waits, 60m where absent; 0s is for ever",
	"on_timeout.TIER":                      "what happens then: reject, pause or auto_deny; time never approves",
	"two_reviewers.files":                  "a call with more targets takes two people; 0 is never",
	"two_reviewers.bytes":                  "a call of more bytes takes two people; 0 is never",
	"two_reviewers.protected":              "a call on a protected path takes two people",
	"two_reviewers.unrecoverable":          "what no undo takes back takes two people",
	"notify[].kind":                        "who is told of held calls: webhook, ntfy, slack, command or desktop",
	"notify[].url":                         "where to, of webhook, ntfy and slack",
	"notify[].url_file":                    "a file with the address, where the address is a secret",
	"notify[].secret_file":                 "a file with the key that signs (webhook) or the access token (ntfy)",
	"notify[].command":                     "the program and its arguments; the card is in its environment",
	"process.confinement":                  "confinement of programs: what can be had, \"required\" or \"off\"",
	"process.env":                          "variables of the daemon that programs may see",
	"process.max_timeout":                  "the longest time limit that a call may ask for",
	"process.session_idle":                 "a session in which nothing is typed or printed ends after this",
	"process.max_processes":                "processes and threads of one run at a time, 301 or more",
	"process.max_memory":                   "memory of one run; none where absent",
	"process.max_cpu":                      "processor time of each process; none where absent",
	"process.cgroup":                       "a control group that was handed to the daemon, where it is not found by itself",
	"process.rehearse_without_review":      "a rehearsal that is fully confined and without network runs without a card",
	"process.rehearse_outputs":             "patterns of what such a rehearsal may leave: it is dropped without a card",
	"process.snapshot":                     "patterns of what is kept before each program runs, so that the run can be undone",
	"floors.OPERATION":                     "the clearance that an operation needs, 1 where absent",
	"profiles.NAME.about":                  "one sentence about the profile, for agents that see it",
	"profiles.NAME.visible":                "whether agents see it and may ask to stand under it",
	"profiles.NAME.require_approval":       "false lets overwrites, large and multiple changes run, and is one of the two keys of trusted automation",
	"profiles.NAME.allow_read":             "view, list, search, compare, git reads",
	"profiles.NAME.allow_write":            "write_file and create_directory",
	"profiles.NAME.allow_edit":             "edit_file",
	"profiles.NAME.allow_patch":            "patch_file",
	"profiles.NAME.allow_copy":             "copy_file",
	"profiles.NAME.allow_backup":           "backup_file",
	"profiles.NAME.allow_delete":           "delete_file",
	"profiles.NAME.allow_move":             "move_file",
	"profiles.NAME.allow_rollback":         "rollback_file",
	"profiles.NAME.allow_batch":            "batch_file_ops; each item needs its own switch too",
	"profiles.NAME.allow_exec":             "workspace_shell and workspace_tests",
	"profiles.NAME.allow_undo":             "undo",
	"profiles.NAME.allow_switch":           "asking for another profile",
	"profiles.NAME.clearance":              "against the floors; an operation above it is refused",
	"profiles.NAME.mode":                   "the ceiling: deny, prompt or auto",
	"profiles.NAME.roots":                  "narrows the token's own roots further; all where absent",
	"profiles.NAME.max_change":             "bytes of one call; 0 is no limit",
	"profiles.NAME.max_targets":            "paths of one call; 0 is no limit",
	"profiles.NAME.max_timeout":            "the longest time limit of programs",
	"profiles.NAME.set.OPERATION.ARGUMENT": "an argument that wins over what a call says",
}
