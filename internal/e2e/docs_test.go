//go:build !race

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The documents are run. A fenced block is, by the words behind its fence:
//
//	console             "$ " begins a command, what follows is all it prints; "…" stands for
//	                    anything within a line and, alone on one, for any lines. Nothing
//	                    below a command: any output. "# exit 3" behind it: it ends so.
//	sh                  a script; it must end with 0
//	console daemon      a command that stays; the next one waits until it answers
//	sh file NAME        a script that later blocks call by that name
//	text file NAME      a file that later blocks find in the home directory
//	toml, toml workspace, json policy
//	                    a configuration, a workspace's own, a policy: checked as the daemon would
//	WORDS not run: WHY  WHY stands in notRun
//
// Blocks of one document share a home directory with a project in ~/project, a shell
// (cd and variables last) and the reviewer's passphrase, which a person would type. ap_…,
// op_…, un_… and tk_… in a command are the last such id that was printed.
//
// The whole runs without the race detector: hundreds of short programs, and what they do
// is tested with it elsewhere.

// notRun are the reasons for which a block may stand in a document and not be run.
var notRun = map[string]string{
	"needs systemd as the first process": "the units themselves are checked by TestUnits",
	"needs a package of a release":       "make test-packages builds, installs and removes them",
	"needs a client of another maker":    "the settings are checked, the client is not here",
	"needs another machine":              "one machine runs the tests",
	"needs a terminal with a person":     "what is typed there is tested on a pseudo-terminal elsewhere",
	"is continuous integration itself":   "it would run itself",
	"needs the network":                  "the tests reach nothing",
	"needs Docker":                       "the tests run in no place that has it",
	"needs Windows":                      "the tests run on Linux",
}

