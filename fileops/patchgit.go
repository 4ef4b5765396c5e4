package fileops

import (
	"bytes"
	"strconv"
	"strings"

	"holdpoint/op"
)

// gitFile reads a file with git's header. The names of the extended lines count; where
// there are none, those of the "---" and "+++" lines, then those of the first line.
func (r *patchReader) gitFile() (*filePatch, error) {
	f := &filePatch{line: r.i + 1, hasHeader: true}
	first := strings.TrimPrefix(bare(r.peek()), "diff --git ")
	r.i++
	var from, to string
	for done := false; !done && r.i < len(r.lines); {
		key, value := gitLine(bare(r.peek()))
		var err error
		switch key {
		case "old mode":
			_, err = r.mode(value)
		case "new mode":
			f.mode, err = r.mode(value)
		case "deleted file mode":
			f.kind = patchDelete
			_, err = r.mode(value)
		case "new file mode":
			f.kind = patchCreate
			f.mode, err = r.mode(value)
		case "rename from", "rename old":
			f.kind = patchRename
			from, err = unquote(value)
		case "rename to", "rename new":
			f.kind = patchRename
			to, err = unquote(value)
		case "copy from":
			f.kind = patchCopy
			from, err = unquote(value)
		case "copy to":
			f.kind = patchCopy
			to, err = unquote(value)
		case "index":
			f.index(value)
			if _, mode, ok := strings.Cut(value, " "); ok {
				_, err = r.mode(mode) // of a file that keeps it; a link or submodule shows here
			}
		case "similarity index", "dissimilarity index":
		default:
			done = true
			continue
		}
		if err != nil {
			if op.AsError(err).Code == op.Internal {
				err = r.bad(err.Error())
			}
			return nil, err
		}
		r.i++
	}
	return f, r.gitBody(f, first, from, to)
}

// gitLine splits an extended header line into its key and value.
func gitLine(l string) (key, value string) {
	for _, k := range []string{"old mode", "new mode", "deleted file mode", "new file mode", "rename from", "rename to", "rename old", "rename new",
		"copy from", "copy to", "index", "similarity index", "dissimilarity index"} {
		if v, ok := strings.CutPrefix(l, k+" "); ok {
			return k, v
		}
	}
	return "", ""
}

// mode takes a mode of git: a file, plain or executable. Links and submodules are never
// made or changed by a patch.
func (r *patchReader) mode(text string) (string, error) {
	switch n, err := strconv.ParseUint(strings.TrimSpace(text), 8, 32); {
	case err != nil:
		return "", r.bad("a malformed mode")
	case n&0o170000 == 0o120000:
		return "", op.Fail(op.SymlinkRefused, "the patch makes, changes or deletes a symbolic link").In("args.patch").Do("leave that part out; links are never made or changed by a patch")
	case n&0o170000 == 0o160000:
		return "", r.bad("a submodule, which is no file")
	case n&0o170000 != 0o100000 && n&0o170000 != 0:
		return "", r.bad("a mode that is no file's")
	case n&0o111 != 0:
		return "0755", nil
	}
	return "0644", nil
}

// index keeps the blob ids where they are whole.
func (f *filePatch) index(value string) {
	ids, _, _ := strings.Cut(value, " ")
	if a, b, ok := strings.Cut(ids, ".."); ok && (len(a) == 40 || len(a) == 64) && len(a) == len(b) {
		f.oldID, f.newID = a, b
	}
}

// gitBody reads what follows the header: hunks, binary data, or nothing.
func (r *patchReader) gitBody(f *filePatch, first, from, to string) error {
	var oldName, newName string
	var err error
	if bytes.HasPrefix(r.peek(), []byte("--- ")) && r.i+1 < len(r.lines) && bytes.HasPrefix(r.lines[r.i+1], []byte("+++ ")) {
		if oldName, err = r.headerName("--- "); err != nil {
			return err
		}
		if newName, err = r.headerName("+++ "); err != nil {
			return err
		}
	}
	if err := r.gitNames(f, first, from, to, oldName, newName); err != nil {
		return err
	}
	switch l := bare(r.peek()); {
	case l == "GIT binary patch":
		r.i++
		return r.binaryOf(f)
	case saysDiffer(l):
		r.i++
		f.noData = true
		return nil
	}
	return r.hunksOf(f)
}

func (r *patchReader) gitNames(f *filePatch, first, from, to, oldName, newName string) error {
	strip := func(name, prefix string) string {
		if name == devNull {
			return ""
		}
		if s, ok := strings.CutPrefix(name, prefix); ok {
			return s
		}
		return name
	}
	oldName, newName = strip(oldName, "a/"), strip(newName, "b/")
	switch {
	case f.kind == patchRename || f.kind == patchCopy:
		if from == "" || to == "" {
			return r.bad("a rename or copy that names one side only")
		}
		f.old, f.new = from, to
	case oldName != "" || newName != "":
		f.old, f.new = oldName, newName
	default:
		name, err := sameName(first)
		if err != nil {
			return r.bad(err.Error())
		}
		f.old, f.new = name, name
	}
	if f.old == "" && f.kind == patchChange {
		f.kind = patchCreate
	}
	if f.new == "" && f.kind == patchChange {
		f.kind = patchDelete
	}
	if f.old == "" {
		f.old = f.new
	}
	if f.new == "" {
		f.new = f.old
	}
	if f.old != f.new && f.kind != patchRename && f.kind != patchCopy {
		return r.bad("the two sides name different files and nothing says that it is a rename")
	}
	return nil
}

// sameName takes the one name out of "a/name b/name", which has no separator of its own
// when the name has spaces.
func sameName(first string) (string, error) {
	if strings.HasPrefix(first, `"`) {
		left, rest, err := quotedPrefix(first)
		if err != nil {
			return "", err
		}
		right, err := unquote(strings.TrimPrefix(rest, " "))
		if err != nil {
			return "", err
		}
		return oneName(left, right)
	}
	if i := strings.Index(first, ` "`); i >= 0 && strings.HasSuffix(first, `"`) {
		right, _, err := quotedPrefix(first[i+1:])
		if err != nil {
			return "", err
		}
		return oneName(first[:i], right)
	}
	if n := len(first); n%2 == 1 && first[n/2] == ' ' {
		return oneName(first[:n/2], first[n/2+1:])
	}
	return "", errNames
}

var errNames = op.Fail(op.PatchParse, "the header does not name one file")

func oneName(left, right string) (string, error) {
	l, lok := strings.CutPrefix(left, "a/")
	r, rok := strings.CutPrefix(right, "b/")
	if lok && rok && l == r && l != "" {
		return l, nil
	}
	if left == right && left != "" {
		return left, nil
	}
	return "", errNames
}
