package protected

import (
	"strings"
	"testing"

	"holdpoint/op"
)

// reference is gitignore(5) read aloud, for patterns of *, ? and whole ** elements: slow,
// recursive and short.
func reference(pattern, path string, isDir bool) bool {
	for end := range ends(path) {
		if referenceOne(pattern, path[:end], isDir || end < len(path)) {
			return true
		}
	}
	return false
}

func referenceOne(pattern, path string, isDir bool) bool {
	if strings.HasSuffix(pattern, "/") {
		if !isDir {
			return false
		}
		pattern = pattern[:len(pattern)-1]
	}
	if !strings.Contains(pattern, "/") {
		return element(pattern, path[strings.LastIndex(path, "/")+1:])
	}
	return elements(strings.Split(strings.TrimPrefix(pattern, "/"), "/"), strings.Split(path, "/"))
}

func elements(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**" && len(pattern) == 1:
		return len(path) > 0
	case pattern[0] == "**":
		for i := range path {
			if elements(pattern[1:], path[i:]) {
				return true
			}
		}
		return false
	}
	return len(path) > 0 && element(pattern[0], path[0]) && elements(pattern[1:], path[1:])
}

func element(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return element(pattern[1:], name) || name != "" && element(pattern, name[1:])
	}
	return name != "" && (pattern[0] == '?' || pattern[0] == name[0]) && element(pattern[1:], name[1:])
}

// simple reports whether the reference can read a pattern.
func simple(pattern string) bool {
	for e := range strings.SplitSeq(pattern, "/") {
		if e != "**" && strings.Contains(e, "**") {
			return false
		}
	}
	return len(pattern) <= 24 && strings.Count(pattern, "*") <= 8 && !strings.ContainsAny(pattern, "[\\\r\x00\n") && !strings.HasSuffix(pattern, " ")
}

// FuzzMark compares with the reference and checks what must hold for any spelling.
func FuzzMark(f *testing.F) {
	for _, s := range [][2]string{{".env", "a/.env/x"}, {"*.pem", "a.pem"}, {"/a/*/b", "a/x/b"}, {"a/**/b", "a/x/y/b"}, {"**/a/", "x/a/y"}, {"x?y/", "xzy"},
		{"/**", "a"}, {"a/**", "a"}, {"caf\u00e9", "CAFE\u0301"}, {"x", "X./y"}, {"**/**/a", "a/b"}, {"*a*b*", "xaxbx"}} {
		f.Add(s[0], s[1], true)
	}
	tenAnd := func(patterns ...string) *Set {
		set := &Set{}
		for _, p := range Ten() {
			set.add(Described{Pattern: p, From: FromBuiltin})
		}
		for _, p := range patterns {
			set.add(Described{Pattern: p, From: FromOperator})
		}
		set.compile()
		return set
	}
	ten := tenAnd()
	f.Fuzz(func(t *testing.T, pattern, path string, isDir bool) {
		path = tidy(path)
		if len(path) > 40 || strings.ContainsAny(path, "\x00\n") || path == "" || additive(pattern) != "" || strings.TrimSpace(pattern) == "" || pattern[0] == '#' {
			return
		}
		set := tenAnd(pattern)
		mark := set.Mark(op.Path(path), isDir)
		if ten.Mark(op.Path(path), isDir).Protected && mark.From != FromBuiltin {
			t.Errorf("pattern %q takes %q from the built-in list: %+v", pattern, path, mark)
		}
		if simple(pattern) {
			want := reference(pattern, path, isDir)
			for _, p := range Ten() {
				want = want || reference(p, path, isDir)
			}
			if want && !mark.Protected {
				t.Errorf("pattern %q: %q gets through", pattern, path)
			}
			own, err := Compile([]string{pattern}, "fuzz")
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := own.Match(path, isDir); got != reference(pattern, path, isDir) {
				t.Errorf("pattern %q, path %q (directory %v): got %v", pattern, path, isDir, got)
			}
		}
		if !mark.Protected {
			return
		}
		for _, other := range []string{path + "/below", "./" + path, "x/../" + path, path + "/"} {
			if !set.Mark(op.Path(other), isDir).Protected {
				t.Errorf("pattern %q: %q is protected and %q is not", pattern, path, other)
			}
		}
		// A pattern or path that itself has what Windows drops stands for that spelling alone.
		if ascii(pattern) && ascii(path) && ntfs(path) == path && !strings.ContainsAny(pattern, "[\\:~") && !strings.Contains(pattern+"/", "./") && !strings.Contains(pattern+"/", " /") {
			for _, other := range []string{strings.ToUpper(path), strings.ToLower(path), path + ". ", path[:1] + "\u200d" + path[1:]} {
				if !set.Mark(op.Path(other), isDir).Protected {
					t.Errorf("pattern %q: %q is protected and %q is not", pattern, path, other)
				}
			}
		}
	})
}