func TestDocuments(t *testing.T) {
	index := read(t, top+"docs/README.md")
	for _, doc := range documents(t) {
		if name, page := strings.CutPrefix(doc, top+"docs/"); page && name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
		blocks, faults := blocksOf(doc, read(t, doc))
		for _, f := range faults {
			t.Error(f)
		}
		t.Run(strings.TrimPrefix(doc, top), func(t *testing.T) {
			t.Parallel()
			runDocument(t, doc, blocks)
		})
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob(top + "docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	return append(docs, top+"README.md", top+"CONTRIBUTING.md", top+"SECURITY.md", top+"examples/README.md")
}

// docBlock is one fenced block.
type docBlock struct {
	line        int // of its fence
	kind, extra string
	text        []string
}

var shownCommand = regexp.MustCompile(`^(\$ |(bin/)?holdpoint |make |curl |git |systemctl |apt|sudo )`)

// blocksOf finds the fenced blocks, and what is wrong with them: a command in a place
// where nobody would run it, or a reason that is not listed.
func blocksOf(doc, text string) (blocks []docBlock, faults []string) {
	var b *docBlock
	for i, l := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d: ", doc, i+1)
		info, fence := strings.CutPrefix(l, "```")
		switch {
		case fence && b == nil:
			kind, extra, _ := strings.Cut(strings.TrimSpace(info), " ")
			b = &docBlock{line: i + 1, kind: kind, extra: extra}
			if _, why, ok := strings.Cut(info, "not run: "); ok && notRun[why] == "" {
				faults = append(faults, at+"is not run for a reason that is not listed: "+why)
			}
		case fence:
			blocks, b = append(blocks, *b), nil
		case b != nil:
			if b.kind != "console" && b.kind != "sh" && shownCommand.MatchString(l) {
				faults = append(faults, at+"a command in a block that is not run: "+l)
			}
			b.text = append(b.text, l)
		case strings.HasPrefix(l, "    ") && shownCommand.MatchString(strings.TrimSpace(l)):
			faults = append(faults, at+"a command outside of a fenced block: "+l)
		}
	}
	if b != nil {
		faults = append(faults, fmt.Sprintf("%s:%d: the block does not end", doc, b.line))
	}
	return blocks, faults
}

// docCommand is one command of a console block, or a whole script.
type docCommand struct {
	line  int
	shell string
	want  []string // nil: any output
	exit  int
}

var exits = regexp.MustCompile(`\s+# exit (\d+).*$`)

// commandsOf reads a console block.
func (b docBlock) commandsOf() (list []docCommand, err error) {
	var end string // of a here-document
	for i, l := range b.text {
		n := len(list) - 1
		switch cmd, ok := strings.CutPrefix(l, "$ "); {
		case end != "" || n >= 0 && list[n].want == nil && strings.HasSuffix(list[n].shell, "\\"):
			list[n].shell += "\n" + l
			if l == end {
				end = ""
			}
		case ok:
			list = append(list, docCommand{line: b.line + i + 1, shell: cmd})
			if _, mark, here := strings.Cut(cmd, "<<'"); here {
				end, _, _ = strings.Cut(mark, "'")
			}
		case n < 0:
			return nil, fmt.Errorf("line %d: output before any command", b.line+i+1)
		default:
			list[n].want = append(list[n].want, l)
		}
	}
	for i := range list {
		if m := exits.FindStringSubmatch(list[i].shell); m != nil {
			list[i].exit, _ = strconv.Atoi(m[1])
			list[i].shell = strings.TrimSuffix(list[i].shell, m[0])
		}
	}
	return list, nil
}

// docHome makes the machine that a document is read on.
func docHome(t *testing.T) (home string, env []string) {
	base := shortDir(t)
	home = filepath.Join(base, "home")
	for _, d := range []string{"home/project/build", "bin", "run", "out"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(home, "project", "a.txt"), "one\n")
	write(t, filepath.Join(home, "project", "build", "old.o"), "object\n")
	if out, err := exec.Command("git", "init", "-q", filepath.Join(home, "project")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Symlink(binary, filepath.Join(base, "bin", "holdpoint")); err != nil {
		t.Fatal(err)
	}
	return home, []string{"HOME=" + home, "PATH=" + filepath.Join(base, "bin") + ":" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + filepath.Join(base, "run"),
		"HOLDPOINT_REVIEW_PASSPHRASE=" + passphrase, "OUT=" + filepath.Join(base, "out"), "BIN=" + filepath.Join(base, "bin"), "LC_ALL=C.UTF-8"}
}

// docScript is what the shell is given for a document, and what each of its results must be.
type docScript struct {
	strings.Builder
	results []docCommand
}

const docStart = `last() { cat "$OUT"/out.* 2>/dev/null | grep -oE "$1[a-z2-7]{6,}" | tail -n 1; }
cd "$HOME/project"
ended() { kill $(cat "$OUT/pids") 2>/dev/null; wait; }
trap ended EXIT
: >"$OUT/pids"
`

var placeholder = regexp.MustCompile(`\b(ap_|op_|un_|tk_)(…|\.\.\.)`)

// run appends one command whose result is looked at.
func (s *docScript) run(c docCommand) {
	n := len(s.results)
	s.results = append(s.results, c)
	fmt.Fprintf(s, "{\n%s\n} >\"$OUT/out.%03d\" 2>&1 </dev/null\necho $? >\"$OUT/rc.%03d\"\n", placeholder.ReplaceAllString(c.shell, "$$(last $1)"), n, n)
}

// stay appends a command that goes on while the rest runs.
func (s *docScript) stay(c docCommand) {
	fmt.Fprintf(s, "{ %s\n} >>\"$OUT/daemon\" 2>&1 </dev/null &\necho $! >>\"$OUT/pids\"\n", c.shell)
	s.run(docCommand{line: c.line, shell: `for i in $(seq 200); do holdpoint status >/dev/null 2>&1 && break; sleep 0.05; done; holdpoint status >/dev/null || { cat "$OUT/daemon"; false; }`})
}

// keep appends a file; the quoted here-document leaves every byte of it as it is.
func (s *docScript) keep(b docBlock, file string) {
	fmt.Fprintf(s, "cat >\"%s\" <<'END OF FILE'\n%s\nEND OF FILE\n", file, strings.Join(b.text, "\n"))
}

func (s *docScript) add(b docBlock) error {
	name := ""
	if rest, ok := strings.CutPrefix(b.extra, "file "); ok {
		name = rest
	}
	check := func(file, shell string) {
		s.keep(b, "$OUT/"+file)
		s.run(docCommand{line: b.line, shell: shell})
	}
	switch {
	case strings.Contains(b.extra, "not run: "):
	case b.kind == "sh" && name != "":
		s.keep(b, "$BIN/"+name)
		fmt.Fprintf(s, "chmod +x \"$BIN/%s\"\n", name)
	case name != "":
		fmt.Fprintf(s, "mkdir -p \"$(dirname \"$HOME/%s\")\"\n", name)
		s.keep(b, "$HOME/"+name)
	case b.kind == "sh":
		check("script", `sh -eu "$OUT/script"`)
	case b.kind == "console":
		list, err := b.commandsOf()
		if err != nil {
			return err
		}
		for _, c := range list {
			if b.extra == "daemon" {
				s.stay(c)
			} else {
				s.run(c)
			}
		}
	case b.kind == "toml" && b.extra == "workspace":
		check("own.toml", `mkdir -p "$OUT/own" && cp "$OUT/own.toml" "$OUT/own/.holdpoint.toml" && HOLDPOINT_STATE="$OUT/own-state" holdpoint status --root "$OUT/own" | tee /dev/stderr | { ! grep -q holdpoint.toml; }`)
	case b.kind == "toml":
		// What it names below /etc is there, as it would be on the reader's machine.
		check("config.toml", `sed -i "s#/etc/holdpoint/#$OUT/#" "$OUT/config.toml" && echo a secret of ours >"$OUT/hook" && chmod 600 "$OUT/config.toml" "$OUT/hook" && holdpoint config check "$OUT/config.toml"`)
	case b.kind == "json" && b.extra == "policy":
		check("policy.json", `chmod 600 "$OUT/policy.json" && holdpoint policy check "$OUT/policy.json"`)
	}
	return nil
}

func runDocument(t *testing.T, doc string, blocks []docBlock) {
	var s docScript
	s.WriteString(docStart)
	for _, b := range blocks {
		if err := s.add(b); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
	}
	if len(s.results) == 0 {
		return
	}
	home, env := docHome(t)
	cmd := exec.Command("sh", "-c", s.String())
	cmd.Dir, cmd.Env, cmd.WaitDelay = home, env, 5*time.Second
	if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState == nil || len(out) > 0 {
		t.Errorf("%s: the shell: %v %s", doc, err, out)
	}
	for i, c := range s.results {
		at := fmt.Sprintf("%s:%d: %s", doc, c.line, c.shell)
		rc, err := os.ReadFile(filepath.Join(home, "..", "out", fmt.Sprintf("rc.%03d", i)))
		if err != nil {
			t.Fatalf("%s\n  was not reached", at)
		}
		out, _ := os.ReadFile(filepath.Join(home, "..", "out", fmt.Sprintf("out.%03d", i)))
		if got := strings.TrimSpace(string(rc)); got != strconv.Itoa(c.exit) {
			t.Errorf("%s\n  ended with %s, not %d:\n%s", at, got, c.exit, out)
		} else if !printed(c.want, out) {
			t.Errorf("%s\n  printed\n%s  not\n%s", at, out, strings.Join(c.want, "\n"))
		}
	}
}

// printed reports whether a document shows what a command printed.
func printed(want []string, out []byte) bool {
	if want == nil {
		return true
	}
	var p strings.Builder
	p.WriteString(`^`)
	for _, l := range want {
		if strings.TrimSpace(l) == "…" {
			p.WriteString(`(.*\n)*`)
			continue
		}
		parts := strings.Split(strings.TrimRight(l, " "), "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		p.WriteString(strings.Join(parts, `.*`) + ` *\n`)
	}
	if n := len(out); n > 0 && out[n-1] != '\n' {
		out = append(bytes.Clone(out), '\n')
	}
	return regexp.MustCompile(p.String() + `$`).Match(out)
}

func TestDocumentsBite(t *testing.T) {
	for text, want := range map[string]string{
		"x\n\n    holdpoint log\n":                                 "outside of a fenced block",
		"```\nholdpoint log\n```\n":                                "not run",
		"```sh not run: no time\nholdpoint log\n```\n":             "not listed",
		"```console\n$ holdpoint log\n":                            "does not end",
		"```sh not run: needs Docker\ndocker run holdpoint\n```\n": "",
	} {
		_, faults := blocksOf("x.md", text)
		if got := strings.Join(faults, " "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if printed([]string{"one", "…"}, []byte("two\n")) || !printed([]string{"o…e", "…", "z"}, []byte("one\na\nb\nz\n")) || printed([]string{"one"}, []byte("one\ntwo\n")) {
		t.Error("output is not compared")
	}
}
