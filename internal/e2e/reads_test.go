package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"
)

// corpora makes three repositories below one root: one generated with what is hard, and
// two real ones out of the module cache.
func corpora(t *testing.T, root string) []string {
	seed := uint64(291126)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 9))
	gen := filepath.Join(root, "gen")
	words := strings.Fields("alpha beta Gamma delta HANDLE handle request Request straße STRASSE ſign kelvin K ñandú ÑANDÚ foo_bar foobar foo-bar x1 42 error err Err return func")
	dirs := []string{"", "a", "a-b", "a/b", "a/b/c", ".hid", "a/.hid2", "build", "a/build", "docs", "docs/deep/er", "keep", "keep/sub", "neg", "neg/in", "zz"}
	names := []string{"x.go", "y.js", "log.log", "z.tmp", "README.md", ".env.sample", "n.json", "weird name.txt", "new\nline.txt", "bad\xff.txt", "q'uote.py"}
	for _, d := range dirs {
		for i, n := range names {
			var b strings.Builder
			for range 5 + r.IntN(60) {
				for range 1 + r.IntN(7) {
					b.WriteString(words[r.IntN(len(words))])
					b.WriteString([]string{" ", "\t", ", ", "(", ") "}[r.IntN(5)])
				}
				b.WriteString([]string{"\n", "\n", "\n", "\r\n", "\n\n"}[r.IntN(5)])
			}
			text := b.String()
			if i%3 == 0 {
				text = strings.TrimRight(text, "\r\n")
			}
			write(t, filepath.Join(gen, d, n), text)
		}
	}
	units := utf16.Encode([]rune("first handle\nsecond request handle\r\nthird\n"))
	le := []byte{0xff, 0xfe}
	for _, u := range units {
		le = append(le, byte(u), byte(u>>8))
	}
	write(t, filepath.Join(gen, "docs/utf16.txt"), string(le))
	write(t, filepath.Join(gen, "docs/bom.txt"), "\xef\xbb\xbfhandle at the start\nand handle\n")
	write(t, filepath.Join(gen, "docs/latin.txt"), "caf\xe9 handle\nna\xefve\n")
	write(t, filepath.Join(gen, "docs/bin.dat"), "handle\x00\x01\x02handle\n")
	write(t, filepath.Join(gen, "docs/empty"), "")
	write(t, filepath.Join(gen, "docs/min.js"), strings.Repeat("var a=1;", 20_000)+"handle"+strings.Repeat(";b()", 20_000)+"\nhandle\n")
	write(t, filepath.Join(gen, ".gitignore"), "*.log\nbuild/\n/zz\n!keep/log.log\nneg/*\n!neg/in\n**/deep/**/n.json\n")
	write(t, filepath.Join(gen, "a/.gitignore"), "*.tmp\n!log.log\n/b/x.go\n")
	write(t, filepath.Join(gen, "keep/sub/.gitignore"), "*\n!*.go\n")
	os.Symlink(".", filepath.Join(gen, "docs/loop"))
	os.Symlink("../..", filepath.Join(gen, "docs/out"))
	syscall.Mkfifo(filepath.Join(gen, "docs/pipe"), 0o644)
	out := []string{"gen"}
	cache := strings.TrimSpace(output(t, "", "go", "env", "GOMODCACHE"))
	modules := []string{"github.com/yuin/goldmark@v1.8.7", "github.com/spf13/cobra@v1.10.2"}
	large := os.Getenv(readsKnob)
	if large != "" {
		modules = append(modules, "github.com/modelcontextprotocol/go-sdk@v1.8.0")
		output(t, "", "cp", "-a", filepath.Join(large, "tree"), filepath.Join(root, largeTree))
		out = append(out, largeTree)
	}
	for _, m := range modules {
		name := filepath.Base(strings.SplitN(m, "@", 2)[0])
		output(t, "", "cp", "-r", filepath.Join(cache, m), filepath.Join(root, name))
		output(t, "", "chmod", "-R", "u+w", filepath.Join(root, name))
		out = append(out, name)
	}
	for _, d := range out {
		output(t, filepath.Join(root, d), "git", "init", "-q")
	}
	write(t, filepath.Join(gen, ".git/info/exclude"), "q'uote.py\n")
	return out
}

