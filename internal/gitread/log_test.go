package gitread

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdpoint/op"
)

// told gives a commit of an answer in the form that git is asked for below.
func told(c map[string]any) string {
	who := func(key string) string {
		p := c[key].(map[string]any)
		return fmt.Sprintf("%s|%s|%s", p["name"], p["email"], p["date"])
	}
	body, _ := c["body"].(string)
	return strings.Join([]string{c["commit"].(string), strings.Join(c["parents"].([]string), " "), who("author"), who("committer"), c["subject"].(string), strings.TrimSpace(body)}, "\n")
}

const format = "--format=%H%n%P%n%an|%ae|%aI%n%cn|%ce|%cI%n%s%n%b%x00"

func fromGit(text string) (out []string) {
	for part := range strings.SplitSeq(text, "\x00") {
		if part = strings.TrimSpace(part); part != "" {
			lines := strings.SplitN(part, "\n", 6)
			for len(lines) < 6 {
				lines = append(lines, "")
			}
			for _, i := range []int{2, 3} { // git writes Z, and so may we
				lines[i] = strings.Replace(lines[i], "Z", "+00:00", 1)
			}
			out = append(out, strings.Join(lines, "\n"))
		}
	}
	return out
}

func (w *work) pages(a op.GitLogArgs, top string) (out []string) {
	w.t.Helper()
	for {
		got := w.must(&a, top)
		for _, c := range got["commits"].([]map[string]any) {
			out = append(out, told(c))
		}
		next, more := got["next"].(string)
		if !more {
			return out
		}
		a.Page = next
	}
}

func logAndShowEqualGit(t *testing.T, w *work, kind string) {
	for _, top := range tops(kind) {
		if _, err := w.try("-C", top, "rev-parse", "-q", "--verify", "HEAD"); err != nil {
			if got := w.pages(op.GitLogArgs{}, top); len(got) != 0 {
				t.Errorf("commits in an empty repository: %q", got)
			}
			continue
		}
		revs := []string{"HEAD"}
		for _, r := range []string{"main", "side", "v1"} {
			if _, err := w.try("-C", top, "rev-parse", "-q", "--verify", r); err == nil {
				revs = append(revs, r)
			}
		}
		for _, rev := range revs {
			for _, spec := range []string{"", "src", "docs/a.md", "*.txt", ":!src", "side.txt"} {
				args := op.GitLogArgs{Rev: rev, PageSize: ptr(int64(2))}
				git := []string{"-C", top, "log", format, rev}
				if spec != "" {
					args.Paths = []string{rooted1(top, spec)}
					git = append(git, "--", spec)
				}
				got, want := w.pages(args, top), fromGit(w.git(git...))
				if !slices.Equal(got, want) {
					t.Errorf("log %s %s\ngot  %q\nwant %q", rev, spec, got, want)
				}
			}
		}
		hashes := strings.Fields(w.git("-C", top, "log", "--all", "--format=%H"))
		for _, h := range hashes {
			out := w.must(&op.GitShowArgs{Rev: h[:10], MaxBytes: ptr(int64(1 << 20))}, top)
			if got, want := told(out), fromGit(w.git("-C", top, "show", "-s", format, h))[0]; got != want {
				t.Errorf("show %s\ngot  %q\nwant %q", h, got, want)
			}
			sameDiff(t, "show "+h, out, w.git("-C", top, "show", "--first-parent", "-m", "--format=", "--full-index", h))
		}
		file := strings.Split(w.git("-C", top, "ls-tree", "-r", "-z", "--name-only", "HEAD"), "\x00")[0]
		out := w.must(&op.GitShowArgs{Rev: "HEAD:" + file}, top)
		if got, want := out["content"], w.git("-C", top, "show", "HEAD:"+file); got != want {
			t.Errorf("show HEAD:%s: got %q, want %q", file, got, want)
		}
	}
}

func TestRevisions(t *testing.T) {
	w := newWork(t)
	kinds[4].make(w) // with a merge, a tag, packed refs and a detached head
	for _, rev := range []string{"HEAD", "@", "main", "side", "v1", "v1^{}", "main~1", "main^1^2", "main~1^2~1", "refs/heads/main", "heads/main", "tags/v1", "HEAD^0"} {
		want := strings.TrimSpace(w.git("rev-parse", rev+"^{commit}"))
		if got := w.must(&op.GitShowArgs{Rev: rev}, ".")["commit"]; got != want {
			t.Errorf("%s: got %v, want %s", rev, got, want)
		}
	}
	for rev, code := range map[string]op.Code{"nobody": op.NotFound, "main~99": op.NotFound, "main^3": op.NotFound, "HEAD@{1}": op.GitUnsupported, "v1^{/x}": op.GitUnsupported, "--all": op.NotFound, "../../etc": op.NotFound} {
		if _, err := w.read(&op.GitShowArgs{Rev: rev}, "."); err == nil || op.AsError(err).Code != code {
			t.Errorf("%s: got %v, want %s", rev, err, code)
		}
	}
}
