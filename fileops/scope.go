package fileops

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Rules are lines in the syntax of ignore files, as package protected reads them. They
// never change; Within gives new ones.
type Rules interface {
	// Within adds lines that stand in dir ("" is the root) and outrank those before.
	Within(dir string, lines []string) Rules
	// Ignores judges a path whose ancestors are not ignored.
	Ignores(path string, isDir bool) bool
	// Malformed gives the first pattern that can match nothing, or "".
	Malformed(patterns []string) string
}

// Bounds of the patterns of a call: each is compared with each path that is looked at.
const (
	maxPatterns     = 1000
	maxPatternsSize = 64 << 10
)

// FewPatterns says that a call's own patterns are too many, or too long.
func FewPatterns(list []string, field string) error {
	size := 0
	for _, line := range list {
		size += len(line)
	}
	if len(list) > maxPatterns || size > maxPatternsSize {
		return op.Fail(op.TooLarge, "the patterns are over 64 KiB, or more than 1,000").In(field).Do("name a directory as path, or use fewer and wider patterns")
	}
	return nil
}

// patterns makes rules of a call's own patterns; nil when there are none.
func patterns(none Rules, list []string, field string) (Rules, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if err := FewPatterns(list, field); err != nil {
		return nil, err
	}
	if none == nil {
		return nil, op.Fail(op.NotAvailable, "patterns cannot be read here").In(field)
	}
	if bad := none.Malformed(list); bad != "" || slices.Contains(list, "") {
		return nil, op.Fail(op.BadRequest, "the pattern "+strconv.Quote(op.Visible(bad, false))+" can match nothing").In(field)
	}
	return none.Within("", list), nil
}

// covers reports whether rules name a path or a directory above it; nil names all.
func covers(r Rules, path string, isDir bool) bool {
	if r == nil {
		return true
	}
	for i := 0; i < len(path); i++ {
		if path[i] == '/' && r.Ignores(path[:i], true) {
			return true
		}
	}
	return r.Ignores(path, isDir)
}

// scopeAt gives what the ignore files above a directory say of what lies in it: the
// lines that hold everywhere, then of each directory from the root down to its parent
// .git/info/exclude and .gitignore. Its own files are for the walk to read.
func scopeAt(ctx context.Context, s Scene, dir op.Path) (Rules, error) {
	if s.Rules == nil {
		return nil, nil
	}
	root, globals := s.Root, s.Globals
	scope := s.Rules.Within("", globals)
	if dir == "." || root == nil {
		return scope, nil
	}
	n, err := root.Look(ctx, ".", true)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	b, err := n.Below()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	names := strings.Split(string(dir), "/")
	for i := range names {
		at := strings.Join(names[:i], "/")
		d, err := b.Dir(at)
		if err != nil {
			continue // it went away: so did what it says
		}
		if info, err := d.Info(".git"); err == nil {
			if at != "" {
				scope = s.Rules.Within(at, globals)
			}
			if info.Kind == op.Directory {
				scope = scope.Within(at, excludeFile(b, at))
			}
		}
		scope = scope.Within(at, lines(d.Small(".gitignore", maxIgnoreFile)))
		d.Close()
	}
	return scope, nil
}

func excludeFile(b *rooted.Below, dir string) []string {
	if dir != "" {
		dir += "/"
	}
	d, err := b.Dir(dir + ".git/info")
	if err != nil {
		return nil
	}
	defer d.Close()
	return lines(d.Small("exclude", maxIgnoreFile))
}
