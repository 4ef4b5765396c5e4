package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/protected"
)

// A program that runs for real changes files by itself, so that what it changed can be taken
// back only where the old bytes were kept before. They are, of three kinds of files:
//
//   - those that the call, or the operator, names by pattern: all of them or no run;
//   - those that an earlier rehearsal of the same command changed;
//   - those that its commands name, where these are not known only to read.
//
// The last two are kept as far as they are not many; the card says how far. What a program
// makes needs nothing kept. Everything else that it changes is told by name afterwards.

// keeping is what is to be kept of the root before a program runs.
type keeping struct {
	paths []op.Path // files, in order
	bytes int64
	asked bool // some were asked for by pattern
	left  int  // those that its commands name and that are too many to be kept

	slots  map[op.Path]string // once kept
	record string             // the slot that says what they are, for the next start
	flush  chan error         // of both, under way while the program runs
}

const (
	maxKept      = 50_000 // by pattern
	maxKeptBytes = 4 << 30
	maxNamed     = 2_000 // otherwise
	maxNamedSize = 64 << 20
	maxRehearsed = 64 // commands whose change sets are remembered
	shownKept    = 20
)

// toKeep finds out what is kept before a program runs.
func (e *Engine) toKeep(c *call, p *process) error {
	k := &keeping{}
	p.keeping = k
	var asked []string
	if a, ok := c.args.(*op.ShellArgs); ok {
		asked = a.Snapshot
	}
	if err := fileops.FewPatterns(asked, "args.snapshot"); err != nil {
		return err
	}
	if p.rehearsal != nil {
		if len(asked) > 0 {
			return op.Fail(op.BadRequest, "a rehearsal changes nothing, so there is nothing to keep").In("args.snapshot")
		}
		return nil
	}
	asked = append(slices.Clone(e.cfg.Process.Snapshot), asked...)
	list, err := protected.Compile(asked, "snapshot")
	if err != nil {
		return op.Fail(op.BadRequest, "this is no list of patterns: "+err.Error()).In("args.snapshot")
	}
	if k.asked = len(asked) > 0; k.asked && p.stat == nil {
		return op.Fail(op.NotAvailable, "more stands in this root than can be looked at, so that no snapshot can be made by pattern").In("args.snapshot").Do("rehearse the command, or run it without a snapshot")
	}
	held := map[op.Path]bool{}
	for _, name := range p.readOnly {
		held[op.Path(name)] = true
	}
	names, globs := e.worksOn(c, p)
	var known []op.Path
	for at, info := range p.stat {
		if info.Kind != op.File || held[at] {
			continue
		}
		if k.asked && matches(list, at) {
			k.paths, k.bytes = append(k.paths, at), k.bytes+info.Size
		} else if covers(names, at) || globbed(globs, at) {
			known = append(known, at)
		}
	}
	if len(k.paths) > maxKept || k.bytes > maxKeptBytes {
		return op.Fail(op.TooLarge, fmt.Sprintf("the snapshot would hold %d files with %d bytes", len(k.paths), k.bytes)).In("args.snapshot").
			Do("name less, or rehearse the command: a change set keeps what it changes and nothing else")
	}
	slices.Sort(known)
	count, size := 0, int64(0)
	for _, at := range known {
		n := p.stat[at].Size
		if count++; count > maxNamed || size+n > maxNamedSize {
			k.left++
			continue
		}
		size += n
		k.paths = append(k.paths, at)
	}
	k.bytes += size
	slices.Sort(k.paths)
	return nil
}

// matches asks of a path and of all directories above it, as an ignore file does.
func matches(list *protected.List, p op.Path) bool {
	for dir := false; p != "."; p, dir = p.Parent(), true {
		if in, _ := list.Match(string(p), dir); in {
			return true
		}
	}
	return false
}

// covers reports whether a path, or a directory above it, is among names.
func covers(names map[op.Path]bool, p op.Path) bool {
	for ; ; p = p.Parent() {
		if names[p] || p == "." {
			return names[p]
		}
	}
}

func globbed(globs []string, p op.Path) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		in, err := path.Match(g, string(p))
		return err == nil && in
	})
}

// worksOn gives the paths that a command is known to work on: by its words, as far as they can
// be read, and by what a rehearsal of it changed.
func (e *Engine) worksOn(c *call, p *process) (names map[op.Path]bool, globs []string) {
	names = map[op.Path]bool{}
	add := func(word string) {
		full := word
		if !filepath.IsAbs(word) {
			full = filepath.Join(p.dir, word)
		}
		rel, ok := c.inside(full)
		switch {
		case !ok:
		case strings.ContainsAny(word, "*?["):
			globs = append(globs, string(rel))
		default:
			names[rel] = true
		}
	}
	for _, cmd := range p.reading.Commands {
		if cmd.Writes != "" {
			add(cmd.Writes)
		}
		if cmd.Tier == op.T1 || len(cmd.Words) == 0 {
			continue
		}
		for _, w := range cmd.Words[1:] {
			if w != "" && len(w) <= 4096 && !strings.HasPrefix(w, "-") {
				add(w)
			}
		}
	}
	for _, at := range e.rehearsedPaths(c) {
		names[at] = true
	}
	return names, globs
}

