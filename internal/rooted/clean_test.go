package rooted

import (
	"errors"
	"strings"
	"testing"

	"holdpoint/op"
)

func TestClean(t *testing.T) {
	long := strings.Repeat("n", 256)
	rows := []struct {
		name, asked string
		want        op.Path
		code        op.Code
	}{
		{"one dot, C7", "./a", "a", ""},
		{"dots inside, C7", "b/../a", "a", ""},
		{"doubled slashes, C7", "a//", "a", ""},
		{"absolute form, C7", "/t/real/ws/a/b", "a/b", ""},
		{"the root as it was given, S6", "/t/lnk/f", "f", ""},
		{"the root itself, S6", "/t/lnk", ".", ""},
		{"absolute with doubled slashes", "//t/./real//ws/a", "a", ""},
		{"dot", ".", ".", ""},
		{"a name like a home", "~x/y", "~x/y", ""},
		{"backslashes are names", `a\..\b`, `a\..\b`, ""},
		{"spaces and unicode", "a b/\u00e9", "a b/\u00e9", ""},
		{"raw control bytes", "raw:%a%0Ab", "a\nb", ""},
		{"raw invalid UTF-8", "raw:%caf%E9/x", "caf\xe9/x", ""},
		{"raw name with the prefix itself", "raw:%raw:%25x", "raw:%x", ""},

		{"empty, S3", "", "", op.InvalidPath},
		{"parent, S3", "..", "", op.OutsideWorkspace},
		{"parent with slash, S3", "../", "", op.OutsideWorkspace},
		{"in and out, S3", "a/../..", "", op.OutsideWorkspace},
		{"in and out with slash, S3", "a/../../", "", op.OutsideWorkspace},
		{"dot parent, S3", "./..", "", op.OutsideWorkspace},
		{"doubled, S3", "a//../..", "", op.OutsideWorkspace},
		{"out and back", "../ws/f", "", op.OutsideWorkspace},
		{"sibling by name, S1", "/t/real/ws-evil/x", "", op.OutsideWorkspace},
		{"sibling by parent, S1", "../ws-evil/x", "", op.OutsideWorkspace},
		{"absolute and out", "/t/real/ws/../x", "", op.OutsideWorkspace},
		{"absolute and out before the end of the prefix", "/t/x/../real/ws/f", "", op.OutsideWorkspace},
		{"through proc, S5", "/proc/self/root/t/real/ws/f", "", op.OutsideWorkspace},
		{"raw and out", "raw:%../x%0A", "", op.OutsideWorkspace},
		{"home", "~", "", op.InvalidPath},
		{"below home", "~/x", "", op.InvalidPath},
		{"NUL, S21", "a.txt\x00.png", "", op.InvalidPath},
		{"raw NUL, S21", "raw:%a%00b", "", op.InvalidPath},
		{"newline, S21", "a\nb", "", op.InvalidPath},
		{"escape sequence, S21", "a\x1b[2Kb", "", op.InvalidPath},
		{"delete character, S21", "a\x7f", "", op.InvalidPath},
		{"C1 control, S21", "a\u0085b", "", op.InvalidPath},
		{"invalid UTF-8, S21", "caf\xe9", "", op.InvalidPath},
		{"long path, S21", strings.Repeat("abc/", 1250), "", op.InvalidPath},
		{"many names, S21", strings.Repeat("a/", 2000), "", op.InvalidPath},
		{"long name", long, "", op.InvalidPath},
		{"longest name", long[1:], op.Path(long[1:]), ""},
		{"malformed escape", "raw:%a%G", "", op.InvalidPath},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got, err := cleanPath(r.asked, "/t/lnk", "/t/real/ws")
			if got != r.want || r.code == "" && err != nil || r.code != "" && !errors.Is(err, r.code) {
				t.Errorf("%q: got %q, %v; want %q, %q", r.asked, got, err, r.want, r.code)
			}
		})
	}
}

// The text of a refusal is the same for every place outside.
func TestCleanOutsideText(t *testing.T) {
	_, a := cleanPath("/etc/passwd", "/ws", "/ws")
	_, b := cleanPath("/no/such/place", "/ws", "/ws")
	_, c := cleanPath("../x", "/ws", "/ws")
	if a.Error() != b.Error() || b.Error() != c.Error() {
		t.Errorf("texts differ: %v, %v, %v", a, b, c)
	}
}

func TestMeansDirectory(t *testing.T) {
	for asked, want := range map[string]bool{"l/": true, "l//": true, "l/.": true, "l": false, "l.": false, ".": false} {
		if MeansDirectory(asked) != want {
			t.Errorf("%q: want %v", asked, want)
		}
	}
}

// A digest's input is unambiguous: neighbouring fields cannot be told in two ways.
func TestManifestHash(t *testing.T) {
	sum := func(names ...string) op.Digest {
		h := newManifestHash()
		for _, n := range names {
			h.entry(n, Info{Kind: op.File, Mode: 0o644}, "")
		}
		return wireDigest(h.h)
	}
	seen := map[op.Digest]bool{}
	for _, names := range [][]string{{"a", "b"}, {"ab"}, {"b", "a"}, {"a\nb"}, {"a->b"}, {}} {
		d := sum(names...)
		if seen[d] {
			t.Errorf("%q shares its digest", names)
		}
		seen[d] = true
	}
}

func TestHashBytes(t *testing.T) {
	// The official vector for empty input.
	const empty = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
	if got := HashBytes(nil); got != empty {
		t.Errorf("got %s", got)
	}
	if got := HashBytes([]byte{0}); got == empty {
		t.Error("one zero byte hashes like nothing")
	}
}
