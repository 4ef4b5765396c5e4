package flow

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/shellexec"
)

// run is one program that runs, or that ended not long ago.
type run struct {
	RunView
	token   op.ID
	argv0   string // what it runs
	request string // the caller's label of the call, by which it can be followed before its answer
	proc    *shellexec.Running
	stop    context.CancelFunc
	unmark  func() // of what a next daemon would look for

	mu       sync.Mutex // guards what follows
	attached int        // people who have it on their screen
	stopper  string     // who ended it; empty when nobody did
	ended    bool
	untold   bool // something typed could not be put into the side log
}

// RunView is what is told of a run. It holds no output.
type RunView struct {
	ID           op.ID      `json:"run_id"`
	Approval     op.ID      `json:"approval_id,omitempty"`
	State        string     `json:"state"` // running, ended
	Op           op.Name    `json:"op"`
	Title        string     `json:"title"`
	Command      string     `json:"command"` // as it can be shown, its beginning
	Agent        string     `json:"agent"`
	Root         string     `json:"root"`
	Pty          bool       `json:"pty,omitempty"`
	Background   bool       `json:"background,omitempty"`
	WholeSession bool       `json:"whole_session,omitempty"`
	Started      time.Time  `json:"started_at"`
	Until        time.Time  `json:"until"` // its deadline
	Ended        *time.Time `json:"ended_at,omitempty"`
	Termination  string     `json:"termination,omitempty"`
	Operation    op.ID      `json:"operation_id,omitempty"` // what can be taken back of it
	Exit         *int       `json:"exit_code,omitempty"`
	Signal       string     `json:"signal,omitempty"`
	StoppedBy    string     `json:"stopped_by,omitempty"`
	Stdout       int64      `json:"stdout_bytes"`
	Stderr       int64      `json:"stderr_bytes"`
}

// detached reports a run whose start is the whole answer.
func (r *run) detached() bool { return r.Pty || r.Background }

func (r *run) view() RunView {
	r.mu.Lock()
	v := r.RunView
	v.StoppedBy = r.stopper
	r.mu.Unlock()
	if r.proc.Output != nil {
		_, _, v.Stdout = r.proc.Output.Read("stdout", 0, nil)
		_, _, v.Stderr = r.proc.Output.Read("stderr", 0, nil)
	}
	return v
}

// undoneBy notes the operation by which what it changed can be taken back.
func (r *run) undoneBy(id op.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Operation = id
}

func (r *run) live() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended
}

// end ends the run for somebody; who came first is named.
func (r *run) end(by string) {
	r.mu.Lock()
	if r.stopper == "" && !r.ended {
		r.stopper = by
	}
	r.mu.Unlock()
	r.stop()
}

// leftOut reports that the side log of what was typed is not whole.
func (r *run) leftOut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.untold
}

// over puts on record how it ended, for those who list it.
func (r *run) over(res shellexec.Result, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = now.UTC()
	r.ended, r.State, r.Ended = true, "ended", &now
	r.Termination, r.Exit, r.Signal = res.Termination, res.Exit, res.Signal
}

// keptRuns is how many ended runs are still listed, with the head and tail of their output.
const keptRuns = 64

// runs are all that is known of running programs, oldest first.
type runs struct {
	mu       sync.Mutex // guards list and expected
	list     []*run
	expected map[op.ID]chan struct{} // by the row; closed when its program is listed, or will not run
	done     sync.WaitGroup          // those who see a detached run to its end
}

// expect is for a row whose program is about to start. Until it is listed, or settled says
// that it will not be, who looks for it by the row waits.
func (s *runs) expect(row op.ID) (settled func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expected == nil {
		s.expected = map[op.ID]chan struct{}{}
	}
	s.expected[row] = make(chan struct{})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settle(row)
	}
}

// settle lets those go on who wait for a row; mu is held.
func (s *runs) settle(row op.ID) {
	if waits := s.expected[row]; waits != nil {
		close(waits)
		delete(s.expected, row)
	}
}

// await returns when a row that was released has its program listed, or will have none.
func (s *runs) await(ctx context.Context, row op.ID) {
	s.mu.Lock()
	waits := s.expected[row]
	s.mu.Unlock()
	if waits != nil {
		select {
		case <-waits:
		case <-ctx.Done():
		}
	}
}

