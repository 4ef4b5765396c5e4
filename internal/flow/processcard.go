package flow

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/shellexec"
)

const (
	maxShownFile = 64 << 10 // of a script that a command names
	maxShownGone = 10_000
)

// processLines tells a person all that is known of a program before it runs.
func (e *Engine) processLines(ctx context.Context, c *call, p *process) []string {
	add := append(rehearsalLines(p), fmt.Sprintf("on %s as %s, in %s", e.cfg.Host, e.cfg.User, p.dir))
	if p.run.Script == "" {
		add = append(add, "runs: "+shellexec.Quote(append([]string{p.run.Command}, p.run.Args...)))
	} else {
		add = append(add, "runs this script:")
		add = append(add, numbered(p.run.Script)...)
	}
	if p.reading.Unread != "" {
		add = append(add, "T4: it cannot be read, so it counts as the worst: "+p.reading.Unread)
	}
	for _, cmd := range p.reading.Commands {
		l := fmt.Sprintf("%s: %s", cmd.Tier, strings.ReplaceAll(cmd.Text, "\n", "\\n"))
		if cmd.Why != "" {
			l += " (" + cmd.Why + ")"
		}
		add = append(add, l)
	}
	shell, _ := c.args.(*op.ShellArgs)
	add = append(add, e.sessionLines(shell, p)...)
	if p.reading.Interactive && (shell == nil || !shell.Pty) {
		add = append(add, "it waits for somebody to type; nobody can, its input is empty unless the call gives some")
	}
	add = append(add, e.gone(ctx, c, p)...)
	add = append(add, keepLines(p)...)
	if at := gitElsewhere(ctx, c, p.dir); at != "" {
		add = append(add, "git data lies outside this workspace, in "+at+": what git is told to set or record lands there")
	}
	add = append(add, "executes "+p.program.Path+" "+string(p.program.Digest))
	for _, t := range c.facts.Targets[1:] {
		switch {
		case t.Path == op.Path(p.program.Path):
		case t.Kind == op.Absent:
			add = append(add, "would read "+op.Escape(string(t.Path))+", which is not there")
		default:
			add = append(add, "uses "+op.Escape(string(t.Path))+" "+string(t.Hash))
		}
	}
	add = append(add, e.scripts(ctx, c, p)...)
	for _, kv := range p.env {
		if name, _, _ := strings.Cut(kv, "="); shellexec.Steers(name) {
			kv += " (T4: it changes what programs run)"
		}
		add = append(add, "sets "+kv)
	}
	add = append(add, "is ended, with all that it started, after "+p.timeout.String())
	return append(add, e.confinedLines(p)...)
}

// sessionLines says what a release of a session releases, and what not.
func (e *Engine) sessionLines(a *op.ShellArgs, p *process) []string {
	switch {
	case a == nil:
		return nil
	case a.Pty && a.WholeSession:
		return []string{"OPENS AN INTERACTIVE SESSION, AND THE AGENT MAY TYPE ANYTHING INTO IT for up to " + p.timeout.String() + " without asking again (T4)",
			"it is ended when nothing happens in it for " + e.idleLimit().String()}
	case a.Pty:
		return []string{"opens an interactive session: each thing that the agent types into it waits for a person again",
			"it is ended when nothing happens in it for " + e.idleLimit().String() + ", unless somebody is attached or something to type waits"}
	case a.Background:
		return []string{"runs in the background: the answer is its start, and it can be listed, read and stopped"}
	}
	return nil
}

func numbered(text string) []string {
	var out []string
	for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		out = append(out, fmt.Sprintf("%5d  %s", i+1, l))
	}
	return out
}

