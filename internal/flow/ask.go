package flow

import (
	"cmp"
	"context"
	"strconv"

	"holdpoint/decision"
	"holdpoint/op"
	"holdpoint/preflight"
)

// Preview is what a call would do.
type Preview struct {
	Title   string      `json:"title,omitempty"`
	Lines   []string    `json:"lines,omitempty"` // of a program: what is known of it
	Diff    string      `json:"diff,omitempty"`
	Effects []op.Effect `json:"effects,omitempty"`
	Fails   bool        `json:"fails"` // it provably cannot succeed
}

// Answer to a preflight: the facts, the decision that would be made, and a sealed token
// that a later call may carry to say "only if all of this still holds".
type PreflightReply struct {
	Op       op.Name      `json:"op,omitempty"`
	Root     string       `json:"root"`
	Decision *op.Decision `json:"decision,omitempty"`
	Reasons  []string     `json:"reasons,omitempty"` // the sentences
	Facts    *op.Facts    `json:"facts,omitempty"`
	Digest   op.Digest    `json:"digest,omitempty"` // of the facts of all paths, where a page of them is answered
	Total    int          `json:"total,omitempty"`  // how many they are
	Next     string       `json:"next,omitempty"`   // asks for the page behind this one
	Preview  *Preview     `json:"preview,omitempty"`
	Warnings []op.Warning `json:"warnings,omitempty"`
	Error    *op.Error    `json:"error,omitempty"`
	Pins     string       `json:"pins,omitempty"`
	Version  string       `json:"version"`
}

// Preflight looks and judges, and changes nothing. The decision is made by the same
// function from the same facts as that of the call itself.
func (e *Engine) Preflight(ctx context.Context, by op.Caller, req op.Request, warnings []op.Warning) PreflightReply {
	return e.preflight(ctx, by, req, warnings).finished(req.Op)
}

// finished gives the answer what each has, whatever came of it: an error that says what to
// do, and for every target the links that were walked, none too.
func (p PreflightReply) finished(name op.Name) PreflightReply {
	if p.Error != nil {
		c := call{req: op.Request{Op: name}}
		c.spec, _ = op.Lookup(name)
		p.Error = c.complete(*p.Error)
	}
	if p.Facts != nil {
		for i := range p.Facts.Targets {
			if t := &p.Facts.Targets[i]; t.Links == nil {
				t.Links = []op.Link{}
			}
		}
	}
	return p
}

func (e *Engine) preflight(ctx context.Context, by op.Caller, req op.Request, warnings []op.Warning) PreflightReply {
	c, err := e.open(ctx, by, e.inItsRoot(ctx, by, req), warnings, false)
	out := PreflightReply{Op: req.Op, Version: e.cfg.Version}
	if c.ws != nil {
		out.Root = c.ws.Key
	}
	if err != nil {
		out.Error, out.Warnings = op.AsError(err), c.warnings
		return out
	}
	if d, refused := decision.Refusal(c.terms, c.profile); refused {
		return out.judged(d)
	}
	if err := e.look(ctx, c); err != nil {
		out.Error, out.Warnings = op.AsError(err), c.warnings
		out.Preview = &Preview{Fails: true}
		if len(c.facts.Targets) > 0 {
			out.Facts = &c.facts
		}
		return out
	}
	defer c.close()
	out.Facts, out.Warnings = &c.facts, c.warnings
	for i := range c.facts.Targets {
		if t := &c.facts.Targets[i]; i < len(c.sight.Contents) && t.Kind == op.File {
			t.Text = textFacts(c.sight.Contents[i], t.Size)
		}
	}
	out.Preview = &Preview{}
	if c.plan != nil {
		out.Preview.Title, out.Preview.Diff, out.Preview.Effects = c.plan.Title, c.plan.Diff.Text, op.Effects(c.plan.Steps)
		if c.spec.Class == op.Process || c.spec.Class == op.Switching {
			for _, l := range c.plan.Lines {
				out.Preview.Lines = append(out.Preview.Lines, op.Visible(l, false))
			}
		}
	}
	if err := e.pinned(c); err != nil {
		out.Error = op.AsError(err)
		return out
	}
	if err := c.limited(); err != nil {
		out.Error = op.AsError(err)
		return out
	}
	out.Pins = e.sealer.Seal(c.ws.Key, c.facts.Pins())
	d, err := e.judge(ctx, c, false)
	if err != nil {
		out.Error = op.AsError(err)
		return out
	}
	return out.judged(d)
}

func (p PreflightReply) judged(d op.Decision) PreflightReply {
	p.Decision = &d
	for _, r := range append([]op.Reason{d.Reason}, d.Also...) {
		if s := decision.Sentence(r); s != "" {
			p.Reasons = append(p.Reasons, s)
		}
	}
	return p
}

// MaxPaths is how many paths one preflight may name.
const MaxPaths = 10_000

// Facts looks at paths alone. A path that cannot be looked at has no target; its error
// stands in the warnings under its number. All paths are looked at whatever part of the
// facts is asked for; a part comes with the digest of all instead of their pins.
func (e *Engine) Facts(ctx context.Context, by op.Caller, root string, paths []string, page op.Page) PreflightReply {
	return e.factsOf(ctx, by, root, paths, page).finished("")
}

func (e *Engine) factsOf(ctx context.Context, by op.Caller, root string, paths []string, page op.Page) PreflightReply {
	out := PreflightReply{Version: e.cfg.Version}
	w, err := e.workspace(by, root)
	if err != nil {
		out.Error = op.AsError(err)
		return out
	}
	out.Root = w.Key
	if len(paths) > MaxPaths {
		out.Error = op.Fail(op.TooLarge, "more than 10,000 paths in one call").In("paths")
		return out
	}
	facts := op.Facts{WorkspaceBound: w.Root.Check() == nil, Available: true, Planned: true, Targets: make([]op.Target, 0, len(paths))}
	for i, seen := range w.seeAll(ctx, paths) {
		if seen.err != nil {
			facts.Available = false
			out.Warnings = append(out.Warnings, op.Warning{Code: string(op.AsError(seen.err).Code), Message: op.Visible(paths[i], false) + ": " + op.AsError(seen.err).Message})
			continue
		}
		facts.Available = facts.Available && seen.available
		facts.Targets = append(facts.Targets, seen.target)
	}
	out.Facts = &facts
	if page.Size == 0 {
		out.Pins = e.sealer.Seal(w.Key, facts.Pins())
		return out
	}
	from, err := strconv.Atoi(cmp.Or(page.After, "0"))
	if err != nil || from < 0 || from > len(facts.Targets) {
		out.Facts, out.Error = nil, op.Fail(op.BadRequest, "page is not a cursor of this answer").In("page").Do("give next of the page before, unchanged")
		return out
	}
	out.Digest, out.Total = preflight.Sum(facts.Pins()), len(facts.Targets)
	to := min(from+page.Size, len(facts.Targets))
	if facts.Targets = facts.Targets[from:to]; to < out.Total {
		out.Next = strconv.Itoa(to)
	}
	return out
}
