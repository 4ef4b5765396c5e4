// Package trusted reads the operator's trusted-automation file: which workflows may run
// which destructive operations, and where, without asking.
//
// An entry is only one of two keys; the profile must also not require approval, and the
// decision applies it. The package does not decide, and nothing in it widens on an error:
// what cannot be read, or is not fully understood, grants nothing.
package trusted

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/op"
)

// Policy is one entry of the file.
type Policy struct {
	ID          string    `json:"id"`
	WorkflowIDs []string  `json:"workflow_ids"`
	Operations  []op.Name `json:"operations"`
	Roots       []string  `json:"roots"` // absolute directories, or ClientRoot and a root key
	Select      *Select   `json:"select,omitempty"`
}

// Select lets code, not a model, pick the files of a cleanup.
type Select struct {
	Include   []string `json:"include"`
	OlderThan string   `json:"older_than"` // "720h", "30d"; empty is any age
	MaxFiles  int      `json:"max_files"`
	MaxBytes  int64    `json:"max_bytes"` // 0 is no limit of bytes
}

// ClientRoot begins a root that is named by its key instead of a directory.
const ClientRoot = "client:"

// Age gives OlderThan as a duration; zero when it is absent.
func (s Select) Age() time.Duration { d, _ := age(s.OlderThan); return d }

// lifted are the only operations that an entry may name; processes are not among them.
var lifted = []op.Name{op.DeleteFile, op.MoveFile, op.RollbackFile, op.BatchFileOps}

// Parse reads the text of a policy file. Unknown and repeated keys, missing and empty
// lists, wildcards, repeated ids, operations that no entry may name, and roots that are
// neither absolute nor a key are policy_invalid, with line and field.
func Parse(data []byte) ([]Policy, error) {
	top, err := parseTree(data)
	if err != nil {
		return nil, err
	}
	r := reader{}
	r.object(top, "", "policies")
	list := r.list(top, "", "policies", true)
	var out []Policy
	lines := map[string]int{}
	for i, n := range list {
		at := fmt.Sprintf("policies[%d]", i)
		p := r.policy(n, at)
		if id := n.field("id"); id != nil {
			if first, twice := lines[p.ID]; twice {
				r.bad(id, at+".id", fmt.Sprintf("the id %q stands at line %d already", p.ID, first))
			}
			lines[p.ID] = id.line
		}
		out = append(out, p)
	}
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

// reader collects the first fault, in the order of the file.
type reader struct{ err *op.Error }

func (r *reader) bad(n *node, field, what string) {
	if r.err == nil {
		r.err = invalid(n.line, field, what)
	}
}

func invalid(line int, field, what string) *op.Error {
	if field != "" {
		what = field + ": " + what
	}
	return op.Fail(op.PolicyInvalid, fmt.Sprintf("line %d: %s", line, what)).In(field)
}

func (r *reader) policy(n *node, at string) Policy {
	r.object(n, at, "id", "workflow_ids", "operations", "roots", "select")
	p := Policy{ID: r.text(n.field("id"), n, at+".id")}
	for i, e := range r.list(n, at, "workflow_ids", false) {
		p.WorkflowIDs = append(p.WorkflowIDs, r.text(e, n, fmt.Sprintf("%s.workflow_ids[%d]", at, i)))
	}
	for i, e := range r.list(n, at, "operations", false) {
		field := fmt.Sprintf("%s.operations[%d]", at, i)
		name := op.Name(r.text(e, n, field))
		if !slices.Contains(lifted, name) {
			r.bad(e, field, fmt.Sprintf("%q is no operation that an entry may name; these are delete_file, move_file, rollback_file and batch_file_ops", name))
		}
		p.Operations = append(p.Operations, name)
	}
	for i, e := range r.list(n, at, "roots", false) {
		p.Roots = append(p.Roots, r.root(e, n, fmt.Sprintf("%s.roots[%d]", at, i)))
	}
	if s := n.field("select"); s != nil {
		p.Select = r.selection(s, at+".select")
		if !slices.Contains(p.Operations, op.DeleteFile) || !slices.Contains(p.Operations, op.BatchFileOps) {
			r.bad(s, at+".select", "select picks files to delete as one batch, so that operations must name delete_file and batch_file_ops")
		}
	}
	return p
}

func (r *reader) root(n, parent *node, field string) string {
	s := r.text(n, parent, field)
	if key, ok := strings.CutPrefix(s, ClientRoot); ok {
		if !isKey(key) {
			r.bad(n, field, "after "+ClientRoot+" stands a root key in lower-case hexadecimal digits, as status shows it, never a path")
		}
		return s
	}
	switch {
	case !filepath.IsAbs(s):
		r.bad(n, field, fmt.Sprintf("the root %q is not absolute", s))
	case slices.Contains(strings.Split(filepath.ToSlash(s), "/"), ".."):
		r.bad(n, field, fmt.Sprintf("the root %q holds ..", s))
	case filepath.Dir(filepath.Clean(s)) == filepath.Clean(s):
		r.bad(n, field, "the root is the whole file system, and there is no form for everything")
	}
	return s
}

func isKey(s string) bool {
	return len(s) >= 16 && len(s) <= 128 && strings.Trim(s, "0123456789abcdef") == ""
}

func (r *reader) selection(n *node, at string) *Select {
	r.object(n, at, "include", "older_than", "max_files", "max_bytes")
	var s Select
	for i, e := range r.list(n, at, "include", false) {
		field := fmt.Sprintf("%s.include[%d]", at, i)
		pattern := r.plain(e, n, field)
		if strings.HasPrefix(pattern, "!") || strings.HasPrefix(pattern, "/") || slices.Contains(strings.Split(pattern, "/"), "..") {
			r.bad(e, field, fmt.Sprintf("the pattern %q must be relative, without .. and without negation", pattern))
		}
		if strings.Trim(pattern, "*?/.") == "" {
			r.bad(e, field, fmt.Sprintf("the pattern %q covers everything", pattern))
		}
		s.Include = append(s.Include, pattern)
	}
	if e := n.field("older_than"); e != nil {
		s.OlderThan = r.plain(e, n, at+".older_than")
		if d, ok := age(s.OlderThan); !ok || d <= 0 {
			r.bad(e, at+".older_than", fmt.Sprintf("%q is no age such as \"720h\" or \"30d\"", s.OlderThan))
		}
	}
	// Without a limit, one wrong pattern would empty a tree.
	files := n.field("max_files")
	if files == nil {
		r.bad(n, at+".max_files", "is missing")
	} else {
		s.MaxFiles = int(r.number(files, at+".max_files", 10000))
	}
	if e := n.field("max_bytes"); e != nil {
		s.MaxBytes = r.number(e, at+".max_bytes", op.MaxInteger)
	}
	return &s
}

// age reads a duration in Go's form or in whole days.
func age(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}
