package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"holdpoint/op"
)

// work is what an agent does in one hour, and the place where it does it.
type work struct {
	what    string
	prepare func(root string) error
	do      func(h *hour) error
}

// plan gives ten hours: seven along the history of a repository, each from another of its
// commits, and three of tasks on the sources of modules that the project uses.
func plan(repo string) ([]work, error) {
	out, err := git(repo, "log", "--reverse", "--format=%H")
	if err != nil {
		return nil, err
	}
	commits := strings.Fields(out)
	if len(commits) < 8 {
		return nil, fmt.Errorf("%s has %d commits, which is too short a history", repo, len(commits))
	}
	var works []work
	for i := range 7 {
		from := min(1+i*(len(commits)-2)/7, len(commits)-min(9, len(commits)-1)) // the last ones need enough ahead of them for an hour
		works = append(works, work{what: fmt.Sprintf("this project's history from commit %d on", from+1),
			prepare: func(root string) error { return cloned(repo, root, commits[from-1]) },
			do:      func(h *hour) error { return h.follow(repo, commits[from:]) }})
	}
	for _, t := range []struct {
		what, module string
		do           func(*hour) error
	}{
		{"a function renamed through cobra, with its tests", "github.com/spf13/cobra", func(h *hour) error { return h.rename("ErrOrStderr", "ErrWriter") }},
		{"a clean-up of goldmark: dead files, a moved package, headers", "github.com/yuin/goldmark", (*hour).cleanup},
		{"reading through go-toml for a bug, with few edits", "github.com/pelletier/go-toml/v2", (*hour).study},
	} {
		works = append(works, work{t.what, func(root string) error { return module(repo, t.module, root) }, t.do})
	}
	return works, nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

func cloned(repo, root, at string) error {
	if _, err := git(repo, "clone", "--quiet", "--no-hardlinks", repo, root); err != nil {
		return err
	}
	_, err := git(root, "checkout", "--quiet", at)
	return err
}

// module copies the sources of a module, made writable, and puts them under git.
func module(repo, name, root string) error {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", name)
	cmd.Dir = repo
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.CopyFS(root, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		return err
	}
	err = filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(p, info.Mode()|0o200)
	})
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "as it is"}} {
		if err == nil {
			_, err = git(root, args...)
		}
	}
	return err
}

// follow does what the commits did, file by file: looks, edits, and after each commit
// formats, vets, tests and commits.
func (h *hour) follow(repo string, commits []string) error {
	for _, c := range commits {
		names, err := git(repo, "diff-tree", "-r", "-M", "--no-commit-id", "--name-status", c)
		if err != nil {
			return err
		}
		if err := h.read(op.GitStatus, map[string]any{}); err != nil {
			return err
		}
		dirs := map[string]bool{}
		for _, line := range strings.Split(strings.TrimSpace(names), "\n") {
			f := strings.Split(line, "\t")
			if len(f) < 2 {
				continue
			}
			if err := h.file(repo, c, f); err != nil {
				return err
			}
			if p := f[len(f)-1]; strings.HasSuffix(p, ".go") && !dirs[path.Dir(p)] {
				dirs[path.Dir(p)] = true
				if err := h.test(path.Dir(p)); err != nil {
					return err
				}
			}
		}
		if err := h.finish(); err != nil {
			return err
		}
	}
	return nil
}

// file does what one commit did to one file.
func (h *hour) file(repo, commit string, f []string) error {
	p := f[len(f)-1]
	if f[0][0] == 'D' {
		_, err := h.call(op.DeleteFile, map[string]any{"path": p}, "", false)
		return err
	}
	if f[0][0] == 'R' {
		if err := h.read(op.FileInfo, map[string]any{"path": f[1]}); err != nil {
			return err
		}
		if _, err := h.call(op.MoveFile, map[string]any{"source": f[1], "destination": p}, "", false); err != nil {
			return err
		}
	}
	after, err := git(repo, "show", commit+":"+p)
	if err != nil || strings.ContainsRune(after, 0) {
		return nil // a picture: not an agent's to write
	}
	if f[0][0] == 'A' {
		if err := h.read(op.ListDirectory, map[string]any{"path": existing(h.root, path.Dir(p))}); err != nil {
			return err
		}
		_, err := h.call(op.WriteFile, map[string]any{"path": p, "content": after, "create_dirs": true}, "", false)
		return err
	}
	if err := h.read(op.ViewFile, map[string]any{"path": p}); err != nil {
		return err
	}
	return h.change(p, after)
}

