package fileops

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"holdpoint/op"
)

// Words of op.TextFacts.Encoding. The last three say how little is known.
const (
	encUTF8    = "utf-8"
	encUTF16LE = "utf-16le"
	encUTF16BE = "utf-16be"
	encLatin1  = "latin-1"
	encEight   = "unknown-8bit" // text in some eight-bit or multi-byte set that cannot be told
	encBinary  = "binary"
)

// Words of op.TextFacts.EOL.
const (
	eolLF    = "lf"
	eolCRLF  = "crlf"
	eolMixed = "mixed"
	eolNone  = "none"
)

var (
	markUTF8 = []byte{0xef, 0xbb, 0xbf}
	markLE   = []byte{0xff, 0xfe}
	markBE   = []byte{0xfe, 0xff}
)

// Describe tells the encoding, line endings, byte-order mark and final newline of a
// whole file. Only LF ends a line, CRLF is one ending, a CR alone is none. UTF-16 is
// recognised by its mark only. An empty file is utf-8 without line endings. Of binary
// bytes nothing but that they are binary is said.
func Describe(b []byte) op.TextFacts {
	t := split(b)
	f := op.TextFacts{Encoding: t.enc, EOL: eolNone, BOM: len(t.mark) > 0}
	if t.enc == encBinary {
		return f
	}
	lf, crlf := t.endings()
	switch {
	case lf == 0:
	case crlf == lf:
		f.EOL = eolCRLF
	case crlf == 0:
		f.EOL = eolLF
	default:
		f.EOL = eolMixed
	}
	f.FinalNewline = t.terminated()
	return f
}

// DescribePrefix is Describe for the beginning of a longer file: a character that the
// cut went through does not count against the encoding. FinalNewline means nothing then.
func DescribePrefix(b []byte) op.TextFacts {
	if bytes.HasPrefix(b, markLE) || bytes.HasPrefix(b, markBE) {
		return Describe(b[:len(b)&^1])
	}
	for k := 1; k < utf8.UTFMax && k <= len(b); k++ {
		if c := b[len(b)-k]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-k:]) {
				b = b[:len(b)-k]
			}
			break
		}
	}
	return Describe(b)
}

// Lines counts lines; a last line without newline counts, a mark alone does not.
func Lines(b []byte) int64 {
	t := split(b)
	lf, _ := t.endings()
	if len(t.body) > 0 && !t.terminated() {
		lf++
	}
	return lf
}

// DecodeForView gives the text of a whole file as it may stand in a JSON string: UTF-8
// as it is, UTF-16 with a mark decoded, the mark itself left out. It is not ok, and the
// bytes must travel as base64, whenever the text would not stand for exactly these bytes.
func DecodeForView(b []byte) (text string, ok bool) {
	t := split(b)
	return decode(t.body, t.order)
}

// text is a file taken apart: the mark, and the body in the units it is stored in.
type text struct {
	mark  []byte
	body  []byte
	order byteOrder // of UTF-16; nil when the units are bytes
	enc   string
}

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// split finds the encoding. It never fails: what is not recognised is bytes.
func split(b []byte) text {
	for _, m := range []struct {
		mark  []byte
		order byteOrder
		enc   string
	}{{markLE, binary.LittleEndian, encUTF16LE}, {markBE, binary.BigEndian, encUTF16BE}} {
		rest, marked := bytes.CutPrefix(b, m.mark)
		if !marked {
			continue
		}
		// Half a unit, or a zero one (so begins UTF-32), is no UTF-16 that could be
		// edited without guessing.
		t := text{b[:2:2], rest, m.order, m.enc}
		if len(rest)%2 == 0 && t.index16(0, 0) < 0 {
			return t
		}
		return text{nil, b, nil, encBinary}
	}
	t := text{body: b}
	if rest, marked := bytes.CutPrefix(b, markUTF8); marked {
		t.mark, t.body = b[:3:3], rest
	}
	switch {
	case bytes.IndexByte(t.body, 0) >= 0:
		t.enc = encBinary
	case utf8.Valid(t.body):
		t.enc = encUTF8
	default:
		t.enc = eightBit(t.body)
	}
	return t
}

// eightBit names text that is not UTF-8. It says latin-1 only of letters that stand
// between ASCII ones; longer runs are as likely of a multi-byte set. More than one
// control character in fifty is no text.
func eightBit(b []byte) string {
	run, controls, latin := 0, 0, true
	for _, c := range b {
		if c >= 0x80 {
			run++
			latin = latin && c >= 0xa0 && run <= 2
			continue
		}
		run = 0
		if c == 0x7f || c < 0x20 && (c < '\b' || c > '\r') && c != 0x1b {
			controls++
		}
	}
	switch {
	case controls*50 > len(b):
		return encBinary
	case latin:
		return encLatin1
	}
	if name := eastAsianName(b); name != "" {
		return name
	}
	return encEight
}

// unit is the width of the stored units.
func (t text) unit() int {
	if t.order != nil {
		return 2
	}
	return 1
}

// index16 finds a UTF-16 unit below 256 at or after the byte offset from.
func (t text) index16(unit byte, from int) int {
	low := 0
	if t.order == byteOrder(binary.BigEndian) {
		low = 1
	}
	for i := from; i+1 < len(t.body); i += 2 {
		if t.body[i+low] == unit && t.body[i+1-low] == 0 {
			return i
		}
	}
	return -1
}

// endings counts LF, and those of them after a CR.
func (t text) endings() (lf, crlf int64) {
	if t.order == nil {
		return int64(bytes.Count(t.body, []byte{'\n'})), int64(bytes.Count(t.body, []byte("\r\n")))
	}
	for i := t.index16('\n', 0); i >= 0; i = t.index16('\n', i+2) {
		lf++
		if i >= 2 && t.order.Uint16(t.body[i-2:]) == '\r' {
			crlf++
		}
	}
	return lf, crlf
}

func (t text) terminated() bool {
	n := len(t.body)
	if t.order == nil {
		return n > 0 && t.body[n-1] == '\n'
	}
	return n >= 2 && t.order.Uint16(t.body[n-2:]) == '\n'
}

// encode gives s in the units of the file.
func (t text) encode(s string) ([]byte, bool) {
	if t.order == nil {
		return []byte(s), true
	}
	if !utf8.ValidString(s) {
		return nil, false
	}
	out := make([]byte, 0, 2*len(s))
	for _, u := range utf16.Encode([]rune(s)) {
		out = t.order.AppendUint16(out, u)
	}
	return out, true
}

// decode is ok only when encoding the text gives b again.
func decode(b []byte, order byteOrder) (string, bool) {
	if order == nil {
		return string(b), utf8.Valid(b)
	}
	if len(b)%2 != 0 {
		return "", false
	}
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = order.Uint16(b[2*i:])
	}
	for i := 0; i < len(units); i++ {
		if !utf16.IsSurrogate(rune(units[i])) {
			continue
		}
		if i+1 == len(units) || utf16.DecodeRune(rune(units[i]), rune(units[i+1])) == utf8.RuneError {
			return "", false
		}
		i++
	}
	return string(utf16.Decode(units)), true
}
