package trusted

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holdpoint/op"
)

// For gives the entries that name the workflow, as the decision wants them: with
// CoversAllTargets set when every path of the call lies under the entry's roots and every
// destructive operation in parts (those in a batch) is named. rootDir is the workspace's
// canonical directory; without it only roots named by key can match.
func (s *Set) For(workflow, rootKey, rootDir string, name op.Name, targets []op.Target, parts []op.Name) []op.TrustedPolicy {
	var out []op.TrustedPolicy
	for i, p := range s.policies {
		if workflow == "" || !slices.Contains(p.WorkflowIDs, workflow) {
			continue
		}
		covers := coversTargets(s.roots[i], rootKey, rootDir, targets)
		if name == op.BatchFileOps {
			for _, part := range parts {
				covers = covers && slices.Contains(p.Operations, part)
			}
		}
		out = append(out, op.TrustedPolicy{ID: p.ID, WorkflowIDs: slices.Clone(p.WorkflowIDs), Operations: slices.Clone(p.Operations), CoversAllTargets: covers})
	}
	return out
}

// coversTargets: parents that are only passed through need not be covered, all else must.
func coversTargets(roots []string, rootKey, rootDir string, targets []op.Target) bool {
	n := 0
	for _, t := range targets {
		if t.Role == op.RoleParent {
			continue
		}
		n++
		if !slices.ContainsFunc(roots, func(root string) bool { return coversPath(root, rootKey, rootDir, t.Path) }) {
			return false
		}
	}
	return n > 0
}

func coversPath(root, rootKey, rootDir string, p op.Path) bool {
	local := filepath.FromSlash(string(p))
	if !filepath.IsLocal(local) || filepath.Clean(local) != local {
		return false
	}
	if key, ok := strings.CutPrefix(root, ClientRoot); ok {
		return rootKey != "" && key == rootKey
	}
	return filepath.IsAbs(rootDir) && within(filepath.Join(rootDir, local), root)
}

// within reports whether p is dir or lies below it, at a path boundary.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// canonicalRoot follows the links of a root as it stands now, but none inside a workspace:
// there a released program could turn the named directory into a link to a wider place and
// wait for the next reload. Such a root keeps its spelling and so matches nothing, as the
// canonical path of a target never leads through a link. The same holds for a part that
// does not exist yet.
func canonicalRoot(root string, workspaces []string) string {
	const maxLinks = 64
	sep := string(filepath.Separator)
	volume := filepath.VolumeName(root)
	names := func(p string) []string { return strings.Split(strings.Trim(p, sep), sep) }
	todo := names(filepath.Clean(root[len(volume):]))
	done := volume + sep
	for links := 0; len(todo) > 0; {
		next := filepath.Join(done, todo[0])
		todo = todo[1:]
		inside := slices.ContainsFunc(workspaces, func(ws string) bool { return within(done, ws) })
		target, err := os.Readlink(next)
		if inside || err != nil || links == maxLinks {
			done = next
			continue
		}
		links++
		// Joining would fold "x/.." before x was followed, so that the parts go one by one.
		if filepath.IsAbs(target) {
			done = filepath.VolumeName(target) + sep
			target = target[len(filepath.VolumeName(target)):]
		}
		todo = append(names(target), todo...)
	}
	return done
}
