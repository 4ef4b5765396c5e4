package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/preflight"
	"holdpoint/shellexec"
)

// changeSet is what a rehearsal would have changed: the steps that put it into the
// workspace, and what a person is shown. Its record lies in the store beside the bytes;
// its name holds the record's digest, so that a row which names it pins all of it.
type changeSet struct {
	ID        string          `json:"id"`
	Token     op.ID           `json:"token"`
	Root      string          `json:"root"`
	Run       op.ID           `json:"run"`
	Command   string          `json:"command"`
	Exit      *int            `json:"exit"`
	Network   bool            `json:"network"`
	Changes   []rooted.Change `json:"changes"`
	Steps     []op.Step       `json:"steps"`
	Marks     []setMark       `json:"marks,omitempty"`
	Sensitive []op.Path       `json:"sensitive,omitempty"`
	Artifacts []string        `json:"artifacts,omitempty"`
	Left      []string        `json:"left,omitempty"`
	Diff      string          `json:"diff,omitempty"`
	DiffCut   bool            `json:"diff_cut,omitempty"`
	Bytes     int64           `json:"bytes"`
	Dropped   int             `json:"dropped"`

	Name    string  `json:"-"`
	tainted op.Path // of the harvest
}

// setMark is a protected name among those that come or go, also inside of a directory.
type setMark struct {
	Path op.Path `json:"path"`
	By   string  `json:"by"`
	From string  `json:"from"`
}

const (
	maxSetMarks  = 200
	maxSetDiff   = 256 << 10
	maxSetText   = 1 << 20 // of a file that is compared line by line
	shownChanges = 500     // in a reply
	seenAtOnce   = 256     // paths held open while they are looked at
)

// harvest takes the view of a run apart and puts the set on record.
func (e *Engine) harvest(ctx context.Context, c *call, run *run, res shellexec.Result) (*changeSet, error) {
	re := c.process.rehearsal
	set := &changeSet{ID: re.id, Token: c.by.Token, Root: c.ws.Key, Run: run.ID, Command: commandOf(c.process.run), Exit: res.Exit, Network: c.process.run.Network}
	var names bytes.Buffer
	h, err := c.ws.Store.Harvest(ctx, re.id, c.ws.Root, re.since, func(p op.Path, i rooted.Info) {
		dir := i.Kind == op.Directory
		fmt.Fprintf(&names, "%s\t%s\t%s\t%d\n", op.Escape(string(p)), i.Kind, i.ModeString(), i.Size)
		if by, from := c.ws.Protected(p, dir); by != "" && len(set.Marks) < maxSetMarks {
			set.Marks = append(set.Marks, setMark{p, by, from})
		}
		if !dir && c.ws.Sensitive(p, nil) && len(set.Sensitive) < maxSetMarks {
			set.Sensitive = append(set.Sensitive, p)
		}
	})
	if err != nil {
		return nil, err
	}
	set.Changes, set.Steps, set.Left, set.Bytes, set.Dropped, set.tainted = h.Changes, h.Steps, h.Left, h.Bytes, h.Dropped, h.Tainted
	set.Artifacts = artifacts(c.process, res, set)
	if set.tainted != "" || len(set.Steps) == 0 {
		return set, nil
	}
	if err := e.makeRoom(ctx, set.Bytes); err != nil {
		return nil, err
	}
	e.compare(ctx, c.ws, set)
	if err := e.spill().Append(c.by.Token, string(run.ID)+".changes", names.Bytes()); err != nil {
		return nil, err
	}
	body, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	if _, err := c.ws.Store.Stage(ctx, set.ID+".set", bytes.NewReader(body), rooted.Meta{Perm: 0o600, Exact: true}); err != nil {
		return nil, err
	}
	e.room.add(set.Bytes)
	set.Name = setName(set.ID, body)
	return set, nil
}

// commandOf is what ran, whole: of a rehearsal without review nobody has seen it yet.
func commandOf(r *op.Run) string {
	if r.Script != "" {
		return r.Script
	}
	return shellexec.Quote(append([]string{r.Command}, r.Args...))
}

func setName(id string, body []byte) string {
	_, sum, _ := strings.Cut(string(rooted.HashBytes(body)), ":")
	return id + "." + sum[:32]
}

