package flow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"holdpoint/fileops"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/preflight"
	"holdpoint/shellexec"
)

// ProcessConfig is what the operator says about programs.
type ProcessConfig struct {
	ApprovalDisabled bool          // for the whole deployment: no person is asked
	Confinement      string        // "" puts up what can be had, "required" runs nothing without all of it, "off" none
	Env              []string      // names of the daemon's variables that programs may see
	MaxTimeout       time.Duration // 10 minutes where zero
	SessionIdle      time.Duration // 30 seconds where zero
	MaxCount         int           // processes and threads of one run; 4,096 where zero
	MaxMemory        int64         // bytes of one run; none where zero
	MaxCPU           time.Duration // of one process; none where zero
	Cgroup           string        // that was handed to the daemon; found by itself where empty

	RehearseWithoutReview bool     // a rehearsal that is fully confined, without network, runs without asking
	Snapshot              []string // patterns of what is kept before every program that runs for real
	RehearseOutputs       []string // patterns of what such a rehearsal may leave without asking: it is dropped

	Hide []string // further places of the daemon that no program may see
}

// processes is what the engine keeps of programs.
type processes struct {
	mu        sync.Mutex                   // guards levels, views, rehearsed, ctx and stop
	levels    map[string][]shellexec.Level // by root, found once
	views     map[string]viewed            // likewise, of rehearsals
	rehearsed map[string][]op.Path         // by command: what its rehearsal changed
	runs      runs
	spares    shellexec.Spares // helpers that stand ready
	left      []string         // what an earlier daemon that was killed left running; set once, by Recover
	ctx       context.Context  // of all that runs; nil before the first
	stop      context.CancelFunc
}

// running gives the context under which programs run: not that of whoever waits for one.
func (p *processes) running() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		p.ctx, p.stop = context.WithCancel(context.Background())
	}
	return p.ctx
}

// StopProcesses ends all that runs, and lets nothing new start.
func (e *Engine) StopProcesses() {
	e.procs.running()
	e.procs.stop()
	e.procs.spares.Close()
}

// process is a looked-at program: all that its start needs, held open.
type process struct {
	run       *op.Run
	argv      []string // as executed, the interpreter of a script first
	dir       string   // absolute
	program   *shellexec.Program
	reading   shellexec.Reading
	env       []string // what the call adds
	levels    []shellexec.Level
	timeout   time.Duration
	stat      map[op.Path]rooted.Info // of the root before; nil where there are too many names
	readOnly  []string
	shut      []op.Path  // directories that this user may not read
	names     []string   // protected ones that are not to appear at the top of the root
	unmarked  int        // protected names that are too many to be mounted
	rehearsal *rehearsal // nil: it runs for real
	keeping   *keeping   // what is kept before it runs
	before    moment     // when stat was taken
	typed     *run       // nothing is started: the call types into this session
}

const (
	maxWords    = 4096
	maxArgv     = 128 << 10 // what one word may have on Linux
	maxManifest = 200_000
	maxMounts   = 512
)