func existing(root, dir string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
			return dir
		}
	}
	return "."
}

// change brings a file to what it shall be: by edits where each piece is there once, else
// by one patch, as agents do.
func (h *hour) change(p, after string) error {
	before, err := os.ReadFile(filepath.Join(h.root, p))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hpd")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errorsOf(os.WriteFile(a, before, 0o600), os.WriteFile(b, []byte(after), 0o600)); err != nil {
		return err
	}
	out, _ := exec.Command("git", "diff", "--no-index", "--no-color", "-U3", a, b).Output() // ends with 1 when they differ
	diff := string(out)
	pieces := hunks(diff)
	if len(pieces) == 0 {
		return nil
	}
	now, fits := string(before), true
	for _, e := range pieces {
		fits = fits && e[0] != "" && strings.Count(now, e[0]) == 1
		now = strings.Replace(now, e[0], e[1], 1)
	}
	if !fits || len(pieces) > 6 {
		body := diff[strings.Index(diff, "@@"):]
		_, err := h.call(op.PatchFile, map[string]any{"patch": "--- a/" + p + "\n+++ b/" + p + "\n" + body}, "", false)
		return err
	}
	for _, e := range pieces {
		if _, err := h.call(op.EditFile, map[string]any{"path": p, "old_string": e[0], "new_string": e[1]}, "", false); err != nil {
			return err
		}
	}
	return nil
}

func errorsOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// hunks gives each piece of a diff as its old and its new text.
func hunks(diff string) (out [][2]string) {
	for _, h := range strings.Split(diff, "\n@@ ")[1:] {
		var e [2]string
		for _, line := range strings.SplitAfter(h, "\n")[1:] {
			switch {
			case line == "" || line[0] == '\\':
			case line[0] == ' ':
				e[0], e[1] = e[0]+line[1:], e[1]+line[1:]
			case line[0] == '-':
				e[0] += line[1:]
			case line[0] == '+':
				e[1] += line[1:]
			}
		}
		out = append(out, e)
	}
	return out
}

// read looks. Where the program does not have the operation yet, a plain look counts for it.
func (h *hour) read(name op.Name, args map[string]any) error {
	if spec, _ := op.Lookup(name); !spec.Built {
		name, args = op.ListDirectory, map[string]any{"path": "."}
	}
	_, err := h.call(name, args, "", false)
	return err
}

func (h *hour) run(kind, script string, leaves bool) error {
	_, err := h.call(op.WorkspaceShell, map[string]any{"script": script}, kind, leaves)
	return err
}

func (h *hour) test(dir string) error {
	if err := h.read(op.SearchFiles, map[string]any{"path": existing(h.root, dir), "pattern": "func Test"}); err != nil {
		return err
	}
	_, err := h.call(op.WorkspaceTests, map[string]any{"command": "go", "args": []string{"test", "./" + dir}}, "go test", false)
	return err
}

// finish is how an agent ends a piece of work.
func (h *hour) finish() error {
	return errorsIn(
		func() error { return h.read(op.GitDiff, map[string]any{}) },
		func() error { return h.run("gofmt -l", "gofmt -l .", false) },
		func() error { return h.run("go vet", "go vet ./...", false) },
		func() error { return h.run("git commit", "git add -A && git commit -m 'work'", true) },
	)
}

