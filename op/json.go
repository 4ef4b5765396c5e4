package op

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Object is one decoded JSON object. Values are string, int64, bool, nil, []any and
// Object; nothing else exists in a request, so that two calls that mean the same have
// one canonical form.
type Object map[string]any

// MaxInteger is the largest magnitude that a number may have: 2^53 - 1 (RFC 8785, RFC 7493).
const MaxInteger = 1<<53 - 1

const maxDepth = 64

// maxValues bounds the values of a request. A value of two bytes takes a hundred in memory,
// so that the bound of a body bounds nothing of what is made from it.
const maxValues = 250_000

// ParseJSON reads exactly one JSON object, strictly: duplicate keys, trailing data,
// invalid UTF-8, lone surrogates, fractions, exponents and numbers over MaxInteger are
// bad_request. encoding/json folds key case, keeps the last of two equal keys and
// replaces invalid UTF-8, each of which lets a filter and a program read different calls.
func ParseJSON(data []byte) (Object, error) { return parseJSON(data, maxValues) }

// ParseOwn is ParseJSON for what Holdpoint itself wrote, of however many values.
func ParseOwn(data []byte) (Object, error) { return parseJSON(data, len(data)) }

func parseJSON(data []byte, values int) (Object, error) {
	if !utf8.Valid(data) {
		return nil, Fail(BadRequest, "the body is not valid UTF-8").Do("send file bytes that are not text as content_base64")
	}
	p := parser{b: data, left: values}
	p.space()
	if p.i >= len(p.b) || p.b[p.i] != '{' {
		return nil, Fail(BadRequest, "the body is not a JSON object")
	}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	p.space()
	if p.i != len(p.b) {
		return nil, Fail(BadRequest, fmt.Sprintf("data after the JSON object at byte %d", p.i))
	}
	return v.(Object), nil
}

type parser struct {
	b     []byte
	i     int
	left  int    // values that may still come
	key   string // whose value comes next
	list  string // the key whose list is being read, while one of its objects is
	deep  bool   // too deep for a place to have a name that says anything
	loose bool   // inside a value that stays text: any JSON number is fine
}

func (p *parser) bad(what string) error {
	return Fail(BadRequest, fmt.Sprintf("%s at byte %d of the JSON text", what, p.i))
}

// under names the place of an error from the outside: args.edits[2].old_string.
func (p *parser) under(part string, err error) error {
	e := AsError(err)
	switch {
	case p.deep:
	case e.Field == "" || e.Field[0] == '[':
		e.Field = part + e.Field
	default:
		e.Field = part + "." + e.Field
	}
	return e
}

func (p *parser) space() {
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\n' || p.b[p.i] == '\r' || p.b[p.i] == '\t') {
		p.i++
	}
}

func (p *parser) value(depth int) (any, error) {
	if p.i >= len(p.b) {
		return nil, p.bad("unexpected end")
	}
	if p.left--; p.left < 0 {
		p.deep = true
		return nil, Fail(TooLarge, fmt.Sprintf("the request holds more than %d values", maxValues)).Do("split it into several calls")
	}
	switch c := p.b[p.i]; {
	case depth >= maxDepth && (c == '{' || c == '['):
		p.deep = true
		return nil, p.bad("nested too deeply")
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.str()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	default:
		for word, v := range map[string]any{"true": true, "false": false, "null": nil} {
			if len(p.b)-p.i >= len(word) && string(p.b[p.i:p.i+len(word)]) == word {
				p.i += len(word)
				return v, nil
			}
		}
		return nil, p.bad("unexpected character")
	}
}

func (p *parser) object(depth int) (any, error) {
	p.i++
	o := Object{}
	in := p.list
	p.list = ""
	defer func() { p.key = "" }()
	for first := true; ; first = false {
		p.space()
		if p.i < len(p.b) && p.b[p.i] == '}' && first {
			p.i++
			return o, nil
		}
		if p.i >= len(p.b) || p.b[p.i] != '"' {
			return nil, p.bad("expected a key")
		}
		k, err := p.str()
		if err != nil {
			return nil, err
		}
		if _, twice := o[k]; twice {
			return nil, Fail(BadRequest, fmt.Sprintf("key %q appears twice", k)).In(k)
		}
		p.space()
		if p.i >= len(p.b) || p.b[p.i] != ':' {
			return nil, p.bad("expected ':'")
		}
		p.i++
		p.space()
		var v any
		if in == "operations" && k == "value" {
			v, err = p.raw(depth + 1)
		} else {
			p.key = k
			v, err = p.value(depth + 1)
		}
		if err != nil {
			return nil, p.under(k, err)
		}
		o[k] = v
		p.space()
		if p.i < len(p.b) && p.b[p.i] == ',' {
			p.i++
			continue
		}
		if p.i < len(p.b) && p.b[p.i] == '}' {
			p.i++
			return o, nil
		}
		return nil, p.bad("expected ',' or '}'")
	}
}

func (p *parser) array(depth int) (any, error) {
	p.i++
	list, key := []any{}, p.key
	p.key = ""
	defer func() { p.list = "" }()
	p.space()
	if p.i < len(p.b) && p.b[p.i] == ']' {
		p.i++
		return list, nil
	}
	for {
		p.space()
		p.list = key
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, p.under(fmt.Sprintf("[%d]", len(list)), err)
		}
		list = append(list, v)
		p.space()
		if p.i < len(p.b) && p.b[p.i] == ',' {
			p.i++
			continue
		}
		if p.i < len(p.b) && p.b[p.i] == ']' {
			p.i++
			return list, nil
		}
		return nil, p.bad("expected ',' or ']'")
	}
}

