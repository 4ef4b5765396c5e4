package bridge

import (
	"bytes"
	"encoding/json"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"holdpoint/op"
)

// encode appends v as encoding/json writes it, without its HTML escapes: they would triple
// the size of text that is full of angle brackets. Replies and the maps in them are written
// here, since the text of a file is most of what travels and encoding/json takes several
// passes over it; all else is left to that package.
func encode(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case op.Reply:
		return encodeReply(b, v)
	case map[string]any:
		return encodeMap(b, v)
	case string:
		return appendText(b, v), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case nil:
		return append(b, "null"...), nil
	}
	out := bytes.NewBuffer(b)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return b, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// encodeReply writes the reply around its result, which encoding/json does not see.
func encodeReply(b []byte, r op.Reply) ([]byte, error) {
	result, mapped := r.Result.(map[string]any)
	if !mapped {
		type plain op.Reply // not a case of encode
		return encode(b, plain(r))
	}
	r.Result = nil
	b, err := encodeReply(b, r)
	if err == nil {
		b, err = encodeMap(append(b[:len(b)-1], `,"result":`...), result)
	}
	return append(b, '}'), err
}

func encodeMap(b []byte, m map[string]any) (_ []byte, err error) {
	if m == nil {
		return append(b, "null"...), nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, k), ':')
		if b, err = encode(b, m[k]); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

const digits = "0123456789abcdef"

// appendText appends a JSON string. What needs no escape is copied in whole runs.
func appendText(b []byte, s string) []byte {
	b = append(slices.Grow(b, len(s)+len(s)/16+2), '"')
	for len(s) > 0 {
		n := plainRun(s)
		b = append(b, s[:n]...)
		if s = s[n:]; s == "" {
			break
		}
		c := s[0]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\b':
			b = append(b, '\\', 'b')
		case c == '\f':
			b = append(b, '\\', 'f')
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			r, w := utf8.DecodeRuneInString(s)
			switch {
			case r == utf8.RuneError && w == 1:
				b = append(b, `\ufffd`...)
			case r == '\u2028' || r == '\u2029': // line ends to JavaScript
				b = append(b, '\\', 'u', '2', '0', '2', digits[r&15])
			default:
				b = append(b, s[:w]...)
			}
			s = s[w:]
			continue
		}
		s = s[1:]
	}
	return append(b, '"')
}

// plainRun is how many bytes from the start on are ASCII that stands for itself, looked at
// eight at a time: a byte sets its high bit in the test when it is below a space, a quote,
// a backslash, or not ASCII.
func plainRun(s string) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(s); n += 8 {
		t := s[n : n+8]
		v := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 | uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		quote, slash := v^ones*'"', v^ones*'\\'
		hit := ((v - ones*0x20) | (quote - ones) | (slash - ones) | v) & highs
		if hit != 0 {
			// Only the lowest hit is sure: a borrow may have run into the bytes above it.
			return n + bits.TrailingZeros64(hit)/8
		}
	}
	for ; n < len(s); n++ {
		if c := s[n]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return n
}
