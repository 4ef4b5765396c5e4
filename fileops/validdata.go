package fileops

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"github.com/goccy/go-yaml/parser"
	"github.com/pelletier/go-toml/v2"
)

func validJSON(text []byte) []Fault {
	var raw json.RawMessage
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(text, &raw); {
	case errors.As(err, &syntax) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return []Fault{at(text, len(bytes.TrimRight(text, " \t\r\n")), "the document ends too early")}
	case errors.As(err, &syntax):
		return []Fault{at(text, int(syntax.Offset)-1, syntax.Error())}
	case err != nil:
		return []Fault{{0, 0, err.Error()}}
	}
	return repeatedKey(text)
}

// repeatedKey finds a key that stands twice in an object of a well-formed document.
func repeatedKey(text []byte) []Fault {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var keys []map[string]bool // of each open object; nil for a list
	key := false               // the next token is a key
	for {
		begin := int(d.InputOffset())
		tok, err := d.Token()
		if err != nil {
			return nil // the end, since the document is well formed
		}
		switch tok {
		case json.Delim('{'):
			keys = append(keys, map[string]bool{})
		case json.Delim('['):
			keys = append(keys, nil)
		case json.Delim('}'), json.Delim(']'):
			keys = keys[:len(keys)-1]
		default:
			if s, ok := tok.(string); ok && key {
				if top := keys[len(keys)-1]; !top[s] {
					top[s], key = true, false
					continue
				}
				return []Fault{at(text, skipSpace(text, begin), "the key "+s+" stands there twice")}
			}
		}
		key = len(keys) > 0 && keys[len(keys)-1] != nil
	}
}

func skipSpace(text []byte, off int) int {
	for off < len(text) && strings.IndexByte(" \t\r\n,:", text[off]) >= 0 {
		off++
	}
	return off
}

// validJSONC puts spaces in the place of comments and of commas before an end, so that
// lines and columns stay.
func validJSONC(text []byte) []Fault {
	out := bytes.Clone(text)
	blank := func(from, to int) {
		for ; from < to; from++ {
			if out[from] != '\n' {
				out[from] = ' '
			}
		}
	}
	comma, last := -1, byte(0) // last is what stood before, other than spaces
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			for i++; i < len(out) && out[i] != '"' && out[i] != '\n'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
			comma, last = -1, c
		case c == '/' && i+1 < len(out) && out[i+1] == '/':
			end := lineEnd(out, i)
			blank(i, end)
			i = end
		case c == '/' && i+1 < len(out) && out[i+1] == '*':
			k := bytes.Index(out[i+2:], []byte("*/"))
			if k < 0 {
				return []Fault{at(text, i, "the comment does not end")}
			}
			blank(i, i+k+4)
			i += k + 3
		case c == ',' && strings.IndexByte("{[:,", last) < 0:
			comma, last = i, c
		case (c == '}' || c == ']') && comma >= 0:
			out[comma], comma, last = ' ', -1, c
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma, last = -1, c
		}
	}
	return validJSON(out)
}

func validYAML(text []byte) []Fault {
	if deepYAML(text) {
		return []Fault{{0, 0, "the document is nested too deeply"}}
	}
	_, err := parser.ParseBytes(text, 0)
	if err == nil {
		return nil
	}
	var placed interface {
		GetMessage() string
	}
	f := Fault{0, 0, err.Error()}
	if errors.As(err, &placed) {
		f.Message = placed.GetMessage()
	}
	f.Line, f.Column = yamlPlace(err)
	return []Fault{f}
}

func validTOML(text []byte) []Fault {
	var into map[string]any
	err := toml.Unmarshal(text, &into)
	var placed *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &placed):
		line, column := placed.Position()
		return []Fault{{line, column, placed.Error()}}
	}
	return []Fault{{0, 0, err.Error()}}
}

func validXML(text []byte) []Fault {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // it is UTF-8 by now
	roots, depth := 0, 0
	for {
		tok, err := d.Token()
		line, column := d.InputPos()
		switch {
		case err == io.EOF && roots == 1:
			return nil
		case err == io.EOF:
			return []Fault{{line, column, "the document has no element"}}
		case err != nil:
			message := err.Error()
			var syntax *xml.SyntaxError
			if errors.As(err, &syntax) {
				message = syntax.Msg
			}
			return []Fault{{line, column, message}}
		}
		switch tok.(type) {
		case xml.StartElement:
			if depth++; depth == 1 {
				if roots++; roots > 1 {
					return []Fault{{line, column, "a second element stands beside the first"}}
				}
			}
		case xml.EndElement:
			depth--
		}
	}
}

func validCSV(text []byte) []Fault {
	r := csv.NewReader(bytes.NewReader(text))
	r.ReuseRecord = true
	var faults []Fault
	for len(faults) <= maxFaults {
		_, err := r.Read()
		var placed *csv.ParseError
		switch {
		case err == io.EOF:
			return faults
		case errors.As(err, &placed):
			faults = append(faults, Fault{placed.Line, placed.Column, placed.Err.Error()})
			if !errors.Is(err, csv.ErrFieldCount) {
				return faults
			}
		case err != nil:
			return append(faults, Fault{0, 0, err.Error()})
		}
	}
	return faults
}

// validEnv checks lines of NAME=VALUE: quotes that end, names that a shell takes.
func validEnv(text []byte) (faults []Fault) {
	quote, opened := byte(0), 0
	off := 0
	for line := range bytes.Lines(text) {
		begin := off
		off += len(line)
		body := strings.TrimRight(string(line), "\r\n")
		i := 0
		if quote == 0 {
			trimmed := strings.TrimLeft(body, " \t")
			if trimmed == "" || trimmed[0] == '#' {
				continue
			}
			i = len(body) - len(trimmed)
			i += len(trimmed) - len(strings.TrimPrefix(trimmed, "export "))
			name, _, ok := strings.Cut(body[i:], "=")
			if !ok {
				faults = append(faults, at(text, begin+i, "the line has no ="))
				continue
			}
			if !envName(strings.TrimRight(name, " ")) || strings.HasSuffix(name, " ") {
				faults = append(faults, at(text, begin+i, "the name is not made of letters, digits and underscores"))
			}
			i += len(name) + 1
			for i < len(body) && body[i] == ' ' {
				i++
			}
			if i == len(body) || body[i] != '"' && body[i] != '\'' {
				continue
			}
			quote, opened = body[i], begin+i
			i++
		}
		for ; i < len(body); i++ {
			if body[i] == '\\' && quote == '"' {
				i++
			} else if body[i] == quote {
				quote = 0
				break
			}
		}
	}
	if quote != 0 {
		faults = append(faults, at(text, opened, "the quote does not end"))
	}
	return faults
}

func envName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i] | 0x20
		if s[i] != '_' && (c < 'a' || c > 'z') && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}
