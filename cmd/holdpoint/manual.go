package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdpoint/op"
)

// The manual is made of what the program itself is made of: the tree of commands, the
// table of operations, the fields of the configuration. It says nothing that is not there,
// and a test that nothing is there without a word.

// manCommand is hidden: packages are made with it (make man).
func manCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "man DIR", Short: "Write the manual pages", Hidden: true, Args: oneArg("a directory"),
		RunE: func(c *cobra.Command, args []string) error {
			for name, text := range manual(c.Root()) {
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o644); err != nil {
					return op.Fail(op.IOError, "the manual cannot be written").Because(err)
				}
			}
			return nil
		}}
}

// manual gives every page by its file name.
func manual(root *cobra.Command) map[string]string {
	pages := map[string]string{"holdpoint.1": overview(root), "holdpoint.toml.5": configPage()}
	for _, c := range root.Commands() {
		if documented(c) {
			pages["holdpoint-"+c.Name()+".1"] = commandPage(c)
		}
	}
	return pages
}

// documented leaves out what is hidden, and what only says that it is not there.
func documented(c *cobra.Command) bool { return !c.Hidden && c.Name() != "help" }

// roff builds one page in the macros of man(7).
type roff struct{ strings.Builder }

// newPage begins one; no date, so that the same source gives the same bytes.
func newPage(name, section, short string) *roff {
	r := &roff{}
	fmt.Fprintf(r, ".TH %s %s \"\" \"holdpoint\" \"Holdpoint\"\n", strings.ToUpper(name), section)
	r.section("NAME")
	fmt.Fprintf(r, "%s \\- %s\n", literal(name), literal(lowerFirst(short)))
	return r
}

func (r *roff) section(name string) { fmt.Fprintf(r, ".SH %s\n", name) }

// text writes a paragraph, or lines as they are where they are indented.
func (r *roff) text(s string) {
	for _, l := range strings.Split(strings.TrimSpace(s), "\n") {
		if strings.TrimSpace(l) == "" {
			r.WriteString(".PP\n")
			continue
		}
		r.WriteString(literal(strings.TrimSpace(l)) + "\n")
	}
}

// item is a term and what it means.
func (r *roff) item(term, means string) {
	fmt.Fprintf(r, ".TP\n.B %s\n%s\n", literal(term), literal(means))
}

// literal keeps every character what it is: no escapes, no requests, no hyphenated minus.
func literal(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

func (r *roff) flags(set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		if t := f.Value.Type(); t != "bool" {
			term += " " + t
		}
		means := f.Usage
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "0s" && d != "[]" {
			means += " (default " + d + ")"
		}
		r.item(term, means)
	})
}

// command writes what one command says of itself, then the commands below it.
func (r *roff) command(c *cobra.Command) {
	if c.Runnable() {
		r.item(c.UseLine(), c.Short)
	}
	if c.Long != "" {
		r.WriteString(".IP\n")
		r.text(c.Long)
	}
	if own := c.LocalFlags(); own.HasAvailableFlags() {
		r.WriteString(".RS\n")
		r.flags(own)
		r.WriteString(".RE\n")
	}
	for _, sub := range c.Commands() {
		if documented(sub) {
			r.command(sub)
		}
	}
}

func commandPage(c *cobra.Command) string {
	r := newPage("holdpoint-"+c.Name(), "1", c.Short)
	r.section("SYNOPSIS")
	r.command(c)
	if c.Name() == "call" {
		r.operations()
	}
	r.section("OPTIONS OF EVERY COMMAND")
	r.flags(c.Root().PersistentFlags())
	r.section("SEE ALSO")
	r.text("holdpoint(1), holdpoint.toml(5)")
	return r.String()
}

// operations lists the table that the daemon judges by.
func (r *roff) operations() {
	r.section("OPERATIONS")
	for _, s := range op.Operations() {
		if !s.Built || s.Args == nil {
			continue
		}
		r.item(string(s.Name), s.Summary)
		if len(op.Fields(s.Args)) == 0 {
			continue
		}
		r.WriteString(".RS\n")
		for _, f := range op.Fields(s.Args) {
			means := f.Doc
			if f.Required {
				means += " (required)"
			}
			r.item(f.Name+" "+typeWord(f), means)
		}
		r.WriteString(".RE\n")
	}
}