// lookProcess sees what a program would run as and on: directory, program, the scripts
// and build files that it is known to read. All of it is pinned.
func (e *Engine) lookProcess(ctx context.Context, c *call) (err error) {
	run := op.RunOf(c.args)
	p := &process{run: run}
	shell, _ := c.args.(*op.ShellArgs)
	if c.req.DryRun {
		return op.Fail(op.RehearsalUnsupported, "a program has no dry run").In("dry_run").Do("rehearse: true runs workspace_shell on a view of the workspace; that waits for a person too")
	}
	if shell != nil && shell.ChangeSet != "" {
		return e.lookSet(ctx, c, shell)
	}
	if shell != nil && shell.RunID != "" {
		return e.lookTyping(ctx, c, shell)
	}
	if err := fits(shell); err != nil {
		return err
	}
	asked, err := p.words()
	if err != nil {
		return err
	}
	if p.env, err = shellexec.Extra(run.Env); err != nil {
		return err
	}
	for name := range run.Env {
		if shellexec.Steers(name) {
			p.reading.Tier = op.T4 // it changes what programs run
		}
	}
	if shell != nil && shell.WholeSession {
		p.reading.Tier = op.T4 // what will be typed is not on the card
	}
	if err := e.timeLimit(c, p, shell); err != nil {
		return err
	}
	if err := e.see(ctx, c, []op.Subject{{Arg: "cwd", Asked: orDot(run.Cwd), Role: op.RoleSource, Follow: true}}, preflight.Shallow); err != nil {
		return err
	}
	here := c.facts.Targets[0]
	if here.Kind != op.Directory {
		err := op.Fail(op.NotADirectory, "the working directory is "+string(here.Kind)).At(here.Path).In("args.cwd")
		if here.Kind == op.Absent {
			err.Code, err.Message = op.NotFound, "the working directory does not exist"
		}
		return err
	}
	p.dir = filepath.Join(c.ws.Root.Dir(), filepath.FromSlash(string(here.Path)))
	c.also = append(c.also, p.close)
	if err := e.resolve(ctx, c, p, asked); err != nil {
		return err
	}
	if shell != nil && shell.Rehearse {
		if err := e.rehearsable(ctx, c, p); err != nil {
			return err
		}
	} else if err := e.confinement(ctx, c, p); err != nil {
		return err
	}
	if c.released {
		e.warm(c, p) // beside the rest of the look
	}
	if err := e.manifest(ctx, c, p); err != nil {
		return err
	}
	if p.rehearsal != nil && p.rehearsal.kind.copies() && (p.stat == nil || len(p.stat) > c.ws.Store.ViewNames()) {
		return unrehearsed("no copy-on-write view of this root can be had, and it holds too much to be copied")
	}
	if err := e.toKeep(c, p); err != nil {
		return err
	}
	c.process, c.facts.ProcessTier = p, p.reading.Tier
	c.facts.Planned, c.facts.Mutates = true, true
	c.plan = &fileops.Plan{Title: p.title(c), Lines: e.processLines(ctx, c, p)}
	if made := e.commits(ctx, c, p); made.lines != nil {
		c.plan.Lines, c.plan.Diff.Text = append(c.plan.Lines, made.lines...), made.diff
	}
	if hidden(run.Script + strings.Join(asked, "")) {
		c.warnings = append(c.warnings, op.Warning{Code: "hidden_characters", Message: "the command holds characters that do not show"})
	}
	return nil
}

func (p *process) close() {
	if p.program != nil {
		p.program.Close()
	}
}

func orDot(s string) string {
	if s == "" {
		return "."
	}
	return s
}

// words checks and reads the command, and gives its argv as asked.
func (p *process) words() ([]string, error) {
	r := p.run
	switch {
	case (r.Command == "") == (r.Script == ""):
		return nil, op.Fail(op.BadRequest, "give command, or script, and not both").In("args.command")
	case r.Script != "" && len(r.Args) > 0:
		return nil, op.Fail(op.BadRequest, "args go with command; a script takes none").In("args.args")
	case len(r.Script) > shellexec.MaxScript:
		return nil, op.Fail(op.TooLarge, "the script is longer than 64 KiB").In("args.script").Do("write it to a file and run that")
	case len(r.Args) > maxWords:
		return nil, op.Fail(op.TooLarge, "more than 4,096 words").In("args.args")
	}
	size := len(r.Command)
	for _, a := range r.Args {
		size += len(a)
	}
	if size > maxArgv {
		return nil, op.Fail(op.TooLarge, "the words are longer than 128 KiB").In("args.args")
	}
	if strings.ContainsRune(r.Command+r.Script+strings.Join(r.Args, ""), 0) {
		return nil, op.Fail(op.BadRequest, "a command holds no NUL byte").In("args.command")
	}
	if r.Script != "" {
		p.reading = shellexec.ReadScript(r.Script)
		return []string{"sh", "-c", r.Script}, nil
	}
	argv := append([]string{r.Command}, r.Args...)
	p.reading = shellexec.ReadArgv(argv)
	return argv, nil
}