// readsKnob names, in the environment, the directory where make bench-reads keeps its tree
// of 200,000 files; the comparisons are then made on that too, and on a third repository.
const readsKnob = "HOLDPOINT_READS"

// largeTree is the name of its copy below the root.
const largeTree = "tree"

// readsHome is the home directory of the daemon and of the programs it is compared with;
// tests of reads do not run side by side.
var readsHome = "/nonexistent"

// startAtHome runs a daemon whose user has this git configuration.
func startAtHome(t *testing.T, config string) *daemon {
	readsHome = t.TempDir()
	write(t, filepath.Join(readsHome, "ignored"), "weird*\n") // where config names it; read once, at start
	t.Cleanup(func() { readsHome = "/nonexistent" })
	write(t, filepath.Join(readsHome, ".gitconfig"), config)
	root, state := dirs(t)
	return startOn(t, root, state, []string{"HOME=" + readsHome, "GIT_CONFIG_GLOBAL="})
}

// output runs a program and gives what it wrote; exit 1 of a search says that it found
// nothing.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+readsHome, "XDG_CONFIG_HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1")
	if name == "go" {
		cmd.Env = os.Environ()
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil && !(name == "rg" || name == "fdfind") {
		t.Fatalf("%s %v: %v %s", name, args, err, errs.String())
	}
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%s %v: %v %s", name, args, err, errs.String())
	}
	return string(out)
}

func installed(t *testing.T, programs ...string) {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed: the reference cannot be asked (Debian: ripgrep, fd-find)", p)
		}
	}
}

// listed calls a listing until its last page and gives "kind path" of each entry, relative
// to the directory, raw bytes.
func listed(t *testing.T, d *daemon, name string, args M) []string {
	t.Helper()
	var out []string
	for pages := 0; ; pages++ {
		r := object(must(t, d.call(name, args), "done")["result"])
		for _, e := range objects(r["entries"]) {
			out = append(out, text(e, "type")+" "+raw(t, text(e, "path")))
		}
		next := text(r, "next")
		if next == "" {
			return out
		}
		if pages > 1000 {
			t.Fatalf("%s %v: no end", name, args)
		}
		args["page"] = next
	}
}

func raw(t *testing.T, wire string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(wire, "raw:%")
	if !ok {
		return wire
	}
	var b []byte
	for i := 0; i < len(rest); i++ {
		if rest[i] == '%' {
			n, err := strconv.ParseUint(rest[i+1:i+3], 16, 8)
			if err != nil {
				t.Fatal(wire)
			}
			b = append(b, byte(n))
			i += 2
			continue
		}
		b = append(b, rest[i])
	}
	return string(b)
}

