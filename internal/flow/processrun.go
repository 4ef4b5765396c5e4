package flow

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/shellexec"
)

// performProcess runs what was looked at, once, and tells what came of it. Who waits for
// the answer may go away; the program runs to its end or its deadline all the same.
func (e *Engine) performProcess(ctx context.Context, c *call, d op.Decision, approval op.ID) op.Reply {
	if err := e.log.Ready(); err != nil {
		return e.fail(c, d, err)
	}
	if c.ws.Root.Check() != nil {
		return e.fail(c, d, moved())
	}
	p := c.process
	if p.typed != nil {
		return e.performTyping(ctx, c, d, approval)
	}
	spec, err := e.spot(c)
	if err != nil {
		return e.fail(c, d, err)
	}
	if spec.DirDev, spec.DirIno, err = c.standsAt(ctx, p.dir); err != nil {
		return e.fail(c, d, err)
	}
	id := e.jrn.NewID("run_")
	spec.Program, spec.Argv, spec.Dir, spec.Timeout, spec.Network = p.program.File, p.argv, p.dir, p.timeout, p.run.Network
	spec.Confined, spec.ReadOnly, spec.Names = e.cfg.Process.Confinement != "off", p.readOnly, p.names
	spec.Foreign = p.foreign()
	spec.Processes, spec.Spares = e.cfg.Process.MaxCount, &e.procs.spares
	private := shellexec.Private
	spec.Env = shellexec.Environ(e.cfg.Getenv, e.cfg.Process.Env, p.env, e.search(), private)
	for _, l := range p.levels {
		if l.On {
			spec.Needs = append(spec.Needs, l.Name)
		}
	}
	if a, ok := c.args.(*op.ShellArgs); ok {
		spec.Stdin = []byte(a.Stdin)
		if a.Pty {
			spec.Terminal, spec.Idle = &shellexec.Size{Rows: dimension(a.Rows, 24), Cols: dimension(a.Cols, 80)}, e.idleLimit()
			spec.Env = shellexec.OnTerminal(spec.Env, p.env)
		}
	}
	if spec.Spill, err = e.spill().For(c.by.Token); err != nil {
		return e.fail(c, d, err)
	}
	spec.Name = string(id)
	if p.rehearsal != nil {
		if err := e.openView(ctx, c.ws, p.rehearsal, &spec); err != nil {
			return e.fail(c, d, err)
		}
		defer e.endView(c.ws, p.rehearsal)
	}
	if approval == "" { // no row tells of it if this daemon ends now
		e.record(c, d, "started", "", id, false)
	}
	if err := e.yoloBegins(c, d, id, spec); err != nil {
		return e.fail(c, d, err)
	}
	if err := e.keep(ctx, c, d, approval, id); err != nil {
		return e.fail(c, d, err)
	}
	r, err := e.begin(c, approval, id, spec)
	if err != nil {
		e.letGo(c)
		return e.fail(c, d, err)
	}
	ctx = context.WithoutCancel(ctx)
	if r.detached() {
		r.proc.Up()
		select {
		case <-r.proc.Done(): // it did not start, or is over already: then that is the answer
		default:
			return e.detach(ctx, c, d, r)
		}
	}
	return e.finished(ctx, c, d, r)
}

// standsAt tells which directory the working directory is now. It is looked for from the
// root, so that no link and no mount is crossed; the program starts in this one or not at all.
func (c *call) standsAt(ctx context.Context, dir string) (dev, ino uint64, err error) {
	at, ok := c.inside(dir)
	if !ok {
		return 0, 0, op.Fail(op.OutsideWorkspace, "the working directory lies outside").In("args.cwd")
	}
	n, err := c.ws.Root.Look(ctx, at, false)
	if err != nil {
		return 0, 0, err
	}
	defer n.Close()
	if n.Info.Kind != op.Directory {
		return 0, 0, op.Fail(op.Stale, "the working directory is no longer one").At(at).Do("nothing was run; ask again")
	}
	return n.Info.Dev, n.Info.Ino, nil
}

func dimension(given *int64, usual uint16) uint16 {
	if given == nil {
		return usual
	}
	return uint16(*given)
}

// finished waits for the end of a run and words it.
func (e *Engine) finished(ctx context.Context, c *call, d op.Decision, r *run) op.Reply {
	res := r.proc.Wait()
	r.stop() // nothing of it is left; this frees its context
	if len(res.Survivors) == 0 {
		r.unmark()
	}
	r.over(res, e.cfg.Now())
	if res.Termination == shellexec.NoSandbox || res.Termination == shellexec.SpawnFailed {
		e.letGo(c)
	}
	if res.Termination == shellexec.NoSandbox {
		e.procs.forgetView(c.ws.Key)
		return e.fail(c, d, op.Fail(op.SandboxUnavailable, "the confinement that the card named cannot be had any more: "+res.Failure).Do("nothing was run; ask again"))
	}
	if res.Termination == shellexec.SpawnFailed {
		return e.fail(c, d, op.Fail(op.SpawnFailed, res.Failure).Do("nothing was run"))
	}
	return e.ran(ctx, c, d, r, res)
}

