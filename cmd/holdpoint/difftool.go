package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holdpoint/op"
)

// difftools are programs that show two files, by the names that git knows them under. They
// read text that may be hostile, so that what an editor would obey in a file is off.
var difftools = map[string][]string{
	"vimdiff":     {"vim", "-d", "-R", "--cmd", "set nomodeline", "--"},
	"nvimdiff":    {"nvim", "-d", "-R", "--cmd", "set nomodeline", "--"},
	"gvimdiff":    {"gvim", "-f", "-d", "-R", "--cmd", "set nomodeline", "--"},
	"vscode":      {"code", "--wait", "--diff"},
	"vscodium":    {"codium", "--wait", "--diff"},
	"zed":         {"zed", "--wait", "--diff"},
	"meld":        {"meld"},
	"kdiff3":      {"kdiff3"},
	"kompare":     {"kompare"},
	"bc":          {"bcompare"},
	"xxdiff":      {"xxdiff"},
	"tkdiff":      {"tkdiff"},
	"opendiff":    {"opendiff"},
	"difftastic":  {"difft"},
	"delta":       {"delta"},
	"diff":        {"diff", "-u"},
	"colordiff":   {"colordiff", "-u"},
	"code":        {"code", "--wait", "--diff"},
	"code --diff": {"code", "--wait", "--diff"},
}

// usualTools are looked for when nothing is said: those with a window where there is one.
var usualTools = []string{"vscode", "meld", "kdiff3", "nvimdiff", "vimdiff"}

const windowed = 3 // of usualTools

// difftool gives the program and words to which two files are appended, or which hold
// $LOCAL and $REMOTE in their place. No shell reads them.
func (a *app) difftool(name string) ([]string, error) {
	wish := strings.TrimSpace(first(name, a.Env("HOLDPOINT_DIFFTOOL")))
	if wish == "" {
		for i, t := range usualTools {
			if i < windowed && a.Env("DISPLAY") == "" && a.Env("WAYLAND_DISPLAY") == "" {
				continue
			}
			if _, err := exec.LookPath(difftools[t][0]); err == nil {
				return difftools[t], nil
			}
		}
		return nil, op.Fail(op.NotAvailable, "no program that shows two files was found").
			Do("name one: --tool=NAME or HOLDPOINT_DIFFTOOL, such as vimdiff, meld or code")
	}
	argv, known := difftools[wish]
	if !known {
		argv = strings.Fields(wish)
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, op.Fail(op.NotAvailable, "the diff tool "+line(argv[0])+" is not there").Do("install it, or name another with --tool=NAME or HOLDPOINT_DIFFTOOL")
	}
	return argv, nil
}

// showInTool opens what a card changes in the person's diff tool, one file after another.
// The copies hold what the card shows, hidden characters spelled out; they lie in a private
// directory and are gone when the tool ends.
func (a *app) showInTool(ctx context.Context, cl *client, id, tool string) error {
	argv, err := a.difftool(tool)
	if err != nil {
		return err
	}
	var got struct {
		Diff string `json:"diff"`
	}
	if _, err := cl.get(ctx, "/v1/approvals/"+escapeID(op.ID(id))+"/diff", &got); err != nil {
		return err
	}
	pairs := twoSides(got.Diff)
	if len(pairs) == 0 {
		return op.Fail(op.NotAvailable, "this card has no change of text to open").Do("read the card: " + a.command("review show "+line(id)))
	}
	dir, err := os.MkdirTemp("", "holdpoint-diff-") // 0700
	if err != nil {
		return op.Fail(op.IOError, "no private directory can be made for the copies").Because(err)
	}
	defer os.RemoveAll(dir)
	for i, p := range pairs {
		local, remote, err := p.write(filepath.Join(dir, fmt.Sprint(i+1)))
		if err != nil {
			return op.Fail(op.IOError, "the copies cannot be written").Because(err)
		}
		if len(pairs) > 1 {
			fmt.Fprintf(a.Err, "%d of %d: %s\n", i+1, len(pairs), line(p.name))
		}
		if err := a.openTool(ctx, argv, local, remote); err != nil {
			return err
		}
	}
	return nil
}

