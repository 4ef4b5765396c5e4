package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/audit"
	"holdpoint/fileops"
	"holdpoint/op"
	"holdpoint/preflight"
	"holdpoint/shellexec"
)

const (
	// usualIdle ends a session in which nothing happens and that nobody looks at.
	usualIdle = 30 * time.Second
	// maxTyped is how much one write may type.
	maxTyped = 16 << 10
)

// shells are the programs of whose input it is known what it means.
var shells = []string{"sh", "bash", "dash", "ash", "ksh", "zsh"}

func (e *Engine) idleLimit() time.Duration {
	if e.cfg.Process.SessionIdle > 0 {
		return e.cfg.Process.SessionIdle
	}
	return usualIdle
}

// lookTyping sees what an agent would type into its session. It is an execution of its
// own: whoever released the session released nothing that is typed later, unless its card
// said so.
func (e *Engine) lookTyping(ctx context.Context, c *call, a *op.ShellArgs) error {
	alone := *a
	alone.RunID, alone.Stdin = "", ""
	if b, err := json.Marshal(alone); err != nil || string(b) != emptyShell {
		return op.Fail(op.BadRequest, "run_id goes with stdin alone: what to type").In("args.run_id")
	}
	r := e.procs.runs.find(op.ID(a.RunID), "", func(r *run) bool { return r.ID == op.ID(a.RunID) && r.token == c.by.Token && r.Root == c.ws.Key })
	switch {
	case r == nil || !r.Pty:
		return op.Fail(op.NotFound, "no session of yours has this id").In("args.run_id").Do("workspace_shell with pty true opens one")
	case !r.live():
		return op.Fail(op.NotFound, "this session has ended").In("args.run_id").Do("open another one")
	case a.Stdin == "":
		return op.Fail(op.BadRequest, "stdin says what to type").In("args.stdin")
	case len(a.Stdin) > maxTyped:
		return op.Fail(op.TooLarge, "more than 16 KiB at once").In("args.stdin")
	}
	if err := e.see(ctx, c, []op.Subject{{Arg: "cwd", Asked: ".", Role: op.RoleSource, Follow: true}}, preflight.Shallow); err != nil {
		return err
	}
	p := &process{run: &a.Run, typed: r, timeout: time.Until(r.Until), levels: []shellexec.Level{}}
	p.reading.Tier = op.T4 // what a program makes of its input is not known
	if prog := r.argv0; slices.Contains(shells, filepath.Base(prog)) {
		p.reading = shellexec.ReadScript(a.Stdin)
	}
	c.process, c.facts.ProcessTier = p, p.reading.Tier
	c.facts.Planned, c.facts.Mutates = true, true
	lines := []string{fmt.Sprintf("on %s as %s, into the session %s, opened %s", e.cfg.Host, e.cfg.User, r.ID, r.Started.Format(time.RFC3339)),
		"the session runs: " + r.name(), "types exactly: " + strconv.Quote(a.Stdin)}
	lines = append(lines, numbered(a.Stdin)...)
	for _, cmd := range p.reading.Commands {
		l := fmt.Sprintf("%s: %s", cmd.Tier, strings.ReplaceAll(cmd.Text, "\n", "\\n"))
		if cmd.Why != "" {
			l += " (" + cmd.Why + ")"
		}
		lines = append(lines, l)
	}
	switch {
	case p.reading.Unread != "":
		lines = append(lines, "T4: it cannot be read, so it counts as the worst: "+p.reading.Unread)
	case len(p.reading.Commands) == 0:
		lines = append(lines, "T4: what the program makes of it is not known")
	}
	c.plan = &fileops.Plan{Title: fmt.Sprintf("Type into a session (%s)", leading(p.reading.Tier)), Lines: lines}
	if hidden(a.Stdin) {
		c.warnings = append(c.warnings, op.Warning{Code: "hidden_characters", Message: "what would be typed holds characters that do not show"})
	}
	return nil
}

var emptyShell = func() string {
	b, err := json.Marshal(op.ShellArgs{})
	if err != nil {
		return ""
	}
	return string(b)
}()