// fits refuses what goes with a terminal alone, and what does not go with one.
func fits(a *op.ShellArgs) error {
	switch {
	case a == nil:
		return nil
	case a.Rehearse && (a.Pty || a.Background || a.RunID != ""):
		return op.Fail(op.BadRequest, "a rehearsal runs to its end and is no session").In("args.rehearse")
	case a.Pty && a.Stdin != "":
		return op.Fail(op.BadRequest, "a session is typed into, it has no other input").In("args.stdin").Do("open it, then call with run_id and stdin")
	case !a.Pty && a.WholeSession:
		return op.Fail(op.BadRequest, "whole_session goes with pty").In("args.whole_session")
	case !a.Pty && a.Rows != nil:
		return op.Fail(op.BadRequest, "rows goes with pty").In("args.rows")
	case !a.Pty && a.Cols != nil:
		return op.Fail(op.BadRequest, "cols goes with pty").In("args.cols")
	}
	return nil
}

// timeLimit sets the deadline; an interpreter that waits for typing and has no terminal
// gets a short one, what somebody looks after the longest.
func (e *Engine) timeLimit(c *call, p *process, shell *op.ShellArgs) error {
	longest := e.cfg.Process.MaxTimeout
	if longest == 0 {
		longest = 10 * time.Minute
	}
	if own := c.static.MaxTimeout; own > 0 {
		longest = min(longest, own)
	}
	p.timeout = time.Minute
	switch {
	case c.req.Op == op.WorkspaceTests:
		p.timeout = 5 * time.Minute
	case shell != nil && (shell.Pty || shell.Background):
		p.timeout = longest
	case p.reading.Interactive:
		p.timeout = 30 * time.Second
	}
	if p.run.TimeoutMS != nil {
		p.timeout = time.Duration(*p.run.TimeoutMS) * time.Millisecond
		if p.timeout > longest {
			return op.Fail(op.BadRequest, "timeout_ms is at most "+longest.String()+" here").In("args.timeout_ms")
		}
	}
	p.timeout = min(p.timeout, longest)
	return nil
}

// resolve finds the program, and puts it and what it is known to read among the targets.
func (e *Engine) resolve(ctx context.Context, c *call, p *process, asked []string) error {
	search := e.search()
	if p.run.Script != "" {
		if _, err := shellexec.Find("bash", search, p.dir); err == nil {
			asked = []string{"bash", "--noprofile", "--norc", "-c", p.run.Script}
		}
	}
	prog, err := e.program(ctx, c, p, asked[0], search)
	if err != nil {
		return err
	}
	p.argv, p.program = asked, prog
	if prog.Through != "" { // a script: what runs is its interpreter, and both are pinned
		interpreter, err := e.program(ctx, c, p, prog.Through, search)
		prog.Close()
		if p.program = interpreter; err != nil {
			return err
		}
		argv := []string{prog.Through}
		if prog.Option != "" {
			argv = append(argv, prog.Option)
		}
		p.argv = append(append(argv, prog.Path), asked[1:]...)
		if interpreter.Through != "" {
			return op.Fail(op.SpawnFailed, "the interpreter of this script is a script itself").In("args.command")
		}
	}
	seen := map[string]bool{asked[0]: true}
	l := &looking{e: e, c: c, dirs: p.places(), commands: map[string]bool{}, paths: map[op.Path]bool{}}
	for _, cmd := range p.reading.Commands {
		if cmd.Reads != "" {
			l.reads(ctx, []string{"<", cmd.Reads})
		}
		if len(cmd.Words) == 0 {
			continue
		}
		if name := cmd.Words[0]; !seen[name] && len(seen) <= 32 {
			seen[name] = true
			// A builtin or a function of the script is no file; what runs it is pinned.
			if more, err := e.program(ctx, c, p, name, search); err == nil {
				more.Close()
			}
		}
		l.reads(ctx, cmd.Words)
	}
	if l.looks > maxLooks || l.pinned > maxPinned {
		return op.Fail(op.TooLarge, "the commands name too many files").Do("split them into several calls").In("args")
	}
	return nil
}

// maxPlaces bounds the directories in which the words of one script are looked up.
const maxPlaces = 4

// places are the directories in which the commands may run: the call's own, and those that
// the script changes to, as far as it says which.
func (p *process) places() []string {
	dirs := []string{p.dir}
	for _, cmd := range p.reading.Commands {
		if len(cmd.Words) != 2 || !cmd.Known || cmd.Words[0] != "cd" && cmd.Words[0] != "pushd" {
			continue
		}
		for _, dir := range slices.Clone(dirs) {
			if to := absolute(dir, cmd.Words[1]); len(dirs) < maxPlaces && !slices.Contains(dirs, to) {
				dirs = append(dirs, to)
			}
		}
	}
	return dirs
}