// openTool runs the tool on the terminal of this command and waits for it.
func (a *app) openTool(ctx context.Context, argv []string, local, remote string) error {
	words, placed := slices.Clone(argv), false
	for i, w := range words {
		switch w {
		case "$LOCAL":
			words[i], placed = local, true
		case "$REMOTE":
			words[i], placed = remote, true
		}
	}
	if !placed {
		words = append(words, local, remote)
	}
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Stdin, c.Stdout, c.Stderr = a.In, a.Out, a.Err
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDPOINT_TOKEN=") && !strings.HasPrefix(v, "HOLDPOINT_REVIEW_PASSPHRASE=") {
			c.Env = append(c.Env, v)
		}
	}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() <= 1 { // 1: diff and its like say that the two differ
		return ctx.Err()
	}
	if err != nil {
		return op.Fail(op.SpawnFailed, "the diff tool "+line(argv[0])+" failed: "+line(err.Error())).Because(err)
	}
	return nil
}

// twoSided is one file as it is and as it would be.
type twoSided struct {
	name         string
	before, then strings.Builder
}

// write puts the two sides into files of the same name, so that an editor knows the language.
func (p *twoSided) write(dir string) (local, remote string, err error) {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '_'
	}, path.Base(p.name))
	if name = name[max(0, len(name)-100):]; strings.HasPrefix(name, ".") {
		name = "_" + name
	}
	local, remote = filepath.Join(dir, "as-it-is", name), filepath.Join(dir, "as-asked", name)
	for file, text := range map[string]string{local: p.before.String(), remote: p.then.String()} {
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o700)
		}
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o600)
		}
	}
	return local, remote, err
}

// twoSides reads a unified diff back into the two sides of each file. Lines that a diff
// leaves out are counted in their place on both sides.
func twoSides(diff string) []*twoSided {
	var out []*twoSided
	var p *twoSided
	var last *strings.Builder // the side, or nil for both, that the last line went to
	lines := strings.SplitAfter(diff, "\n")
	at, old, new := 1, 0, 0
	both := func(s string) { p.before.WriteString(s); p.then.WriteString(s) }
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		switch {
		case p != nil && (old > 0 || new > 0) && l != "" && strings.ContainsRune(" -+", rune(l[0])):
			switch text := l[1:]; l[0] {
			case ' ':
				both(text)
				last = nil
				old, new, at = old-1, new-1, at+1
			case '-':
				p.before.WriteString(text)
				last = &p.before
				old, at = old-1, at+1
			case '+':
				p.then.WriteString(text)
				last = &p.then
				new--
			}
		case p != nil && strings.HasPrefix(l, `\ `):
			chop(p, last)
		case strings.HasPrefix(l, "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ "):
			p = &twoSided{name: diffName(l, lines[i+1])}
			out, at, last = append(out, p), 1, nil
			i++
		case p != nil && strings.HasPrefix(l, "@@ -"):
			from := 0
			from, old, new = hunkHead(l)
			if old > 0 && from > at {
				both(fmt.Sprintf("... %s that stay as they are ...\n", plural(int64(from-at), "line")))
			}
			at = max(from, 1)
		}
	}
	return slices.DeleteFunc(out, func(p *twoSided) bool { return p.before.Len() == 0 && p.then.Len() == 0 })
}

// chop takes the end of the last line off, where the file has none.
func chop(p *twoSided, last *strings.Builder) {
	sides := []*strings.Builder{&p.before, &p.then}
	if last != nil {
		sides = []*strings.Builder{last}
	}
	for _, b := range sides {
		text := strings.TrimSuffix(b.String(), "\n")
		b.Reset()
		b.WriteString(text)
	}
}

// hunkHead reads "@@ -from,old +x,new @@"; a count that is left out is one.
func hunkHead(l string) (from, old, new int) {
	f := strings.Fields(l)
	if len(f) < 3 {
		return 0, 0, 0
	}
	pair := func(s string) (at, n int) {
		if k, _ := fmt.Sscanf(s[1:], "%d,%d", &at, &n); k < 2 {
			n = 1
		}
		return at, n
	}
	from, old = pair(f[1])
	_, new = pair(f[2])
	return from, old, new
}

// diffName is the name that a diff's head gives: of the side that is there.
func diffName(from, to string) string {
	name := strings.TrimSpace(strings.TrimPrefix(to, "+++ "))
	if name == "/dev/null" {
		name = strings.TrimSpace(strings.TrimPrefix(from, "--- "))
	}
	name = strings.Trim(name, `"`)
	if len(name) > 2 && name[1] == '/' {
		name = name[2:]
	}
	return name
}