// named are the words by which commands name files that they run.
func (p *process) named() (out []string) {
	for _, cmd := range p.reading.Commands {
		for _, w := range cmd.Words {
			if runsFiles(cmd.Words, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// scripts shows the text files of the root that are run by a shell, an interpreter or
// themselves, whole where they are not long.
func (e *Engine) scripts(ctx context.Context, c *call, p *process) []string {
	var out []string
	shown := map[op.Path]bool{}
	for _, named := range p.named() {
		for _, dir := range p.places() {
			rel, ok := c.led(dir, named)
			if !ok || shown[rel] {
				continue
			}
			text := c.text(ctx, rel)
			if text == nil {
				continue
			}
			shown[rel] = true
			e.keepScript(c, rel, text)
			out = append(out, op.Escape(string(rel))+" holds:")
			if len(text) > maxShownFile || !printable(text) {
				out = append(out, fmt.Sprintf("       %d bytes that are not shown here", len(text)))
				continue
			}
			out = append(out, numbered(string(text))...)
		}
	}
	return out
}

// runsFiles reports whether a word of a command is what it runs, as far as is known.
func runsFiles(words []string, w string) bool {
	if w == words[0] {
		return strings.Contains(w, "/")
	}
	switch name := path.Base(words[0]); {
	case strings.HasPrefix(name, "python"), strings.HasPrefix(name, "node"):
		return true
	default:
		for _, s := range []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "perl", "ruby", "php", "lua", "source", ".", "awk", "deno", "bun"} {
			if s == name {
				return true
			}
		}
	}
	return false
}

func (c *call) text(ctx context.Context, p op.Path) []byte {
	n, err := c.ws.Root.Look(ctx, p, true)
	if err != nil {
		return nil
	}
	defer n.Close()
	if n.Info.Kind != op.File {
		return nil
	}
	b, err := n.ReadAt(0, maxShownFile+1)
	if err != nil {
		return nil
	}
	return b
}

func printable(b []byte) bool { return !strings.ContainsRune(string(b), 0) }

// gone lists what the plainest removing commands would take: each file of it, by name.
func (e *Engine) gone(ctx context.Context, c *call, p *process) []string {
	var out []string
	for _, cmd := range p.reading.Commands {
		if len(cmd.Words) == 0 {
			continue
		}
		switch path.Base(cmd.Words[0]) {
		case "rm", "rmdir", "unlink", "shred", "mv", "truncate":
		default:
			continue
		}
		for _, w := range cmd.Words[1:] {
			if strings.HasPrefix(w, "-") || len(out) > maxShownGone {
				continue
			}
			full := w
			if !filepath.IsAbs(w) {
				full = filepath.Join(p.dir, w)
			}
			if rel, ok := c.inside(full); ok {
				out = append(out, c.below(ctx, rel)...)
			} else {
				out = append(out, "names a place outside of the workspace: "+w)
			}
		}
	}
	if len(out) > maxShownGone {
		out = append(out[:maxShownGone], "and more")
	}
	return out
}

func (c *call) below(ctx context.Context, at op.Path) []string {
	n, err := c.ws.Root.Look(ctx, at, false)
	if err != nil {
		return nil
	}
	defer n.Close()
	if n.Info.Kind == op.Absent {
		return nil
	}
	out := []string{"affects " + op.Escape(string(n.Path))}
	if n.Info.Kind != op.Directory {
		return out
	}
	// What cannot be listed is still named by its directory.
	_ = n.Tree(ctx, func(p op.Path, _ rooted.Info, _ func() (*rooted.Node, error)) error {
		if len(out) > maxShownGone {
			return errEnough
		}
		out = append(out, "affects "+op.Escape(string(p)))
		return nil
	})
	return out
}

// confinedLines says what holds the program, and what does not.
func (e *Engine) confinedLines(p *process) []string {
	net := "network: off"
	if p.run.Network {
		net = "network: ON, at the caller's wish"
	} else if !on(p.levels, shellexec.LevelNet) {
		net = "network: NOT off, it cannot be taken away here"
	}
	if e.cfg.Process.Confinement == "off" {
		return []string{"NOT confined: the operator switched confinement off", "network: ON"}
	}
	var held []string
	out := []string{}
	for _, l := range p.levels {
		if l.On {
			held = append(held, l.Name)
			if l.Detail != "" {
				out = append(out, l.Name+" holds "+l.Detail)
			}
		} else {
			out = append(out, "NOT confined by "+l.Name+": "+l.Detail)
		}
	}
	out = append([]string{"confined by " + strings.Join(held, ", "), net}, out...)
	switch {
	case p.run.WriteProtected:
		out = append(out, "protected paths CAN be changed, at the caller's wish")
	case len(p.readOnly) > 0:
		out = append(out, fmt.Sprintf("read-only inside the root: %s", strings.Join(escaped(p.readOnly), ", ")))
	}
	if len(p.shut) > 0 && p.stat != nil {
		out = append(out, "the daemon may not read these directories, so that nothing in them can be changed: "+strings.Join(escaped(p.shut), ", "))
	}
	if p.unmarked > 0 {
		out = append(out, fmt.Sprintf("%d more protected paths are not held, only compared afterwards", p.unmarked))
	}
	if len(p.names) > 0 {
		out = append(out, fmt.Sprintf("%d protected names that are not there cannot be made at the top of the root (.git, .env, .vscode and the others that are spelled out)", len(p.names)),
			"what a pattern with a wildcard names, or a name further down, is not held shut: if it appears, the answer says so")
	} else if !p.run.WriteProtected {
		out = append(out, "a protected name that is not there yet is not held shut: if it appears, the answer says so")
	}
	if e.cfg.Process.MaxMemory == 0 {
		out = append(out, "memory is not limited: the operator set no limit")
	}
	if e.cfg.Process.MaxCPU == 0 {
		out = append(out, "processor time is not limited, but for the time limit of the run: the operator set no limit")
	}
	if p.stat == nil {
		out = append(out, "too much stands in the root, or another file system is mounted in it, or the daemon may not read all of it, to tell afterwards what changed")
	}
	return out
}

func escaped[T ~string](list []T) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, op.Escape(string(s)))
	}
	return out
}
