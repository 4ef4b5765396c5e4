package flow

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/protected"
	"holdpoint/shellexec"
)

// rehearsal is a run on a copy-on-write view of the root: nothing of the workspace changes,
// and what would have changed becomes a change set, which is a call of its own.
type rehearsal struct {
	id    string       // of the set to come
	view  *rooted.View // open until the program runs
	since time.Time    // the moment before the view was made
	kind  viewKind
	quiet func() // ends the flushes behind the program; nil where there are none
}

// viewKind is how a view is made, best first.
type viewKind string

const (
	viewOverlay viewKind = "overlay"
	viewPlain   viewKind = "overlay_without_user_namespace" // as root, where a mount lies in the root
	viewShared  viewKind = "reflink"                        // a copy that shares the blocks of its files
	viewCopy    viewKind = "copy"                           // of a small tree
)

func (k viewKind) copies() bool { return k == viewShared || k == viewCopy }

// views is what is known of the views of one root.
type viewed struct {
	levels []shellexec.Level
	kind   viewKind
	err    error
}

// rehearsable replaces the levels of a plain run by those of a rehearsal, found out once for
// a root by mounting one. A rehearsal is always confined.
func (e *Engine) rehearsable(ctx context.Context, c *call, p *process) error {
	if e.cfg.Process.Confinement == "off" {
		return unrehearsed("the operator switched confinement off, and a rehearsal is nothing without it")
	}
	e.procs.mu.Lock()
	v, known := e.procs.views[c.ws.Key]
	if !known {
		v = e.probeView(context.WithoutCancel(ctx), c)
		if e.procs.views == nil {
			e.procs.views = map[string]viewed{}
		}
		e.procs.views[c.ws.Key] = v
	}
	e.procs.mu.Unlock()
	if v.err != nil {
		return v.err
	}
	p.levels, p.rehearsal = nil, &rehearsal{kind: v.kind}
	full := true
	for _, l := range v.levels {
		if l.Name == shellexec.LevelNet && p.run.Network {
			full = false
			continue
		}
		p.levels = append(p.levels, l)
		full = full && (l.On || v.kind == viewPlain && l.Name == shellexec.LevelUser)
		if !l.On && e.cfg.Process.Confinement == "required" {
			return op.Fail(op.SandboxUnavailable, "the operator requires confinement, and "+l.Name+" cannot be had here: "+l.Detail).Do("nothing was run; ask the operator")
		}
	}
	c.facts.ConfinedRehearsal = full && !p.run.Network && on(p.levels, shellexec.LevelNet)
	return nil
}

// forgetView has the next rehearsal of a root find out anew what can be had.
func (p *processes) forgetView(root string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.views, root)
}

func unrehearsed(why string) error {
	return op.Fail(op.RehearsalUnsupported, "nothing can be rehearsed here: "+why).In("args.rehearse").Do("nothing was run; without rehearse it runs for real when a person releases it")
}

// probeView mounts a view of the root once, and throws it away.
func (e *Engine) probeView(ctx context.Context, c *call) viewed {
	var last string
	copied := viewCopy
	if c.ws.Store.Features().Reflink {
		copied = viewShared
	}
	for _, kind := range []viewKind{viewOverlay, viewPlain, copied} {
		levels, err := e.tryView(ctx, c, kind)
		if err != nil {
			return viewed{err: unrehearsed(op.AsError(err).Message)}
		}
		if on(levels, shellexec.LevelView) && on(levels, shellexec.LevelMounts) {
			return viewed{levels: levels, kind: kind}
		}
		for _, l := range levels {
			if !l.On && last == "" && (l.Name == shellexec.LevelView || l.Name == shellexec.LevelMounts || l.Name == shellexec.LevelUser) {
				last = l.Detail
			}
		}
	}
	return viewed{err: unrehearsed("a copy-on-write view of this root cannot be had: " + last)}
}

func (e *Engine) tryView(ctx context.Context, c *call, kind viewKind) ([]shellexec.Level, error) {
	spec, err := e.spot(c)
	if err != nil {
		return nil, err
	}
	r := &rehearsal{kind: kind}
	defer e.endView(c.ws, r)
	r.id = string(e.jrn.NewID(rooted.SetPrefix))
	if r.view, err = c.ws.Store.OpenView(r.id, c.ws.Root); err != nil { // of a copy an empty one will do
		return nil, err
	}
	spec.View = r.shown()
	return shellexec.Probe(ctx, spec)
}