func (s *runs) add(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, r)
	s.settle(r.Approval)
	ended := 0
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i].live() {
			continue
		}
		if ended++; ended > keptRuns {
			s.list = slices.Delete(s.list, i, i+1)
		}
	}
}

// find gives the newest run that a word names, of those that sees lets see: the id of a run,
// of the row that released it, or the request id of a call of token's own. Another's label
// names nothing: it could be spelled as an id.
func (s *runs) find(id, token op.ID, sees func(*run) bool) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range slices.Backward(s.list) {
		if id != "" && (r.ID == id || r.Approval == id || r.request == string(id) && r.token == token) && sees(r) {
			return r
		}
	}
	return nil
}

func (s *runs) all() []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// sees reports whether a caller may learn of a run: an agent of its own, people of those in
// the roots that they may use.
func (e *Engine) sees(by op.Caller) func(*run) bool {
	return func(r *run) bool {
		if !by.Role.Includes(op.Observer) {
			return r.token == by.Token
		}
		w := e.byKey(r.Root)
		return w != nil && mayUse(by, w)
	}
}

var noRun = op.Fail(op.NotFound, "no such run").Do("holdpoint runs list names those that run and the latest that ended")

// Runs lists what runs and what ended lately, newest first.
func (e *Engine) Runs(_ context.Context, by op.Caller) []RunView {
	out := []RunView{}
	sees := e.sees(by)
	for _, r := range slices.Backward(e.procs.runs.all()) {
		if sees(r) {
			out = append(out, r.view())
		}
	}
	return out
}

// Run tells of one run.
func (e *Engine) Run(_ context.Context, by op.Caller, id op.ID) (RunView, error) {
	r := e.procs.runs.find(id, by.Token, e.sees(by))
	if r == nil {
		return RunView{}, noRun
	}
	return r.view(), nil
}

// mayEnd: whoever asked for it, and reviewers.
func mayEnd(by op.Caller) error {
	if by.Role != op.Agent && !by.Role.Includes(op.Reviewer) {
		return op.Fail(op.Forbidden, "an observer cannot stop a program")
	}
	return nil
}

// StopRun ends a run with all that it started, and gives it when nothing of it is left.
func (e *Engine) StopRun(ctx context.Context, by op.Caller, id op.ID) (RunView, error) {
	r := e.procs.runs.find(id, by.Token, e.sees(by))
	if r == nil {
		return RunView{}, noRun
	}
	if err := mayEnd(by); err != nil {
		return RunView{}, err
	}
	if !r.live() {
		return r.view(), op.Fail(op.ApprovalConsumed, "it has ended already: "+r.view().Termination)
	}
	r.end(by.Name)
	select {
	case <-r.proc.Done():
	case <-ctx.Done():
	}
	e.settled(ctx, r)
	return r.view(), nil
}

// settleTime bounds the wait for the record of a run that has ended.
const settleRun = 5 * time.Second

