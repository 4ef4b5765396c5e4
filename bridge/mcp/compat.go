package mcp

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"holdpoint/op"
)

// The names of the reference file server, for agents that were taught them. Each goes
// through the same engine as the operation that it stands for; where both use one name
// (write_file, edit_file, create_directory, move_file) the operation takes the other
// server's argument names as well. Two differ in meaning and are theirs while this is on:
// list_directory prints its marks, search_files looks for names.

func compatTools() []tool {
	text := func(name, title, about, props, required string, run func(context.Context, *caller, op.Object) answer) tool {
		return tool{name: name, title: title, about: about, readOnly: true, idempotent: true, output: schemaOf(""), run: run,
			input: []byte(`{"type":"object","properties":{` + props + `}` + required + `}`)}
	}
	const p, need = `"path":{"type":"string"}`, `,"required":["path"]`
	const without = `,"excludePatterns":{"type":"array","items":{"type":"string"}}`
	const lines = `,"head":{"type":"integer","minimum":1},"tail":{"type":"integer","minimum":1}`
	return []tool{
		text("read_text_file", "Read a file", "Reads a text file, its first or last lines.", p+lines, need, readText),
		text("read_file", "Read a file", "The same as read_text_file.", p+lines, need, readText),
		text("read_multiple_files", "Read files", "Reads several files.", `"paths":{"type":"array","items":{"type":"string"}}`, `,"required":["paths"]`, readMany),
		text("read_media_file", "Read a picture", "Reads a picture, or any file as base64.", p, need, readMedia),
		text("list_directory", "List a directory", "Lists a directory.", p, need, listMarked),
		text("list_directory_with_sizes", "List a directory", "Lists a directory with the sizes of its files.", p+`,"sortBy":{"type":"string","enum":["name","size"]}`, need, listSized),
		text("directory_tree", "Directory tree", "Gives a directory and what lies below it as JSON.", p+without, need, tree),
		text("search_files", "Find files", "Finds files by a pattern of their name.", p+`,"pattern":{"type":"string"}`+without, `,"required":["path","pattern"]`, findNames),
		text("get_file_info", "File facts", "Tells what stands at a path.", p, need, fileInfo),
		text("list_allowed_directories", "The workspace", "Names the workspace's directory.", "", "", allowed),
	}
}

// ask runs a reading operation.
func (c *caller) ask(ctx context.Context, name op.Name, args op.Object) op.Reply {
	spec, _ := op.Lookup(name)
	req, warnings, err := c.request(spec, args)
	if err != nil {
		return c.engine.Malformed(c.by, name, err)
	}
	return c.engine.Call(ctx, c.by, req, warnings)
}

func readText(ctx context.Context, c *caller, args op.Object) answer {
	ask := op.Object{}
	for k, v := range args {
		switch k {
		case "head":
			ask["start_line"], ask["end_line"] = int64(1), v
		case "tail":
			ask["tail_lines"] = v
		default:
			ask[k] = v
		}
	}
	r := c.ask(ctx, op.ViewFile, ask)
	result, _ := r.Result.(map[string]any)
	text, ok := result["content"].(string)
	if r.Status != op.Done || !ok {
		return worded(r, "")
	}
	a := answer{text: text, facts: map[string]any{"status": "done", "hash": result["hash"]}}
	if next, more := result["next"]; more && result["truncated"] != nil {
		// Nobody who uses this name knows a cursor, so the text itself must say it.
		a.text += fmt.Sprintf("\n[cut: the file has %v bytes; view_file goes on with %v %v]", result["size"], result["next_arg"], next)
		a.fact("truncated", true)
	}
	return a
}