func absolute(dir, word string) string {
	if filepath.IsAbs(word) {
		return filepath.Clean(word)
	}
	return filepath.Join(dir, word)
}

// led gives the path in the root that a word leads to, also by a link or a magic link
// outside of the root that leads back into it.
func (c *call) led(dir, word string) (op.Path, bool) {
	full := absolute(dir, word)
	if rel, ok := c.inside(full); ok {
		return rel, true
	}
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		return "", false
	}
	return c.inside(real)
}

// program opens one program and adds it to the targets. One that lies in the root is
// opened through the root's handle.
func (e *Engine) program(ctx context.Context, c *call, p *process, name, search string) (*shellexec.Program, error) {
	at, err := shellexec.Find(name, search, p.dir)
	if err != nil {
		return nil, err
	}
	if rel, ok := c.inside(at); ok {
		n := e.target(ctx, c, rel)
		if n == nil || n.Info.Kind != op.File {
			return nil, op.Fail(op.SpawnFailed, "the program cannot be opened in the workspace").At(rel).In("args.command")
		}
		f, err := n.Open()
		if err != nil {
			return nil, err
		}
		return shellexec.Take(name, at, f)
	}
	prog, err := shellexec.Open(name, at)
	if err != nil {
		return nil, err
	}
	c.pin(op.Target{Path: op.Path(prog.Path), Asked: name, Role: op.RoleSource, Kind: op.File, Exists: true, Hash: prog.Digest})
	return prog, nil
}

// inside gives a path relative to the root, where it lies in it.
func (c *call) inside(abs string) (op.Path, bool) {
	rel, err := filepath.Rel(c.ws.Root.Dir(), abs)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return op.Path(filepath.ToSlash(rel)), true
}

func (c *call) pin(t op.Target) {
	for _, old := range c.facts.Targets {
		if old.Path == t.Path {
			return
		}
	}
	c.facts.Targets = append(c.facts.Targets, t)
}

// target looks at one more path of the root, pins what is there and keeps its node open;
// nil when it cannot be looked at.
func (e *Engine) target(ctx context.Context, c *call, rel op.Path) *rooted.Node {
	sight, err := preflight.Look(ctx, c.ws.Root, c.ws, []op.Subject{{Arg: "args", Asked: op.Escape(string(rel)), Role: op.RoleSource, Follow: true}}, preflight.Shallow)
	if err != nil {
		return nil
	}
	c.also = append(c.also, sight.Close)
	t := sight.Targets[0]
	c.pin(t)
	return sight.Nodes[0]
}

// buildFiles are what a program of a name is known to read in its directory. Those that
// are absent are pinned as absent: one that appears would change what runs.
var buildFiles = map[string][]string{
	"make": {"GNUmakefile", "makefile", "Makefile"}, "gmake": {"GNUmakefile", "makefile", "Makefile"}, "npm": {"package.json"}, "npx": {"package.json"}, "yarn": {"package.json"},
	"pnpm": {"package.json"}, "bun": {"package.json"}, "cargo": {"Cargo.toml", "build.rs"}, "go": {"go.mod"}, "pytest": {"pyproject.toml", "pytest.ini", "conftest.py", "setup.cfg"},
	"just": {"justfile"}, "rake": {"Rakefile"}, "tox": {"tox.ini"}, "gradle": {"build.gradle"}, "mvn": {"pom.xml"},
}

// What the commands of one call may name: each look takes time, and each pinned file stays
// open until the call ends. Beyond, the call is refused, so that nothing runs unpinned.
const (
	maxLooks  = 20_000
	maxPinned = 512
)

// looking pins what commands name, each command and each path once.
type looking struct {
	e             *Engine
	c             *call
	dirs          []string
	commands      map[string]bool
	paths         map[op.Path]bool
	looks, pinned int
}

