package flow

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"holdpoint/op"
)

// gitElsewhere tells where the git data of a linked worktree or a submodule lies, when a
// program runs in one and the place is outside the root; empty otherwise. It looks at what
// stands nearest above the working directory, as git does, and believes nothing of it: it
// is for the card alone.
func gitElsewhere(ctx context.Context, c *call, dir string) string {
	rel, ok := c.inside(dir)
	for at := string(rel); ok; at = path.Dir(at) {
		n, err := c.ws.Root.Look(ctx, op.Path(path.Join(at, ".git")), false)
		if err == nil {
			defer n.Close()
			if n.Info.Kind != op.File {
				return ""
			}
			text, err := n.Read(4096)
			to, is := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
			if err != nil || !is {
				return ""
			}
			if to = strings.TrimSpace(to); !filepath.IsAbs(to) {
				to = filepath.Join(c.ws.Root.Dir(), at, to)
			}
			if _, in := c.inside(filepath.Clean(to)); in {
				return ""
			}
			return op.Visible(to, false)
		}
		ok = at != "." && at != "/" && at != ""
	}
	return ""
}
