package flow

import (
	"context"
	"fmt"

	"holdpoint/fileops"
	"holdpoint/internal/gitread"
	"holdpoint/op"
	"holdpoint/preflight"
)

// batch is the look at a batch: its items are seen and planned one after the other, each
// in the workspace as those before it will leave it. Nothing happens before all of them
// were. What is judged and pinned is the workspace as it is now, at every path that an
// item names or that something comes from or goes to.
type batch struct {
	e     *Engine
	c     *call
	world *fileops.World
	plan  *fileops.BatchPlan
	index map[targetKey]int
	texts [][]byte // of each target, the whole content where it was read
}

// targetKey keeps apart what is taken away at a path and what is put there: cleaning what
// git ignores is no reason to ask, writing it is.
type targetKey struct {
	path    op.Path
	deletes bool
}

func (e *Engine) lookBatch(ctx context.Context, c *call) error {
	a := c.args.(*op.BatchArgs)
	b := &batch{e: e, c: c, world: fileops.NewWorld(c.ws.Root), index: map[targetKey]int{}}
	c.also = append(c.also, b.world.Close)
	c.sight = &preflight.Sight{Available: true}
	b.plan = fileops.NewBatch(a)
	failed := 0
	var first error
	for i, item := range a.Operations {
		if err := ctx.Err(); err != nil {
			return op.Fail(op.Cancelled, "the caller went away").Because(err)
		}
		err := b.item(ctx, item)
		if err == nil {
			continue
		}
		if err = op.InItem(err, i); op.Or(a.Atomic, true) {
			c.close()
			return err
		}
		if failed++; first == nil {
			first = err
		}
		b.plan.Cannot(err)
	}
	if failed == len(a.Operations) {
		c.close()
		return first
	}
	plan, err := b.plan.Whole(ctx, b.world)
	if err != nil {
		c.close()
		return err
	}
	b.endState(ctx)
	c.sight.Targets, c.facts.Targets = b.levelled(), nil
	c.sight.Contents = b.texts
	c.facts.Available, c.facts.Targets = c.sight.Available, c.sight.Targets
	c.planned(plan)
	c.facts.Mutates = b.plan.Mutates
	return nil
}

// item sees and plans one item, and does it in the world.
func (b *batch) item(ctx context.Context, item op.Item) error {
	spec, _ := op.Lookup(item.Op)
	sub := &call{by: b.c.by, ws: b.c.ws, req: b.c.req, spec: spec, args: item.Parsed()}
	sub.req.Op, sub.req.Args = item.Op, item.Args
	scene, err := b.scene(ctx, sub)
	if err != nil {
		return err
	}
	if spec.Class == op.Read {
		result, err := b.e.answer(ctx, sub, scene)
		if err != nil {
			return err
		}
		b.plan.Read(item.Op, scene.Targets, result)
		return nil
	}
	if item.Op == op.RollbackFile {
		if scene.Backup, err = b.e.backupOf(ctx, sub, scene.Targets[0].Path); err != nil {
			return err
		}
		b.c.also = append(b.c.also, sub.also...)
	}
	plan, err := fileops.NewPlan(ctx, scene)
	if err != nil {
		return err
	}
	if err := b.world.Do(ctx, plan); err != nil {
		return err
	}
	for _, pl := range plan.Places {
		b.merge(preflight.Place(ctx, b.c.ws, pl.Path, pl.Dir, pl.Head), nil)
	}
	b.plan.DestructiveParts = append(b.plan.DestructiveParts, fileops.DestructiveParts(item.Op, item.Parsed())...)
	b.secrets(scene, plan)
	b.plan.Change(item.Op, plan)
	return nil
}

// scene sees what an item names.
func (b *batch) scene(ctx context.Context, sub *call) (fileops.Scene, error) {
	scene := fileops.Scene{Args: sub.args, Aside: b.e.cfg.Aside}
	subjects, err := fileops.Subjects(sub.args)
	if err != nil {
		return scene, err
	}
	depth := preflight.Shallow
	if sub.deep() {
		depth = preflight.Deep
	}
	for _, s := range subjects {
		deletes := sub.spec.Class == op.Destructive || s.Deletes
		if err := b.subject(ctx, sub, s.Subject, depth, deletes, &scene); err != nil {
			e := *op.AsError(err)
			if e.Field == "" {
				e.Field = "args." + s.Arg
			}
			return scene, &e
		}
	}
	return scene, nil
}