func readMany(ctx context.Context, c *caller, args op.Object) answer {
	list, ok := args["paths"].([]any)
	if !ok || len(list) == 0 || len(args) != 1 {
		return failed(op.Fail(op.BadRequest, "paths must be a list of paths").In("paths"))
	}
	var parts []string
	left := maxText
	for _, v := range list {
		name, ok := v.(string)
		if !ok {
			return failed(op.Fail(op.BadRequest, "paths must be a list of paths").In("paths"))
		}
		a := readText(ctx, c, op.Object{"path": name})
		part := op.Escape(name) + ":\n" + a.text + "\n"
		if a.isError {
			part = op.Escape(name) + ": Error - " + a.text
		}
		part = cut(part, max(left, 200))
		left -= len(part)
		parts = append(parts, part)
	}
	return answer{text: strings.Join(parts, "\n---\n"), facts: map[string]any{"status": "done"}}
}

// readMedia shows a picture as one; what is none comes as base64.
func readMedia(ctx context.Context, c *caller, args op.Object) answer {
	if err := only(args, "path"); err != nil {
		return failed(err)
	}
	return worded(c.ask(ctx, op.ViewFile, args), "")
}

// below lists a directory, or with file_tree all that lies below it, as far as a result may
// hold it.
func below(ctx context.Context, c *caller, name op.Name, args op.Object) (list []op.Object, more bool, r op.Reply) {
	for pages := 0; pages < 20; pages++ {
		r = c.ask(ctx, name, args)
		result, _ := r.Result.(map[string]any)
		if r.Status != op.Done || result == nil {
			return list, false, r
		}
		page, _ := objects(result["entries"])
		list = append(list, page...)
		next, _ := result["next"].(string)
		if next == "" {
			_, cutOff := result["truncated"]
			return list, cutOff, r
		}
		args["page"] = next
	}
	return list, true, r
}

func only(args op.Object, names ...string) error {
next:
	for k := range args {
		for _, n := range names {
			if k == n {
				continue next
			}
		}
		return op.Fail(op.BadRequest, fmt.Sprintf("unknown argument %q", k)).In(k)
	}
	return nil
}

// everything asks file_tree for all below a directory, hidden and ignored files too, but for
// what the caller leaves out.
func everything(args op.Object) op.Object {
	ask := op.Object{"path": args["path"], "show_hidden": true, "include_ignored": true, "names_only": true, "page_size": int64(10_000)}
	if v, given := args["excludePatterns"]; given {
		ask["exclude"] = v
	}
	return ask
}

func marked(e op.Object) string {
	name, _ := e["path"].(string)
	if e["type"] == "directory" {
		return "[DIR] " + path.Base(name)
	}
	return "[FILE] " + path.Base(name)
}

// listSized is listMarked with sizes, and what they come to.
func listSized(ctx context.Context, c *caller, args op.Object) answer {
	if err := only(args, "path", "sortBy"); err != nil {
		return failed(err)
	}
	if by, given := args["sortBy"]; given && by != "name" && by != "size" {
		return failed(op.Fail(op.BadRequest, "sortBy must be name or size").In("sortBy"))
	}
	list, more, r := below(ctx, c, op.ListDirectory, op.Object{"path": args["path"], "show_hidden": true, "page_size": int64(1000)})
	if r.Status != op.Done {
		return worded(r, "")
	}
	if args["sortBy"] == "size" {
		slices.SortStableFunc(list, func(a, b op.Object) int { return cmp.Compare(sizeOf(b), sizeOf(a)) })
	}
	var b strings.Builder
	files, dirs, bytes := 0, 0, int64(0)
	for _, e := range list {
		b.WriteString(marked(e))
		if e["type"] == "directory" {
			dirs++
		} else {
			files, bytes = files+1, bytes+sizeOf(e)
			fmt.Fprintf(&b, "  %d B", sizeOf(e))
		}
		b.WriteByte('\n')
	}
	sum := fmt.Sprintf("\nTotal: %d files, %d directories\nCombined size: %d B", files, dirs, bytes)
	return answer{text: cut(b.String(), maxText-len(sum)) + sum, facts: map[string]any{"status": "done", "truncated": more}}
}

// sizeOf counts a directory as nothing.
func sizeOf(e op.Object) int64 {
	n, _ := e["size"].(int64)
	if e["type"] == "directory" {
		return 0
	}
	return n
}