// TestListings compares trees with git, find and fd, path for path. Intended differences:
// .git is never listed unless ignored names are asked for (as git has it); the file of a
// tracked but ignored name counts as ignored (no index is read); order is by names, a
// directory before what it holds.
func TestListings(t *testing.T) {
	installed(t, "git", "find", "fdfind", "rg")
	d := startAtHome(t, "[core]\n\texcludesFile = ~/ignored\n")
	dirs := corpora(t, d.Root)
	nul := func(s string) (out []string) {
		for _, p := range strings.Split(s, "\x00") {
			if p != "" {
				out = append(out, strings.TrimSuffix(strings.TrimPrefix(p, "./"), "/"))
			}
		}
		sort.Strings(out)
		return out
	}
	visible := func(list []string) (out []string) {
		for _, p := range list {
			if !strings.HasPrefix(p, ".") && !strings.Contains(p, "/.") {
				out = append(out, p)
			}
		}
		return out
	}
	files := func(list []string, dir string) (out []string) {
		for _, e := range list {
			kind, p, _ := strings.Cut(e, " ")
			if kind != "directory" && kind != "fifo" {
				out = append(out, strings.TrimPrefix(p, dir+"/"))
			}
		}
		sort.Strings(out)
		return out
	}
	all := func(list []string, dir string) (out []string) {
		for _, e := range list {
			_, p, _ := strings.Cut(e, " ")
			out = append(out, strings.TrimPrefix(p, dir+"/"))
		}
		sort.Strings(out)
		return out
	}
	queries, lists := 0, 0
	same := func(what string, got, want []string) {
		t.Helper()
		if queries++; strings.Contains(what, " list to ") {
			lists++
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d and %d\nonly ours: %q\nonly theirs: %q", what, len(got), len(want), only(got, want), only(want, got))
		}
	}
	for _, dir := range dirs {
		at := filepath.Join(d.Root, dir)
		page, small := M{}, 0
		if dir == largeTree {
			page, small = M{"page_size": 1000, "timeout_ms": 60_000}, 2
		}
		paged := func(args M) M { // the large tree in large pages
			for k, v := range page {
				args[k] = v
			}
			return args
		}
		git := nul(output(t, at, "git", "ls-files", "-co", "--exclude-standard", "-z"))
		same(dir+" tree, hidden, is git ls-files", files(listed(t, d, "file_tree", paged(M{"path": dir, "show_hidden": true, "page_size": 100})), dir), git)
		same(dir+" tree is git ls-files less hidden", files(listed(t, d, "file_tree", paged(M{"path": dir, "page_size": 37})), dir), visible(git))
		found := nul(output(t, at, "find", ".", "-mindepth", "1", "-print0"))
		same(dir+" tree of everything is find", all(listed(t, d, "file_tree", paged(M{"path": dir, "show_hidden": true, "include_ignored": true})), dir), found)
		for depth := 1; depth <= 5; depth++ {
			if small == 0 || depth <= small { // each page of a list counts all of it
				byFind := nul(output(t, at, "find", ".", "-mindepth", "1", "-maxdepth", fmt.Sprint(depth), "-print0"))
				size := 50
				if small > 0 {
					size = 1000
				}
				same(fmt.Sprint(dir, " list to depth ", depth), all(listed(t, d, "list_directory", M{"path": dir, "show_hidden": true, "depth": depth, "page_size": size}), dir), byFind)
			}
			byFd := nul(output(t, at, "fdfind", "-0", "-d", fmt.Sprint(depth)))
			same(fmt.Sprint(dir, " tree to depth ", depth, " is fd"), all(listed(t, d, "file_tree", paged(M{"path": dir, "depth": depth})), dir), byFd)
		}
		for depth := 1; depth <= 3; depth++ {
			for _, glob := range []string{"*.go", "*.md", "[a-r]*", "?*e*"} {
				if small > 0 && depth > small {
					continue
				}
				same(fmt.Sprint(dir, " list to depth ", depth, " of ", glob), all(listed(t, d, "list_directory", M{"path": dir, "show_hidden": true, "depth": depth, "pattern": glob, "page_size": 1000}), dir),
					nul(output(t, at, "find", ".", "-mindepth", "1", "-maxdepth", fmt.Sprint(depth), "-name", glob, "-print0")))
			}
		}
		for _, glob := range []string{"*.go", "*.md", "[a-r]*", "*_test.go", "x*", "*.js", "?*e*"} {
			same(dir+" name "+glob, all(listed(t, d, "file_tree", paged(M{"path": dir, "pattern": glob, "show_hidden": true, "include_ignored": true})), dir),
				nul(output(t, at, "find", ".", "-mindepth", "1", "-name", glob, "-print0")))
		}
		for _, glob := range []string{"*.go", "docs/**", "/a/**", "**/b/*", "README*"} {
			same(dir+" exclude "+glob, plainFiles(files(listed(t, d, "file_tree", paged(M{"path": dir, "exclude": []string{glob}})), dir), at),
				nul(output(t, at, "rg", "--no-config", "--files", "-0", "--glob", "!"+glob)))
			if glob == "**/b/*" {
				continue // in an ignore file it covers what is below a/b/c too, for ripgrep it does not
			}
			same(dir+" include "+glob, plainFiles(files(listed(t, d, "file_tree", paged(M{"path": dir, "include": []string{glob}})), dir), at),
				both(nul(output(t, at, "rg", "--no-config", "--files", "-0", "--glob", glob)), visible(git)))
		}
	}
	sub := filepath.Join(d.Root, "gen/a")
	same("a subdirectory keeps the rules above it", files(listed(t, d, "file_tree", M{"path": "gen/a"}), "gen/a"),
		nul(output(t, sub, "rg", "--no-config", "--files", "-0")))
	t.Logf("%d queries of list_directory and %d of file_tree equal", lists, queries-lists)
	if lists < 40 || queries-lists < 40 {
		t.Error("too few queries")
	}
	t.Run("the user's own ignore file counts", func(t *testing.T) {
		for _, e := range listed(t, d, "file_tree", M{"path": "gen/a"}) {
			if strings.Contains(e, "weird") {
				t.Error(e)
			}
		}
	})
	t.Run("D72 (part) a link to its own directory is listed once and not followed", func(t *testing.T) {
		loops := 0
		for _, e := range listed(t, d, "file_tree", M{"path": "gen/docs"}) {
			if strings.Contains(e, "loop") {
				loops++
				if e != "symlink gen/docs/loop" {
					t.Error(e)
				}
			}
		}
		if loops != 1 {
			t.Errorf("%d times", loops)
		}
	})
	t.Run("D81 a name with a newline, or not UTF-8, is one entry that can be used", func(t *testing.T) {
		for _, e := range objects(object(d.call("file_tree", M{"path": "gen/keep"})["result"])["entries"]) {
			wire := text(e, "path")
			if !strings.HasPrefix(wire, "raw:%") {
				continue
			}
			info := object(must(t, d.call("file_info", M{"path": wire}), "done")["result"])
			if info["exists"] != true || text(info, "path") != wire {
				t.Errorf("%q: %v", wire, info)
			}
		}
	})
}