func (b *batch) subject(ctx context.Context, sub *call, s op.Subject, depth preflight.Depth, deletes bool, scene *fileops.Scene) error {
	asked, err := b.c.ws.Root.Clean(s.Asked)
	if err != nil {
		return err
	}
	f, err := b.world.Find(ctx, asked, s.Follow)
	if err != nil {
		return err
	}
	if f.AsIs {
		sight, err := b.look(ctx, s, depth, deletes)
		if err != nil {
			return err
		}
		if sight.Targets[0].Path != f.Path {
			return op.Fail(op.Stale, "a link on the way changed while the batch was planned").At(f.Path).Do("try again")
		}
		scene.Nodes = append(scene.Nodes, sight.Nodes[0])
		scene.Targets = append(scene.Targets, sight.Targets[0])
		scene.Contents = append(scene.Contents, sight.Contents[0])
		return nil
	}
	if f.Target.Kind == op.Directory && (sub.spec.Class == op.Read || sub.req.Op == op.CopyFile) {
		return op.Fail(op.NotAvailable, "earlier parts of this batch change the directory; what it holds then is not listed or copied").At(f.Path).Do("do it in a call of its own, after the batch")
	}
	return b.imagined(ctx, s, asked, depth, deletes, f, scene)
}

// look sees one path as it is now, and takes its facts over.
func (b *batch) look(ctx context.Context, s op.Subject, depth preflight.Depth, deletes bool) (*preflight.Sight, error) {
	sight, err := preflight.Look(ctx, b.c.ws.Root, b.c.ws, []op.Subject{s}, depth)
	if err != nil {
		return nil, err
	}
	b.c.sight.Nodes = append(b.c.sight.Nodes, sight.Nodes...)
	b.c.sight.Available = b.c.sight.Available && sight.Available
	for i, t := range sight.Targets {
		t.Deletes = deletes && t.Role != op.RoleParent
		var text []byte
		if i < len(sight.Contents) {
			text = sight.Contents[i]
		}
		b.merge(t, text)
	}
	return sight, nil
}

// imagined sees a path that earlier items bear on: what stands there now, what comes to
// stand there from elsewhere, and for the plan what will be there then.
func (b *batch) imagined(ctx context.Context, s op.Subject, asked op.Path, depth preflight.Depth, deletes bool, f fileops.Found, scene *fileops.Scene) error {
	t, text := f.Target, f.Bytes
	t.Asked, t.Role = s.Asked, s.Role
	places := []op.Path{f.Was, f.Path}
	if f.Was == "" || f.Was == f.Path {
		places = places[1:]
	}
	for _, p := range places {
		now := op.Subject{Arg: s.Arg, Asked: op.Escape(string(p)), Role: s.Role}
		sight, err := b.look(ctx, now, depth, deletes)
		if err != nil || sight.Targets[0].Path != p {
			// It cannot be reached as the tree is now; its name is judged all the same.
			b.mark(ctx, p, t.Kind == op.Directory, deletes, s.Role)
			continue
		}
		if p == f.Was && !f.Made {
			t.Hash, t.Size, text = sight.Targets[0].Hash, sight.Targets[0].Size, sight.Contents[0]
		}
	}
	names := []op.Path{asked}
	for _, l := range t.Links {
		names = append(names, l.Path)
	}
	for _, p := range names {
		if by, from := b.c.ws.Protected(p, t.Kind == op.Directory); by != "" {
			b.merge(op.Target{Path: f.Path, Role: s.Role, Kind: op.Absent, Deletes: deletes, Protected: true, ProtectedBy: by, ProtectedFrom: from}, nil)
		}
	}
	for _, p := range f.Node.Missing {
		b.mark(ctx, p, true, false, op.RoleParent)
	}
	scene.Nodes = append(scene.Nodes, f.Node)
	scene.Targets = append(scene.Targets, t)
	scene.Contents = append(scene.Contents, text)
	return nil
}

// mark judges a path by its name.
func (b *batch) mark(ctx context.Context, p op.Path, dir, deletes bool, role op.TargetRole) {
	t := preflight.Place(ctx, b.c.ws, p, dir, nil)
	t.Role, t.Deletes = role, deletes
	b.merge(t, nil)
}

// merge adds a target, or what is new about one that is known.
func (b *batch) merge(t op.Target, text []byte) {
	key := targetKey{t.Path, t.Deletes}
	i, known := b.index[key]
	if !known {
		b.index[key] = len(b.c.facts.Targets)
		b.c.facts.Targets, b.texts = append(b.c.facts.Targets, t), append(b.texts, text)
		return
	}
	old := &b.c.facts.Targets[i]
	was := *old
	if t.Exists && !old.Exists || old.Hash == "" && t.Hash != "" {
		t.Links = append(t.Links, old.Links...)
		*old, b.texts[i] = t, text
	}
	if was.Role != op.RoleParent && old.Role == op.RoleParent || was.Role == op.RoleTarget {
		old.Role = was.Role
	} else if t.Role != op.RoleParent {
		old.Role = t.Role
	}
	old.Sensitive, old.Ignored = was.Sensitive || t.Sensitive, was.Ignored || t.Ignored
	old.ContainsProtected = was.ContainsProtected || t.ContainsProtected
	for _, m := range []op.Target{was, t} {
		if m.Protected || m.ContainsProtected {
			old.Protected = old.Protected || m.Protected
			old.ProtectedBy, old.ProtectedFrom = m.ProtectedBy, m.ProtectedFrom
		}
	}
}

