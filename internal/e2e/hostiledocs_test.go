//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHostileDocuments: a document that is made to hurt a parser costs an answer. Before
// parsers had a process of their own, the first of these ended the daemon (no program
// survives the end of its stack), and the third took ten gigabytes.
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	write(t, root+"/deep.md", strings.Repeat("> ", 100_000)+"x\n")
	write(t, root+"/deep.yaml", strings.Repeat("- ", 50_000)+"x\n")
	bin, err := plain() // what parsers may take is not what they take under the race detector
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), bin: bin}
	d.run()
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	pid := d.cmd.Process.Pid
	for name, c := range map[string]struct{ format, text string }{
		"brackets":                 {"js", "x=" + strings.Repeat("(", 4<<20-10)},
		"rules in rules":           {"css", strings.Repeat("a{", 50_000)},
		"what may be a type":       {"ts", strings.Repeat("a<", 50_000)},
		"lists in lists by dashes": {"yaml", strings.Repeat("- ", 2<<20-10)},
		"sums in sums":             {"shell", "echo $((" + strings.Repeat("(", 1<<20-10)},
		"elements without an end":  {"xml", strings.Repeat("<a>", 1_000_000)},
		"arrays of arrays":         {"go", "package p\n\nvar x " + strings.Repeat("[]", 2<<20-20) + "int\n"},
		"a key of a million parts": {"toml", strings.Repeat("a.", 2<<20-10) + "a=1\n"},
	} {
		t.Run("S78 (part): "+name, func(t *testing.T) {
			r := must(t, d.call("validate_file", M{"content": c.text, "format": c.format}), "done")
			if object(r["result"])["valid"] != false {
				t.Errorf("got %v", r["result"])
			}
			must(t, d.call("validate_file", M{"content": "{\"a\": 1}", "format": "json"}), "done")
		})
	}
	t.Run("S78 (part): a preview, and a change by pointers", func(t *testing.T) {
		d.call("preview_markdown", M{"path": "deep.md"})
		if r := d.call("patch_file", M{"path": "deep.yaml", "operations": []M{{"op": "set", "path": "/0", "value": 1}}}); code(r) != "invalid_document" {
			t.Errorf("got %v", r)
		}
		for name, text := range map[string]string{"tags.yaml": strings.Repeat("!!a ", 1<<20), "key.toml": strings.Repeat("a.", 3<<20) + "a=1\n"} {
			write(t, root+"/"+name, text)
			if r := d.call("patch_file", M{"path": name, "operations": []M{{"op": "set", "path": "/0", "value": 1}}}); code(r) != "invalid_document" {
				t.Errorf("%s: got %v", name, r)
			}
		}
		write(t, root+"/long.yaml", strings.Repeat("# a line\n", 10_000)+"a: 1\n")
		must(t, d.call("patch_file", M{"path": "long.yaml", "operations": []M{{"op": "set", "path": "/a", "value": 2}}}), "done")
		if got := read(t, root+"/long.yaml"); !strings.HasSuffix(got, "\na: 2\n") || len(got) != 90_005 {
			t.Errorf("got %d bytes", len(got))
		}
		if r := d.call("patch_file", M{"path": "long.yaml", "operations": []M{{"op": "set", "path": "/a/b", "value": 2}}}); code(r) != "pointer_error" || text(r, "error", "field") != "args.operations[0]" {
			t.Errorf("got %v", r)
		}
		many := make([]M, 1001)
		for i := range many {
			many[i] = M{"op": "test", "path": "", "value": 1}
		}
		write(t, root+"/a.json", "{}")
		if r := d.call("patch_file", M{"path": "a.json", "operations": many}); code(r) != "too_large" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("what is well formed is still found so, and what is not", func(t *testing.T) {
		for format, texts := range map[string][2]string{"js": {"let a = (1)", "let a = ("}, "ts": {"let a: number = 1", "let a: = 1"}, "css": {"a { color: red }", "a { color: red"}, "yaml": {"a: [1, 2]", "a: [1, 2"},
			"shell": {"echo $((1 + 2))", "echo $((1 + 2)"}, "xml": {"<a/>", "<a>"}, "go": {"package p\n", "package\n"}} {
			for i, text := range texts {
				if r := must(t, d.call("validate_file", M{"content": text, "format": format}), "done"); object(r["result"])["valid"] != (i == 0) {
					t.Errorf("%s %q: got %v", format, text, r["result"])
				}
			}
		}
	})
	if d.cmd.Process.Pid != pid || d.cmd.ProcessState != nil {
		t.Error("the daemon is another")
	}
}