func errorsIn(steps ...func() error) error {
	for _, s := range steps {
		if err := s(); err != nil {
			return err
		}
	}
	return nil
}

// sources lists the Go files of the workspace.
func (h *hour) sources() (out []string) {
	filepath.WalkDir(h.root, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(p, ".go") {
			rel, _ := filepath.Rel(h.root, p)
			out = append(out, filepath.ToSlash(rel))
		}
		return nil
	})
	return out
}

// rename changes a name wherever it stands, file by file, testing as it goes.
func (h *hour) rename(from, to string) error {
	if err := h.read(op.SearchFiles, map[string]any{"path": ".", "pattern": from}); err != nil {
		return err
	}
	word := regexp.MustCompile(`\b` + from + `\b`)
	for round := 0; ; round++ {
		touched := 0
		for _, p := range h.sources() {
			b, err := os.ReadFile(filepath.Join(h.root, p))
			if err != nil {
				return err
			}
			if !word.Match(b) {
				continue
			}
			touched++
			if err := h.read(op.ViewFile, map[string]any{"path": p}); err != nil {
				return err
			}
			if err := h.change(p, word.ReplaceAllString(string(b), to)); err != nil {
				return err
			}
			if touched%4 == 0 {
				if err := h.test("."); err != nil {
					return err
				}
			}
		}
		if err := errorsIn(func() error { return h.test(".") }, h.finish); err != nil {
			return err
		}
		// The next name: an agent's hour holds more than one of these.
		from, to = to, fmt.Sprintf("%s%d", to, round)
		word = regexp.MustCompile(`\b` + from + `\b`)
	}
}

// cleanup takes files away, moves a directory and writes a header into many files.
func (h *hour) cleanup() error {
	if err := h.read(op.FileTree, map[string]any{"path": "."}); err != nil {
		return err
	}
	list := h.sources()
	var dead []string
	for _, p := range list {
		if strings.Contains(p, "_benchmark") || strings.HasSuffix(p, "_test.go") && strings.Contains(p, "extra") {
			dead = append(dead, p)
		}
	}
	for _, p := range dead[:min(2, len(dead))] {
		if err := errorsIn(func() error { return h.read(op.SearchFiles, map[string]any{"path": ".", "pattern": path.Base(p)}) },
			func() error { _, err := h.call(op.DeleteFile, map[string]any{"path": p}, "", false); return err }); err != nil {
			return err
		}
	}
	if _, err := h.call(op.MoveFile, map[string]any{"source": "fuzz", "destination": "testing/fuzz"}, "", false); err != nil {
		return err
	}
	for i, p := range h.sources() {
		if slices.Contains(dead, p) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(h.root, p))
		if err != nil {
			return err
		}
		if err := errorsIn(func() error { return h.read(op.ViewFile, map[string]any{"path": p, "end_line": 20}) },
			func() error { return h.change(p, "// Part of the Markdown library.\n\n"+string(b)) }); err != nil {
			return err
		}
		if i%15 == 14 {
			if err := h.test(path.Dir(p)); err != nil {
				return err
			}
		}
	}
	return h.finish()
}

// study reads, searches and changes little, as the hunt for a bug is.
func (h *hour) study() error {
	for i, p := range h.sources() {
		b, err := os.ReadFile(filepath.Join(h.root, p))
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(path.Base(p), ".go")
		steps := []func() error{
			func() error { return h.read(op.ViewFile, map[string]any{"path": p}) },
			func() error { return h.read(op.SearchFiles, map[string]any{"path": ".", "pattern": name}) },
			func() error { return h.read(op.GitLog, map[string]any{"path": p}) },
		}
		if i%6 == 3 { // a print put in, the test run, the print taken out again
			steps = append(steps, func() error { return h.change(p, string(b)+"\n// looked at\n") }, func() error { return h.test(path.Dir(p)) },
				func() error { return h.change(p, string(b)) })
		}
		if err := errorsIn(steps...); err != nil {
			return err
		}
	}
	return h.finish()
}
