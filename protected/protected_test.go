package protected

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

func newSet(t testing.TB, s Source) *Set {
	t.Helper()
	set, warnings, err := New(s)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("New: %v, warnings %v", err, warnings)
	}
	return set
}

// all checks that each path is protected as a file that may not exist yet.
func all(t *testing.T, s *Set, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if m := s.Mark(op.Path(p), false); !m.Protected || m.By == "" || m.From == "" {
			t.Errorf("%q: got %+v, want protected", p, m)
		}
	}
}

func none(t *testing.T, s *Set, paths ...string) {
	t.Helper()
	for _, p := range paths {
		for _, dir := range []bool{false, true} {
			if m := s.Mark(op.Path(p), dir); m.Protected {
				t.Errorf("%q: got %+v, want not protected", p, m)
			}
		}
	}
}

func TestBuiltin(t *testing.T) {
	set := newSet(t, Source{})
	ten, err := Compile(Ten(), "builtin")
	if err != nil {
		t.Fatal(err)
	}
	onlyTen := func(path string) bool { got, _ := ten.Match(path, false); return got }

	t.Run("C78 the defaults hold at any depth, near misses are free", func(t *testing.T) {
		if len(Ten()) != 10 {
			t.Fatalf("got %d patterns, want ten", len(Ten()))
		}
		for _, hit := range []string{".git", ".env", ".env.local", "server.pem", "server.key", "id_rsa", "id_rsa.pub", "id_ed25519", "id_ed25519_work", ".ssh"} {
			for _, dir := range []string{"", "a/", "a/b c/d/"} {
				all(t, set, dir+hit, dir+hit+"/below")
				if !onlyTen(dir + hit) {
					t.Errorf("%q is not matched by the ten", dir+hit)
				}
			}
		}
		for _, miss := range []string{".gitx", "git", ".environment", ".envs", "env", "x.env", "server.pems", "pem", "key.txt", "keys", "server.key.txt",
			"id_rs", "my_id_rsa.txt", "id_ed2551", ".sshd", "ssh", ".gitignore", ".gitattributes"} {
			none(t, set, miss, "a/"+miss)
		}
	})
	t.Run("C79 two defaults hold at the root alone", func(t *testing.T) {
		for path, want := range map[string]bool{".github/workflows": true, ".github/workflows/ci.yml": true, ".gitlab-ci.yml": true,
			"sub/.github/workflows/ci.yml": false, "sub/.gitlab-ci.yml": false, ".github/other.yml": false} {
			if got := onlyTen(path); got != want {
				t.Errorf("the ten on %q: got %v, want %v", path, got, want)
			}
		}
		all(t, set, ".gitlab-ci.yml", ".github/workflows/ci.yml", "sub/.gitlab-ci.yml", "sub/.github/workflows/ci.yml")
	})
	t.Run("C80 gitignore syntax, and a directory takes along what is below", func(t *testing.T) {
		all(t, set, ".git/hooks/x", ".ssh/a/b", ".github/workflows/ci.yml")
		s := newSet(t, Source{Operator: []string{"deploy/**/secret", "conf?.d", "file[a-c]", "private/", "/top", "x/*.lock"}})
		all(t, s, "deploy/secret", "deploy/a/b/secret/x", "conf1.d/x", "a/conf1.d", "filea", "a/fileb/x", "private/x", "a/private/b/c", "top", "x/a.lock", "top/below")
		none(t, s, "other/deploy/secret", "conf.d", "conf12.d", "filed", "privat", "a/top", "x/a/b.lock", "y/x/a.lock")
	})
	t.Run("C86 an ancestor that is protected protects, files and parents to be made too", func(t *testing.T) {
		all(t, set, ".ssh/new", ".ssh/new/deep", "a/.env/x", "a/.claude/b/c", "x/.env")
		if m := set.Mark(".ssh/new", true); m.By != ".ssh" || m.From != FromBuiltin {
			t.Errorf("got %+v", m)
		}
		none(t, set, "x", "new", ".")
	})
	t.Run("S26 .git is protected at any depth as a file too", func(t *testing.T) {
		for _, dir := range []bool{true, false} {
			for _, p := range []op.Path{".git", "sub/.git", "a/b/c/.git"} {
				if m := set.Mark(p, dir); !m.Protected || m.By != ".git" {
					t.Errorf("%q, directory %v: got %+v", p, dir, m)
				}
			}
		}
	})
	t.Run("S31 editor settings and workspaces", func(t *testing.T) {
		all(t, set, ".vscode/settings.json", "x.code-workspace", "sub/.vscode/tasks.json")
	})
	t.Run("S32 agent servers, absent or not, and the directory made first", func(t *testing.T) {
		all(t, set, ".cursor/mcp.json", ".mcp.json", ".claude/settings.local.json")
		for _, dir := range []op.Path{".cursor", ".claude", "sub/.cursor"} {
			if !set.Mark(dir, true).Protected {
				t.Errorf("directory %q is not protected", dir)
			}
		}
	})
	t.Run("S36 instruction files", func(t *testing.T) {
		all(t, set, "AGENTS.md", ".cursorrules", "sub/AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", "skills/x/SKILL.md")
	})
	t.Run("submodules", func(t *testing.T) { all(t, set, ".gitmodules", "sub/.gitmodules") })
	t.Run("a directory shaped like a repository", func(t *testing.T) {
		for _, names := range [][]string{{"HEAD", "objects", "refs"}, {"HEAD", "config"}, {"HEAD", "commondir"}, {"x", "head", "Objects", "REFS"}, {"HE\u200cAD", "config."}} {
			if !LooksLikeGitDir(names) {
				t.Errorf("%q: got false", names)
			}
		}
		for _, names := range [][]string{nil, {"HEAD"}, {"config", "objects", "refs"}, {"HEAD", "objects"}, {"HEAD", "refs"}, {"HEADS", "config"}} {
			if LooksLikeGitDir(names) {
				t.Errorf("%q: got true", names)
			}
		}
	})
	t.Run("every pattern has a reason and protects the name it spells", func(t *testing.T) {
		seen := map[string]bool{}
		for _, d := range set.Patterns() {
			if d.Why == "" || d.Group == "" || d.From != FromBuiltin || seen[d.Pattern] || additive(d.Pattern) != "" || strings.HasSuffix(d.Pattern, "/") {
				t.Errorf("bad row %+v", d)
			}
			seen[d.Pattern] = true
			name := strings.NewReplacer("**/", "any/depth/", "*", "x").Replace(strings.TrimPrefix(d.Pattern, "/"))
			all(t, set, name, strings.ToUpper(name), name+"/below")
			if d.Pattern[0] != '/' {
				all(t, set, "sub/dir/"+name)
			}
		}
		all(t, set, WorkspaceFile)
	})
	t.Run("ordinary files are free", func(t *testing.T) {
		none(t, set, ".", "main.go", "src/a/b.go", "package.json", "Makefile", "go.mod", "README.md", ".gitignore", ".github/ISSUE_TEMPLATE/x.md", ".github",
			"docs/keys.md", "keyboard.js", "environment.ts", "config/config.json", "docker/config.json", ".editorconfig", "fish/config.fish", "src/.config/app.toml")
	})
}