// reads pins the files that a command names by its words, and those it is known to read:
// in the directories where it may run, and in those that it names.
func (l *looking) reads(ctx context.Context, words []string) {
	all := strings.Join(words, "\x00")
	if l.commands[all] {
		return
	}
	l.commands[all] = true
	known := buildFiles[path.Base(words[0])]
	for _, dir := range l.dirs {
		if at, ok := l.c.led(dir, "."); ok {
			l.builds(ctx, at, known)
		}
		for i, w := range words {
			if i == 0 && !strings.Contains(w, "/") || i > 64 || w == "" || strings.HasPrefix(w, "-") || len(w) > 4096 {
				continue
			}
			if l.looks++; l.looks > maxLooks || l.pinned > maxPinned {
				return
			}
			if rel, ok := l.c.led(dir, w); ok {
				l.word(ctx, rel, known)
			}
		}
	}
}

func (l *looking) word(ctx context.Context, rel op.Path, known []string) {
	n, err := l.c.ws.Root.Look(ctx, rel, true)
	if err != nil {
		return
	}
	kind := n.Info.Kind
	n.Close()
	switch kind {
	case op.File:
		l.pin(ctx, rel)
	case op.Directory:
		l.builds(ctx, rel, known)
	}
}

// builds pins what stands under known names in a directory, or that nothing does.
func (l *looking) builds(ctx context.Context, at op.Path, known []string) {
	for _, name := range known {
		l.pin(ctx, op.Path(path.Join(string(at), name)))
	}
}

func (l *looking) pin(ctx context.Context, rel op.Path) {
	if l.paths[rel] || l.pinned > maxPinned {
		return
	}
	l.paths[rel] = true
	l.pinned++
	l.e.target(ctx, l.c, rel)
}

// search is the search path of programs.
func (e *Engine) search() string {
	return shellexec.Search(e.cfg.Getenv("PATH"), func(dir string) bool {
		e.mu.RLock()
		defer e.mu.RUnlock()
		for _, w := range e.roots {
			if w.Root.Holds(dir) {
				return true
			}
		}
		return false
	})
}

// confinement finds out, once for a root, what this machine gives.
func (e *Engine) confinement(ctx context.Context, c *call, p *process) error {
	if e.cfg.Process.Confinement == "off" {
		return nil
	}
	e.procs.mu.Lock()
	defer e.procs.mu.Unlock()
	levels, known := e.procs.levels[c.ws.Key]
	if !known {
		spec, err := e.spot(c)
		if err != nil {
			return err
		}
		spec.Spares = &e.procs.spares
		if levels, err = shellexec.Probe(context.WithoutCancel(ctx), spec); err != nil {
			return err
		}
		if e.procs.levels == nil {
			e.procs.levels = map[string][]shellexec.Level{}
		}
		e.procs.levels[c.ws.Key] = levels
	}
	for _, l := range levels {
		if l.Name == shellexec.LevelNet && p.run.Network {
			continue
		}
		p.levels = append(p.levels, l)
		if !l.On && e.cfg.Process.Confinement == "required" {
			return op.Fail(op.SandboxUnavailable, "the operator requires confinement, and "+l.Name+" cannot be had here: "+l.Detail).Do("nothing was run; ask the operator")
		}
	}
	return nil
}

// warm has a helper stand ready for a program that is about to wait for a person, or to run.
func (e *Engine) warm(c *call, p *process) {
	if p == nil || p.typed != nil || p.rehearsal != nil && p.rehearsal.kind == viewPlain {
		return
	}
	e.procs.spares.Warm(shellexec.Spec{Confined: e.cfg.Process.Confinement != "off" && on(p.levels, shellexec.LevelUser), Network: p.run.Network})
}

// spot is the part of a spec that depends on the root alone.
func (e *Engine) spot(c *call) (shellexec.Spec, error) {
	n, err := c.ws.Root.Look(context.Background(), ".", false)
	if err != nil {
		return shellexec.Spec{}, err
	}
	defer n.Close()
	hide := append([]string{e.jrn.Dir(), filepath.Join(c.ws.Root.Dir(), storeName), filepath.Join(filepath.Dir(c.ws.Root.Dir()), ".holdpoint-store-"+c.ws.Key[:12])},
		e.cfg.Process.Hide...)
	return shellexec.Spec{Root: c.ws.Root.Dir(), RootDev: n.Info.Dev, RootIno: n.Info.Ino, Dir: c.ws.Root.Dir(), Hide: hide,
		Memory: e.cfg.Process.MaxMemory, CPU: e.cfg.Process.MaxCPU, Cgroup: e.cfg.Process.Cgroup}, nil
}

