package fileops

import (
	"context"
	"strings"

	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/protected"
)

// scopeAt gives what the ignore files above a directory say of what lies in it: the
// lines that hold everywhere, then of each directory from the root down to its parent
// .git/info/exclude and .gitignore. Its own files are for the walk to read.
func scopeAt(ctx context.Context, root *rooted.Root, dir op.Path, globals []string) (*protected.Scope, error) {
	scope := (*protected.Scope)(nil).Within("", globals)
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
				scope = (*protected.Scope)(nil).Within(at, globals)
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