// commandKey is the same for two calls that run the same.
func commandKey(c *call) string {
	run := *op.RunOf(c.args)
	run.TimeoutMS, run.WriteProtected = nil, false
	stdin := ""
	if a, ok := c.args.(*op.ShellArgs); ok {
		stdin = a.Stdin
	}
	b, err := json.Marshal([]any{c.by.Token, c.ws.Key, run, stdin})
	if err != nil {
		return ""
	}
	return string(rooted.HashBytes(b))
}

// noteRehearsed remembers what a rehearsal changed, for a run of the same command for real.
func (e *Engine) noteRehearsed(c *call, set *changeSet) {
	var paths []op.Path
	for _, ch := range set.Changes {
		paths = append(paths, ch.Path)
	}
	e.procs.mu.Lock()
	defer e.procs.mu.Unlock()
	if len(e.procs.rehearsed) >= maxRehearsed {
		clear(e.procs.rehearsed)
	}
	if e.procs.rehearsed == nil {
		e.procs.rehearsed = map[string][]op.Path{}
	}
	e.procs.rehearsed[commandKey(c)] = paths
}

func (e *Engine) rehearsedPaths(c *call) []op.Path {
	e.procs.mu.Lock()
	defer e.procs.mu.Unlock()
	return e.procs.rehearsed[commandKey(c)]
}

// keepLines say on the card what can be taken back, and what not.
func keepLines(p *process) []string {
	k := p.keeping
	if k == nil || p.rehearsal != nil {
		return nil
	}
	if len(k.paths) == 0 {
		return []string{"nothing is kept before it runs: only what it makes can be taken back"}
	}
	var names []string
	for _, at := range k.paths[:min(len(k.paths), shownKept)] {
		names = append(names, op.Escape(string(at)))
	}
	if more := len(k.paths) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	out := []string{fmt.Sprintf("keeps %d files with %d bytes before it runs, so that what becomes of them can be taken back: %s", len(k.paths), k.bytes, strings.Join(names, ", "))}
	if k.left > 0 {
		out = append(out, fmt.Sprintf("%d more files that it names are NOT kept: they are too many", k.left))
	}
	return out
}

// keptRecord is what the next start needs should this daemon not see the end of the run.
type keptRecord struct {
	Intent journal.Operation `json:"intent"`
	Run    op.ID             `json:"run"`
	Files  map[string]string `json:"files"` // escaped path to slot
}

const keptRecordSuffix = ".snap"

// keep puts aside what is to be kept. What cannot be is a failure where it was asked for, and
// else is told as not kept.
func (e *Engine) keep(ctx context.Context, c *call, d op.Decision, approval, id op.ID) error {
	k := c.process.keeping
	if len(k.paths) == 0 {
		return nil
	}
	if err := e.makeRoom(ctx, k.bytes); err != nil {
		if k.asked {
			return err
		}
		c.warnings = append(c.warnings, op.Warning{Code: "not_kept", Message: "nothing was kept before it ran: " + op.AsError(err).Message})
		return nil
	}
	k.slots = map[op.Path]string{}
	record := keptRecord{Intent: e.intent(c, d, approval, nil), Run: id, Files: map[string]string{}}
	record.Intent.AuditLine, record.Intent.Diff = nil, nil
	for _, at := range k.paths {
		slot := e.slot()
		if err := e.aside(ctx, c.ws, at, slot); err != nil {
			if k.asked && op.AsError(err).Code != op.NotFound {
				e.letGo(c)
				return err
			}
			k.left++
			continue
		}
		k.slots[at], record.Files[op.Escape(string(at))] = slot, slot
	}
	body, err := json.Marshal(record)
	if err == nil {
		k.record = string(id) + keptRecordSuffix
		_, err = c.ws.Store.Stage(ctx, k.record, strings.NewReader(string(body)), rooted.Meta{Perm: 0o600, Exact: true})
	}
	if err != nil {
		e.letGo(c)
		return err
	}
	k.flush = make(chan error, 1)
	go func() { k.flush <- c.ws.Store.Flush() }()
	return nil
}

func (e *Engine) aside(ctx context.Context, w *Workspace, at op.Path, slot string) error {
	n, err := w.Root.Look(ctx, at, false)
	if err != nil {
		return err
	}
	defer n.Close()
	if n.Info.Kind == op.Absent {
		return op.Fail(op.NotFound, "it went away").At(at)
	}
	return w.Store.Aside(ctx, slot, n)
}

// letGo drops what was kept and no operation names.
func (e *Engine) letGo(c *call) {
	k := c.process.keeping
	if k == nil || k.slots == nil {
		return
	}
	if k.flush != nil {
		<-k.flush
		k.flush = nil
	}
	for _, slot := range k.slots {
		_ = c.ws.Store.Drop(slot) // what stays is swept at the next start
	}
	_ = c.ws.Store.Drop(k.record)
	k.slots = nil
}

// undoOf says on the card what can be taken back of a program that runs for real.
func undoOf(p *process, days int) string {
	s := fmt.Sprintf("what it makes can be taken back for %d days", days)
	if p.keeping != nil && len(p.keeping.paths) > 0 {
		s = fmt.Sprintf("what it makes, and what it does to the %d files that are kept, can be taken back for %d days", len(p.keeping.paths), days)
	}
	return s + "; what else it changes cannot, and is named afterwards"
}