func overview(root *cobra.Command) string {
	r := newPage("holdpoint", "1", root.Short)
	r.section("SYNOPSIS")
	r.text("holdpoint COMMAND [ARGUMENT ...]")
	r.section("COMMANDS")
	for _, c := range root.Commands() {
		if documented(c) {
			r.item("holdpoint-"+c.Name()+"(1)", c.Short)
		}
	}
	r.section("OPTIONS")
	r.flags(root.PersistentFlags())
	r.section("EXIT STATUS")
	for _, e := range exitWords {
		r.item(e[0], e[1])
	}
	r.section("ENVIRONMENT")
	for _, e := range environmentWords {
		r.item(e[0], e[1])
	}
	r.section("FILES")
	r.item("~/.config/holdpoint/holdpoint.toml, /etc/holdpoint/holdpoint.toml", "the configuration, see holdpoint.toml(5)")
	r.item("~/.local/state/holdpoint", "state: journal, audit log, kept versions, the agent's token")
	r.item("/run/holdpoint/USER/holdpoint.sock, $XDG_RUNTIME_DIR/holdpoint/holdpoint.sock", "where daemon and clients meet")
	return r.String()
}

var exitWords = [][2]string{
	{"0", "done"}, {"1", "something went wrong inside"}, {"2", "the command line is wrong"}, {"3", "it waits for a person"}, {"4", "refused by policy"},
	{"5", "the files changed meanwhile, or a conflict"}, {"6", "the call cannot succeed as asked"}, {"7", "rejected or expired"},
}

var environmentWords = [][2]string{
	{"HOLDPOINT_SOCKET", "the daemon's socket"},
	{"HOLDPOINT_STATE", "the state directory"},
	{"HOLDPOINT_CONFIG", "the configuration"},
	{"HOLDPOINT_MANAGED_CONFIG", "one more configuration, stronger than the user's"},
	{"HOLDPOINT_TOKEN", "the token to ask with"},
	{"HOLDPOINT_REVIEW_PASSPHRASE", "the reviewer's passphrase, where no terminal asks for it"},
	{"HOLDPOINT_PROTECTED_PATTERNS", "further protected patterns, with commas between"},
	{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE", "what known jobs may do without asking"},
	{"HOLDPOINT_PROCESS_APPROVAL_DISABLED", "the exact word true lets programs run without asking anybody"},
	{"HOLDPOINT_NATS", "servers over which an agent's commands ask, in place of the socket"},
	{"HOLDPOINT_NATS_ROOT", "the key of the root that is asked there"},
	{"HOLDPOINT_NATS_CREDS", "the file with the agent's NATS credentials"},
	{"HOLDPOINT_NATS_CA", "the file with the authorities of the NATS servers"},
	{"HOLDPOINT_NATS_INBOX", "where replies come, below _INBOX."},
	{"HOLDPOINT_NATS_INSECURE", "the exact word true allows nats:// beyond loopback"},
	{"HOLDPOINT_HUB_PASSPHRASE", "the passphrase of whoever looks at a hub, where no terminal asks for it"},
	{"HOLDPOINT_DIFFTOOL", "what review show --tool opens"},
}

func configPage() string {
	r := newPage("holdpoint.toml", "5", "the configuration of Holdpoint")
	r.section("DESCRIPTION")
	r.text(`The daemon reads the user's file, then over it /etc/holdpoint/holdpoint.toml and the file that HOLDPOINT_MANAGED_CONFIG names; the stronger wins key by key.
A key that is not known is an error. Files must be writable by their owner alone and lie outside every workspace. What a running daemon takes over when a file
changes are protected, deadlines, on_timeout, two_reviewers, floors and profiles; all else counts after a restart. holdpoint config init writes a commented file.`)
	r.section("KEYS")
	for _, k := range configKeys() {
		means := configWords[k.name]
		if k.usual != "" {
			means += " (" + k.usual + ")"
		}
		r.item(k.name, means)
	}
	r.section("SEE ALSO")
	r.text("holdpoint-config(1), holdpoint-serve(1)")
	return r.String()
}