func listMarked(ctx context.Context, c *caller, args op.Object) answer {
	if err := only(args, "path"); err != nil {
		return failed(err)
	}
	list, more, r := below(ctx, c, op.ListDirectory, op.Object{"path": args["path"], "show_hidden": true, "page_size": int64(1000)})
	if r.Status != op.Done {
		return worded(r, "")
	}
	var b strings.Builder
	for _, e := range list {
		b.WriteString(marked(e) + "\n")
	}
	return answer{text: cut(strings.TrimSuffix(b.String(), "\n"), maxText), facts: map[string]any{"status": "done", "truncated": more}}
}

// branch is one name of a tree.
type branch struct {
	name     string
	children []*branch // nil of a file
}

func (b *branch) append(out []byte) []byte {
	out = op.AppendString(append(out, `{"name":`...), b.name)
	if b.children == nil {
		return append(out, `,"type":"file"}`...)
	}
	out = append(out, `,"type":"directory","children":[`...)
	for i, c := range b.children {
		if i > 0 {
			out = append(out, ',')
		}
		out = c.append(out)
	}
	return append(out, `]}`...)
}

func tree(ctx context.Context, c *caller, args op.Object) answer {
	if err := only(args, "path", "excludePatterns"); err != nil {
		return failed(err)
	}
	list, more, r := below(ctx, c, op.FileTree, everything(args))
	if r.Status != op.Done {
		return worded(r, "")
	}
	root := &branch{children: []*branch{}}
	dirs := map[string]*branch{}
	for _, e := range list {
		name, _ := e["path"].(string)
		b := &branch{name: path.Base(name)}
		if e["type"] == "directory" {
			b.children = []*branch{}
			dirs[name] = b
		}
		parent := dirs[path.Dir(name)]
		if parent == nil {
			parent = root
		}
		parent.children = append(parent.children, b)
	}
	out := []byte{'['}
	for i, b := range root.children {
		if i > 0 {
			out = append(out, ',')
		}
		out = b.append(out)
	}
	text := string(append(out, ']'))
	return answer{text: cut(text, maxText), facts: map[string]any{"status": "done", "truncated": more || len(text) > maxText}}
}

func findNames(ctx context.Context, c *caller, args op.Object) answer {
	if err := only(args, "path", "pattern", "excludePatterns"); err != nil {
		return failed(err)
	}
	pattern, ok := args["pattern"].(string)
	if !ok || pattern == "" {
		return failed(op.Fail(op.BadRequest, "pattern is missing").In("pattern"))
	}
	if pattern = path.Base(pattern); !strings.ContainsAny(pattern, "*?[") {
		pattern = "*" + pattern + "*"
	}
	ask := everything(args)
	ask["pattern"] = pattern
	list, more, r := below(ctx, c, op.FileTree, ask)
	if r.Status != op.Done {
		return worded(r, "")
	}
	var names []string
	for _, e := range list {
		name, _ := e["path"].(string)
		names = append(names, name)
	}
	text := strings.Join(names, "\n")
	if text == "" {
		text = "No matches found"
	}
	return answer{text: cut(text, maxText), facts: map[string]any{"status": "done", "truncated": more}}
}

func fileInfo(ctx context.Context, c *caller, args op.Object) answer {
	r := c.ask(ctx, op.FileInfo, args)
	result, _ := r.Result.(map[string]any)
	if r.Status != op.Done {
		return worded(r, "")
	}
	if result["exists"] != true {
		return failed(op.Fail(op.NotFound, "there is nothing at this path").In("args.path"))
	}
	a := answer{facts: map[string]any{"status": "done"}}
	var b strings.Builder
	for _, k := range []string{"type", "size", "mode", "hash", "lines", "mime", "target"} {
		if v, ok := result[k]; ok {
			fmt.Fprintf(&b, "%s: %v\n", k, v)
			a.fact(k, v)
		}
	}
	a.text = b.String()
	return a
}

func allowed(ctx context.Context, c *caller, args op.Object) answer {
	dir, err := c.engine.Root(ctx, c.by, c.root)
	if err != nil {
		return failed(err)
	}
	return answer{text: "Allowed directories:\n" + op.Escape(dir), facts: map[string]any{"status": "done"}}
}