var errEnough = errors.New("more names than are compared")

// manifest takes the stats of all names, to tell afterwards what changed, and finds the
// protected ones that are to be held read-only.
func (e *Engine) manifest(ctx context.Context, c *call, p *process) error {
	mounts := on(p.levels, shellexec.LevelMarks)
	if on(p.levels, shellexec.LevelNames) && !p.run.WriteProtected {
		p.names = c.ws.heldNames()
	}
	var err error
	if p.before, err = e.underway(ctx, c.ws); err != nil {
		return err
	}
	list, err := c.ws.stats(ctx, func(at op.Path, dir bool) bool {
		if p.run.WriteProtected || !mounts {
			return false
		}
		if by, _ := c.ws.Protected(at, dir); by == "" {
			return false
		}
		if len(p.readOnly) >= maxMounts {
			p.unmarked++
			return false
		}
		p.readOnly = append(p.readOnly, string(at))
		return true
	}, func(at op.Path) { p.shut = append(p.shut, at) })
	if errors.Is(err, errEnough) {
		return nil
	}
	if p.stat = list; err != nil {
		return err
	}
	p.holdShut(mounts)
	return nil
}

// holdShut holds read-only what this user may not read: the program is the same user, and may
// open a directory of his own up. What it did in there could be told by nobody, and whether
// something protected lies in it either. Where that cannot be held not all is known.
func (p *process) holdShut(mounts bool) {
	for _, at := range p.shut {
		if !mounts || len(p.readOnly) >= maxMounts {
			p.stat = nil
			return
		}
		p.readOnly = append(p.readOnly, string(at))
	}
}

func on(levels []shellexec.Level, name string) bool {
	for _, l := range levels {
		if l.Name == name {
			return l.On
		}
	}
	return false
}

// stats lists all that stands in the root. What held answers true for is taken with its
// own name only: nothing below it can change. held is asked of every name, also where they
// are too many to be listed, or one is a mount point: then the answer is errEnough. shut is
// told of the directories that this user may not read; what is below them is not in the list.
func (w *Workspace) stats(ctx context.Context, held func(p op.Path, dir bool) bool, shut func(p op.Path)) (map[op.Path]rooted.Info, error) {
	n, err := w.Root.Look(ctx, ".", false)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	out, whole := map[op.Path]rooted.Info{}, true
	err = n.TreePast(ctx, func(p op.Path, info rooted.Info, _ func() (*rooted.Node, error)) error {
		if p == storeName {
			return fs.SkipDir
		}
		if whole = whole && len(out) < maxManifest; whole {
			out[p] = info
		}
		if held(p, info.Kind == op.Directory) && info.Kind == op.Directory {
			return fs.SkipDir
		}
		return nil
	}, func(p op.Path, why error) error {
		if errors.Is(why, op.PermissionDenied) {
			shut(p)
			return nil
		}
		whole = false // what lies on another file system cannot be compared here
		held(p, true)
		return nil
	})
	if err == nil && !whole {
		return nil, errEnough
	}
	return out, err
}

func (p *process) title(c *call) string {
	what := "Run a script"
	if p.run.Script == "" {
		what = "Run " + op.Visible(path.Base(p.run.Command), false)
	}
	if c.req.Op == op.WorkspaceTests {
		what = "Run tests: " + strings.TrimPrefix(what, "Run ")
	}
	if a, ok := c.args.(*op.ShellArgs); ok && a.Pty {
		what = "Open a session: " + strings.TrimPrefix(what, "Run ")
	} else if ok && a.Background {
		what += " in the background"
	}
	return fmt.Sprintf("%s (%s)", what, leading(p.reading.Tier))
}

// leading: running anything is T3 at least.
func leading(t op.Tier) op.Tier {
	if t.Rank() < op.T3.Rank() {
		return op.T3
	}
	return t
}

func isProcess(name op.Name) bool {
	spec, known := op.Lookup(name)
	return known && spec.Class == op.Process
}
