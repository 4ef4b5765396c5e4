package gitread

import (
	"context"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"holdpoint/op"
)

// status tells what changed between the commit at HEAD, the index and the work tree.
func status(ctx context.Context, o Options, a *op.GitStatusArgs) (map[string]any, error) {
	r, err := find(ctx, o, o.Path)
	if err != nil {
		return nil, err
	}
	defer r.close()
	specs, err := r.specs(a.Paths)
	if err != nil {
		return nil, err
	}
	x, err := r.readIndex(ctx)
	if err != nil {
		return nil, err
	}
	staged, err := r.staged(ctx, x, specs)
	if err == nil && r.renamesOn("status.renames") {
		staged, err = detect(staged, r.reader(ctx, nil))
	}
	if err != nil {
		return nil, err
	}
	untracked := a.Untracked
	if untracked == "" {
		untracked = "normal"
	}
	w, err := r.scan(ctx, x, specs, untracked)
	if err != nil {
		return nil, err
	}
	out, err := r.where(ctx)
	if err != nil {
		return nil, err
	}
	rows := r.rows(staged, w)
	out["total"] = len(rows)
	out["clean"] = len(rows) == 0 && len(w.undecided) == 0
	rows, next := page(rows, a.Page, int(op.Or(a.PageSize, 1000)), func(m map[string]any) string { return m["path"].(string) })
	out["entries"] = rows
	if next != "" {
		out["next"], out["truncated"] = next, "page"
	}
	if len(w.undecided) > 0 {
		out["undecided"] = r.shown(w.undecided)
	}
	return out, nil
}

// specs are the call's patterns, else the path itself where it is not the whole work tree.
func (r *repo) specs(list []string) (pathspecs, error) {
	specs, err := readSpecs(list)
	if err != nil {
		return nil, err
	}
	if p := r.o.Path; len(specs) == 0 && p != r.top.path && p != "." {
		specs = pathspecs{{text: string(p), literal: true}}
	}
	return specs, nil
}

func (r *repo) renamesOn(first string) bool {
	if _, set := r.conf[first]; set {
		return r.conf.flag(first, true)
	}
	return r.conf.flag("diff.renames", true)
}

// where says which repository answers and what it is about to do.
func (r *repo) where(ctx context.Context) (map[string]any, error) {
	branch, at, err := r.head()
	if err != nil {
		return nil, err
	}
	out := map[string]any{"repository": op.Escape(string(r.top.path)), "detached": branch == ""}
	if branch != "" {
		out["branch"] = op.Escape(branch)
	}
	if at != plumbing.ZeroHash {
		out["head"] = at.String()
	}
	if err := r.upstream(ctx, out, branch, at); err != nil {
		return nil, err
	}
	for _, s := range []struct{ file, word string }{{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"}, {"rebase-apply", "rebase"},
		{"CHERRY_PICK_HEAD", "cherry_pick"}, {"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"}} {
		if r.git.join(s.file).kind(ctx) != op.Absent {
			out["in_progress"] = s.word
			break
		}
	}
	return out, nil
}

// rows joins both comparisons into one line a path, with git's two letters.
func (r *repo) rows(staged []change, w *worktree) []map[string]any {
	type row struct{ x, y, from string }
	by := map[string]*row{}
	at := func(p string) *row {
		if by[p] == nil {
			by[p] = &row{x: " ", y: " "}
		}
		return by[p]
	}
	for _, c := range staged {
		at(c.path).x, at(c.path).from = c.letter(), c.from
	}
	for _, c := range w.changes {
		at(c.path).y = c.letter()
	}
	for p, letters := range w.unmerged {
		*at(p) = row{x: letters[:1], y: letters[1:]}
	}
	for _, p := range w.others {
		*at(p + "\x00") = row{x: "?", y: "?"} // a path may be staged as gone and stand there untracked
	}
	out := make([]map[string]any, 0, len(by))
	for p, e := range by {
		p = strings.TrimSuffix(p, "\x00")
		m := map[string]any{"path": r.show(p), "status": e.x + e.y}
		if e.from != "" {
			m["from"] = r.show(e.from)
		}
		out = append(out, m)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i]["path"].(string), out[j]["path"].(string)
		return a < b || a == b && out[i]["status"].(string) > out[j]["status"].(string)
	})
	return out
}

// show gives a path from the root for an answer; a directory keeps its slash.
func (r *repo) show(p string) string {
	return op.Escape(r.full(p)) + slash(strings.HasSuffix(p, "/"))
}

func (r *repo) shown(list []string) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = r.show(p)
	}
	sort.Strings(out)
	return out
}

// page cuts a list that is sorted by a key: what comes after a key, so many of them.
func page(list []map[string]any, after string, size int, key func(map[string]any) string) ([]map[string]any, string) {
	begin := 0
	if after != "" {
		begin = sort.Search(len(list), func(i int) bool { return key(list[i]) > after })
	}
	end := min(begin+size, len(list))
	// One path may have two rows; a page never ends between them.
	for end > begin && end < len(list) && key(list[end]) == key(list[end-1]) {
		end++
	}
	next := ""
	if end < len(list) {
		next = key(list[end-1])
	}
	return list[begin:end], next
}

// reader reads the bytes of a side: a blob, or a file of the work tree as it would be
// stored. attrs may be nil where no side is of the work tree.
func (r *repo) reader(ctx context.Context, attrs *attributes) func(side, string) ([]byte, error) {
	return func(s side, at string) ([]byte, error) {
		switch {
		case !s.exists():
			return nil, nil
		case s.live:
			return r.liveBytes(ctx, attrs, s, at)
		}
		return r.store.blob(s.hash)
	}
}