// compare makes the diff of the files whose text is not long, as much as a card takes, those
// in new directories among them, and marks what holds the shape of a secret.
func (e *Engine) compare(ctx context.Context, w *Workspace, set *changeSet) {
	var b strings.Builder
	add := func(p op.Path, change string, before, after op.State, openOld, openNew func() (*rooted.Node, error)) {
		if b.Len() >= maxSetDiff {
			set.DiffCut = true
			return
		}
		old, okOld := text(before, openOld)
		now, okNow := text(after, openNew)
		if !okOld || !okNow {
			fmt.Fprintf(&b, "--- %s: %s, %d bytes, to %d bytes; not compared\n", op.Escape(string(p)), change, before.Size, after.Size)
			return
		}
		if after.Kind == op.File && w.Sensitive(p, now) && !slices.Contains(set.Sensitive, p) && len(set.Sensitive) < maxSetMarks {
			set.Sensitive = append(set.Sensitive, p)
		}
		d := fileops.Unified(p, old, now, before.Kind != op.Absent, after.Kind != op.Absent).Text
		if b.Len()+len(d) > maxSetDiff {
			d, set.DiffCut = d[:maxSetDiff-b.Len()], true
		}
		b.WriteString(d)
	}
	absent := op.State{Kind: op.Absent}
	for i, s := range set.Steps {
		ch := set.Changes[i]
		switch {
		case s.Before.Hash == s.After.Hash || ch.From != "" || s.Before.Kind == op.Directory:
		case s.After.Kind == op.Directory:
			for _, p := range ch.Below {
				n, err := within(w.Store, s.Slot, string(p[len(s.Path)+1:]))
				if err != nil {
					continue
				}
				if is := (op.State{Kind: n.Info.Kind, Size: n.Info.Size}); is.Kind == op.File {
					add(p, ch.Change, absent, is, nil, func() (*rooted.Node, error) { return within(w.Store, s.Slot, string(p[len(s.Path)+1:])) })
				}
				n.Close()
			}
		default:
			add(s.Path, ch.Change, s.Before, s.After, func() (*rooted.Node, error) { return w.Root.Look(ctx, s.Path, false) },
				func() (*rooted.Node, error) { return w.Store.Node(s.Slot) })
		}
	}
	set.Diff = strings.ToValidUTF8(b.String(), "\uFFFD")
	if set.DiffCut {
		set.Diff += "\n... the rest of this diff is not shown ...\n"
	}
}

// within opens what lies below a directory of the store.
func within(s *rooted.Store, slot, below string) (*rooted.Node, error) {
	n, err := s.Node(slot)
	for name := range strings.SplitSeq(below, "/") {
		if err != nil {
			return nil, err
		}
		var next *rooted.Node
		next, err = n.Child(name)
		n.Close()
		n = next
	}
	return n, err
}

// text gives the bytes of one side of a comparison; a link's are its text.
func text(s op.State, open func() (*rooted.Node, error)) ([]byte, bool) {
	switch {
	case s.Kind == op.Absent:
		return nil, true
	case s.Kind == op.Symlink:
		return []byte(s.Target), true
	case s.Kind != op.File || s.Size > maxSetText:
		return nil, false
	}
	n, err := open()
	if err != nil {
		return nil, false
	}
	defer n.Close()
	b, err := n.Read(maxSetText)
	return b, err == nil
}

// counts of a set, by what happens.
func (s *changeSet) counts() map[string]int {
	out := map[string]int{"created": 0, "modified": 0, "deleted": 0, "mode": 0, "renamed": 0, "entries": 0}
	for _, c := range s.Changes {
		out[c.Change]++
		out["entries"] += 1 + c.Entries
		if c.From != "" {
			out["renamed"]++
		}
	}
	return out
}

// view is the set in a reply.
func (s *changeSet) view(status string) map[string]any {
	list := slices.Clone(s.Changes)
	out := map[string]any{"id": s.Name, "status": status, "counts": s.counts(), "bytes": s.Bytes, "unchanged": s.Dropped}
	if len(list) > shownChanges {
		out["more"] = len(list) - shownChanges
		list = list[:shownChanges]
	}
	for i := range list {
		list[i].Below = nil
	}
	out["changes"], out["all_names"] = list, "output changes of this run has every name, with kind, mode and size"
	if s.Diff != "" {
		out["diff"] = s.Diff
	}
	if len(s.Left) > 0 {
		out["left"] = s.Left
	}
	return out
}

// loadSet reads a set by its name. One of somebody else looks like none.
func (e *Engine) loadSet(ctx context.Context, w *Workspace, token op.ID, name string) (*changeSet, error) {
	absent := op.Fail(op.NotFound, "no such change set: it was landed, rejected, dropped, or never was").In("args.change_set").Do("rehearse the command again")
	id, _, _ := strings.Cut(name, ".")
	if rooted.SetOf(id) != id || id == "" || !op.Label(id) {
		return nil, absent
	}
	n, err := w.Store.Node(id + ".set")
	if err != nil {
		return nil, absent
	}
	defer n.Close()
	body, err := n.Read(1 << 30)
	if err != nil {
		return nil, err
	}
	set := &changeSet{Name: name}
	switch {
	case setName(id, body) != name:
		return nil, absent
	case json.Unmarshal(body, set) != nil:
		return nil, op.Fail(op.StateCorrupt, "the record of the change set cannot be read").In("args.change_set")
	case set.Token != token || set.Root != w.Key:
		return nil, absent
	}
	return set, nil
}

