package fileops

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"holdpoint/op"
)

// Codes of warnings about text.
const (
	warnEOL      = "eol_change"
	warnBOM      = "bom_change"
	warnEncoding = "encoding_change"
	warnNewline  = "no_final_newline"
)

// WriteWarnings says how the text of a file changes its kind when new takes the place of
// old. The bytes are written as given all the same. Nothing is said about an empty side.
func WriteWarnings(old, new []byte) []op.Warning {
	if len(old) == 0 || len(new) == 0 {
		return nil
	}
	was, is := Describe(old), Describe(new)
	var w []op.Warning
	if was.EOL != is.EOL && was.EOL != eolNone && is.EOL != eolNone {
		w = append(w, op.Warning{Code: warnEOL, Message: fmt.Sprintf("the file had %s line endings and gets %s", was.EOL, is.EOL)})
	}
	if was.BOM != is.BOM {
		msg := "the file had a byte-order mark and gets none"
		if is.BOM {
			msg = "the file had no byte-order mark and gets one"
		}
		w = append(w, op.Warning{Code: warnBOM, Message: msg})
	}
	if family(was.Encoding) != family(is.Encoding) {
		w = append(w, op.Warning{Code: warnEncoding, Message: fmt.Sprintf("the file was %s and becomes %s", was.Encoding, is.Encoding)})
	}
	return w
}

// family makes one of the encodings that detection cannot keep apart for sure.
func family(enc string) string {
	if enc == encLatin1 || slices.ContainsFunc(eastAsian, func(e eastern) bool { return e.name == enc }) {
		return encEight
	}
	return enc
}

// Append adds bytes at the end and nothing between, not even after a last line without
// newline, where it warns. Neither argument is changed.
func Append(old, add []byte) ([]byte, []op.Warning) {
	out := make([]byte, 0, len(old)+len(add))
	out = append(append(out, old...), add...)
	if len(old) == 0 || len(add) == 0 {
		return out, nil
	}
	was := split(old)
	var w []op.Warning
	if len(was.body) > 0 && was.enc != encBinary && !was.terminated() {
		w = append(w, op.Warning{Code: warnNewline, Message: "the file did not end with a newline; the added text goes on in its last line"})
	}
	if a, b := Describe(old).EOL, Describe(out).EOL; a != b && a != eolNone {
		w = append(w, op.Warning{Code: warnEOL, Message: fmt.Sprintf("the file had %s line endings and gets %s", a, b)})
	}
	if bytes.HasPrefix(add, markUTF8) || bytes.HasPrefix(add, markLE) || bytes.HasPrefix(add, markBE) {
		w = append(w, op.Warning{Code: warnBOM, Message: "the added text begins with a byte-order mark, which now stands inside the file"})
	}
	if foreign(was, add) {
		w = append(w, op.Warning{Code: warnEncoding, Message: fmt.Sprintf("the file is %s and the added text is %s", was.enc, split(add).enc)})
	}
	return out, w
}

// foreign reports whether add reads otherwise than the text it joins. ASCII reads alike
// in all sets but UTF-16.
func foreign(t text, add []byte) bool {
	if t.order != nil {
		return true // marked bytes would put a mark inside, unmarked ones are bytes
	}
	if ascii(add) {
		return false
	}
	return family(t.enc) != family(split(add).enc)
}

// ascii reports whether b holds ASCII other than NUL only.
func ascii[T string | []byte](b T) bool {
	for i := 0; i < len(b); i++ {
		if b[i] >= utf8.RuneSelf || b[i] == 0 {
			return false
		}
	}
	return true
}
