// Package gitread answers questions about git repositories that lie in a workspace: what
// changed, between what, by which commits and by whom.
//
// Refs are read, and commits, trees and tags decoded, by the go-git library over a read-only
// file system of handles confined to the workspace; packs, loose objects, index,
// configuration, attributes and the work tree are read here: the library believes what a
// pack says of itself, without a bound. No program is ever started: not git, no hook,
// filter, textconv, pager, fsmonitor, credential helper or external diff, whatever the
// repository's configuration names.
//
// What it does not promise. It writes nothing, so an index whose stat data went stale is
// compared by content each time. It asks nobody for objects that a partial clone left out.
// It reads neither the user's nor the system's configuration, but for the ignore lines it
// is given. What it cannot read it refuses as git_unsupported and names; a file of which
// only a program of the configuration could tell is listed as undecided.
package gitread

import (
	"context"
	"fmt"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Rules are lines in the syntax of ignore files. They never change; Within gives new ones.
type Rules interface {
	// Within adds lines that stand in dir ("" is the root) and outrank those before.
	Within(dir string, lines []string) Rules
	// Ignores judges a path whose ancestors are not ignored.
	Ignores(path string, isDir bool) bool
}

// Options are where to read.
type Options struct {
	Root    *rooted.Root
	Path    op.Path        // the call's path, canonical
	Others  []*rooted.Root // further directories that the operator named and the caller may use
	Globals []string       // ignore lines that hold in every repository
	Rules   Rules          // without a line
}

// Knows tells whether arguments are of an operation that Read answers.
func Knows(args any) bool {
	switch args.(type) {
	case *op.GitStatusArgs, *op.GitDiffArgs, *op.GitLogArgs, *op.GitShowArgs, *op.GitBlameArgs:
		return true
	}
	return false
}

// Read answers one operation. What the reading of hostile data makes of go-git is an
// error of that call.
func Read(ctx context.Context, o Options, args any) (result map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, unsupported("the repository's data cannot be read").Because(fmt.Errorf("%v", p))
		}
	}()
	switch a := args.(type) {
	case *op.GitStatusArgs:
		return status(ctx, o, a)
	case *op.GitDiffArgs:
		return diff(ctx, o, a)
	case *op.GitLogArgs:
		return log(ctx, o, a)
	case *op.GitShowArgs:
		return show(ctx, o, a)
	case *op.GitBlameArgs:
		return blame(ctx, o, a)
	}
	return nil, op.Fail(op.NotAvailable, "this operation is not built yet")
}

func unsupported(what string) *op.Error {
	e := op.Fail(op.GitUnsupported, what).Do("git itself can tell, through workspace_shell")
	e.Retry = "never"
	return e
}