// raw reads the value of an operation on a document and keeps its text: there 1.0 and 1e2
// are what they are, and the order of keys means something to a reader.
func (p *parser) raw(depth int) (any, error) {
	start, was := p.i, p.loose
	p.loose, p.list, p.key = true, "", ""
	_, err := p.value(depth)
	p.loose = was
	if err != nil {
		return nil, err
	}
	return Raw(compact(p.b[start:p.i])), nil
}

// compact drops the white space between the parts of a JSON text.
func compact(text []byte) string {
	out := make([]byte, 0, len(text))
	for i, in := 0, false; i < len(text); i++ {
		c := text[i]
		switch {
		case !in && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			continue
		case c == '"':
			in = !in
		case in && c == '\\':
			out = append(out, c)
			i++
			c = text[i]
		}
		out = append(out, c)
	}
	return string(out)
}

// looseNumber reads any number that JSON knows; its value is of no matter.
func (p *parser) looseNumber() (any, error) {
	start := p.i
	for p.i < len(p.b) && strings.IndexByte("+-.eE0123456789", p.b[p.i]) >= 0 {
		p.i++
	}
	if !json.Valid(p.b[start:p.i]) {
		return nil, p.bad("malformed number")
	}
	return nil, nil
}

func (p *parser) number() (any, error) {
	if p.loose {
		return p.looseNumber()
	}
	start := p.i
	if p.b[p.i] == '-' {
		p.i++
	}
	digits := p.i
	for p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
		p.i++
	}
	text := string(p.b[start:p.i])
	if p.i < len(p.b) && (p.b[p.i] == '.' || p.b[p.i] == 'e' || p.b[p.i] == 'E') {
		return nil, p.bad("only whole numbers are accepted; fraction or exponent")
	}
	if p.i == digits || p.b[digits] == '0' && p.i-digits > 1 || text == "-0" {
		return nil, p.bad("malformed number")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > MaxInteger || n < -MaxInteger {
		return nil, p.bad("number beyond 2^53 - 1")
	}
	return n, nil
}

func (p *parser) str() (string, error) {
	p.i++
	start := p.i
	for p.i < len(p.b) && p.b[p.i] != '"' && p.b[p.i] != '\\' && p.b[p.i] >= 0x20 {
		p.i++
	}
	if p.i < len(p.b) && p.b[p.i] == '"' {
		s := string(p.b[start:p.i])
		p.i++
		return s, nil
	}
	out := append([]byte(nil), p.b[start:p.i]...)
	for p.i < len(p.b) {
		c := p.b[p.i]
		switch {
		case c == '"':
			p.i++
			return string(out), nil
		case c < 0x20:
			return "", p.bad("control character in a string")
		case c != '\\':
			out = append(out, c)
			p.i++
		default:
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
		}
	}
	return "", p.bad("unterminated string")
}

func (p *parser) escape(out []byte) ([]byte, error) {
	if p.i+1 >= len(p.b) {
		return nil, p.bad("unterminated escape")
	}
	c := p.b[p.i+1]
	if c != 'u' {
		const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		for k := range from {
			if from[k] == c {
				p.i += 2
				return append(out, to[k]), nil
			}
		}
		return nil, p.bad("unknown escape")
	}
	r, ok := p.hex4()
	if !ok {
		return nil, p.bad("malformed \\u escape")
	}
	if utf16.IsSurrogate(r) {
		if p.i+1 >= len(p.b) || p.b[p.i] != '\\' || p.b[p.i+1] != 'u' {
			return nil, p.bad("lone surrogate")
		}
		low, ok := p.hex4()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return nil, p.bad("lone surrogate")
		}
	}
	return utf8.AppendRune(out, r), nil
}

// hex4 reads \uXXXX at the position.
func (p *parser) hex4() (rune, bool) {
	if p.i+6 > len(p.b) {
		return 0, false
	}
	var r rune
	for _, c := range p.b[p.i+2 : p.i+6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	p.i += 6
	return r, true
}

// Canonical encodes v in the one form of RFC 8785 (JSON Canonicalization Scheme): keys
// sorted by UTF-16 code units, no white space, the shortest escapes. Equal calls have
// equal bytes.
func Canonical(v any) []byte { return appendCanonical(nil, v) }

func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case string:
		return AppendString(b, v)
	case Raw:
		return append(b, v...)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, e)
		}
		return append(b, ']')
	case Object:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Slice(keys, func(i, j int) bool { return lessUTF16(keys[i], keys[j]) })
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(AppendString(b, k), ':')
			b = appendCanonical(b, v[k])
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("op: internal error: %T has no canonical form", v))
}

func lessUTF16(a, b string) bool {
	x, y := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
	for i := 0; i < len(x) && i < len(y); i++ {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return len(x) < len(y)
}

// AppendString appends s as a JSON string with the escapes of RFC 8785, without the
// HTML escapes of encoding/json. s must be valid UTF-8.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, s[start:]...), '"')
}
