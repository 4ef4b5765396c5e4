package fileops

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"holdpoint/op"
)

func pointers(list ...string) []op.PointerOp {
	var out []op.PointerOp
	for _, text := range list {
		f := strings.SplitN(text, " ", 3)
		o := op.PointerOp{Op: f[0], Path: f[1]}
		if o.Path == "-" {
			o.Path = ""
		}
		if len(f) == 3 {
			o.Value = op.Raw(f[2])
		}
		out = append(out, o)
	}
	return out
}

func TestPointers(t *testing.T) {
	j := "{\n  // what it is\n  \"name\": \"x\", // kept\n  \"n\": 1.50,\n  \"list\": [1, 2, 3],\n  \"deep\": {\n    \"a\": true,\n    \"b\": null // last\n  }\n}\n"
	y := "# head\nname: x  # kept\n\"quoted\": 'single'\nlist:\n  - one\n  - two # here\ndeep:\n  a: 1.50\n  # about b\n  b: |\n    text\n    more\nempty:\nflow: {\"k\": [1, 2]}\nitems:\n- id: 1\n  v: a\n- id: 2\n  v: b\n"
	m := "# head\nname = \"x\" # kept\nn = 1.50\nlist = [\n  1, # one\n  2,\n]\ninline = { a = 1, b = 'two' }\n\n[deep]\n# about a\na.b = true\nc = \"\"\"\nlines\n\"\"\"\n\n[[items]]\nid = 1\n\n[[items]]\nid = 2\n"
	for _, c := range []struct {
		format   docFormat
		text     string
		ops      []op.PointerOp
		old, new string // what is replaced in the text; the rest must stay byte for byte
	}{
		{jsonFormat{}, j, pointers(`set /name "y"`), `"x"`, `"y"`},
		{jsonFormat{}, j, pointers(`replace /n 1e400`), `1.50`, `1e400`},
		{jsonFormat{}, j, pointers(`append /list 4`), `[1, 2, 3]`, `[1, 2, 3, 4]`},
		{jsonFormat{}, j, pointers(`insert /list/0 0`), `[1, 2, 3]`, `[0, 1, 2, 3]`},
		{jsonFormat{}, j, pointers(`add /list/1 9`), `[1, 2, 3]`, `[1, 9, 2, 3]`},
		{jsonFormat{}, j, pointers(`remove /list/0`), `[1, 2, 3]`, `[2, 3]`},
		{jsonFormat{}, j, pointers(`remove /list/2`), `[1, 2, 3]`, `[1, 2]`},
		{jsonFormat{}, j, pointers(`set /deep/c {"z":[1]}`), "null // last\n", "null, // last\n    \"c\": {\n      \"z\": [\n        1\n      ]\n    }\n"},
		{jsonFormat{}, j, pointers(`remove /deep/b`), "true,\n    \"b\": null // last\n", "true\n"},
		{jsonFormat{}, j, pointers(`remove /name`), "  \"name\": \"x\", // kept\n", ""},
		{jsonFormat{}, j, pointers(`remove /deep`), ",\n  \"deep\": {\n    \"a\": true,\n    \"b\": null // last\n  }", ""},
		{jsonFormat{}, j, pointers(`test /n 1.50`, `set /a~1b~0 0`), "  }\n}\n", "  },\n  \"a/b~\": 0\n}\n"},
		{jsonFormat{}, `{"a":{}}`, pointers(`set /a/b 1`), `{}`, `{"b": 1}`},
		{jsonFormat{}, `{"a":1,"b":2}`, pointers(`set /c 3`), `2}`, `2,"c":3}`},
		{jsonFormat{}, "[]\r\n", pointers(`append - "x"`), `[]`, `["x"]`},
		{jsonFormat{}, "{\r\n\t\"a\": 1\r\n}\r\n", pointers(`set /b 2`), "1\r\n", "1,\r\n\t\"b\": 2\r\n"},
		{jsonFormat{}, "{\n  \"a\": 1,\n}\n", pointers(`set /b 2`), "1,\n", "1,\n  \"b\": 2,\n"},

		{yamlFormat{}, y, pointers(`set /name "y"`), "name: x", "name: y"},
		{yamlFormat{}, y, pointers(`set /name "yes: no"`), "name: x", `name: "yes: no"`},
		{yamlFormat{}, y, pointers(`set /name "true"`), "name: x", `name: "true"`},
		{yamlFormat{}, y, pointers(`set /quoted "it's"`), "'single'", "'it''s'"},
		{yamlFormat{}, y, pointers(`append /list "three"`), "two # here\n", "two # here\n  - three\n"},
		{yamlFormat{}, y, pointers(`insert /list/0 0`), "  - one", "  - 0\n  - one"},
		{yamlFormat{}, y, pointers(`remove /list/1`), "  - two # here\n", ""},
		{yamlFormat{}, y, pointers(`remove /list/1`, `remove /list/0`), "\n  - one\n  - two # here", " []"},
		{yamlFormat{}, y, pointers(`set /deep/a 2.0`), "1.50", "2.0"},
		{yamlFormat{}, y, pointers(`set /deep/b "short"`), "b: |\n    text\n    more", "b: short"},
		{yamlFormat{}, y, pointers(`set /deep/c {"z":[1,"t"]}`), "    more\n", "    more\n  c:\n    z:\n      - 1\n      - t\n"},
		{yamlFormat{}, y, pointers(`remove /deep/a`), "  a: 1.50\n", ""},
		{yamlFormat{}, y, pointers(`set /empty 1`), "empty:", "empty: 1"},
		{yamlFormat{}, y, pointers(`append /flow/k 3`), "[1, 2]", "[1, 2, 3]"},
		{yamlFormat{}, y, pointers(`set /items/1/v "c"`), "v: b", "v: c"},
		{yamlFormat{}, y, pointers(`remove /items/0/id`), "id: 1\n  v: a", "v: a"},
		{yamlFormat{}, y, pointers(`append /items {"id":3,"v":"c"}`), "  v: b\n", "  v: b\n- id: 3\n  v: c\n"},
		{yamlFormat{}, y, pointers(`set /new [1]`), "  v: b\n", "  v: b\nnew:\n  - 1\n"},
		{yamlFormat{}, "a: 1", pointers(`set /b 2`), "a: 1", "a: 1\nb: 2"},
		{yamlFormat{}, "a: 1\r\nb: 2\r\n", pointers(`set /a 3`, `set /c 4`), "1\r\nb: 2\r\n", "3\r\nb: 2\r\nc: 4\r\n"},
		{yamlFormat{}, "---\na:\n    b: 1\n", pointers(`set /a/c 2`), "b: 1\n", "b: 1\n    c: 2\n"},

		{tomlFormat{}, m, pointers(`set /name "y"`), `"x"`, `"y"`},
		{tomlFormat{}, m, pointers(`set /n 2`), "1.50", "2"},
		{tomlFormat{}, m, pointers(`append /list 3`), "  2,\n", "  2,\n  3,\n"},
		{tomlFormat{}, m, pointers(`insert /list/0 0`), "  1, # one", "  0,\n  1, # one"},
		{tomlFormat{}, m, pointers(`remove /list/0`), "  1, # one\n", ""},
		{tomlFormat{}, m, pointers(`set /inline/c [true]`), "b = 'two' ", "b = 'two', c = [true] "},
		{tomlFormat{}, m, pointers(`remove /inline/a`), "a = 1, b", "b"},
		{tomlFormat{}, m, pointers(`set /deep/a/b false`), "a.b = true", "a.b = false"},
		{tomlFormat{}, m, pointers(`set /deep/c "one"`), "\"\"\"\nlines\n\"\"\"", `"one"`},
		{tomlFormat{}, m, pointers(`set /deep/d {"x y":1}`), "lines\n\"\"\"\n", "lines\n\"\"\"\nd = { \"x y\" = 1 }\n"},
		{tomlFormat{}, m, pointers(`set /items/1/v "b"`), "id = 2\n", "id = 2\nv = \"b\"\n"},
		{tomlFormat{}, m, pointers(`set /top 1`), "b = 'two' }\n", "b = 'two' }\ntop = 1\n"},
		{tomlFormat{}, m, pointers(`remove /name`), "name = \"x\" # kept\n", ""},
		{tomlFormat{}, "[a]\nx = 1\n", pointers(`set /y 2`), "[a]", "y = 2\n\n[a]"},
		{tomlFormat{}, "[a]", pointers(`set /a/x 1`), "[a]", "[a]\nx = 1"},
	} {
		if strings.Count(c.text, c.old) != 1 {
			t.Fatalf("%q stands %d times in\n%s", c.old, strings.Count(c.text, c.old), c.text)
		}
		want := strings.Replace(c.text, c.old, c.new, 1)
		got, err := applyPointers(c.format, []byte(c.text), c.ops)
		if err != nil || string(got) != want {
			t.Errorf("%T %v: %v\ngot:\n%s\nwant:\n%s", c.format, c.ops, err, got, want)
		}
	}
	for _, c := range []struct {
		format docFormat
		text   string
		ops    []op.PointerOp
		code   op.Code
	}{
		{jsonFormat{}, j, pointers(`replace /none 1`), op.PointerError},
		{jsonFormat{}, j, pointers(`remove /none`), op.PointerError},
		{jsonFormat{}, j, pointers(`remove -`), op.PointerError},
		{jsonFormat{}, j, pointers(`set /none/x 1`), op.PointerError},
		{jsonFormat{}, j, pointers(`insert /list/4 1`), op.PointerError},
		{jsonFormat{}, j, pointers(`insert /list/01 1`), op.PointerError},
		{jsonFormat{}, j, pointers(`insert /deep/x 1`), op.PointerError},
		{jsonFormat{}, j, pointers(`append /deep 1`), op.PointerError},
		{jsonFormat{}, j, pointers(`test /n 1.5`), op.PointerError},
		{jsonFormat{}, j, pointers(`set /name/x 1`), op.PointerError},
		{jsonFormat{}, `{"a":1,}x`, pointers(`set /a 2`), op.InvalidDocument},
		{jsonFormat{}, `{"a":1,"a":2}`, pointers(`set /a 2`), op.InvalidDocument},
		{yamlFormat{}, "a: [1", pointers(`set /a 2`), op.InvalidDocument},
		{yamlFormat{}, "a: &x 1\nb: *x\n", pointers(`set /a 2`), op.PointerError},
		{yamlFormat{}, "a: 1\n---\nb: 2\n", pointers(`set /a 2`), op.PointerError},
		{yamlFormat{}, "a: {k: v}\n", pointers(`set /a/k 2`), op.PointerError},
		{tomlFormat{}, m, pointers(`set /n null`), op.PointerError},
		{tomlFormat{}, m, pointers(`set /deep 1`), op.PointerError},
		{tomlFormat{}, m, pointers(`append /items {"id":3}`), op.PointerError},
		{tomlFormat{}, "a = 1\na = 2\n", pointers(`set /a 2`), op.InvalidDocument},
	} {
		got, err := applyPointers(c.format, []byte(c.text), c.ops)
		if op.AsError(err) == nil || op.AsError(err).Code != c.code {
			t.Errorf("%T %v: got %q %v, want %s", c.format, c.ops, got, err, c.code)
		}
	}
}

