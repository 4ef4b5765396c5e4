package house

import (
	"bytes"
	"go/format"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// words that must not stand in a file; each pattern is written so that it does not find itself.
var words = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X:)`), "is a promise to nobody: do it, or say plainly what does not hold"},
	{regexp.MustCompile(`(^|[^A-Za-z0-9_.\-/])/wo` + `rk/`), "names a place on one machine"},
	{regexp.MustCompile(`(^|[^A-Za-z0-9_.\-/])/(roo` + `t|hom` + `e)/[a-z]+/`), "names a place on one machine"},
	{regexp.MustCompile(`\bpro` + `xy\.golang\.org|\bregistry\.np` + `mjs`), "names a host of one moment"},
	{regexp.MustCompile(`[A-Za-z0-9_-]+/[A-Za-z0-9_.-]+#[0-9]{2,}\b`), "sends the reader to somebody else's page: say it here"},
}

func textFaults(rel string, text []byte) (faults []string) {
	for _, w := range words {
		for _, found := range w.pattern.FindAllIndex(text, -1) {
			line := 1 + bytes.Count(text[:found[1]], []byte("\n"))
			what := strconv.Quote(string(bytes.TrimSpace(text[found[0]:found[1]])))
			faults = append(faults, rel+":"+strconv.Itoa(line)+" "+what+" "+w.why)
		}
	}
	return faults
}

func TestText(t *testing.T) {
	m := load(t)
	t.Run("no left-over promises and no places of one machine", func(t *testing.T) {
		m.walk(t, func(rel string) {
			switch path.Ext(rel) {
			case ".go", ".md", ".txt", ".toml", ".yml", ".yaml", ".json", ".html", ".js", ".css", ".sql", ".sh", ".txtar", "":
			default:
				return
			}
			text, err := os.ReadFile(filepath.Join(m.root, rel))
			if err != nil {
				t.Fatal(err)
			}
			report(t, textFaults(rel, text))
		})
	})
	t.Run("gofmt has nothing to change", func(t *testing.T) {
		for _, s := range m.files {
			want, err := format.Source(s.text)
			if err != nil {
				t.Errorf("%s: %v", s.path, err)
			} else if !bytes.Equal(want, s.text) {
				t.Errorf("%s is not as gofmt writes it", s.path)
			}
		}
	})
	t.Run("the patterns bite", func(t *testing.T) {
		for _, bad := range []string{"// TO" + "DO later", "// FIX" + "ME", "see /wo" + "rk/x", "\"/roo" + "t/x/y\"", "owner/repo" + "#123"} {
			if len(textFaults("x", []byte(bad))) == 0 {
				t.Errorf("%q was not found", bad)
			}
		}
		for _, fine := range []string{"the work/ folder", "a/work/b", "/tmp/x", "#12 of the list", "op_1#blake3:00", "delete_file:build/old.o#blake3:12"} {
			if f := textFaults("x", []byte(fine)); len(f) > 0 {
				t.Errorf("%q: %v", fine, f)
			}
		}
	})
}
