package trusted

import (
	"path/filepath"
	"slices"
	"strings"

	"holdpoint/op"
)

// Selects reports whether the entry of this id picks its files itself. Such an entry lifts
// nothing but its own cleanup: what a caller chose by name still waits for a person.
func (s *Set) Selects(id string) bool {
	return slices.ContainsFunc(s.policies, func(p Policy) bool { return p.ID == id && p.Select != nil })
}

// Reach is where one entry's cleanup may pick files in one workspace.
type Reach struct {
	roots            []string
	rootKey, rootDir string
}

// Cleanup finds the entry by which a workflow may clean. One that is not there, names
// other workflows, or picks no files is the same to whoever asks: false.
func (s *Set) Cleanup(id, workflow, rootKey, rootDir string) (Select, Reach, bool) {
	for i, p := range s.policies {
		if p.ID == id && p.Select != nil && workflow != "" && slices.Contains(p.WorkflowIDs, workflow) {
			return *p.Select, Reach{s.roots[i], rootKey, rootDir}, true
		}
	}
	return Select{}, Reach{}, false
}

// Covers reports whether a file may be picked.
func (r Reach) Covers(p op.Path) bool {
	return slices.ContainsFunc(r.roots, func(root string) bool { return coversPath(root, r.rootKey, r.rootDir, p) })
}

// Leads reports whether a directory is covered, or lies on the way to a root.
func (r Reach) Leads(p op.Path) bool {
	return r.Covers(p) || slices.ContainsFunc(r.roots, func(root string) bool {
		return !strings.HasPrefix(root, ClientRoot) && within(root, filepath.Join(r.rootDir, filepath.FromSlash(string(p))))
	})
}