// settled waits until the row of a run that was ended says so.
func (e *Engine) settled(ctx context.Context, r *run) {
	ctx, cancel := context.WithTimeout(ctx, settleRun)
	defer cancel()
	for {
		end := e.events.nextEnd()
		if r.Approval == "" {
			if !r.live() {
				return
			}
		} else if row, err := e.jrn.Approval(ctx, r.Approval); err != nil || row.State != journal.Executing {
			return
		}
		select {
		case <-end:
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// stopRow ends the running program of a row; it is not ok when nothing of the row runs.
func (e *Engine) stopRow(ctx context.Context, by op.Caller, id op.ID) (ok bool, err error) {
	if _, err := e.queue.Mine(ctx, by, id); err == nil {
		e.procs.runs.await(ctx, id) // a program may be at work before it is listed
	}
	r := e.procs.runs.find(id, "", func(r *run) bool { return r.Approval == id })
	if r == nil || !r.live() {
		return false, nil
	}
	if _, err := e.queue.Mine(ctx, by, id); err != nil {
		return true, err
	}
	if !e.sees(by)(r) {
		return true, op.Fail(op.NotFound, "no such approval")
	}
	if err := mayEnd(by); err != nil {
		return true, err
	}
	r.end(by.Name)
	<-r.proc.Done()
	e.settled(ctx, r)
	return true, nil
}

// begin starts what was looked at and lists it.
func (e *Engine) begin(c *call, approval, id op.ID, spec shellexec.Spec) (*run, error) {
	ctx, stop := context.WithCancel(e.procs.running())
	p := c.process
	r := &run{token: c.by.Token, argv0: p.argv[0], request: c.req.RequestID, stop: stop, RunView: RunView{ID: id, Approval: approval, State: "running", Op: c.req.Op, Title: p.title(c),
		Command: p.shown(), Agent: c.by.Name, Root: c.ws.Key, Started: e.cfg.Now().UTC(), Until: e.cfg.Now().Add(p.timeout).UTC()}}
	if a, ok := c.args.(*op.ShellArgs); ok {
		r.Pty, r.Background, r.WholeSession = a.Pty, a.Background, a.WholeSession
	}
	if r.Pty {
		spec.Busy = func() bool { return e.busy(r) }
	}
	var err error
	if r.unmark, err = e.spill().Mark(r.token, id); err != nil {
		stop()
		return nil, err
	}
	spec.Env = append(spec.Env, shellexec.RunVariable+"="+string(id))
	if r.proc, err = shellexec.Start(ctx, spec); err != nil {
		r.unmark()
		stop()
		return nil, err
	}
	e.procs.runs.add(r)
	e.publish("process.started", c, map[string]any{"run_id": id, "approval_id": approval, "op": c.req.Op})
	if c.started != nil {
		c.started(id)
	}
	return r, nil
}

// busy reports that a session is not left alone although nothing happens in it: a person
// has it on the screen, or something that would be typed waits for one.
func (e *Engine) busy(r *run) bool {
	r.mu.Lock()
	attached := r.attached
	r.mu.Unlock()
	if attached > 0 {
		return true
	}
	rows, err := e.rows(context.Background(), journal.ApprovalFilter{State: journal.Pending, Token: r.token})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(rows, func(row journal.Approval) bool { return typesInto(row) == r.ID })
}

// typesInto gives the session that a row would type into; empty for any other row.
func typesInto(row journal.Approval) op.ID {
	if row.Op != op.WorkspaceShell {
		return ""
	}
	o, err := op.ParseJSON(row.Request)
	if err != nil {
		return ""
	}
	args, _ := o["args"].(op.Object)
	id, _ := args["run_id"].(string)
	return op.ID(id)
}

// shown is the command or the script's first line.
func (p *process) shown() string {
	const most = 200
	s := op.Visible(shellexec.Quote(append([]string{p.run.Command}, p.run.Args...)), false)
	if p.run.Script != "" {
		s = op.Visible(p.run.Script, false)
	}
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// name is what a session runs, for cards.
func (r *run) name() string {
	if r.Command == "" {
		return path.Base(r.Title)
	}
	return r.Command
}

// under gives the detached run of a row that is under way; nil for any other row.
func (e *Engine) under(row journal.Approval) *run {
	if row.State != journal.Executing {
		return nil
	}
	r := e.procs.runs.find(row.ID, "", func(r *run) bool { return r.Approval == row.ID && r.detached() })
	if r == nil || !r.live() {
		return nil
	}
	return r
}

// Leftovers names what an earlier daemon, killed with all its helpers, had left running.
func (e *Engine) Leftovers() []string { return e.procs.left }

// endLeft puts the runs on record that nobody saw to their end, and ends what is left of
// them. Call it before anything runs.
func (e *Engine) endLeft() {
	runs := e.spill().Unended()
	e.procs.left = append(e.procs.left, shellexec.Leftover(runs)...)
	for _, id := range runs {
		outcome := string(op.UnknownOutcome)
		if slices.ContainsFunc(e.procs.left, func(l string) bool { return strings.HasSuffix(l, " of "+id) }) {
			outcome = string(op.DescendantsSurvived)
		}
		e.log.Append(audit.Record{Kind: audit.End, Tool: op.WorkspaceShell, OperationID: op.ID(id), Outcome: outcome})
	}
}