// levelled gives the targets, those of one path with the same state: one of them may have
// been looked at more deeply.
func (b *batch) levelled() []op.Target {
	best := map[op.Path]op.Target{}
	for _, t := range b.c.facts.Targets {
		if is, ok := best[t.Path]; !ok || t.Exists && !is.Exists || is.Hash == "" && t.Hash != "" {
			best[t.Path] = t
		}
	}
	out := b.c.facts.Targets
	for i := range out {
		t := best[out[i].Path]
		out[i].Exists, out[i].Kind, out[i].Size, out[i].Mode, out[i].LinkCount, out[i].Hash = t.Exists, t.Kind, t.Size, t.Mode, t.LinkCount, t.Hash
	}
	// A path that is passed through and also meant is pinned as what is meant.
	meant := map[op.Path]bool{}
	for _, t := range out {
		meant[t.Path] = meant[t.Path] || t.Role != op.RoleParent
	}
	kept, texts := out[:0], b.texts[:0]
	for i, t := range out {
		if t.Role == op.RoleParent && meant[t.Path] {
			t.Role = op.RoleTarget
		}
		kept, texts = append(kept, t), append(texts, b.texts[i])
	}
	b.texts = texts
	return kept
}

// secrets marks a target whose new content looks like a secret.
func (b *batch) secrets(scene fileops.Scene, p *fileops.Plan) {
	flag := func(path op.Path, bytes []byte) {
		for _, deletes := range []bool{false, true} {
			if i, ok := b.index[targetKey{path, deletes}]; ok && b.c.ws.Sensitive(path, bytes) {
				b.c.facts.Targets[i].Sensitive = true
			}
		}
	}
	if p.NewContent != nil && len(scene.Targets) > 0 {
		flag(scene.Targets[0].Path, added(scene.Targets[0], p))
	}
	for _, pl := range p.Contents {
		flag(pl.Path, pl.Head)
	}
}

// endState judges what will stand where nothing stands now, all of it together: parts of
// a repository that come one by one are a repository in the end.
func (b *batch) endState(ctx context.Context) {
	for _, pl := range b.world.Made() {
		if by := b.c.ws.shapes(pl.Path, func(p op.Path) bool { return b.world.Stands(ctx, p) }); by {
			b.merge(op.Target{Path: pl.Path, Role: op.RoleTarget, Kind: op.Absent, Protected: true, ProtectedBy: "looks_like_git_dir", ProtectedFrom: "shape"}, nil)
		}
	}
}

// unpermitted turns a batch off, or a patch that deletes or renames, when the switch of
// one of its parts is off. A patch of that kind is judged as the batch of its parts.
func (c *call) unpermitted() error {
	switches := func(name op.Name) {
		if spec, ok := op.Lookup(name); !ok || !spec.Allowed(c.profile) {
			c.profile.AllowBatch = false
		}
	}
	switch a := c.args.(type) {
	case *op.BatchArgs:
		for i, item := range a.Operations {
			switches(item.Op)
			if err := fileops.Readable(item.Parsed()); err != nil {
				return op.InItem(err, i)
			}
			for _, part := range fileops.DestructiveParts(item.Op, item.Parsed()) {
				switches(part)
			}
		}
	case *op.PatchArgs:
		if err := fileops.Readable(a); err != nil {
			return err
		}
		parts := fileops.DestructiveParts(op.PatchFile, a)
		for _, part := range parts {
			switches(part)
		}
		if len(parts) > 0 {
			c.terms.Op = op.BatchFileOps
		}
	}
	return nil
}

// answer gives the result of a read.
func (e *Engine) answer(ctx context.Context, c *call, scene fileops.Scene) (map[string]any, error) {
	if c.req.Op == op.ListBackups {
		c.facts.Targets = scene.Targets
		return e.listBackups(ctx, c)
	}
	if c.req.Op == op.ListProfiles {
		return e.listProfiles(ctx, c)
	}
	if o, ok := e.gitOptions(c, scene); ok {
		return gitread.Read(ctx, o, scene.Args)
	}
	scene.Aside = e.cfg.Aside
	facts, err := fileops.Read(ctx, scene)
	if err == nil && c.req.Op == op.FileInfo {
		err = e.withGit(ctx, c, scene, facts)
	}
	return facts, err
}

// parts tells a batch's items apart in its identity: the same paths under other
// operations are another call.
func (c *call) parts() []string {
	a, ok := c.args.(*op.BatchArgs)
	if !ok {
		return nil
	}
	var out []string
	for i, item := range a.Operations {
		out = append(out, fmt.Sprintf("%04d %s", i, item.Op))
	}
	if !op.Or(a.Atomic, true) {
		out = append(out, "not atomic")
	}
	return out
}
