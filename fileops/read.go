package fileops

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Read answers a reading operation from the nodes that were looked at.
func Read(ctx context.Context, s Scene) (map[string]any, error) {
	switch a := s.Args.(type) {
	case *op.ViewArgs:
		return view(s, a)
	case *op.ListArgs:
		return list(ctx, s, a)
	case *op.InfoArgs:
		return info(s)
	case *op.DiffArgs:
		return diff(s, a)
	case *op.SearchArgs:
		return search(ctx, s, a)
	case *op.TreeArgs:
		return tree(ctx, s, a)
	case *op.ValidateArgs:
		return validate(ctx, s, a)
	case *op.PreviewArgs:
		return preview(ctx, s, a)
	case *op.DetectArgs:
		return detect(ctx, s, a)
	}
	return nil, op.Fail(op.NotAvailable, "this operation is not built yet")
}

// nodeSource shows a node to the window reader; a small file comes from memory.
type nodeSource struct {
	node  *rooted.Node
	size  int64
	whole []byte
}

func (n nodeSource) Size() int64 { return n.size }

func (n nodeSource) ReadAt(off int64, size int) ([]byte, error) {
	if n.whole != nil {
		off = min(off, int64(len(n.whole)))
		return n.whole[off:min(off+int64(size), int64(len(n.whole)))], nil
	}
	return n.node.ReadAt(off, size)
}

func view(s Scene, a *op.ViewArgs) (map[string]any, error) {
	t := s.Targets[0]
	if err := regular(t); err != nil {
		return nil, err
	}
	if t.Hash == "" {
		return nil, op.Fail(op.PermissionDenied, "the file cannot be read").At(t.Path)
	}
	if a.KnownHash != "" && op.Digest(strings.TrimSuffix(a.KnownHash, "+partial")) == t.Hash {
		return map[string]any{"unchanged": true, "hash": t.Hash, "size": t.Size}, nil
	}
	src := nodeSource{s.Nodes[0], t.Size, s.Contents[0]}
	w, err := picture(src, t, a)
	if err == nil && w.Content == nil {
		w, err = Window(src, *a)
	}
	if err != nil {
		return nil, placed(err, t.Path)
	}
	return shown(s, w, a)
}

// shown words a window: text where it is text, else base64, and facts beside it.
func shown(s Scene, w View, a *op.ViewArgs) (map[string]any, error) {
	t := s.Targets[0]
	facts, err := textOf(s, 0)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"size": t.Size, "total_lines": w.TotalLines, "start_line": w.StartLine, "end_line": w.EndLine,
		"eof": w.EOF, "encoding": facts.Encoding, "eol": facts.EOL, "bom": facts.BOM, "final_newline": facts.FinalNewline}
	hash := string(t.Hash)
	if !w.Whole() {
		hash += "+partial"
	}
	out["hash"] = hash
	if w.Truncated != "" {
		out["truncated"] = w.Truncated
	}
	if w.NextArg != "" {
		out["next"], out["next_arg"] = w.Next, w.NextArg
	}
	if text, ok := w.Text(); ok {
		if a.Mark {
			out["marked"] = Hidden(text)
			text = op.Visible(text, true)
		}
		out["content"] = text
	} else {
		out["content_base64"] = base64.StdEncoding.EncodeToString(w.Content)
		out["mime"] = mime(t.Path, w.Content)
	}
	return out, nil
}

// textOf describes a file from its whole bytes, or from both its ends when it is large.
func textOf(s Scene, i int) (op.TextFacts, error) {
	if s.Contents[i] != nil || s.Targets[i].Size == 0 {
		return Describe(s.Contents[i]), nil
	}
	head, err := s.Nodes[i].ReadAt(0, 64<<10)
	if err != nil {
		return op.TextFacts{}, err
	}
	facts := DescribePrefix(head)
	last, err := s.Nodes[i].ReadAt(s.Targets[i].Size-1, 1)
	facts.FinalNewline = err == nil && len(last) == 1 && last[0] == '\n'
	return facts, err
}

