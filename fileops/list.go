package fileops

import (
	"path"
	"slices"
	"strings"

	"holdpoint/op"
)

// Entry is one name of a directory.
type Entry struct {
	Path op.Path `json:"path"`
	Type op.Kind `json:"type"`
	Size int64   `json:"size"`
}

// defaultPage is how many entries a page holds when the caller does not say.
const defaultPage = 200

// Page gives the entries after cursor in the order of their bytes, at most size of them,
// and the cursor of the next page, which is empty at the end. The cursor is the wire form of
// the last path shown: names that come or go between two pages neither repeat nor hide
// others. total counts all entries. The argument stays as it is.
func Page(entries []Entry, cursor string, size int) (page []Entry, next string, total int, err error) {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return strings.Compare(string(a.Path), string(b.Path)) })
	from := 0
	if cursor != "" {
		after, err := op.Unescape(cursor)
		if err != nil || op.Escape(after) != cursor {
			return nil, "", 0, op.Fail(op.BadRequest, "page is not a cursor of this listing").In("args.page").Do("give next of the page before, unchanged")
		}
		from, _ = slices.BinarySearchFunc(sorted, after, func(e Entry, p string) int {
			if string(e.Path) <= p {
				return -1
			}
			return 1
		})
	}
	if size <= 0 {
		size = defaultPage
	}
	page = sorted[from:min(len(sorted), from+size)]
	if from+len(page) < len(sorted) {
		next = op.Escape(string(page[len(page)-1].Path))
	}
	return page, next, len(sorted), nil
}

// MatchGlob reports whether a name (not a path) matches a pattern of *, ?, [a-z] and
// backslash. The empty pattern matches every name. A slash in it, or an open bracket, is
// bad_request.
func MatchGlob(pattern, name string) (bool, error) {
	if pattern == "" {
		return true, nil
	}
	if strings.Contains(pattern, "/") {
		return false, op.Fail(op.BadRequest, "the pattern has a slash").In("args.pattern").Do("it is compared with names, not with paths: give the directory as path, and depth to go down")
	}
	ok, err := path.Match(pattern, name)
	if err != nil {
		return false, op.Fail(op.BadRequest, "the pattern is malformed").In("args.pattern").Do("close each bracket; a backslash takes the next character as it is").Because(err)
	}
	return ok, nil
}
