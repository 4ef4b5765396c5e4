// Package mcp serves the operations as tools of the Model Context Protocol, over lines on
// a connection and over streamable HTTP. It words calls and answers; the engine decides
// and acts, as for every other caller.
//
// No tool of it can approve anything, and nothing that a client sends counts as a
// person's answer: what an elicitation brings back comes from the client that is being
// policed, so it is read for one thing only, whether to wait a little for the real answer.
package mcp

import (
	"context"
	"time"

	"holdpoint/op"
)

// Engine is what this package needs of the flow.
type Engine interface {
	// Caller gives who a token belongs to, now; a revoked one is nobody's.
	Caller(ctx context.Context, secret string) (op.Caller, error)
	Call(ctx context.Context, by op.Caller, req op.Request, warnings []op.Warning) op.Reply
	// CallStarted is Call, and tells the id of a program that runs at once.
	CallStarted(ctx context.Context, by op.Caller, req op.Request, warnings []op.Warning, started func(op.ID)) op.Reply
	// Runs, Output, StopRun and Follow are of the caller's own programs.
	Runs(ctx context.Context, by op.Caller) (any, error)
	Output(ctx context.Context, by op.Caller, id op.ID, stream string, offset, tail int64, limit int) (Output, error)
	StopRun(ctx context.Context, by op.Caller, id op.ID) (any, error)
	// Follow sends what a program prints until it ends, that of a held call once it runs.
	Follow(ctx context.Context, by op.Caller, id op.ID, send func(text string) error) error
	Malformed(by op.Caller, name op.Name, err error) op.Reply
	Preflight(ctx context.Context, by op.Caller, req op.Request) Preview
	// Approval gives the caller's own row, waiting up to wait for its end.
	Approval(ctx context.Context, by op.Caller, id op.ID, wait time.Duration) (Approval, error)
	Cancel(ctx context.Context, by op.Caller, id op.ID) error
	// Root gives the directory of the root that a call without a name means.
	Root(ctx context.Context, by op.Caller, named string) (dir string, err error)
	// Changes tells what may have changed in a root since a cursor, and waits for something.
	Changes(ctx context.Context, by op.Caller, root, cursor string, wait time.Duration) (Changes, error)
}

// Preview is what a call would meet.
type Preview struct {
	Decision *op.Decision
	Reasons  []string // the sentences
	Facts    *op.Facts
	Diff     string
	Pins     string
	Warnings []op.Warning
	Error    *op.Error
}

// Approval is one held call as its asker sees it.
type Approval struct {
	ID    op.ID
	State string
	Note  string // the reviewer's words
	Reply op.Reply
}

// Options choose the tools of one client.
type Options struct {
	Read, Edit, Shell, Git bool
	Compat                 bool // also the names of the reference file server
}

// All is every tool under its own name.
func All() Options { return Options{Read: true, Edit: true, Shell: true, Git: true} }

// ParseOptions reads the value of --tools, a list of group names; empty means all.
func ParseOptions(tools string, compat bool) (Options, error) {
	if tools == "" {
		o := All()
		o.Compat = compat
		return o, nil
	}
	o := Options{Compat: compat}
	known := map[string]*bool{"read": &o.Read, "edit": &o.Edit, "shell": &o.Shell, "git": &o.Git}
	for _, word := range splitWords(tools) {
		on := known[word]
		if on == nil {
			return o, op.Fail(op.BadRequest, "no group of tools is called "+word).In("tools").Do("the groups are read, edit, shell and git")
		}
		*on = true
	}
	return o, nil
}