// detach answers with the start of a run, and sees it to its end beside that. Its row stays
// as executing until then, and holds the whole answer afterwards.
func (e *Engine) detach(ctx context.Context, c *call, d op.Decision, r *run) op.Reply {
	e.procs.runs.done.Add(1)
	go func() {
		defer e.procs.runs.done.Done()
		reply := e.finished(ctx, c, d, r)
		if r.Approval != "" {
			e.finishRow(ctx, r.Approval, reply)
		}
		e.events.rowEnded()
	}()
	return e.underWay(c.req, d, r, c.warnings)
}

// underWay is the answer to a detached run while it runs.
func (e *Engine) underWay(req op.Request, d op.Decision, r *run, warnings []op.Warning) op.Reply {
	return op.Reply{Status: op.Done, Op: req.Op, RequestID: req.RequestID, Decision: &d, Warnings: warnings, Effects: []op.Effect{}, EffectsExecuted: true, Result: r.view()}
}

// finishRow records how the program of a row ended.
func (e *Engine) finishRow(ctx context.Context, id op.ID, reply op.Reply) {
	state := journal.Executed
	if reply.Result == nil { // it never ran
		state = journal.FailedEnd
	}
	row, err := e.jrn.Approval(ctx, id)
	if err != nil {
		row = journal.Approval{ID: id, Op: reply.Op} // the end is told all the same
	}
	_, _ = e.finish(ctx, row, state, reply) // what the journal cannot take is kept until the next start
}

// ran words how a program ended.
func (e *Engine) ran(ctx context.Context, c *call, d op.Decision, run *run, res shellexec.Result) op.Reply {
	approval, id, by := run.Approval, run.ID, run.view().StoppedBy
	r := e.reply(c, op.Done, d)
	r.EffectsExecuted = true
	result := map[string]any{"run_id": id, "exit_code": res.Exit, "signal": res.Signal, "termination": res.Termination, "duration_ms": res.Took.Milliseconds(),
		"truncated": res.Stdout.Cut || res.Stderr.Cut, "total_bytes": res.Stdout.Total + res.Stderr.Total, "leftovers": res.Leftovers,
		"confinement": confinementOf(res.Levels)}
	if by != "" {
		result["stopped_by"] = by
	}
	if s := attempted(c.process, res); s != "" {
		result["network_attempts"] = map[string]any{"count": res.Seen.Attempts, "to": res.Seen.To}
		r.Warnings = append(r.Warnings, op.Warning{Code: "network_attempted", Message: s})
	}
	if res.Limit != "" {
		result["limit"] = res.Limit
	}
	if err := e.yoloEnded(c, d, id, res); err != nil {
		r.Warnings = append(r.Warnings, op.Warning{Code: "yolo_log_incomplete", Message: "its end could not be put into the log of mode yolo"})
	}
	if run.Pty {
		result["pty"], result["transcript"] = true, res.Stdout.File
		if run.leftOut() {
			r.Warnings = append(r.Warnings, op.Warning{Code: "side_log_incomplete", Message: "not all that was typed could be put into the side log"})
		}
	}
	shown(result, "stdout", res.Stdout)
	shown(result, "stderr", res.Stderr)
	if c.req.Op == op.WorkspaceTests {
		if passed, failed, known := shellexec.Counts(e.whole(c.by.Token, res.Stdout) + "\n" + e.whole(c.by.Token, res.Stderr)); known {
			result["passed"], result["failed"] = passed, failed
		}
	}
	r.Result = result
	outcome := "done"
	switch {
	case len(res.Survivors) > 0:
		outcome, r.Status = string(op.DescendantsSurvived), op.Failed
		r.Error = op.Fail(op.DescendantsSurvived, "these could not be ended: "+strings.Join(res.Survivors, ", ")).Do("a person must end them on the machine")
	case res.Idle:
		outcome, r.Status = string(op.TimedOut), op.Failed
		r.Error = op.Fail(op.TimedOut, fmt.Sprintf("nothing happened in the session for %s, so it was ended, with all that it started", e.idleLimit())).Do("open another one when there is something to type")
	case res.Termination == shellexec.TimedOut:
		outcome, r.Status = string(op.TimedOut), op.Failed
		r.Error = op.Fail(op.TimedOut, fmt.Sprintf("it did not end within %s and was ended, with all that it started", c.process.timeout)).Do("give a longer timeout_ms, or do less at once")
	case res.Termination == shellexec.Cancelled:
		outcome, r.Status = string(op.Cancelled), op.Failed
		r.Error = op.Fail(op.Cancelled, "it was ended before it was done, with all that it started"+stoppedBy(by))
	}
	if r.Error != nil {
		r.Error.Retry = "corrected"
	}
	if c.process.rehearsal != nil {
		e.rehearsed(ctx, c, d, &r, run, res)
		if r.Error != nil {
			outcome = string(r.Error.Code)
		}
	} else {
		diffs, all := e.changes(ctx, c, &r)
		e.takeBack(ctx, c, d, run, &r, diffs, all)
	}
	e.record(c, d, outcome, approval, id, r.UndoCredential != nil)
	e.publish("process.ended", c, map[string]any{"run_id": id, "op": c.req.Op, "termination": res.Termination})
	return r
}

