package fileops

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdpoint/op"
)

func TestValidate(t *testing.T) {
	check := func(format, text string) []Fault {
		t.Helper()
		out, err := Read(context.Background(), Scene{Args: &op.ValidateArgs{Content: &text, Format: format}})
		if err != nil {
			t.Fatal(err)
		}
		faults := out["errors"].([]Fault)
		if out["valid"] != (len(faults) == 0) {
			t.Errorf("%s %q: valid %v with %v", format, text, out["valid"], faults)
		}
		return faults
	}
	for _, c := range []struct{ format, good string }{
		{"json", "{\"a\": [1, 2.5e3, null, {\"a\": \"\\u00e9\"}]}\n"}, {"json", "\ufeff[]"}, {"json", "3"},
		{"jsonc", "{ // why\n \"a\": 1, /* b */ \"u\": \"//no\",\n}\n"}, {"yaml", "a: 1\nb:\n  - x\n  - {y: z}\n---\nc: |\n  t\n"}, {"toml", "a = 1\n[b]\nc = 'd'\n"},
		{"xml", "<?xml version=\"1.0\"?><a><b c=\"d\"/></a>\n"}, {"go", "package p\n\nfunc f() {}\n"}, {"shell", "#!/bin/bash\nfor i in a b; do echo \"$i\"; done\n"},
		{"js", "const a = async () => { await import('x') }\n"}, {"ts", "let a: number = 1; enum E { A }\n"}, {"tsx", "const a = <b c={1}>x</b>\n"}, {"jsx", "const a = <b/>\n"}, {"css", "a > b { color: red }\n"},
		{"env", "# c\nA=1\nexport B_2='x y'\nC=\"two\nlines\"\nD=\n"}, {"csv", "a,b\n1,\"x,\ny\"\n"}, {"markdown", "# One\n\n[here](#one) [out](https://example.com/x)\n"},
	} {
		if f := check(c.format, c.good); len(f) > 0 {
			t.Errorf("%s %q: %v", c.format, c.good, f)
		}
	}
	for _, c := range []struct {
		format, bad  string
		line, column int
	}{
		{"json", "{\n  \"a\": 1,\n  \"b\" 2\n}", 3, 7}, {"json", "{\"a\": 1,}", 1, 9}, {"json", "[1, 2\n", 1, 6}, {"json", "{} x", 1, 4}, {"json", "{\"a\":1,\n\"a\":2}", 2, 1}, {"json", "", 1, 1}, {"json", "// c\n{}", 1, 1},
		{"jsonc", "{\n/* open", 2, 1}, {"jsonc", "{\n\"a\": ,\n}", 2, 6}, {"yaml", "a: 1\nb: [1, 2\n", 2, 4}, {"toml", "a = 1\nb = = 2\n", 2, 5}, {"xml", "<a>\n<b></a>", 2, 8},
		{"go", "package p\n\nfunc f( {}\n", 3, 9}, {"shell", "if true; then\n  echo x\n", 1, 1}, {"js", "const a = 1;\nconst = 2;\n", 2, 7}, {"ts", "let a: = 1\n", 1, 8}, {"css", "a { color: red\n", 2, 1},
		{"env", "A=1\nno equals\n", 2, 1}, {"env", "A=\"open\n", 1, 3}, {"env", "2X=1\n", 1, 1}, {"csv", "a,b\n1,2,3\n", 2, 1}, {"csv", "a,\"b\nc\n", 2, 0}, {"markdown", "# One\n\nSee [that](#two).\n", 3, 12},
	} {
		f := check(c.format, c.bad)
		if len(f) == 0 || f[0].Line != c.line && c.line > 0 || f[0].Column != c.column && c.column > 0 || f[0].Message == "" {
			t.Errorf("%s %q: %+v, want %d:%d", c.format, c.bad, f, c.line, c.column)
		}
	}
	if f := check("json", "{\"a\": \"\xff\"}"); len(f) != 1 || f[0].Column != 8 {
		t.Errorf("bytes that are not UTF-8: %v", f)
	}
	if f := check("shell", strings.Repeat("(", 100_000)); len(f) == 0 {
		t.Error("nested brackets were taken")
	}
	for _, deep := range []string{"json", "yaml", "xml", "toml", "markdown", "js", "go"} {
		check(deep, strings.Repeat("[", 3000)) // it ends, with whatever answer
	}
	text := "x"
	for _, a := range []op.ValidateArgs{{Content: &text, Format: "cobol"}, {Content: &text}, {Content: &text, Path: "a.unknown"}, {}} {
		if _, err := Read(context.Background(), Scene{Args: &a}); op.AsError(err) == nil || op.AsError(err).Code != op.BadRequest {
			t.Errorf("%+v: %v", a, err)
		}
	}
	t.Run("links of a document to files", func(t *testing.T) {
		dir := t.TempDir()
		lay(t, filepath.Join(dir, "docs/a.md"), []byte("# A b\n\n[x](b.md) [y](../src/) [z](gone.md)\n![i](../../out.png) [top](/docs/b.md) [s](#a-b) [q](#no)\n"))
		lay(t, filepath.Join(dir, "docs/b.md"), nil)
		os.Mkdir(filepath.Join(dir, "src"), 0o755)
		out, err := Read(context.Background(), opened(t, dir, "docs/a.md", &op.ValidateArgs{Path: "docs/a.md"}))
		if err != nil {
			t.Fatal(err)
		}
		var at []int
		for _, f := range out["errors"].([]Fault) {
			at = append(at, f.Line*100+f.Column)
		}
		if !slices.Equal(at, []int{328, 406, 453}) {
			t.Errorf("%v", out["errors"])
		}
	})
}

