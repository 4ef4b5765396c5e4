package protected

import (
	"slices"
	"strconv"
	"strings"

	"holdpoint/op"
)

// Where a mark comes from. FromShape is for callers that saw LooksLikeGitDir.
const (
	FromBuiltin   = "builtin"
	FromOperator  = "operator"
	FromWorkspace = "workspace"
	FromShape     = "shape"
)

// WorkspaceFile is the file at the root of a workspace whose lines protect more.
const WorkspaceFile = ".holdpoint-protect"

// Source holds what is added to the built-in patterns.
type Source struct {
	Operator  []string // one pattern each; see Split
	Workspace []string // the lines of WorkspaceFile
}

// Mark is the answer for one path.
type Mark struct {
	Protected bool
	By, From  string // the pattern as it was written, and who wrote it
}

// Described is one pattern with its reason, for people.
type Described struct {
	Pattern string `json:"pattern"`
	From    string `json:"from"`
	Group   string `json:"group"`
	Why     string `json:"why"`
}

// Set holds all patterns that hold for one workspace. It never changes and is safe for
// concurrent use.
type Set struct {
	described []Described
	asWritten matchers // compared with the path as it stands, as git would
	folded    matchers // compared with the folded path
}

// New makes the set of the built-in patterns and what s adds. An operator's pattern that
// is negated, a comment, or can match nothing is policy_invalid; such a line of the
// workspace file is skipped with a warning.
func New(s Source) (*Set, []op.Warning, error) {
	set := &Set{}
	for _, g := range builtin {
		for _, line := range g.patterns {
			set.add(Described{line, FromBuiltin, g.name, g.why})
		}
	}
	for _, line := range s.Operator {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if fault := additive(line); fault != "" || line[0] == '#' {
			if fault == "" {
				fault = `is a comment; write \# for a name that begins with #`
			}
			return nil, nil, op.Fail(op.PolicyInvalid, "the protected pattern \""+op.Visible(line, false)+"\" "+fault).
				In("protected_patterns").Do("mend or remove the pattern; patterns can only add protection")
		}
		set.add(Described{line, FromOperator, "operator", "named by the operator of this daemon"})
	}
	var warnings []op.Warning
	for i, line := range s.Workspace {
		if i == 0 {
			line = strings.TrimPrefix(line, utf8BOM)
		}
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		if fault := additive(line); fault != "" {
			warnings = append(warnings, op.Warning{Code: "protect_line_skipped",
				Message: "line " + strconv.Itoa(i+1) + " of " + WorkspaceFile + " is skipped: \"" + op.Visible(line, false) + "\" " + fault})
			continue
		}
		set.add(Described{line, FromWorkspace, "workspace", "named by " + WorkspaceFile + " of this workspace"})
	}
	set.compile()
	return set, warnings, nil
}

func (s *Set) add(d Described) { s.described = append(s.described, d) }

// compile goes backwards: of several patterns that match, the last of a list is named,
// and that shall be the built-in one.
func (s *Set) compile() {
	for i := len(s.described) - 1; i >= 0; i-- {
		s.asWritten.add(s.described[i].Pattern, i, false)
		s.folded.add(s.described[i].Pattern, i, true)
	}
}

// additive says what is wrong with a line that shall add protection, or nothing.
func additive(line string) string {
	if strings.ContainsAny(line, "\n\x00") {
		return "holds a line break or a zero byte"
	}
	p, ok := parse(line, false)
	switch {
	case !ok:
		return ""
	case p.negated:
		return "is negated; nothing can take protection away"
	case p.never:
		return "is malformed and matches nothing"
	}
	// Paths have no such elements, so the pattern would be silently without effect.
	for name := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(line, "/"), "/"), "/") {
		if name == "" || name == "." || name == ".." {
			return "matches nothing: it has an empty, \".\" or \"..\" element"
		}
	}
	return ""
}

// Split takes a comma-separated list of patterns apart. White space around each is cut; a
// comma of a name is written "\,".
func Split(list string) []string {
	var out []string
	begin := 0
	for i := 0; i <= len(list); i++ {
		switch {
		case i == len(list) || list[i] == ',':
			if p := trimSpaces(strings.TrimLeft(list[begin:min(i, len(list))], " \t\r\n")); p != "" {
				out = append(out, p)
			}
			begin = i + 1
		case list[i] == '\\' && i+1 < len(list): // one at the very end is the pattern's own fault
			i++
		}
	}
	return out
}

// Patterns returns every pattern, built-in ones first.
func (s *Set) Patterns() []Described { return append([]Described(nil), s.described...) }

// Mark judges p and each of its ancestors: as written, folded, and as Windows would read
// the name. A pattern for directories also protects a file or link of that name, since
// one can become the other; isDir only decides which pattern is named. The path need not
// be canonical.
func (s *Set) Mark(p op.Path, isDir bool) Mark {
	path := tidy(string(p))
	if path == "" {
		return Mark{}
	}
	same := fold(path)
	i := s.folded.find(same, isDir)
	if win := ntfs(same); i < 0 && win != same {
		i = s.folded.find(win, isDir)
	}
	if i < 0 {
		i = s.asWritten.find(path, isDir)
	}
	if i < 0 {
		return Mark{}
	}
	return Mark{Protected: true, By: s.described[i].Pattern, From: s.described[i].From}
}

// Both judges the path that was reached and the one that was asked for: the stricter counts.
func (s *Set) Both(canonical, asked op.Path, isDir bool) Mark {
	m := s.Mark(canonical, isDir)
	if !m.Protected && asked != canonical {
		m = s.Mark(asked, isDir)
	}
	return m
}

// matchers hold two opinions on each pattern.
type matchers struct {
	list    List
	source  []int // of each pattern in list: its place in the set
	seconds []second
}

func (m *matchers) add(line string, source int, fold bool) {
	p, ok := parse(line, fold)
	if !ok || p.never || p.negated {
		return
	}
	if m.list.names == nil {
		m.list.names = map[string][]int{}
	}
	m.list.add(p)
	m.source = append(m.source, source)
	m.seconds = append(m.seconds, newSecond(p))
}

// find returns the place in the set of a pattern that covers path or an ancestor, or -1.
func (m *matchers) find(path string, isDir bool) int {
	for end := range ends(path) {
		if i := m.list.last(path[:end], isDir || end < len(path)); i >= 0 {
			return m.source[i]
		}
	}
	have := lettersOf(path)
	for i := range m.seconds {
		if m.seconds[i].needs.in(have) && m.seconds[i].covers(path) {
			return m.source[i]
		}
	}
	return -1
}

// Literal returns the names that patterns of one element without a wildcard spell out:
// those that can be held at the top of a root before anything of that name is there.
func (s *Set) Literal() []string {
	var out []string
	for _, d := range s.described {
		name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimRight(d.Pattern, " "), "/"), "/")
		if name != "" && !strings.ContainsAny(name, `/*?[\`) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
