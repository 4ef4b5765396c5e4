package flow

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/protected"
	"holdpoint/trusted"
)

// CleanSpec asks for the cleanup that an entry of the trusted policy describes. It names no
// path: which files go is the entry's to say, and code's to find.
type CleanSpec struct {
	PolicyID, Root                         string
	DryRun                                 bool
	RequestID, Session, Stage, ExecutionID string
}

// cleaning is what a cleanup picked.
type cleaning struct {
	entry  string
	files  []picked
	left   int   // matching files that one call does not take
	spared int   // matching files that are protected or look like secrets
	bytes  int64 // of files
}

type picked struct {
	path op.Path
	info rooted.Info
}

// sampled is how many names a reply shows.
const sampled = 10

// Clean moves what the entry selects into quarantine: one batch, judged like any call,
// with one credential.
func (e *Engine) Clean(ctx context.Context, by op.Caller, s CleanSpec) (answer op.Reply) {
	defer e.counted(op.BatchFileOps, time.Now(), &answer)
	req := op.Request{Op: op.BatchFileOps, Root: s.Root, Args: op.Object{}, DryRun: s.DryRun, RequestID: s.RequestID, Session: s.Session, Stage: s.Stage, ExecutionID: s.ExecutionID}
	bare := &call{by: by, req: req}
	w, err := e.workspace(by, s.Root)
	if err != nil {
		return e.fail(bare, op.Decision{}, err)
	}
	unlock, err := e.once.lock(ctx, string(by.Token)+"\x00"+s.RequestID)
	if err != nil {
		return e.fail(bare, op.Decision{}, err)
	}
	defer unlock()
	if s.RequestID != "" {
		// What a repeated cleanup would pick is another list: the id alone tells.
		if r, known, err := e.jrn.Receipt(ctx, by.Token, s.RequestID); err != nil {
			return e.fail(bare, op.Decision{}, err)
		} else if known {
			return e.repeated(ctx, bare, r, s.PolicyID)
		}
	}
	var set *trusted.Set
	if e.trust != nil {
		set = e.trust.Current()
	} else {
		set = &trusted.Set{}
	}
	sel, reach, ok := set.Cleanup(s.PolicyID, by.Workflow, w.Key, w.Root.Dir())
	if !ok {
		return e.fail(bare, op.Decision{}, op.Fail(op.NotFound, "the trusted policy holds no cleanup of this id for the workflow of this token").In("policy_id").
			Do("policy check shows the entries; an entry that cleans has a select and names the workflow"))
	}
	if err := w.refresh(ctx); err != nil {
		return e.fail(bare, op.Decision{}, err)
	}
	found, err := e.pick(ctx, w, sel, reach)
	if err != nil {
		return e.fail(bare, op.Decision{}, err)
	}
	found.entry = s.PolicyID
	if len(found.files) == 0 {
		r := e.reply(bare, op.Done, op.Decision{})
		r.Result = found.words(s.DryRun)
		e.record(bare, op.Decision{}, "done", "", "", false)
		return r
	}
	items := make([]any, 0, len(found.files))
	for _, f := range found.files {
		items = append(items, op.Object{"op": string(op.DeleteFile), "args": op.Object{"path": op.Escape(string(f.path))}})
	}
	req.Root, req.Args = w.Key, op.Object{"operations": items}
	c, err := e.open(ctx, by, req, nil, false)
	if err != nil {
		return e.fail(c, op.Decision{}, err)
	}
	c.entry = s.PolicyID
	r := e.run(ctx, c)
	if r.Status == op.Done {
		r.Result = found.into(r.Result, s.DryRun)
	}
	return e.remember(ctx, c, r)
}

// repeated gives the recorded reply of a cleanup whose request id is known.
func (e *Engine) repeated(ctx context.Context, c *call, r journal.Receipt, entry string) op.Reply {
	c.digest = r.CallDigest
	reply, _, err := e.ledger(ctx, c)
	if err != nil {
		return e.fail(c, op.Decision{}, err)
	}
	if reply.Status == op.Done && reply.OperationID != "" {
		// The record is that of the batch; what it took says how much it was.
		found := cleaning{entry: entry}
		for _, ef := range reply.Effects {
			found.files, found.bytes = append(found.files, picked{path: ef.Path}), found.bytes+ef.Before.Size
		}
		reply.Result = found.into(reply.Result, false)
	}
	return reply
}

// pick finds the files of a cleanup: regular ones that a pattern matches, old enough,
// below the entry's roots, the newest first, up to its limits. What is protected or looks
// like a secret is spared and counted.
func (e *Engine) pick(ctx context.Context, w *Workspace, s trusted.Select, reach trusted.Reach) (*cleaning, error) {
	list, err := protected.Compile(s.Include, "select")
	if err != nil {
		return nil, err
	}
	c := &cleaning{}
	top, err := w.Root.Look(ctx, ".", false)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	oldest := e.cfg.Now().Add(-s.Age())
	var all []picked
	err = top.Tree(ctx, func(p op.Path, info rooted.Info, _ func() (*rooted.Node, error)) error {
		switch {
		case ctx.Err() != nil:
			return op.Fail(op.Cancelled, "the caller went away").Because(ctx.Err())
		case info.Kind == op.Directory && !reach.Leads(p):
			return fs.SkipDir
		case info.Kind != op.File || !reach.Covers(p):
			return nil
		}
		if in, _ := list.Match(string(p), false); !in || s.Age() > 0 && info.Mtime.After(oldest) {
			return nil
		}
		if by, _ := w.Protected(p, false); by != "" || w.Sensitive(p, nil) {
			c.spared++
			return nil
		}
		all = append(all, picked{p, info})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b picked) int { return b.info.Mtime.Compare(a.info.Mtime) })
	for _, f := range all {
		if len(c.files) == min(s.MaxFiles, op.MaxItems) || s.MaxBytes > 0 && c.bytes+f.info.Size > s.MaxBytes {
			c.left++
			continue
		}
		c.files, c.bytes = append(c.files, f), c.bytes+f.info.Size
	}
	return c, nil
}

// words tells what a cleanup picked, beside what the batch tells itself.
func (c *cleaning) words(dryRun bool) map[string]any {
	sample := []string{}
	for _, f := range c.files[:min(len(c.files), sampled)] {
		sample = append(sample, op.Escape(string(f.path)))
	}
	out := map[string]any{"policy_id": c.entry, "count": len(c.files), "bytes": c.bytes, "sample": sample, "remaining": c.left, "spared": c.spared}
	switch {
	case len(c.files) == 0:
		out["message"] = "nothing to do: no file matches"
	case dryRun:
		out["dry_run"], out["message"] = true, fmt.Sprintf("%d files would go to quarantine", len(c.files))
	default:
		out["undo"] = "holdpoint undo with the operation id brings all of them back"
	}
	return out
}

// into joins the words to the batch's own result.
func (c *cleaning) into(result any, dryRun bool) map[string]any {
	out := c.words(dryRun)
	if m, ok := result.(map[string]any); ok {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}
