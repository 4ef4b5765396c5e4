package mcp

import (
	"context"
	"strings"

	"holdpoint/op"
)

// tool is one tool as a client sees it, and what it does.
type tool struct {
	name, title, about string
	input, output      []byte // JSON Schemas
	readOnly           bool   // the four hints
	destructive        bool
	idempotent         bool
	openWorld          bool
	changes            bool // may be held for a person
	waits              bool // may take long and tells of its progress
	run                func(ctx context.Context, c *caller, args op.Object) answer
}

// caller is who a call of a tool comes from.
type caller struct {
	engine Engine
	by     op.Caller
	root   string // the root that the client works in; empty is the token's only one
	label  string // the session's label, so that its changes can be found and undone together
	// progress tells a client that waits how it goes; nil when it did not ask.
	progress func(ctx context.Context, text string)
}

// toolset is what one choice of options offers.
type toolset struct {
	list   []*tool
	byName map[string]*tool
}

// maxList bounds what a client pays for the list of tools before it does anything.
const maxList = 16 << 10

// perTool is what a tool takes beside its own words: the names of the fields and the hints.
const perTool = 178

// newToolset makes the tools of a choice, and tells less about each where the list would
// be too long.
func newToolset(o Options) *toolset {
	for i, st := range styles {
		if s := st.toolset(o); s.size() <= maxList || i == len(styles)-1 {
			return s
		}
	}
	return nil
}

func (st style) toolset(o Options) *toolset {
	s := &toolset{byName: map[string]*tool{}}
	if o.Compat {
		s.add(compatTools()...)
	}
	for _, spec := range op.Operations() {
		if spec.Built && o.wants(spec) {
			s.add(st.operationTool(spec))
		}
	}
	s.add(preflightTool())
	if o.Edit || o.Shell {
		s.add(waitingTools()...)
	}
	if o.Shell {
		s.add(runTools()...)
	}
	return s
}

// size is about what the list takes on the wire.
func (s *toolset) size() int {
	n := 0
	for _, t := range s.list {
		n += len(t.input) + len(t.output) + len(t.name) + len(t.title) + len(t.about) + perTool
	}
	return n
}

// add takes tools in; of two with one name the first counts.
func (s *toolset) add(tools ...tool) {
	for _, t := range tools {
		if s.byName[t.name] == nil {
			s.byName[t.name] = &t
			s.list = append(s.list, &t)
		}
	}
}

// wants sorts operations into the groups that --tools names.
func (o Options) wants(s op.Spec) bool {
	switch {
	case strings.HasPrefix(string(s.Name), "git_"):
		return o.Git
	case s.Class == op.Read:
		return o.Read
	case s.Class == op.Process:
		return o.Shell
	case s.Class == op.Switching:
		return o.Edit || o.Shell
	}
	return o.Edit
}

func (st style) operationTool(spec op.Spec) tool {
	t := tool{name: string(spec.Name), title: spec.Title, about: spec.Summary, input: st.inputSchema(spec), output: st.outputSchema(spec),
		readOnly: spec.Class == op.Read, destructive: destroys(spec), idempotent: repeatable(spec), openWorld: spec.Class == op.Process,
		changes: spec.Class != op.Read, waits: spec.Class == op.Process}
	t.run = func(ctx context.Context, c *caller, args op.Object) answer { return c.call(ctx, spec, args) }
	return t
}

// destroys is true of what may replace or remove something that was there.
func destroys(s op.Spec) bool {
	switch s.Name {
	case op.CreateDirectory, op.BackupFile, op.CopyFile, op.SwitchProfile:
		return false
	}
	return s.Class != op.Read
}

// repeatable is true where doing the same again changes nothing more.
func repeatable(s op.Spec) bool {
	switch s.Name {
	case op.WriteFile, op.CreateDirectory, op.DeleteFile, op.Undo, op.SwitchProfile:
		return true
	}
	return s.Class == op.Read
}

func splitWords(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