func stoppedBy(name string) string {
	if name == "" {
		return "; the daemon stopped"
	}
	return ", by " + op.Visible(name, false)
}

// shown puts one stream into a result: all of it, or head and tail with what is between.
func shown(result map[string]any, name string, s shellexec.Stream) {
	b := s.Head
	if s.Cut {
		b = fmt.Appendf(slices.Clone(b), "\n... %d bytes are left out here; output %s of this run has them ...\n", s.Total-int64(len(s.Head)+len(s.Tail)), name)
		result[name+"_bytes"] = s.Total
	}
	b = append(slices.Clone(b), s.Tail...)
	if s.Lost > 0 {
		result[name+"_lost"] = s.Lost
	}
	if !utf8.Valid(b) {
		result[name+"_base64"] = base64.StdEncoding.EncodeToString(b)
	}
	result[name] = strings.ToValidUTF8(string(b), "\uFFFD")
}

func confinementOf(levels []shellexec.Level) map[string]any {
	word, some := "full", false
	for _, l := range levels {
		if l.On {
			some = true
		} else {
			word = "partial"
		}
	}
	if !some {
		word = "none"
	}
	if levels == nil {
		levels = []shellexec.Level{}
	}
	return map[string]any{"level": word, "levels": levels}
}

const maxChanges = 1000

// changes compares the root with what it was, name by name, and gives all that differs, in
// order; false where that is not known. The reply tells that something changed, not what of it.
func (e *Engine) changes(ctx context.Context, c *call, r *op.Reply) (diffs []difference, all bool) {
	warn := func(code, format string, a ...any) {
		r.Warnings = append(r.Warnings, op.Warning{Code: code, Message: fmt.Sprintf(format, a...)})
	}
	if c.process.stat == nil {
		warn("effects_unknown", "too much stands in the root, or not all of it may be read, to tell what changed")
		return nil, false
	}
	held := map[op.Path]bool{}
	for _, p := range c.process.readOnly {
		held[op.Path(p)] = true
	}
	shut := map[op.Path]bool{}
	now, err := c.ws.stats(ctx, func(p op.Path, _ bool) bool { return held[p] }, func(p op.Path) { shut[p] = true })
	if err != nil {
		warn("effects_unknown", "what changed could not be found out: %v", err)
		return nil, false
	}
	add := func(p op.Path, change string, before, after rooted.Info) {
		if by, _ := c.ws.Protected(p, after.Kind == op.Directory || before.Kind == op.Directory); by != "" {
			warn("protected_changed", "%s, which %s protects, was %s", op.Escape(string(p)), by, change)
		}
		diffs = append(diffs, difference{p, before, after})
	}
	for p, was := range c.process.stat {
		is, there := now[p]
		switch {
		case !there && covers(shut, p): // it may be there
		case !there:
			add(p, "deleted", was, rooted.Info{Kind: op.Absent})
		case was.Kind != is.Kind, was.Kind == op.Directory && was.Mode != is.Mode,
			was.Kind != op.Directory && (was.Ino != is.Ino || was.Size != is.Size || was.Mode != is.Mode || !was.Mtime.Equal(is.Mtime) || !was.Ctime.Equal(is.Ctime)):
			add(p, "modified", was, is)
		}
	}
	for p, is := range now {
		if _, there := c.process.stat[p]; !there {
			add(p, "created", rooted.Info{Kind: op.Absent}, is)
		}
	}
	if len(shut) > 0 {
		list := escaped(slices.Sorted(maps.Keys(shut)))
		warn("effects_unknown", "it left directories that the daemon may not read, so that what lies in them is not known: %s", escapedList(list))
	}
	slices.SortFunc(diffs, func(a, b difference) int { return strings.Compare(string(a.path), string(b.path)) })
	for _, d := range diffs[:min(len(diffs), maxChanges)] {
		r.Effects = append(r.Effects, op.Effect{Path: d.path, Change: d.change(), Before: stateOf(d.was), After: stateOf(d.is)})
	}
	if more := len(diffs) - maxChanges; more > 0 {
		warn("effects_cut", "%d more paths changed", more)
	}
	return diffs, true
}

func stateOf(i rooted.Info) op.State {
	s := op.State{Kind: i.Kind}
	if i.Kind != op.Absent {
		s.Size, s.Mode, s.Target = i.Size, i.ModeString(), i.Target
	}
	return s
}
