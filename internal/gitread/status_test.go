package gitread

import (
	"path"
	"slices"
	"strings"
	"testing"

	"holdpoint/op"
)

// asGit gives the rows of an answer as `git status --porcelain -z` would, sorted.
func asGit(t *testing.T, out map[string]any, top string) []string {
	t.Helper()
	var list []string
	rel := func(p string) string {
		text, err := op.Unescape(p)
		if err != nil {
			t.Fatal(err)
		}
		if top != "." {
			text = strings.TrimPrefix(text, top+"/")
		}
		return text
	}
	for _, e := range out["entries"].([]map[string]any) {
		row := e["status"].(string) + " " + rel(e["path"].(string))
		if from, ok := e["from"]; ok {
			row += "\x00" + rel(from.(string))
		}
		list = append(list, row)
	}
	slices.Sort(list)
	return list
}

func porcelain(text string) (list []string) {
	parts := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	for i := 0; i < len(parts) && parts[i] != ""; i++ {
		row := parts[i]
		if row[0] == 'R' {
			i++
			row += "\x00" + parts[i]
		}
		list = append(list, row)
	}
	slices.Sort(list)
	return list
}

func statusEqualsGit(t *testing.T, w *work, kind string) {
	for _, top := range tops(kind) {
		for _, untracked := range []string{"normal", "all", "no"} {
			got := asGit(t, w.must(&op.GitStatusArgs{Untracked: untracked}, top), top)
			want := porcelain(w.git("-C", top, "status", "--porcelain", "-z", "--untracked-files="+untracked))
			if !slices.Equal(got, want) {
				t.Errorf("%s, untracked %s\ngot  %q\nwant %q", top, untracked, got, want)
			}
		}
		for _, spec := range []string{"src", "*.md", "d*", ":!docs", ":(glob)*", ":(icase)SRC/*.GO"} {
			got := asGit(t, w.must(&op.GitStatusArgs{Untracked: "all", Paths: []string{rooted1(top, spec)}}, top), top)
			want := porcelain(w.git("-C", top, "status", "--porcelain", "-z", "--untracked-files=all", "--", spec))
			if !slices.Equal(got, want) {
				t.Errorf("%s, pathspec %s\ngot  %q\nwant %q", top, spec, got, want)
			}
		}
	}
}

// rooted1 makes a pathspec of a top count from the root.
func rooted1(top, spec string) string {
	if top == "." {
		return spec
	}
	magic := ""
	if strings.HasPrefix(spec, ":(") {
		i := strings.IndexByte(spec, ')') + 1
		magic, spec = spec[:i], spec[i:]
	} else if strings.HasPrefix(spec, ":!") {
		magic, spec = ":!", spec[2:]
	}
	return magic + path.Join(top, spec)
}
