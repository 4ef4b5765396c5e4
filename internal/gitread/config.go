package gitread

import (
	"strconv"
	"strings"
)

// config holds a repository's settings: "section.key" or "section.sub.key", section and
// key in lower case. Of a key that stands several times the last value counts.
type config map[string]string

// parse adds the settings of a file. It is false where git would refuse the file.
func (c config) parse(text string) bool {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	section, i := "", 0
	for i < len(text) {
		switch ch := text[i]; {
		case ch == '\n' || ch == ' ' || ch == '\t':
			i++
		case ch == '#' || ch == ';':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case ch == '[':
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				end = len(text) - i
			}
			name, rest, ok := heading(text[i+1 : i+end])
			if !ok {
				return false
			}
			section, i = name, i+end-rest
		default:
			key, value, next, ok := setting(text, i)
			if !ok || section == "" {
				return false
			}
			c[section+"."+key], i = value, next
		}
	}
	return true
}

// heading reads `core]` or `remote "origin"]` and tells how much of the line is left.
func heading(s string) (name string, rest int, ok bool) {
	end := strings.IndexAny(s, "] \t")
	if end < 0 {
		return "", 0, false
	}
	name = strings.ToLower(s[:end])
	if s[end] == ']' {
		return name, len(s) - end - 1, name != ""
	}
	s = strings.TrimLeft(s[end:], " \t")
	if !strings.HasPrefix(s, `"`) {
		return "", 0, false
	}
	var sub strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			sub.WriteByte(s[i])
		case s[i] == '"':
			return name + "." + sub.String(), len(s) - i - 2, strings.HasPrefix(s[i+1:], "]")
		default:
			sub.WriteByte(s[i])
		}
	}
	return "", 0, false
}

// setting reads `key = value` with quotes, escapes, comments and continued lines. A key
// alone is "true".
func setting(text string, i int) (key, value string, next int, ok bool) {
	begin := i
	for i < len(text) && (text[i] == '-' || text[i] >= '0' && text[i] <= '9' || text[i]|0x20 >= 'a' && text[i]|0x20 <= 'z') {
		i++
	}
	if i == begin {
		return "", "", 0, false
	}
	key = strings.ToLower(text[begin:i])
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	if i == len(text) || text[i] == '\n' || text[i] == '#' || text[i] == ';' {
		for i < len(text) && text[i] != '\n' {
			i++
		}
		return key, "true", i, true
	}
	if text[i] != '=' {
		return "", "", 0, false
	}
	var b []byte
	quoted, keep, comment := false, 0, false
	for i++; i < len(text) && text[i] != '\n'; i++ {
		ch := text[i]
		switch {
		case comment:
		case ch == '\\':
			if i++; i == len(text) {
				return "", "", 0, false
			}
			switch text[i] {
			case '\n':
			case 'n':
				b, keep = append(b, '\n'), len(b)+1
			case 't':
				b, keep = append(b, '\t'), len(b)+1
			case 'b':
				b, keep = append(b, '\b'), len(b)+1
			case '"', '\\':
				b, keep = append(b, text[i]), len(b)+1
			default:
				return "", "", 0, false
			}
		case ch == '"':
			quoted = !quoted
			keep = len(b)
		case !quoted && (ch == '#' || ch == ';'):
			comment = true
		case !quoted && (ch == ' ' || ch == '\t'):
			if len(b) > 0 {
				b = append(b, ch)
			}
		default:
			b, keep = append(b, ch), len(b)+1
		}
	}
	if quoted {
		return "", "", 0, false
	}
	return key, string(b[:keep]), i, true
}

// flag reads a truth value; def where it is not set or is none.
func (c config) flag(name string, def bool) bool {
	switch v, set := c[name]; strings.ToLower(v) {
	case "true", "yes", "on":
		return true
	case "false", "no", "off":
		return false
	case "":
		return def && !set
	default:
		if n, err := strconv.Atoi(v); err == nil {
			return n != 0
		}
	}
	return def
}
