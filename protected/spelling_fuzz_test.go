package protected

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"holdpoint/op"
)

// FuzzIgnore compares lists of lines, with negation, with the reference: the last line
// that matches decides, and a directory that is ignored takes all below it along.
func FuzzIgnore(f *testing.F) {
	f.Add("*.o\n!keep.o\n", "sub/keep.o", false)
	f.Add("build/\n!build/x\n", "build/x", false)
	f.Add("/a\n**/b\n!/c/b\n", "c/b", true)
	f.Add("a/**\n!a/b/\n", "a/b/c", false)
	f.Add("#x\n\\#x\n  \n*\n!*/\n", "d/e", false)
	f.Fuzz(func(t *testing.T, text, path string, isDir bool) {
		path = tidy(path)
		if len(text) > 120 || len(path) > 40 || path == "" || strings.ContainsAny(path, "\x00\n") {
			return
		}
		lines := strings.Split(text, "\n")
		for _, l := range lines {
			if p := strings.TrimPrefix(l, "!"); !simple(p) || strings.HasPrefix(p, "!") {
				return // the reference does not know such lines
			}
		}
		want := false
		for end := range ends(path) {
			part, dir := path[:end], isDir || end < len(path)
			last := -1
			for i, l := range lines {
				if p := strings.TrimPrefix(l, "!"); p != "" && l[0] != '#' && strings.Trim(p, "/") != "" && referenceOne(p, part, dir) {
					last = i
				}
			}
			if last >= 0 && lines[last][0] != '!' {
				want = true
				break
			}
		}
		if got := NewIgnorer([]IgnoreFile{{Dir: ".", Lines: lines}}).Ignored(op.Path(path), isDir); got != want {
			t.Fatalf("lines %q, path %q (directory %v): got %v, want %v", lines, path, isDir, got, want)
		}
	})
}

// names are what the spellings are spelled from: one protected name each.
var spelledNames = []string{".git/config", ".git/hooks/x", ".env", ".gitmodules", "sub/.git/HEAD", ".ssh/id_rsa", "a/.env", ".gitattributes"}

// FuzzSpelling takes a protected name and spells it by the commands of the input: other
// case, other Unicode form, characters that do not show, separators and dots, what Windows
// drops, its streams and short names. However a file system could take it for the same, it is protected still.
func FuzzSpelling(f *testing.F) {
	set, _, err := New(Source{})
	if err != nil {
		f.Fatal(err)
	}
	var known []string
	for _, n := range spelledNames {
		if set.Mark(op.Path(n), false).Protected {
			known = append(known, n)
		}
	}
	if len(known) < 5 {
		f.Fatalf("only %q are protected to begin with", known)
	}
	for i := range 8 {
		f.Add(uint8(i), []byte{byte(i), 1, byte(i * 3), 2, 5, 3, 9, 4, 0, 5, 2, 6, 3, 7})
	}
	f.Fuzz(func(t *testing.T, which uint8, commands []byte) {
		path := known[int(which)%len(known)]
		spelled := spell(path, commands)
		if len(spelled) > 300 || slowName(spelled) != slowName(path) {
			return // the reference says that this is another name
		}
		if mark := set.Mark(op.Path(spelled), false); !mark.Protected {
			t.Fatalf("%q is a spelling of %q and is not protected", spelled, path)
		}
		if mark := set.Both(op.Path("other"), op.Path(spelled), false); !mark.Protected {
			t.Fatalf("asked as %q, led to another: not protected", spelled)
		}
	})
}

// spell applies pairs of place and deed.
func spell(path string, commands []byte) string {
	invisible := []rune{0x200b, 0x200c, 0x200d, 0x2060, 0xfeff, 0xad, 0xfe0f, 0x202e, 0x180b, 0xe0001, 0x34f}
	for i := 0; i+1 < len(commands) && i < 24; i += 2 {
		runes := []rune(path)
		at := int(commands[i]) % (len(runes) + 1)
		switch deed := commands[i+1]; deed % 11 {
		case 0:
			if at < len(runes) {
				runes[at] = unicode.ToUpper(runes[at])
			}
			path = string(runes)
		case 1:
			path = string(runes[:at]) + string(invisible[int(deed/11)%len(invisible)]) + string(runes[at:])
		case 2:
			path = "./" + path
		case 3:
			path = strings.Replace(path, "/", []string{"//", "/./", "/x/../"}[int(deed/11)%3], 1)
		case 4:
			path += []string{".", " ", "...", ". ."}[int(deed/11)%4]
		case 5:
			path = strings.Replace(path, "s", "\u017f", 1) // folds to s
		case 6:
			path = strings.Replace(path, "k", "\u212a", 1) // folds to k
		case 7:
			path = norm.NFD.String(path)
		case 8: // a stream of the last name, or of a folder
			stream := []string{"::$DATA", ":x", "::$INDEX_ALLOCATION"}[int(deed/11)%3]
			if deed%2 == 0 {
				path = strings.Replace(path, "/", stream+"/", 1)
			} else {
				path += stream
			}
		case 9: // the short name that Windows gives
			name, number := []string{".git/", ".gitmodules"}[int(deed/11)%2], 1+int(deed)%4
			short := []string{fmt.Sprintf("GIT~%d/", number), fmt.Sprintf("gitmod~%d", number)}[int(deed/11)%2]
			path = strings.Replace(path, name, short, 1)
		case 10:
			path = strings.Replace(path, "/", "\\", 1)
		}
	}
	return path
}

var shortName = regexp.MustCompile(`^(git|gitmod)~[1-4][. ]*$`)

// slowName is the name that all spellings share, one rune after the other: cleaned,
// composed, without what does not show, in lower case, without what Windows drops at the
// ends of names.
func slowName(path string) string {
	var parts []string
	for _, name := range strings.Split(climbed(path), "/") {
		for _, name := range strings.Split(name, "\\") {
			var b strings.Builder
			for _, r := range norm.NFKC.String(name) {
				if unicode.In(r, unicode.Cf, unicode.Mn, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
					continue
				}
				b.WriteRune(unicode.ToLower(r))
			}
			clean, _, _ := strings.Cut(b.String(), ":")
			if short := shortName.FindStringSubmatch(clean); short != nil {
				clean = map[string]string{"git": ".git", "gitmod": ".gitmodules"}[short[1]]
			}
			if clean = strings.TrimRight(clean, ". "); clean != "" {
				parts = append(parts, clean)
			}
		}
	}
	return strings.Join(parts, "/")
}

// climbed resolves what climbs, as Linux has it: only the slash separates.
func climbed(path string) string {
	var parts []string
	for _, name := range strings.Split(path, "/") {
		switch {
		case name == "" || name == ".":
		case name == ".." && len(parts) > 0:
			parts = parts[:len(parts)-1]
		case name != "..":
			parts = append(parts, name)
		}
	}
	return strings.Join(parts, "/")
}