func both(a, b []string) (out []string) {
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// plainFiles leaves out links, which rg does not list.
func plainFiles(list []string, at string) (out []string) {
	for _, p := range list {
		if info, err := os.Lstat(filepath.Join(at, p)); err == nil && info.Mode().IsRegular() {
			out = append(out, p)
		}
	}
	return out
}

func only(a, b []string) (out []string) {
	for _, s := range a {
		if !slices.Contains(b, s) && len(out) < 8 {
			out = append(out, s)
		}
	}
	return out
}

// rgHits gives "path:line:column" of ripgrep's matches.
func rgHits(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(output(t, dir, "rg", append([]string{"--no-config", "--crlf", "--json"}, args...)...)) {
		var e struct {
			Type string
			Data struct {
				Path       struct{ Text, Bytes string }
				Lines      struct{ Text, Bytes string }
				LineNumber int `json:"line_number"`
				Submatches []struct{ Start, End int }
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != "match" || len(e.Data.Submatches) == 0 {
			continue
		}
		path := e.Data.Path.Text
		if e.Data.Path.Bytes != "" {
			b, _ := base64.StdEncoding.DecodeString(e.Data.Path.Bytes)
			path = string(b)
		}
		// Adjacent matches over several lines come as one; ours are one for each line on which
		// one begins, behind the last line of the one before.
		all, from := e.Data.Lines.Text, 0
		if e.Data.Lines.Bytes != "" {
			b, _ := base64.StdEncoding.DecodeString(e.Data.Lines.Bytes)
			all = string(b)
		}
		for _, m := range e.Data.Submatches {
			if m.Start < from || len(out) > 0 && from > 0 && !slices.Contains(args, "-U") {
				continue
			}
			begin := strings.LastIndexByte(all[:min(m.Start, len(all))], '\n') + 1
			out = append(out, fmt.Sprintf("%s:%d:%d", strings.TrimPrefix(path, "./"), e.Data.LineNumber+strings.Count(all[:begin], "\n"), m.Start-begin+1))
			end := max(m.Start, m.End-1)
			if from = len(all); end < len(all) && strings.IndexByte(all[end:], '\n') >= 0 {
				from = end + strings.IndexByte(all[end:], '\n') + 1
			}
		}
	}
	sort.Strings(out)
	return out
}

// ourHits reads all pages of a search.
func ourHits(t *testing.T, d *daemon, dir string, args M) []string {
	t.Helper()
	args["path"] = dir
	var out, paths []string
	for pages := 0; pages < 400; pages++ {
		r := object(must(t, d.call("search_files", args), "done")["result"])
		for _, m := range objects(r["matches"]) {
			p := strings.TrimPrefix(raw(t, text(m, "path")), dir+"/")
			out = append(out, fmt.Sprintf("%s:%v:%v", p, m["line"], m["column"]))
			paths = append(paths, strings.ReplaceAll(p, "/", "\x00"))
		}
		next := text(r, "next")
		if next == "" {
			break
		}
		args["page"] = next
	}
	if !slices.IsSorted(paths) {
		t.Errorf("%v: not in path order", args)
	}
	sort.Strings(out)
	return out
}

// sameCounts compares the lines that match in each file of the large tree: the matches
// themselves are too many.
func sameCounts(t *testing.T, d *daemon, args M, rg []string, shown map[string]bool) {
	t.Helper()
	if slices.Contains(rg, "-U") || args["context"] != nil {
		return // ripgrep counts these otherwise
	}
	var want []string
	for _, row := range strings.Split(output(t, filepath.Join(d.Root, largeTree), "rg", append([]string{"--no-config", "--crlf", "-c", "--null"}, append(rg[:len(rg):len(rg)], ".")...)...), "\n") {
		path, n, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(row, "./"), "\r"), "\x00") // with --crlf ripgrep ends its own lines so
		if ok && (!slices.Contains(rg, "-g") || slices.Contains(rg, "--hidden") || shown[path]) {
			want = append(want, path+" "+n)
		}
	}
	var got []string
	args["path"], args["mode"], args["max_results"], args["timeout_ms"] = largeTree, "count", 1000, 15_000
	for {
		r := object(must(t, d.call("search_files", args), "done")["result"])
		for _, m := range objects(r["matches"]) {
			got = append(got, fmt.Sprintf("%s %v", strings.TrimPrefix(raw(t, text(m, "path")), largeTree+"/"), m["count"]))
		}
		next := text(r, "next")
		if next == "" {
			break
		}
		args["page"] = next
	}
	sort.Strings(want)
	sort.Strings(got)
	if !slices.Equal(got, want) {
		t.Errorf("large tree, %v: %d and %d files\nonly ours: %q\nonly theirs: %q", rg, len(got), len(want), only(got, want), only(want, got))
	}
}

// TestSearches compares search_files with ripgrep: path, line and column of each match.
// Intended differences: classes such as \w, \d and \b are ASCII (RE2); a file is binary by
// a NUL in its first 8,000 bytes, ripgrep's by one anywhere; Latin-1 bytes never match a
// character of a pattern.
func TestSearches(t *testing.T) {
	installed(t, "git", "rg")
	d := startAtHome(t, "")
	dirs := corpora(t, d.Root)
	queries := []struct {
		args M
		rg   []string
	}{
		{M{"pattern": "handle"}, []string{"-F", "handle"}},
		{M{"pattern": "handle", "ignore_case": true}, []string{"-i", "-F", "handle"}},
		{M{"pattern": "HANDLE", "whole_word": true}, []string{"-w", "-F", "HANDLE"}},
		{M{"pattern": "foo", "whole_word": true}, []string{"-w", "-F", "foo"}},
		{M{"pattern": "foo"}, []string{"-F", "foo"}},
		{M{"pattern": "straße", "ignore_case": true}, []string{"-i", "-F", "straße"}},
		{M{"pattern": "sign", "ignore_case": true}, []string{"-i", "-F", "sign"}},
		{M{"pattern": "k", "ignore_case": true, "whole_word": true}, []string{"-i", "-w", "-F", "k"}},
		{M{"pattern": "ÑANDÚ", "ignore_case": true}, []string{"-i", "-F", "ÑANDÚ"}},
		{M{"pattern": "nowhere-at-all"}, []string{"-F", "nowhere-at-all"}},
		{M{"pattern": "(", "page": ""}, []string{"-F", "("}},
		{M{"pattern": "."}, []string{"-F", "."}},
		{M{"pattern": "\t"}, []string{"-F", "\t"}},
		{M{"pattern": "at the start"}, []string{"-F", "at the start"}},
		{M{"pattern": `hand(le|ler)\b`, "regex": true}, []string{`hand(le|ler)(?-u:\b)`}},
		{M{"pattern": `handle|request|beta`, "regex": true}, []string{`handle|request|beta`}},
		{M{"pattern": `handle|request|beta`, "regex": true, "ignore_case": true}, []string{"-i", `handle|request|beta`}},
		{M{"pattern": `^func`, "regex": true}, []string{`^func`}},
		{M{"pattern": `err$`, "regex": true}, []string{`err$`}},
		{M{"pattern": `^$`, "regex": true, "max_results": 1000}, []string{`^$`}},
		{M{"pattern": `^\s+return`, "regex": true}, []string{`^(?-u:\s)+return`}},
		{M{"pattern": `[A-Z]{4,}`, "regex": true}, []string{`[A-Z]{4,}`}},
		{M{"pattern": `\d+`, "regex": true}, []string{`[0-9]+`}},
		{M{"pattern": `foo[_-]bar`, "regex": true}, []string{`foo[_-]bar`}},
		{M{"pattern": `(?i)gamma\W+delta`, "regex": true}, []string{`(?i)gamma[^0-9A-Za-z_]+delta`}},
		{M{"pattern": `x?`, "regex": true, "max_results": 1000}, []string{`x?`}},
		{M{"pattern": `.`, "regex": true, "max_results": 1000}, []string{`.`}},
		{M{"pattern": `return.*func`, "regex": true}, []string{`return.*func`}},
		{M{"pattern": `re(turn|quest)(ed)?`, "regex": true}, []string{`re(turn|quest)(ed)?`}},
		{M{"pattern": `[[:upper:]][[:lower:]]+`, "regex": true}, []string{`[[:upper:]][[:lower:]]+`}},
		{M{"pattern": `err|Err`, "regex": true, "whole_word": true}, []string{"-w", `err|Err`}},
		{M{"pattern": `alpha[^\n]*beta`, "regex": true}, []string{`alpha[^\n]*beta`}},
		{M{"pattern": `func\s+\w+\(`, "regex": true}, []string{`func[\t\n\f\r ]+[0-9A-Za-z_]+\(`}},
		{M{"pattern": `handle`, "glob": "*.go"}, []string{"-F", "handle", "-g", "*.go"}},
		{M{"pattern": `handle`, "include": []string{"*.js", "*.md"}}, []string{"-F", "handle", "-g", "*.js", "-g", "*.md"}},
		{M{"pattern": `handle`, "exclude": []string{"*.go"}}, []string{"-F", "handle", "-g", "!*.go"}},
		{M{"pattern": `handle`, "glob": "/a/**"}, []string{"-F", "handle", "-g", "/a/**"}},
		{M{"pattern": `handle`, "types": []string{"go", "md"}}, []string{"-F", "handle", "-g", "*.go", "-g", "*.md", "-g", "*.markdown", "-g", "*.mdx"}},
		{M{"pattern": `handle`, "show_hidden": true}, []string{"-F", "handle", "--hidden", "-g", "!.git"}},
		{M{"pattern": `handle`, "include_ignored": true}, []string{"-F", "handle", "--no-ignore"}},
		{M{"pattern": `handle`, "max_results": 7}, []string{"-F", "handle"}},
		{M{"pattern": "second request"}, []string{"-F", "second request"}},
		{M{"pattern": `return`, "context": 2}, []string{"-F", "return"}},
		{M{"pattern": `(?s)request.{1,20}handle`, "regex": true, "multiline": true}, []string{"-U", `(?s)request.{1,20}handle`}},
		{M{"pattern": `,\s*\n+^alpha`, "regex": true, "multiline": true}, []string{"-U", `,[\t\n\f\r ]*\n+^alpha`}},
		{M{"pattern": "}\n\nfunc", "multiline": true}, []string{"-U", "-F", "}\n\nfunc"}},
	}
	t.Logf("%d queries on %d repositories", len(queries), len(dirs))
	if len(queries) < 40 {
		t.Error("too few queries")
	}
	some, large := 0, 0
	for _, dir := range dirs {
		shown := map[string]bool{}
		for _, p := range strings.Split(output(t, filepath.Join(d.Root, dir), "rg", "--no-config", "--no-ignore-global", "--files", "-0"), "\x00") {
			shown[p] = true
		}
		for _, q := range queries {
			args := M{}
			for k, v := range q.args {
				args[k] = v
			}
			if args["page"] == "" {
				delete(args, "page")
			}
			if dir == largeTree {
				large++
				sameCounts(t, d, args, q.rg, shown)
				continue
			}
			got, want := ourHits(t, d, dir, args), rgHits(t, filepath.Join(d.Root, dir), append(q.rg[:len(q.rg):len(q.rg)], ".")...)
			if slices.Contains(q.rg, "-g") && !slices.Contains(q.rg, "--hidden") {
				// A glob of ripgrep also brings back what is ignored or hidden; ours only narrows.
				want = slices.DeleteFunc(want, func(h string) bool {
					parts := strings.Split(h, ":")
					return !shown[strings.Join(parts[:len(parts)-2], ":")]
				})
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s %v: %d and %d\nonly ours: %q\nonly theirs: %q", dir, q.args, len(got), len(want), only(got, want), only(want, got))
			}
			if len(want) > 0 {
				some++
			}
		}
	}
	t.Logf("%d of them found something; %d queries on the large tree", some, large)
	t.Run("modes", func(t *testing.T) {
		content := ourHits(t, d, "gen", M{"pattern": "handle"})
		perFile := map[string]int{}
		for _, h := range content {
			perFile[strings.SplitN(h, ":", 2)[0]]++
		}
		for _, mode := range []string{"files", "count"} {
			r := object(must(t, d.call("search_files", M{"path": "gen", "pattern": "handle", "mode": mode, "max_results": 1000}), "done")["result"])
			list := objects(r["matches"])
			if len(list) != len(perFile) || int(number(r["files"])) != len(perFile) {
				t.Errorf("%s: %d files, want %d", mode, len(list), len(perFile))
			}
			for _, m := range list {
				p := strings.TrimPrefix(raw(t, text(m, "path")), "gen/")
				if perFile[p] == 0 || mode == "count" && int(number(m["count"])) != perFile[p] {
					t.Errorf("%s %q: %v, want %d", mode, p, m, perFile[p])
				}
			}
		}
	})
	t.Run("encodings that are not searched are listed", func(t *testing.T) {
		r := object(must(t, d.call("search_files", M{"path": "gen/docs", "pattern": "handle"}), "done")["result"])
		if s := object(r["skipped"]); number(s["binary"]) != 1 || text(objects(s["paths"])[0], "path") != "gen/docs/bin.dat" {
			t.Errorf("%v", r["skipped"])
		}
	})
	t.Run("D73 a hit in a minified file is cut and says so, and later files are found", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "min/m.js"), strings.Repeat("a", 300_000)+"stats"+strings.Repeat("b", 299_995))
		write(t, filepath.Join(d.Root, "min/z.txt"), "stats\n")
		r := object(must(t, d.call("search_files", M{"path": "min", "pattern": "stats"}), "done")["result"])
		m := objects(r["matches"])
		if len(m) != 2 || m[0]["cut"] != true || number(m[0]["column"]) != 300_001 || len(text(m[0], "text")) > 1000 || !strings.Contains(text(m[0], "text"), "astatsb") || r["truncated"] != "long_lines" {
			t.Errorf("%v", r)
		}
		if text(m[1], "path") != "min/z.txt" || m[1]["cut"] != nil {
			t.Errorf("%v", m[1])
		}
	})
	for i, c := range []struct {
		lines   string
		files   []string
		visible []string
	}{
		{"**/node_modules/**", []string{"src/a.txt", "node_modules/x.js", "pkg/node_modules/y/z.js"}, []string{"src/a.txt"}},
		{"a/**/*/**", []string{"a/f.txt", "a/b/c.txt"}, []string{"a/f.txt"}},
		{"d/\n!d/sub/*", []string{"d/sub/f.txt", "e"}, []string{"e"}},
		{"/*\n!/foo\n/foo/*\n!/foo/bar", []string{"foo/bar/x", "foo/baz/y", "z"}, []string{"foo/bar/x"}},
	} {
		id := []string{"D74 a pattern ending in two stars", "D74 stars in the middle", "D75 a negation below an excluded directory", "D75 negations step by step"}[i]
		t.Run(id, func(t *testing.T) {
			base := fmt.Sprintf("ig%d", i)
			write(t, filepath.Join(d.Root, base, ".gitignore"), c.lines+"\n")
			for _, f := range c.files {
				write(t, filepath.Join(d.Root, base, f), "needle\n")
			}
			var tree []string
			for _, e := range listed(t, d, "file_tree", M{"path": base}) {
				if p, ok := strings.CutPrefix(e, "file "+base+"/"); ok {
					tree = append(tree, p)
				}
			}
			var found []string
			for _, h := range ourHits(t, d, base, M{"pattern": "needle"}) {
				found = append(found, strings.SplitN(h, ":", 2)[0])
			}
			if !slices.Equal(tree, c.visible) || !slices.Equal(found, c.visible) {
				t.Errorf("tree %q, search %q, want %q", tree, found, c.visible)
			}
		})
	}
	t.Run("D71 a device behind a link is neither read nor waited for", func(t *testing.T) {
		os.Symlink("/dev/zero", filepath.Join(d.Root, "min/z"))
		if c := code(d.call("search_files", M{"path": "min/z", "pattern": "x"})); c != "outside_workspace" && c != "special_file" && c != "symlink_refused" {
			t.Error(c)
		}
		must(t, d.call("search_files", M{"path": "min", "pattern": "x"}), "done")
	})
	t.Run("refused patterns name what to do", func(t *testing.T) {
		for args, want := range map[string]string{`{"pattern":""}`: "empty_pattern", `{"pattern":"(","regex":true}`: "bad_request", `{"pattern":"a\nb"}`: "bad_request",
			`{"pattern":"a","mode":"all"}`: "bad_request", `{"pattern":"a","types":["cobol85"]}`: "bad_request", `{"pattern":"a","page":"x"}`: "bad_request", `{"pattern":"a","glob":"["}`: "bad_request"} {
			var m M
			if err := json.Unmarshal([]byte(args), &m); err != nil {
				t.Fatal(err)
			}
			if got := d.call("search_files", m); code(got) != want {
				t.Errorf("%s: %v", args, got["error"])
			}
		}
	})
}
