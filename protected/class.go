package protected

// class is a set of bytes, the meaning of a bracket expression.
type class [256]bool

func (c *class) has(b byte) bool { return c[b] }

// parseClass reads the bracket expression that begins at p[i] and returns it with the
// index of its closing bracket; nil when it is malformed. A slash is never in it. With
// fold, the letters that are named stand for both cases.
func parseClass(p string, i int, fold bool) (*class, int) {
	c := &class{}
	i++
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	prev := byte(0) // left end of a range that may follow; 0 for none
	for first := true; ; first = false {
		if i >= len(p) {
			return nil, 0
		}
		b := p[i]
		switch {
		case b == ']' && !first:
			c.close(negated, fold)
			return c, i
		case b == '\\':
			if i++; i >= len(p) {
				return nil, 0
			}
			b = p[i]
			c[b] = true
			prev = b
		case b == '-' && prev != 0 && i+1 < len(p) && p[i+1] != ']':
			i++
			if p[i] == '\\' {
				if i++; i >= len(p) {
					return nil, 0
				}
			}
			for r := int(prev); r <= int(p[i]); r++ {
				c[r] = true
			}
			prev = 0
		case b == '[' && i+1 < len(p) && p[i+1] == ':':
			end := i + 2
			for end < len(p) && p[end] != ']' {
				end++
			}
			if end >= len(p) {
				return nil, 0
			}
			if end-1 < i+2 || p[end-1] != ':' {
				c['['], prev = true, '[' // no ":]": the bracket stands for itself
				break
			}
			member, known := posix[p[i+2:end-1]]
			if !known {
				return nil, 0
			}
			for r := 0; r < 128; r++ {
				c[r] = c[r] || member(byte(r))
			}
			i, prev = end, 0
		default:
			c[b] = true
			prev = b
		}
		i++
	}
}

func (c *class) close(negated, fold bool) {
	for b := byte('a'); fold && b <= 'z'; b++ {
		either := c[b] || c[b-'a'+'A']
		c[b], c[b-'a'+'A'] = either, either
	}
	for b := range c {
		c[b] = c[b] != negated
	}
	c['/'] = false
}

func upper(b byte) bool { return b >= 'A' && b <= 'Z' }
func lower(b byte) bool { return b >= 'a' && b <= 'z' }
func digit(b byte) bool { return b >= '0' && b <= '9' }
func alnum(b byte) bool { return upper(b) || lower(b) || digit(b) }
func graph(b byte) bool { return b > 0x20 && b < 0x7f }

// posix holds the named classes as git knows them: ASCII only, and without the vertical
// tab and the form feed among the spaces.
var posix = map[string]func(byte) bool{
	"alnum":  alnum,
	"alpha":  func(b byte) bool { return upper(b) || lower(b) },
	"blank":  func(b byte) bool { return b == ' ' || b == '\t' },
	"cntrl":  func(b byte) bool { return b < 0x20 || b == 0x7f },
	"digit":  digit,
	"graph":  graph,
	"lower":  lower,
	"print":  func(b byte) bool { return graph(b) || b == ' ' },
	"punct":  func(b byte) bool { return graph(b) && !alnum(b) },
	"space":  func(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' },
	"upper":  upper,
	"xdigit": func(b byte) bool { return digit(b) || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F' },
}