// Random operations either mean what they should or are refused, and no line that they
// are not about ever changes.
func TestPointersRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	docs := map[docFormat]string{
		jsonFormat{}: "{\n  // c0\n  \"a\": [1, {\"x\": 1}], // c1\n  \"b\": {\n    \"c\": \"s\",\n    /* c2 */\n    \"d\": []\n  }\n  // c3\n}\n",
		yamlFormat{}: "# c0\na:\n- 1 # c1\n- x: 1\n  y: [1, 2]\nb:\n  c: s\n  # c2\n  d: []\n# c3\n",
		tomlFormat{}: "# c0\na = [1, { x = 1 }] # c1\n# c2\nz = 'q'\n[b]\nc = \"s\"\nd = []\n# c3\n",
	}
	paths := []string{"/a", "/a/0", "/a/1", "/a/-", "/a/1/x", "/a/1/n", "/b", "/b/c", "/b/d", "/b/d/0", "/b/new", "/z", "/top"}
	values := []string{`1`, `"text"`, `"a: b # c"`, `true`, `[]`, `{}`, `[1,"two"]`, `{"k":{"l":[1]}}`, `1.0`, `"é\n"`}
	verbs := []string{"set", "add", "replace", "remove", "append", "insert"}
	for f, text := range docs {
		done := 0
		for range 3000 {
			o := op.PointerOp{Op: verbs[rng.IntN(len(verbs))], Path: paths[rng.IntN(len(paths))]}
			if o.Op != "remove" {
				o.Value = op.Raw(values[rng.IntN(len(values))])
			}
			got, err := applyPointers(f, []byte(text), []op.PointerOp{o})
			if err != nil {
				continue
			}
			done++
			kept := 0
			for i := range 4 {
				if strings.Contains(string(got), fmt.Sprintf("c%d", i)) {
					kept++
				}
			}
			// What is inside or behind the value itself may go with it, no more.
			if kept < 3 {
				t.Fatalf("%T %v: %d of 4 comments left:\n%s", f, o, kept, got)
			}
		}
		if done < 700 {
			t.Errorf("%T: only %d of 3000 were done", f, done)
		}
		t.Logf("%T: %d of 3000 done, the rest refused", f, done)
	}
}