func TestSpellings(t *testing.T) {
	set := newSet(t, Source{})
	t.Run("C81 other spellings of one path", func(t *testing.T) {
		all(t, set, "./.env", "a/../.env", "a//.env", "a/./b/../.env/", "/.env", ".env/", ".ENV", "x/../../.git/config", "././.github/workflows/x.yml")
		none(t, set, ".git/../x", "", "..", "a/..")
		if m := set.Both(".env", "notes.txt", false); !m.Protected {
			t.Error("a link to .env: the path that was reached does not count")
		}
		if m := set.Both("plain.txt", "a/.env", false); !m.Protected || m.By != ".env" {
			t.Error("a link named .env: the name that was asked does not count")
		}
		if m := set.Both("plain.txt", "notes.txt", false); m.Protected {
			t.Errorf("got %+v for two plain names", m)
		}
	})
	t.Run("S18 spellings that a folding file system takes for .git", func(t *testing.T) {
		all(t, set, ".GIT/config", ".Git/hooks/post-checkout", ".g\u200cit/config", "sub/.giT/config", ".git\ufe0f", ".g\u00adit/x", "\ufeff.git/x",
			".git./config", ".git /config", ".git . ./config", "GIT~1/config", "git~2", "GITMOD~1", ".git::$INDEX_ALLOCATION/config", `a\.git\config`, ".g\u034fit")
		none(t, set, "git~", "git~x", "git~1x", "digit~1", "...", " ", "a:b")
	})
	t.Run("S19 case", func(t *testing.T) {
		all(t, set, ".cUrSoR/mcp.json", ".VSCODE/settings.json", ".Env", "server.PEM", ".GitHub/Workflows/x.yml", "claude.MD", "agents.md", "jenkinsFILE")
	})
	t.Run("S22 protection folds", func(t *testing.T) {
		// U+017F folds to s and U+212A to k.
		all(t, set, ".\u017f\u017fh/x", "server.\u212aey", ".vault-to\u212aen")
		s := newSet(t, Source{Operator: []string{"caf\u00e9", "Stra\u00dfe", "\u0391\u03a3*", "[A-C]x", "[[:upper:]]y"}})
		all(t, s, "cafe\u0301", "CAFE\u0301", "CAF\u00c9", "STRASSE", "strasse/x", "\u03b1\u03c2b", "\u03b1\u03c3", "ax", "Bx", "Qy", "qy")
		none(t, s, "cafe", "dx")
		// Marks in another order, and one that a mark held back from composing.
		s = newSet(t, Source{Operator: []string{"\u03b1\u0301\u0345", "a\u0323\u0307"}})
		all(t, s, "\u03b1\u0345\u0301", "\u0391\u0301\u0399", "a\u0307\u200d\u0323", "\u1ea0\u0307")
		not := newSet(t, Source{Operator: []string{"[!a-c]x"}})
		all(t, not, "dx", "Dx", "Ax")
		none(t, not, "ax")
	})
	t.Run("the guard matters: without folding .GIT/config gets through", func(t *testing.T) {
		for _, p := range []string{".GIT/config", ".g\u200cit/config", ".git./config", "GIT~1/config"} {
			if set.asWritten.find(p, false) >= 0 {
				t.Errorf("%q is caught without folding: it shows nothing", p)
			}
		}
	})
	t.Run("the second opinion matters: with either matcher broken the other protects", func(t *testing.T) {
		broken := newSet(t, Source{})
		broken.folded.list, broken.asWritten.list = List{}, List{}
		broken.folded.source = slices.Clone(broken.folded.source)
		alone := newSet(t, Source{})
		alone.folded.seconds, alone.asWritten.seconds = nil, nil
		for _, d := range set.Patterns() {
			name := strings.NewReplacer("**/", "any/", "*", "x").Replace(strings.TrimPrefix(d.Pattern, "/"))
			all(t, broken, name, strings.ToUpper(name)+"/below")
			all(t, alone, name, strings.ToUpper(name)+"/below")
		}
		none(t, broken, "main.go", ".environment", "key.txt", "sub/x.pems")
		broken.folded.seconds, broken.asWritten.seconds = nil, nil
		none(t, broken, ".git/config")
	})
	t.Run("names that are not UTF-8 keep their bytes", func(t *testing.T) {
		all(t, set, ".ENV.\xff", "\xff.PEM", "\xff/.Git/x")
		none(t, set, ".g\xffit/config", "\xff")
	})
}

