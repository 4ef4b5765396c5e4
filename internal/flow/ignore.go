package flow

import (
	"holdpoint/fileops"
	"holdpoint/protected"
)

// IgnoreRules gives rules without a line, for reads to add lines to.
func IgnoreRules() fileops.Rules { return ignoreRules{} }

// ignoreRules shows a protected.Scope to fileops.
type ignoreRules struct{ scope *protected.Scope }

func (r ignoreRules) Within(dir string, lines []string) fileops.Rules {
	return ignoreRules{r.scope.Within(dir, lines)}
}
func (r ignoreRules) Ignores(path string, isDir bool) bool { return r.scope.Ignores(path, isDir) }
func (r ignoreRules) Malformed(patterns []string) string   { return protected.Malformed(patterns) }