// openView makes the place of a rehearsal. endView ends it.
func (e *Engine) openView(ctx context.Context, w *Workspace, r *rehearsal, spec *shellexec.Spec) (err error) {
	r.id, r.since = string(e.jrn.NewID(rooted.SetPrefix)), rooted.Moment()
	if r.kind.copies() {
		r.view, err = w.Store.CopyView(ctx, r.id, w.Root)
	} else {
		r.view, err = w.Store.OpenView(r.id, w.Root)
	}
	if err != nil {
		return err
	}
	spec.View, r.quiet = r.shown(), r.view.Behind()
	return nil
}

func (r *rehearsal) shown() *shellexec.View {
	return &shellexec.View{Upper: r.view.Upper, Work: r.view.Work, Plain: r.kind == viewPlain, Copied: r.kind.copies()}
}

// endView drops what the program wrote and no change set took over.
func (e *Engine) endView(w *Workspace, r *rehearsal) {
	if r.view == nil {
		return
	}
	if r.quiet != nil {
		r.quiet()
	}
	r.view.Close()
	r.view = nil
	_ = w.Store.DropView(r.id) // what stays is dropped at the next start
}

// rehearsed ends a rehearsal: the view becomes a change set, and that a held call.
func (e *Engine) rehearsed(ctx context.Context, c *call, d op.Decision, r *op.Reply, run *run, res shellexec.Result) {
	r.EffectsExecuted = false
	result, _ := r.Result.(map[string]any)
	result["rehearsed"], result["view"] = true, c.process.rehearsal.kind
	told := func(status, message string) {
		result["change_set"] = map[string]any{"status": status, "message": message}
	}
	if r.Error != nil {
		told("dropped", "the program did not come to its end, so what it had changed so far was dropped; nothing of the workspace changed")
		return
	}
	c.process.rehearsal.quiet()
	set, err := e.harvest(ctx, c, run, res)
	if err != nil {
		e.dropSet(c.ws, c.process.rehearsal.id)
		told("dropped", "what it changed could not be taken over: "+op.AsError(err).Message+"; nothing of the workspace changed")
		r.Status, r.Error = op.Failed, op.AsError(err)
		r.Error.Retry = op.Retry(r.Error.Code)
		return
	}
	e.noteRehearsed(c, set)
	for _, a := range set.Artifacts {
		r.Warnings = append(r.Warnings, op.Warning{Code: "rehearsal_artifact", Message: a})
	}
	switch {
	case set.tainted != "":
		e.dropSet(c.ws, set.ID)
		told("tainted", "dropped")
		r.Status = op.Failed
		r.Error = op.Fail(op.RehearsalTainted, "this changed in the workspace while the rehearsal ran, so that what it did is of no one moment").At(set.tainted).Do("nothing of the workspace was changed by it; rehearse again when it is quiet")
		r.Error.Retry = "same"
	case len(set.Steps) == 0:
		e.dropSet(c.ws, set.ID)
		told("empty", "it changed nothing in the workspace")
	case d.Reason == op.ReasonConfinedRehearsal && e.onlyOutputs(set):
		e.dropSet(c.ws, set.ID)
		result["change_set"] = set.view("outputs")
	default:
		result["change_set"] = e.holdSet(ctx, c, r, set)
	}
}

// onlyOutputs reports whether all that changed is what the operator lists as outputs.
func (e *Engine) onlyOutputs(set *changeSet) bool {
	if len(e.cfg.Process.RehearseOutputs) == 0 {
		return false
	}
	list, err := protected.Compile(e.cfg.Process.RehearseOutputs, "outputs")
	if err != nil {
		return false
	}
	for _, c := range set.Changes {
		in, _ := list.Match(string(c.Path), c.After.Kind == op.Directory || c.Before.Kind == op.Directory)
		if !in || len(set.Marks) > 0 {
			return false
		}
	}
	return true
}

