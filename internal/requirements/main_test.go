package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for name, want := range map[string][]string{
		"C12 one":                  {"C12"},
		"C12, I30 two":             {"C12", "I30"},
		"C12 I30 two":              {"C12", "I30"},
		"C12,I30,S1 three":         {"C12", "I30", "S1"},
		"S97 (part) a half":        {"S97"},
		"I87 (part), I91 (part) b": {"I87", "I91"},
		"I87, I91 (part) c":        {"I87", "I91"},
		"D1":                       {"D1"},
		"S97 (part) ":              {"S97"},
		"C012 no such form":        nil,
		"CRLF and C12":             nil,
		"C12x":                     nil,
		"C12: colon is no word":    nil,
		"X59 a, S3 is no more one": {"X59"},
		"no id":                    nil,
	} {
		var got []string
		for _, c := range parse(name, "") {
			got = append(got, c.id)
			if c.part != strings.Contains(name, "(part)") {
				t.Errorf("%q: part is %v", name, c.part)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

func TestRun(t *testing.T) {
	const list = "# comment\nC1\tD\tone\nC2\tD\ttwo\nI1\tG\tthree\nX1\tP\tfour\nS1\tpaths\tfive\nS2\tpaths\tsix\nS3\tlinks\tseven\n"
	for _, c := range []struct {
		name, not, test, script, flag string
		code                          int
		out, errs                     string
	}{
		{"counts", "I1\twhy not\n", `t.Run("C1 a", f); t.Run("C2 (part) b", f)`, "", "", 0,
			"2:   1 covered,   1 in part,   0 not applicable,   0 open", ""},
		{"reasons are told", "I1\twhy not\n", ``, "", "", 0, "I1    not applicable: why not", ""},
		{"kinds", "", `t.Run("S1 a", f); t.Run("S1 (part) b", f); t.Run("S2 (part) c", f)`, "", "-kinds", 0,
			"paths           2        1        1     0      3\nlinks           1        0        0     1      0\nall             3        1        1     1      3\n", ""},
		{"open", "I1\twhy not\n", `t.Run("C1 a", f)`, "", "-open", 0, "C2    open", ""},
		{"covered is not open", "", `t.Run("C1 a", f); t.Run("C1 (part) a", f)`, "", "-v", 0, "C1    covered", ""},
		{"tables", "", `for _, c := range []struct{n string}{{"C1 a"}, {n: "X1 b"}} { t.Run(c.n, f) }`, "", "-v", 0, "X1    covered", ""},
		{"maps", "", `for n := range map[string]int{"X1 b": 1} { t.Run(n, f) }`, "", "-v", 0, "X1    covered", ""},
		{"sums", "", `t.Run("X1 "+n+"x", f)`, "", "-v", 0, "X1    covered", ""},
		{"formats", "", `t.Run(fmt.Sprintf("X1 %d", n), f)`, "", "-v", 0, "X1    covered", ""},
		{"other literals claim nothing", "", `t.Run("plain", f); _ = []string{"X1 b"}`, "", "-v", 0, "X1    open", ""},
		{"scripts", "", ``, "# what\n# id: C2, X1\nexec x\n-- f --\n# id: Z\n", "-v", 0, "X1    covered", ""},
		{"an id that does not exist", "", `t.Run("C99 a", f)`, "", "", 1, "", "x_test.go:1: \"C99 a\" names C99"},
		{"covered and not applicable", "C1\twhy not\n", `t.Run("C1 a", f)`, "", "", 1, "", "listed as not applicable (why not)"},
		{"no reason", "C1\t \n", ``, "", "", 1, "", "not-applicable.txt:1"},
		{"not applicable and no requirement", "C7\twhy\n", ``, "", "", 1, "", "C7"},
		{"wrong use", "", ``, "", "-nonsense", 2, "", "nonsense"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			put := func(rel, text string) {
				p := filepath.Join(root, rel)
				if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put("testdata/requirements/ids.txt", list)
			put("testdata/requirements/not-applicable.txt", c.not)
			put("p/x_test.go", "package p; func TestX(t *testing.T) { "+c.test+" }")
			put("cmd/testdata/script/x.txtar", c.script)
			put("internal/requirements/x_test.go", `package main; func TestX(t *testing.T) { t.Run("C98 a", f) }`)
			put("p/testdata/y_test.go", "not go at all")
			args := []string{"-root", root}
			if c.flag != "" {
				args = append(args, c.flag)
			}
			var out, errs bytes.Buffer
			if code := run(args, &out, &errs); code != c.code {
				t.Errorf("got exit %d, want %d", code, c.code)
			}
			if !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) || c.errs == "" && errs.Len() > 0 {
				t.Errorf("got %q and %q, want %q and %q", out.String(), errs.String(), c.out, c.errs)
			}
		})
	}
}

// TestLists holds the checked-in lists to their form.
func TestLists(t *testing.T) {
	l, err := readLists("../../testdata/requirements")
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, r := range l.rows {
		n[r.id[:1]]++
		if words := len(strings.Fields(r.title)); words > 12 {
			t.Errorf("%s: %d words are no title", r.id, words)
		}
	}
	want := map[string]int{"C": 147, "I": 114, "U": 53, "X": 66, "D": 81, "S": 106}
	if !reflect.DeepEqual(n, want) {
		t.Errorf("got %v, want %v", n, want)
	}
}
