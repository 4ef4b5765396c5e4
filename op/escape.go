package op

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// RawPrefix marks an escaped name on the wire: what follows is the name with every byte
// outside printable ASCII, and every '%', written as %XX. A real name that begins with
// the prefix is escaped as well, so that each wire name stands for one name.
const RawPrefix = "raw:%"

// Escape gives the wire form of a name: the name itself where it is valid UTF-8 without
// control characters and does not read as a home directory, else RawPrefix and the percent
// form, which Unescape takes back.
func Escape(name string) string {
	home := name == "~" || strings.HasPrefix(name, "~/")
	if utf8.ValidString(name) && !strings.HasPrefix(name, RawPrefix) && strings.IndexFunc(name, unicode.IsControl) < 0 && !home {
		return name
	}
	var b strings.Builder
	b.WriteString(RawPrefix)
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= 0x20 && c < 0x7f && c != '%' && (i > 0 || !home) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Unescape gives the name that a wire form stands for.
func Unescape(wire string) (string, error) {
	rest, escaped := strings.CutPrefix(wire, RawPrefix)
	if !escaped {
		return wire, nil
	}
	out := make([]byte, 0, len(rest))
	for i := 0; i < len(rest); i++ {
		if rest[i] != '%' {
			out = append(out, rest[i])
			continue
		}
		var c byte
		if i+2 >= len(rest) {
			return "", Fail(InvalidPath, "malformed escape in a raw name")
		}
		if _, err := fmt.Sscanf(rest[i+1:i+3], "%02X", &c); err != nil {
			return "", Fail(InvalidPath, "malformed escape in a raw name")
		}
		out = append(out, c)
		i += 2
	}
	return string(out), nil
}

// MarshalText gives a path its wire form.
func (p Path) MarshalText() ([]byte, error) { return []byte(Escape(string(p))), nil }

// UnmarshalText takes the wire form.
func (p *Path) UnmarshalText(b []byte) error {
	s, err := Unescape(string(b))
	*p = Path(s)
	return err
}

// Visible makes text safe to show: control, bidirectional, zero-width and other
// format characters, and bytes that are not UTF-8, become \u{...} or \x..; line breaks
// and tabs stay when multiline is set. Nothing is cut.
func Visible(s string, multiline bool) string {
	var b strings.Builder
	for i, w := 0, 0; i < len(s); i += w {
		var r rune
		r, w = utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && w == 1:
			fmt.Fprintf(&b, "\\x%02X", s[i])
		case multiline && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case Invisible(r):
			fmt.Fprintf(&b, "\\u{%04X}", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Invisible reports whether a character does not show, or changes how others show:
// controls, format characters (bidirectional, zero-width, soft hyphen, byte-order
// mark), separators other than space, and fillers that render as nothing.
func Invisible(r rune) bool {
	switch {
	case r == ' ':
		return false
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r), unicode.Is(unicode.Zs, r):
		return true
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x2800, r == 0x034f, r == 0x17b4, r == 0x17b5:
		return true
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, r >= 0x180b && r <= 0x180f:
		return true
	case unicode.Is(unicode.Co, r), unicode.Is(unicode.Noncharacter_Code_Point, r):
		return true
	}
	return false
}