// holdSet puts the change set before a person, as a call of whoever asked for the rehearsal.
func (e *Engine) holdSet(ctx context.Context, c *call, r *op.Reply, set *changeSet) map[string]any {
	out := set.view("held")
	req := op.Request{Op: op.WorkspaceShell, Root: c.ws.Key, Args: op.Object{"change_set": set.Name}, Session: c.req.Session, Stage: c.req.Stage,
		ExecutionID: c.req.ExecutionID, Intent: c.req.Intent}
	next, err := e.open(ctx, c.by, req, nil, false)
	var reply op.Reply
	if err == nil {
		reply = e.run(ctx, next)
	} else {
		reply = e.fail(next, op.Decision{}, err)
	}
	switch {
	case reply.Approval != nil:
		out["approval_id"], out["review_url"] = reply.Approval.ID, reply.Approval.ReviewURL
	case reply.Status == op.Done: // no person is asked for programs in this deployment
		out["status"], out["operation_id"], out["undo_credential"] = "landed", reply.OperationID, reply.UndoCredential
		r.Effects, r.EffectsExecuted, r.OperationID, r.UndoCredential = reply.Effects, true, reply.OperationID, reply.UndoCredential
	default:
		e.dropSet(c.ws, set.ID)
		out["status"] = "dropped"
		if reply.Error != nil {
			out["message"] = "it could not be put before a person: " + reply.Error.Message
			r.Warnings = append(r.Warnings, op.Warning{Code: string(reply.Error.Code), Message: "the change set was dropped: " + reply.Error.Message})
		}
	}
	return out
}

// rehearsalLines says on the first card what it releases, and what not.
func rehearsalLines(p *process) []string {
	if p.rehearsal == nil {
		return nil
	}
	lines := []string{"REHEARSAL: it runs on a copy-on-write view of the root; nothing of the workspace changes by it",
		"if it would change something, a second card shows exactly what, and only that card puts it into the workspace"}
	switch p.rehearsal.kind {
	case viewPlain:
		lines = append(lines, "a mount inside of the root is not in the view: what lies under it shows instead")
	case viewShared, viewCopy:
		lines = append(lines, "the view is a copy of the whole root, made first")
	}
	return lines
}

// artifacts are signs that the view made the program do something else than the workspace
// would have.
func artifacts(p *process, res shellexec.Result, set *changeSet) []string {
	var out []string
	if s := attempted(p, res); s != "" {
		out = append(out, s)
	}
	if seen := res.Seen; seen != nil {
		for _, dir := range seen.Moved {
			out = append(out, "renaming the directory "+op.Escape(dir)+" failed in the view (EXDEV); for real it would not have")
		}
		for _, file := range seen.Foreign {
			out = append(out, "writing "+op.Escape(file)+", which another owner has, failed in the view (EOVERFLOW); for real it might not have")
		}
		if len(seen.Moved)+len(seen.Foreign) > 0 {
			return append(out, set.apart()...)
		}
	}
	text := string(res.Stderr.Head) + string(res.Stderr.Tail) + string(res.Stdout.Tail)
	for _, sign := range []struct{ words, what string }{
		{"nvalid cross-device link", "a directory of the workspace cannot be renamed in a view (EXDEV); the program met that, and for real it would not have"},
		{"EXDEV", "a directory of the workspace cannot be renamed in a view (EXDEV); the program met that, and for real it would not have"},
		{"alue too large for defined data type", "a file of another owner cannot be written in a view (EOVERFLOW); the program met that, and for real it might not have"},
		{"EOVERFLOW", "a file of another owner cannot be written in a view (EOVERFLOW); the program met that, and for real it might not have"},
	} {
		if strings.Contains(text, sign.words) && !contains(out, sign.what) {
			out = append(out, sign.what)
		}
	}
	return append(out, set.apart()...)
}

// apart are the signs that lie in the change set itself.
func (s *changeSet) apart() (out []string) {
	for _, c := range s.Changes {
		if c.Links > 0 {
			out = append(out, fmt.Sprintf("%s has %d other names, which keep the old bytes; a real run would have changed them too", op.Escape(string(c.Path)), c.Links))
		}
	}
	return append(out, s.Left...)
}

// attempted words attempts at a network that was off; empty where there were none.
func attempted(p *process, res shellexec.Result) string {
	if res.Seen == nil || res.Seen.Attempts == 0 || !on(p.levels, shellexec.LevelNet) {
		return ""
	}
	return fmt.Sprintf("it tried to use the network, which was off, %d times: %s", res.Seen.Attempts, strings.Join(res.Seen.To, ", "))
}

// foreign are the files that a program could write for real, and cannot in a view.
func (p *process) foreign() (out []string) {
	if p.rehearsal == nil || p.rehearsal.kind != viewOverlay {
		return nil
	}
	for at, info := range p.stat {
		if info.Kind == op.File && len(out) < maxMounts && shellexec.Unwritable(info.UID, info.GID, info.Mode) {
			out = append(out, string(at))
		}
	}
	return out
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
