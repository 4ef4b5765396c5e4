package protected

import (
	"bytes"
	"strings"
)

// shape describes a token that its maker gave a prefix so that it can be found.
type shape struct {
	prefix   string
	member   func(byte) bool // of the bytes that follow
	min, max int             // how many of them there must be; max 0 is no limit
	holds    string          // something among them; may be empty
}

var shapes = []shape{
	{"AKIA", base32, 16, 16, ""},            // cloud access key
	{"ASIA", base32, 16, 16, ""},            // the same, for a session
	{"AIza", word, 35, 35, ""},              // cloud API key
	{"GOCSPX-", word, 28, 28, ""},           // OAuth client secret
	{"ghp_", alnum, 36, 0, ""},              // code host: personal
	{"gho_", alnum, 36, 0, ""},              // OAuth
	{"ghu_", alnum, 36, 0, ""},              // user to server
	{"ghs_", alnum, 36, 0, ""},              // server to server
	{"ghr_", alnum, 36, 0, ""},              // refresh
	{"github_pat_", word, 60, 0, "_"},       // fine-grained
	{"glpat-", word, 20, 0, ""},             // another code host
	{"xoxb-", word, 30, 0, "-"},             // chat: bot
	{"xoxp-", word, 30, 0, "-"},             // user
	{"xapp-", word, 30, 0, "-"},             // application
	{"sk_live_", alnum, 24, 0, ""},          // payments
	{"rk_live_", alnum, 24, 0, ""},          // payments, restricted
	{"sk-", word, 40, 0, "T3BlbkFJ"},        // language model
	{"sk-ant-", word, 60, 0, "-"},           // language model
	{"npm_", alnum, 36, 36, ""},             // packages
	{"pypi-AgE", word, 60, 0, ""},           // packages
	{"dckr_pat_", word, 27, 0, ""},          // images
	{"SG.", dotted, 60, 70, "."},            // mail
	{"hvs.", word, 24, 0, ""},               // vault
	{"dop_v1_", hex, 64, 64, ""},            // hosting
	{"shpat_", hex, 32, 32, ""},             // shop
	{"hf_", letter, 34, 34, ""},             // model hub
	{"AGE-SECRET-KEY-1", base32, 58, 0, ""}, // file encryption
}

func base32(b byte) bool { return upper(b) || digit(b) }
func hex(b byte) bool    { return digit(b) || b >= 'a' && b <= 'f' }
func letter(b byte) bool { return upper(b) || lower(b) }
func word(b byte) bool   { return alnum(b) || b == '_' || b == '-' }
func dotted(b byte) bool { return word(b) || b == '.' }
func base64(b byte) bool { return alnum(b) || b == '+' || b == '/' || b == '=' }

// sensitiveContent looks for private keys and for the shapes.
func sensitiveContent(content []byte) bool {
	if bytes.HasPrefix(content, []byte(puttyHeader)) {
		return true
	}
	return begins(content, func(i int) bool {
		rest := content[i:]
		if rest[0] == '-' {
			return bytes.HasPrefix(rest, []byte(keyHeader)) && privateKey(rest)
		}
		for k := range byFirst[rest[0]] {
			if byFirst[rest[0]][k].at(content, i) {
				return true
			}
		}
		return false
	})
}

// Headers of files that are a key.
const (
	keyHeader   = "-----BEGIN "
	keyFooter   = "-----END "
	puttyHeader = "PuTTY-User-Key-File-"
)

// byFirst holds the shapes by the first byte of their prefix.
var byFirst = func() (table [256][]shape) {
	for _, s := range shapes {
		table[s.prefix[0]] = append(table[s.prefix[0]], s)
	}
	return table
}()

// at reports whether a token of this shape begins there, as a word of its own.
func (s shape) at(content []byte, begin int) bool {
	if !bytes.HasPrefix(content[begin:], []byte(s.prefix)) || begin > 0 && (alnum(content[begin-1]) || content[begin-1] == '_') {
		return false
	}
	body := run(content[begin+len(s.prefix):], s.member)
	return len(body) >= s.min && (s.max == 0 || len(body) <= s.max) && bytes.Contains(body, []byte(s.holds)) && random(body)
}

func run(b []byte, member func(byte) bool) []byte {
	n := 0
	for n < len(b) && member(b[n]) {
		n++
	}
	return b[:n]
}

// random tells key material from a placeholder such as XXXX, 12345678 or EXAMPLE.
func random(body []byte) bool {
	seen := map[byte]bool{}
	for _, c := range body {
		seen[c] = true
	}
	text := strings.ToLower(string(body))
	for _, filler := range []string{"xxxx", "0000", "example", "abcdefg", "1234567", "your"} {
		if strings.Contains(text, filler) {
			return false
		}
	}
	return len(seen) >= 8
}

// privateKey tells whether key material follows the header that content begins with. The
// header by itself, as in a program that looks for it, is no key. Between the two may stand
// line breaks, written out or as \n in a string, quotes, and header lines.
func privateKey(content []byte) bool {
	const dashes = "-----"
	content = content[len(keyHeader):]
	end := bytes.Index(content[:min(len(content), 64)], []byte(dashes))
	if end < 0 {
		return false
	}
	label := string(content[:end])
	if !strings.HasSuffix(label, "PRIVATE KEY") && !strings.HasSuffix(label, "PRIVATE KEY BLOCK") {
		return false
	}
	rest := content[end+len(dashes):]
	for range 6 { // header lines: Proc-Type, DEK-Info, Version, Comment
		rest = skipBreaks(rest)
		body := run(rest, base64)
		if len(body) >= 40 || len(body) >= 16 && bytes.HasPrefix(skipBreaks(rest[len(body):]), []byte(keyFooter)) {
			return true
		}
		name := run(rest, word)
		if len(name) == 0 || !bytes.HasPrefix(rest[len(name):], []byte(": ")) {
			return false
		}
		next := bytes.IndexAny(rest, "\n\\")
		if next < 0 {
			return false
		}
		rest = rest[next:]
	}
	return false
}

// skipBreaks cuts white space, quotes and the like, and the escapes \n and \r.
func skipBreaks(b []byte) []byte {
	for {
		b = bytes.TrimLeft(b, " \t\r\n\"'`+,")
		if len(b) < 2 || b[0] != '\\' {
			return b
		}
		switch b[1] {
		case 'n', 'r':
			b = b[2:]
		default:
			b = b[1:] // a line that goes on, or an escaped escape
		}
	}
}