func info(s Scene) (map[string]any, error) {
	t := s.Targets[0]
	out := map[string]any{"path": op.Escape(string(t.Path)), "exists": t.Exists, "type": t.Kind}
	if !t.Exists {
		return out, nil
	}
	out["size"], out["mode"], out["links"] = t.Size, t.Mode, t.LinkCount
	if t.Hash != "" {
		out["hash"] = t.Hash
	}
	switch t.Kind {
	case op.Symlink:
		out["target"] = op.Escape(s.Nodes[0].Info.Target)
	case op.File:
		return out, textInfo(s, out)
	}
	return out, nil
}

// textInfo adds what the bytes of a file tell: its kind, and of text the encoding, the line
// endings and how many lines there are, which of a very large file is not counted.
func textInfo(s Scene, out map[string]any) error {
	t := s.Targets[0]
	if t.Hash == "" {
		return nil // it cannot be read
	}
	facts, err := textOf(s, 0)
	if err != nil {
		return err
	}
	src := nodeSource{s.Nodes[0], t.Size, s.Contents[0]}
	head, err := src.ReadAt(0, 512)
	if err != nil {
		return err
	}
	out["mime"], out["encoding"] = mime(t.Path, head), facts.Encoding
	if facts.Encoding != encBinary {
		out["eol"], out["bom"], out["final_newline"] = facts.EOL, facts.BOM, facts.FinalNewline
	}
	if t.Size <= maxCounted {
		counted, err := survey(src, false)
		if err != nil {
			return err
		}
		out["lines"] = counted.total
	}
	return nil
}

func mime(p op.Path, b []byte) string {
	kind := http.DetectContentType(b[:min(len(b), 512)])
	if strings.HasPrefix(kind, "text/plain") && strings.HasSuffix(string(p), ".json") {
		return "application/json"
	}
	return kind
}

func diff(s Scene, a *op.DiffArgs) (map[string]any, error) {
	if (a.ComparePath == nil) == (a.Content == nil) {
		return nil, op.Fail(op.BadRequest, "give compare_path or content, one of them").In("args.compare_path")
	}
	for _, t := range s.Targets[:len(s.Nodes)] {
		if err := regular(t); err != nil {
			return nil, err
		}
	}
	left, err := bytesOf(s, 0)
	if err != nil {
		return nil, err
	}
	var right []byte
	if a.Content != nil {
		right = []byte(*a.Content)
	} else if right, err = bytesOf(s, 1); err != nil {
		return nil, err
	}
	to := s.Targets[0].Path
	if a.ComparePath != nil {
		to = s.Targets[1].Path
	}
	d := Compare(Side{Path: s.Targets[0].Path, Bytes: left, Exists: true}, Side{Path: to, Bytes: right, Exists: true}, int(op.Or(a.ContextLines, 3)))
	return map[string]any{"diff": d.Text, "added": d.Added, "removed": d.Removed, "equal": string(left) == string(right)}, nil
}

// maxPicture is the largest image that is shown whole, in bytes: a part of one is of no use.
const maxPicture = 4 << 20

// picture shows an image of which no part was asked for.
func picture(src nodeSource, t op.Target, a *op.ViewArgs) (View, error) {
	part := a.StartLine != nil || a.EndLine != nil || a.Offset != nil || a.Limit != nil || a.TailLines != nil
	if part || t.Size <= maxWhole || t.Size > maxPicture {
		return View{}, nil
	}
	head, err := src.ReadAt(0, 512)
	if err != nil || !strings.HasPrefix(mime(t.Path, head), "image/") || Describe(head).Encoding != encBinary {
		return View{}, err
	}
	b, err := src.ReadAt(0, int(t.Size))
	if err == nil && int64(len(b)) < t.Size {
		err = op.Fail(op.Stale, "the file became shorter while it was read").At(t.Path).Do("view it again")
	}
	return View{Content: b, TotalLines: -1, EOF: true, Encoding: encBinary}, err
}

// Hidden counts the characters that Visible writes out.
func Hidden(s string) (n int) {
	for _, r := range s {
		if r != '\n' && r != '\t' && op.Invisible(r) {
			n++
		}
	}
	return n
}