func TestPreviewAndDetect(t *testing.T) {
	dir := t.TempDir()
	lay(t, filepath.Join(dir, "a.md"), []byte("# Top *one*\n\n<script>alert(1)</script>\n<img src=x onerror=alert(1)>\n\n[bad](javascript:alert(1)) [ok](https://example.com)\n\nTwo\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"))
	out, err := Read(context.Background(), opened(t, dir, "a.md", &op.PreviewArgs{Path: "a.md"}))
	if err != nil {
		t.Fatal(err)
	}
	html := out["html"].(string)
	for _, never := range []string{"<script", "onerror", "javascript:"} {
		if strings.Contains(html, never) {
			t.Errorf("%s in %s", never, html)
		}
	}
	if !strings.Contains(html, "<table>") || !strings.Contains(html, "https://example.com") {
		t.Error(html)
	}
	if o := out["outline"].([]Heading); len(o) != 2 || o[0] != (Heading{1, "Top one", "top-one", 1}) || o[1].Line != 8 || o[1].Level != 2 {
		t.Errorf("%+v", o)
	}
	for name, files := range map[string][]string{
		"go: go test ./...":        {"go.mod", "module x"},
		"node: pnpm run test":      {"package.json", `{"scripts":{"test":"vitest"}}`, "pnpm-lock.yaml", ""},
		"python: python -m pytest": {"pyproject.toml", "[tool.pytest.ini_options]\n"},
		"rust: cargo test":         {"Cargo.toml", ""},
		"make: make test":          {"Makefile", "all:\n\ttrue\ntest: all\n\ttrue\n"},
		"java: ./gradlew test":     {"build.gradle", "", "gradlew", ""},
		"":                         {"package.json", `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`, "x.txt", ""},
		"elixir: mix test":         {"mix.exs", ""},
		"php: vendor/bin/phpunit":  {"phpunit.xml", ""},
		"ruby: bundle exec rspec":  {"Gemfile", "", "spec/x_spec.rb", ""},
	} {
		dir := t.TempDir()
		for i := 0; i < len(files); i += 2 {
			lay(t, filepath.Join(dir, files[i]), []byte(files[i+1]))
		}
		out, err := Read(context.Background(), opened(t, dir, ".", &op.DetectArgs{}))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range out["runners"].([]Runner) {
			got += r.Kind + ": " + strings.Join(r.Command, " ")
			if len(r.Evidence) == 0 {
				t.Errorf("%s: no evidence", got)
			}
		}
		if got != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
}