// performTyping types what was released, once.
func (e *Engine) performTyping(_ context.Context, c *call, d op.Decision, approval op.ID) op.Reply {
	if err := e.log.Ready(); err != nil {
		return e.fail(c, d, err)
	}
	r, text := c.process.typed, c.args.(*op.ShellArgs).Stdin
	if !r.live() {
		return e.fail(c, d, op.Fail(op.Stale, "the session has ended since").Do("nothing was typed; open another one"))
	}
	_, _, before := r.proc.Output.Read("stdout", 0, nil)
	if err := r.proc.Type([]byte(text)); err != nil {
		return e.fail(c, d, err)
	}
	e.noteTyped(r, c.by.Name, approval, []byte(text))
	reply := e.reply(c, op.Done, d)
	reply.EffectsExecuted = true
	reply.Result = map[string]any{"run_id": r.ID, "typed_bytes": len(text), "output_offset": before}
	e.record(c, d, "done", approval, r.ID, false)
	return reply
}

// TypeInto is a person's own typing: whoever could release every write need not be asked
// for each. Its audit line names them; what was typed is in the session's side log.
func (e *Engine) TypeInto(_ context.Context, by op.Caller, id op.ID, b []byte) error {
	r, err := e.sessionOf(by, id)
	if err != nil {
		return err
	}
	if !by.Role.Includes(op.Reviewer) {
		return op.Fail(op.Forbidden, "what an agent types is released write by write").Do("call workspace_shell with run_id and stdin")
	}
	if len(b) > maxTyped {
		return op.Fail(op.TooLarge, "more than 16 KiB at once")
	}
	if err := e.log.Ready(); err != nil {
		return err
	}
	if err := r.proc.Type(b); err != nil {
		return err
	}
	e.noteTyped(r, by.Name, "", b)
	return nil
}

// Attach counts a person in as present until the returned function is called.
func (e *Engine) Attach(_ context.Context, by op.Caller, id op.ID) (leave func(), err error) {
	r, err := e.sessionOf(by, id)
	if err != nil {
		return nil, err
	}
	if !by.Role.Includes(op.Reviewer) {
		return func() {}, nil
	}
	e.log.Append(audit.Record{Kind: audit.Answer, Tool: r.Op, Agent: by.Name, ApprovalID: r.Approval, OperationID: r.ID, Outcome: "attached"})
	r.mu.Lock()
	r.attached++
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		r.attached--
		r.mu.Unlock()
		e.log.Append(audit.Record{Kind: audit.Answer, Tool: r.Op, Agent: by.Name, ApprovalID: r.Approval, OperationID: r.ID, Outcome: "detached"})
	}, nil
}

// Resize tells a session the size of the terminal that shows it.
func (e *Engine) Resize(_ context.Context, by op.Caller, id op.ID, rows, cols int64) error {
	r, err := e.sessionOf(by, id)
	if err != nil {
		return err
	}
	if err := mayEnd(by); err != nil {
		return op.Fail(op.Forbidden, "an observer only looks on")
	}
	if rows < 1 || rows > 1000 || cols < 1 || cols > 1000 {
		return op.Fail(op.BadRequest, "rows and cols are 1 to 1000").In("rows")
	}
	return r.proc.Resize(shellexec.Size{Rows: uint16(rows), Cols: uint16(cols)})
}

// sessionOf gives a session that runs and that the caller may see.
func (e *Engine) sessionOf(by op.Caller, id op.ID) (*run, error) {
	r := e.procs.runs.find(id, by.Token, e.sees(by))
	switch {
	case r == nil:
		return nil, noRun
	case !r.Pty:
		return nil, op.Fail(op.BadRequest, "this program runs on no terminal").Do("holdpoint runs tail shows what it prints")
	case !r.live():
		return nil, op.Fail(op.NotFound, "this session has ended").Do("holdpoint runs tail shows its transcript")
	}
	return r, nil
}

// noteTyped adds one line to the side log of what was typed, beside the transcript. It
// may hold secrets that the terminal did not show, so it is as private as the transcript.
func (e *Engine) noteTyped(r *run, by string, approval op.ID, b []byte) {
	line, err := json.Marshal(map[string]any{"time": e.cfg.Now().UTC(), "by": by, "approval_id": approval, "typed": b})
	if err == nil {
		err = e.spill().Append(r.token, string(r.ID)+".typed", append(line, '\n'))
	}
	if err != nil {
		// The session goes on; its receipt says that the side log is not whole.
		r.mu.Lock()
		r.untold = true
		r.mu.Unlock()
	}
}
