package flow

import (
	"context"

	"holdpoint/fileops"
	"holdpoint/internal/gitread"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/protected"
)

// gitOptions says where a reading of git may look; false for other operations. A
// repository that keeps its data elsewhere is read only where that place is a registered
// root too and the caller may use it.
func (e *Engine) gitOptions(c *call, s fileops.Scene) (gitread.Options, bool) {
	if !gitread.Knows(s.Args) {
		return gitread.Options{}, false
	}
	return e.gitReach(c, s), true
}

func (e *Engine) gitReach(c *call, s fileops.Scene) gitread.Options {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var others []*rooted.Root
	for _, w := range e.roots {
		if w != c.ws && mayUse(c.by, w) {
			others = append(others, w.Root)
		}
	}
	at := op.Path(".")
	if len(s.Targets) > 0 {
		at = s.Targets[0].Path
	}
	return gitread.Options{Root: c.ws.Root, Path: at, Others: others, Globals: c.ws.excludes, Rules: gitRules{}}
}

// withGit adds to the facts of a file how it stands with git. What cannot be told is called
// unknown, with the reason; it keeps nothing else from being told.
func (e *Engine) withGit(ctx context.Context, c *call, s fileops.Scene, facts map[string]any) error {
	t := s.Targets[0]
	if t.Kind != op.File && t.Kind != op.Symlink {
		return nil
	}
	state, err := gitread.FileState(ctx, e.gitReach(c, s), t.Path)
	switch {
	case ctx.Err() != nil:
		return op.Fail(op.Cancelled, "cancelled").At(t.Path).Because(ctx.Err())
	case err != nil:
		state = map[string]any{"state": "unknown", "code": op.AsError(err).Code, "why": op.AsError(err).Message}
	}
	if state != nil {
		facts["git"] = state
	}
	return nil
}

// gitRules shows a protected.Scope to gitread.
type gitRules struct{ scope *protected.Scope }

func (r gitRules) Within(dir string, lines []string) gitread.Rules {
	return gitRules{r.scope.Within(dir, lines)}
}
func (r gitRules) Ignores(path string, isDir bool) bool { return r.scope.Ignores(path, isDir) }
