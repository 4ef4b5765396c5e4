package fileops

import (
	"context"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Directories opens a directory of the workspace and every one below it that git does not
// ignore, and tells of each before its names are read: what comes into it later is not
// missed by who begins to watch it then. opened gets the path from the root, "" for the
// root, and is called by several goroutines. Of a directory that is ignored, gone, or none
// at all there is nothing to tell; one that cannot be read is told to closed.
func Directories(ctx context.Context, root *rooted.Root, at op.Path, globals []string, rules Rules, opened func(path string, d *rooted.Dir), closed func(op.Path)) error {
	n, err := root.Look(ctx, at, false)
	if err != nil {
		return err
	}
	defer n.Close()
	if n.Info.Kind != op.Directory || n.Path != at {
		return nil
	}
	o := treeOptions{Hidden: true, Globals: globals, Rules: rules, Closed: closed, Base: string(at)}
	if o.Scope, err = scopeAt(ctx, Scene{Root: root, Globals: globals, Rules: rules}, at); err != nil {
		return err
	}
	if at != "." && ignoredBelow(o.Scope, string(at)) {
		return nil
	}
	below, err := n.Below()
	if err != nil {
		return err
	}
	defer below.Close()
	o.Opened = func(rel string, d *rooted.Dir) {
		switch {
		case at == ".":
		case rel == "":
			rel = string(at)
		default:
			rel = string(at) + "/" + rel
		}
		opened(rel, d)
	}
	return traverse(ctx, below, o, func(string, rooted.Found) error { return nil })
}

// ignoredBelow reports whether a directory, one above it, or a name of git's own is one
// that a walk from the root does not enter.
func ignoredBelow(scope Rules, dir string) bool {
	for i := 0; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		if op.Path(dir[:i]).Base() == ".git" || scope != nil && scope.Ignores(dir[:i], true) {
			return true
		}
	}
	return false
}
