package gitread

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdpoint/op"
)

// blamed gives commit, line there and line here of each line.
func blamed(out map[string]any) (list []string) {
	for _, e := range out["lines"].([]map[string]any) {
		for i := e["line"].(int); i <= e["end_line"].(int); i++ {
			if e["uncommitted"] != nil {
				list = append(list, fmt.Sprintf("%040d %d", 0, i))
				continue
			}
			list = append(list, fmt.Sprintf("%s %d %d", e["commit"], e["from_line"].(int)+i-e["line"].(int), i))
		}
	}
	return list
}

func blamedByGit(text string) (list []string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(line) > 41 && len(f) >= 3 && len(f[0]) == 40 && line[0] != '\t' && !strings.Contains(f[0], "-") && isDigits(f[1]) {
			if strings.Trim(f[0], "0") == "" {
				list = append(list, f[0]+" "+f[2])
			} else {
				list = append(list, strings.Join(f[:3], " "))
			}
		}
	}
	return list
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

func blameEqualsGit(t *testing.T, w *work, kind string) {
	files := 0
	for _, top := range tops(kind) {
		for file := range strings.SplitSeq(w.git("-C", top, "ls-files", "-z"), "\x00") {
			st, err := os.Lstat(filepath.Join(w.dir, top, file))
			if file == "" || err != nil || !st.Mode().IsRegular() {
				continue
			}
			for _, rev := range []string{"", "HEAD"} {
				args := []string{"-C", top, "blame", "--line-porcelain"}
				if rev != "" {
					args = append(args, rev)
				}
				text, err := w.try(append(args, "--", file)...)
				out, mine := w.read(&op.GitBlameArgs{Path: file, Rev: rev}, path.Join(top, file))
				if err != nil {
					if mine == nil {
						t.Errorf("%s %s: git refuses, we do not: %v", rev, file, err)
					}
					continue
				}
				if mine != nil {
					t.Errorf("%s %s: %v", rev, file, mine)
					continue
				}
				files++
				if got, want := blamed(out), blamedByGit(text); !slices.Equal(got, want) {
					t.Errorf("blame %q %s\ngot  %q\nwant %q", rev, file, got, want)
				}
			}
		}
	}
	if files == 0 && kind != "empty repository" && kind != "submodule" {
		t.Error("no file was compared")
	}
}

func TestBlameThroughRenames(t *testing.T) {
	w := newWork(t)
	history(w)
	w.git("mv", "src/main.go", "moved.go")
	w.write("moved.go", strings.Replace(lines(1, 60, "go"), "line", "LINE", 5))
	w.commit("moved")
	w.write("moved.go", "top\n"+strings.Replace(lines(1, 60, "go"), "line", "LINE", 5))
	out := w.must(&op.GitBlameArgs{Path: "moved.go"}, "moved.go")
	got, want := blamed(out), blamedByGit(w.git("blame", "--line-porcelain", "moved.go"))
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	part := w.must(&op.GitBlameArgs{Path: "moved.go", StartLine: ptr(int64(5)), EndLine: ptr(int64(9))}, "moved.go")
	if got := blamed(part); !slices.Equal(got, want[4:9]) {
		t.Errorf("lines 5 to 9: got %q", got)
	}
}