func TestAdditions(t *testing.T) {
	t.Run("C83 added patterns add and the defaults stay", func(t *testing.T) {
		s := newSet(t, Source{Operator: Split("infra/, *.sql ,x\\,y,,"), Workspace: []string{"# ours", "", "design/", "*.fig\r"}})
		for path, from := range map[op.Path]string{"infra/a": FromOperator, "db/x.sql": FromOperator, "x,y": FromOperator, "a/design/b": FromWorkspace,
			"LOGO.FIG": FromWorkspace, ".env": FromBuiltin} {
			if m := s.Mark(path, false); m.From != from {
				t.Errorf("%q: got %+v, want from %s", path, m, from)
			}
		}
		none(t, s, "x", "y", "ours")
		if got, want := len(s.Patterns()), len(newSet(t, Source{}).Patterns())+5; got != want {
			t.Errorf("got %d patterns, want %d", got, want)
		}
	})
	t.Run("C84 nothing takes a pattern away", func(t *testing.T) {
		for _, bad := range []string{"!.env", "! ", "!", "[a", `a\`, "[[:nope:]]", "/", "#x", "a\nb", "./secrets", "../x", "a//b", "x/../y"} {
			_, _, err := New(Source{Operator: []string{"fine", bad}})
			if !errors.Is(err, op.PolicyInvalid) || op.AsError(err).Hint == "" {
				t.Errorf("operator's %q: got %v", bad, err)
			}
		}
		s, warnings, err := New(Source{Workspace: []string{"!.env", "[a", "fine", "!*", "*", "!.git"}})
		if err != nil || len(warnings) != 4 || warnings[0].Code == "" || !strings.Contains(warnings[1].Message, "line 2 ") {
			t.Fatalf("got %v, %v", warnings, err)
		}
		all(t, s, ".env", ".git/config", "fine", "anything")
		// Even one that came past the check would not.
		s = newSet(t, Source{})
		s.add(Described{Pattern: "!.env", From: FromOperator})
		s.asWritten, s.folded = matchers{}, matchers{}
		s.compile()
		all(t, s, ".env", "a/.ENV")
	})
	t.Run("S23 user lines neither negate nor leave their anchor", func(t *testing.T) {
		if _, _, err := New(Source{Operator: []string{"!.env", "/config/*.key2"}}); !errors.Is(err, op.PolicyInvalid) {
			t.Errorf("operator: got %v", err)
		}
		s, warnings, err := New(Source{Workspace: []string{"!.env", "/config/*.lock"}})
		if err != nil || len(warnings) != 1 {
			t.Fatalf("got %v, %v", warnings, err)
		}
		all(t, s, ".env", "sub/.env", ".env.local", ".env/x", "config/a.lock", "sub/config/a.key")
		none(t, s, "sub/config/a.lock", "config/sub/a.lock")
	})
	t.Run("a built-in pattern is named before an added one", func(t *testing.T) {
		s := newSet(t, Source{Operator: []string{".git", "*"}, Workspace: []string{".git", "*"}})
		if m := s.Mark(".git/config", false); m.From != FromBuiltin {
			t.Errorf("got %+v", m)
		}
	})
	t.Run("a pattern of invisible characters does not grow", func(t *testing.T) {
		s := newSet(t, Source{Operator: []string{"\u200b*", "*\u200b*x"}})
		none(t, s, "main.go", "x")
	})
	t.Run("words on the wire", func(t *testing.T) {
		b, err := json.Marshal(newSet(t, Source{}).Patterns()[0])
		if want := `{"pattern":".git","from":"builtin","group":"default","why":`; err != nil || !strings.HasPrefix(string(b), want) {
			t.Errorf("got %s, %v", b, err)
		}
	})
}

func TestIgnored(t *testing.T) {
	check := func(t *testing.T, files []IgnoreFile, want map[string]bool) {
		t.Helper()
		g := NewIgnorer(files)
		for p, w := range want {
			if got := g.Ignored(op.Path(p), false); got != w {
				t.Errorf("%q: got %v, want %v", p, got, w)
			}
		}
	}
	root := func(lines ...string) []IgnoreFile { return []IgnoreFile{{".", lines}} }
	t.Run("D74 a pattern that ends in two stars does not ignore every directory", func(t *testing.T) {
		check(t, root("**/node_modules/**"), map[string]bool{"src/a.txt": false, "node_modules/x.js": true, "pkg/node_modules/y/z.js": true})
		check(t, root("a/**/*/**"), map[string]bool{"a/f.txt": false, "a/b/c.txt": true})
	})
	t.Run("D75 a negation does not reach below an ignored directory", func(t *testing.T) {
		check(t, root("d/", "!d/sub/*"), map[string]bool{"d/sub/f.txt": true})
		check(t, root("/*", "!/foo", "/foo/*", "!/foo/bar"), map[string]bool{"foo/bar/x": false, "foo/baz/y": true, "z": true})
	})
	t.Run("deeper files outrank, the exclude file is outranked", func(t *testing.T) {
		check(t, []IgnoreFile{{".", []string{"*.log", "tmp/"}}, {".", []string{"!keep.log"}}, {"a", []string{"!x.log", "keep.log"}}, {"tmp", []string{"!*"}}},
			map[string]bool{"x.log": true, "keep.log": false, "a/x.log": false, "a/b/x.log": false, "a/keep.log": true, "tmp/f": true, "f": false, ".": false})
	})
	t.Run("a line break within a line is an error", func(t *testing.T) {
		if _, err := Compile([]string{"a\nb"}, "x"); !errors.Is(err, op.BadRequest) {
			t.Errorf("got %v", err)
		}
	})
}

// No pattern takes time that grows with more than the product of its length and the path's.
func TestTimeIsBounded(t *testing.T) {
	path := strings.Repeat("a", 4000)
	deepPath := strings.Repeat("a/", 1000) + "a"
	begin := time.Now()
	for _, line := range []string{strings.Repeat("*a", 60) + "b", strings.Repeat("**/a/", 60) + "b", "x" + strings.Repeat("*?", 100), strings.Repeat("a*", 2000)} {
		s := newSet(t, Source{Operator: []string{line}})
		s.Mark(op.Path(path), false)
		s.Mark(op.Path(deepPath), false)
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

func BenchmarkMark(b *testing.B) {
	set := newSet(b, Source{Operator: []string{"infra/**", "*.sql"}})
	for _, path := range []op.Path{"main.go", "src/internal/server/handler_test.go", "Src/Internal/Server/HandlerTest.java", "src/\u00e9t\u00e9/handler.go", ".git/config", "a/b/.ENV"} {
		b.Run(strings.ReplaceAll(string(path), "/", "_"), func(b *testing.B) {
			for b.Loop() {
				set.Mark(path, false)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		newSet(b, Source{})
	}
}