// lookSet sees what a change set stands on: every path of it must be as it was when the
// rehearsal ran.
func (e *Engine) lookSet(ctx context.Context, c *call, a *op.ShellArgs) error {
	if a.Command != "" || a.Script != "" || a.Stdin != "" || a.Pty || a.Background || a.Rehearse || a.RunID != "" || len(a.Run.Args) > 0 || c.req.DryRun {
		return op.Fail(op.BadRequest, "change_set goes alone: it puts into the workspace what was rehearsed, and runs nothing").In("args.change_set")
	}
	set, err := e.loadSet(ctx, c.ws, c.by.Token, a.ChangeSet)
	if err != nil {
		return err
	}
	c.set = set
	c.sight = &preflight.Sight{Available: true}
	c.facts.Available, c.facts.Planned, c.facts.Mutates, c.facts.ProcessTier = true, true, true, op.T3
	seen := map[op.Path]int{}
	for from := 0; from < len(set.Steps); from += seenAtOnce {
		if err := e.seeSteps(ctx, c, set.Steps[from:min(from+seenAtOnce, len(set.Steps))], seen); err != nil {
			return err
		}
	}
	of := func(p op.Path) *op.Target {
		for ; ; p = p.Parent() {
			if i, ok := seen[p]; ok {
				return &c.facts.Targets[i]
			}
			if p == "." {
				return &op.Target{}
			}
		}
	}
	for _, m := range set.Marks {
		t := of(m.Path)
		t.Protected, t.ProtectedBy, t.ProtectedFrom, t.ContainsProtected = true, m.By, m.From, t.ContainsProtected || t.Path != m.Path
	}
	for _, p := range set.Sensitive {
		of(p).Sensitive = true
	}
	c.plan = e.setPlan(c, set)
	c.facts.ChangeBytes, c.facts.Overwrites, c.facts.Creates = set.Bytes, c.plan.Overwrites, c.plan.Creates
	return nil
}

// seeSteps looks at the paths of some steps, compares each with what the step begins with,
// and lets the handles go.
func (e *Engine) seeSteps(ctx context.Context, c *call, steps []op.Step, seen map[op.Path]int) error {
	var subjects []op.Subject
	var of []op.Step
	for _, s := range steps {
		if _, known := seen[s.Path]; known { // one goes there and another comes
			continue
		}
		seen[s.Path] = len(c.facts.Targets) + len(of)
		subjects = append(subjects, op.Subject{Arg: "change_set", Asked: op.Escape(string(s.Path)), Role: op.RoleTarget})
		of = append(of, s)
	}
	sight, err := preflight.Look(ctx, c.ws.Root, c.ws, subjects, preflight.Deep)
	if err != nil {
		return err
	}
	defer sight.Close()
	c.facts.Available = c.facts.Available && sight.Available
	for i, s := range of {
		t, n := sight.Targets[i], sight.Nodes[i]
		is := op.State{Kind: t.Kind, Hash: t.Hash, Size: t.Size, Mode: t.Mode, Target: n.Info.Target}
		if t.Path != s.Path || !is.Equal(s.Before) {
			e := op.Fail(op.Stale, "this is no longer what the rehearsal ran on").At(s.Path).Do("rehearse again; nothing was changed")
			e.CurrentHash, e.Retry = t.Hash, "corrected"
			return e
		}
		if t.Deletes = s.Do == op.Take; t.Deletes {
			c.facts.ProcessTier = op.T4
		}
		t.Below = nil
		c.facts.Targets = append(c.facts.Targets, t)
	}
	return nil
}

// setPlan words a set for the card.
func (e *Engine) setPlan(c *call, set *changeSet) *fileops.Plan {
	p := fileops.NewRevert(set.Steps)
	p.Lines = append(append([]string{"this was rehearsed:"}, numbered(set.Command)...), "this puts into the workspace exactly what the rehearsal left; nothing is run again")
	if set.Exit != nil && *set.Exit != 0 {
		p.Lines = append(p.Lines, fmt.Sprintf("THE PROGRAM FAILED: it exited with %d", *set.Exit))
	}
	if set.Network {
		p.Lines = append(p.Lines, "the rehearsal had the NETWORK")
	}
	n := set.counts()
	var parts []string
	for _, what := range []string{"created", "modified", "deleted", "mode", "renamed"} {
		if n[what] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[what], what))
		}
	}
	p.Title = "Land a rehearsal: " + strings.Join(parts, ", ")
	p.Diff.Text, p.Result = set.Diff, map[string]any{"landed": true, "change_set": set.Name, "counts": n}
	for _, ch := range set.Changes {
		if len(ch.Setuid) > 0 {
			c.facts.ProcessTier = op.T4
			p.Lines = append(p.Lines, "SETUID OR SETGID: "+strings.Join(escaped(paths(ch.Setuid)), ", "))
		}
		p.BreakLinks = p.BreakLinks || ch.Links > 0
		p.Overwrites = p.Overwrites || ch.Change == "modified"
		p.Creates = p.Creates || ch.Change == "created"
	}
	for _, m := range set.Marks {
		p.Lines = append(p.Lines, fmt.Sprintf("PROTECTED: %s, by %s (%s)", op.Escape(string(m.Path)), m.By, m.From))
	}
	for _, s := range set.Sensitive {
		p.Lines = append(p.Lines, "looks like a secret: "+op.Escape(string(s)))
	}
	for _, ch := range set.Changes {
		p.Lines = append(p.Lines, changeLine(ch))
		for _, b := range ch.Below {
			p.Lines = append(p.Lines, "  "+op.Escape(string(b)))
		}
		if more := ch.Entries - len(ch.Below); more > 0 {
			p.Lines = append(p.Lines, fmt.Sprintf("  and %d more; output changes of the run %s has every name", more, set.Run))
		}
	}
	for _, a := range set.Artifacts {
		p.Lines = append(p.Lines, "differs from a real run: "+a)
	}
	return p
}

func paths(list []op.Path) []string {
	out := make([]string, 0, len(list))
	for _, p := range list {
		out = append(out, string(p))
	}
	return out
}

func changeLine(c rooted.Change) string {
	s := c.Change + " " + op.Escape(string(c.Path))
	st := c.After
	if st.Kind == op.Absent {
		st = c.Before
	}
	switch st.Kind {
	case op.Directory:
		s += fmt.Sprintf("/, a directory with %d names below it, %d bytes", c.Entries, st.Size)
	case op.Symlink:
		s += " -> " + op.Visible(st.Target, false)
	default:
		s += fmt.Sprintf(", %d bytes", st.Size)
	}
	if c.Before.Mode != "" && c.After.Mode != "" && c.Before.Mode != c.After.Mode {
		s += ", mode " + c.Before.Mode + " to " + c.After.Mode
	}
	if c.From != "" {
		s += ", the same bytes as " + op.Escape(string(c.From)) + ", which goes"
	}
	return s
}

// landing gives the change set that a row would land; empty for any other row.
func landing(row journal.Approval) string {
	if row.Op != op.WorkspaceShell || len(row.Request) == 0 {
		return ""
	}
	var r struct {
		Args struct {
			ChangeSet string `json:"change_set"`
		} `json:"args"`
	}
	if json.Unmarshal(row.Request, &r) != nil {
		return ""
	}
	return rooted.SetOf(r.Args.ChangeSet)
}

// rehearses reports a row that runs a rehearsal: whatever became of it, the workspace is
// as it was.
func rehearses(row journal.Approval) bool {
	var r struct {
		Args struct {
			Rehearse bool `json:"rehearse"`
		} `json:"args"`
	}
	return row.Op == op.WorkspaceShell && json.Unmarshal(row.Request, &r) == nil && r.Args.Rehearse
}

// dropSet ends all of a set that no operation names: its record first.
func (e *Engine) dropSet(w *Workspace, id string) {
	ctx := context.Background()
	_ = w.Store.Drop(id + ".set")
	slots, err := w.Store.Slots()
	if err != nil {
		return // the next start finds them
	}
	asks := e.jrn.Slots(w.Key)
	for _, slot := range slots {
		if rooted.SetOf(slot) != id {
			continue
		}
		if named, err := asks.Named(ctx, slot); err == nil && !named {
			_ = w.Store.Drop(slot)
		}
	}
}

// landedSet ends the set of a row that is over.
func (e *Engine) landedSet(row journal.Approval) {
	if id := landing(row); id != "" {
		if w := e.byKey(row.Root); w != nil {
			e.dropSet(w, id)
		}
	}
}

// liveSets lists the sets of a root that still wait for a person, or are being landed. Not
// sure: a row that cannot be read may belong to any other.
func (e *Engine) liveSets(ctx context.Context, w *Workspace) (live map[string]bool, sure bool, err error) {
	live, sure = map[string]bool{}, true
	for _, state := range []string{journal.Pending, journal.Approved, journal.Executing} {
		rows, left, err := e.listed(ctx, journal.ApprovalFilter{State: state, Root: w.Key})
		if err != nil {
			return nil, false, err
		}
		sure = sure && len(left.Rows) == 0
		for _, row := range rows {
			if id := landing(row); id != "" {
				live[id] = true
			}
		}
	}
	return live, sure, nil
}
