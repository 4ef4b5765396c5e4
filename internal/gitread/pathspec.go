package gitread

import (
	"path"
	"strings"

	"holdpoint/op"
)

// pathspec is one of the patterns that narrow an answer, relative to the workspace's root.
type pathspec struct {
	text                         string
	exclude, fold, glob, literal bool
}

type pathspecs []pathspec

// readSpecs reads git's pathspecs.
func readSpecs(list []string) (pathspecs, error) {
	var out pathspecs
	for _, text := range list {
		s := pathspec{text: text}
		switch {
		case strings.HasPrefix(text, ":("):
			words, rest, ok := strings.Cut(text[2:], ")")
			if !ok {
				return nil, op.Fail(op.BadRequest, "a pathspec's brackets do not close").In("args.paths")
			}
			s.text = rest
			for w := range strings.SplitSeq(words, ",") {
				switch w {
				case "top", "":
				case "exclude":
					s.exclude = true
				case "icase":
					s.fold = true
				case "glob":
					s.glob = true
				case "literal":
					s.literal = true
				default:
					return nil, unsupported("the pathspec word " + op.Visible(w, false) + " is not read").In("args.paths")
				}
			}
		case strings.HasPrefix(text, ":"):
			rest := text[1:]
			for rest != "" && strings.ContainsRune("!^/", rune(rest[0])) {
				s.exclude = s.exclude || rest[0] != '/'
				rest = rest[1:]
			}
			s.text = strings.TrimPrefix(rest, ":")
		}
		clean := path.Clean(s.text)
		if clean == ".." || strings.HasPrefix(clean, "../") || path.IsAbs(clean) {
			return nil, op.Fail(op.OutsideWorkspace, "a pathspec leads out of the workspace").In("args.paths").Do("give patterns relative to the root")
		}
		if dir := strings.HasSuffix(s.text, "/"); dir && clean != "." {
			clean += "/"
		}
		s.text = clean
		if strings.Count(clean, "*") > 6 {
			return nil, op.Fail(op.BadRequest, "a pathspec has more than six stars").In("args.paths")
		}
		if s.fold {
			s.text = strings.ToLower(s.text)
		}
		out = append(out, s)
	}
	return out, nil
}

// match tells whether a path is asked for.
func (l pathspecs) match(p string) bool {
	yes, any := false, false
	for _, s := range l {
		if !s.exclude {
			any = true
			yes = yes || s.match(p)
		}
	}
	if any && !yes {
		return false
	}
	for _, s := range l {
		if s.exclude && s.match(p) {
			return false
		}
	}
	return true
}

func (s pathspec) match(p string) bool {
	if s.fold {
		p = strings.ToLower(p)
	}
	t := s.text
	switch {
	case t == "." || t == p:
		return true
	case strings.HasPrefix(p, strings.TrimSuffix(t, "/")+"/"):
		return true
	case s.literal || !strings.ContainsAny(t, "*?[\\"):
		return false
	}
	return wild(t, p, s.glob)
}

// within tells whether something below a directory may be asked for.
func (l pathspecs) within(dir string) bool {
	any := false
	for _, s := range l {
		if s.exclude {
			continue
		}
		any = true
		fixed := s.text
		if i := strings.IndexAny(fixed, "*?[\\"); i >= 0 && !s.literal {
			fixed = fixed[:i]
		}
		d := dir
		if s.fold {
			d = strings.ToLower(d)
		}
		if fixed == "." || strings.HasPrefix(d+"/", fixed) || strings.HasPrefix(fixed, d+"/") || strings.HasPrefix(d+"/", fixed+"/") {
			return true
		}
	}
	return !any
}

// wild matches * ? [...] and \x; with strict, * and ? stop at a slash and ** does not.
func wild(t, p string, strict bool) bool {
	for t != "" {
		switch t[0] {
		case '*':
			deep := !strict
			if strings.HasPrefix(t, "**") {
				deep = true
				if strict && strings.HasPrefix(t, "**/") && wild(t[3:], p, strict) {
					return true
				}
			}
			t = strings.TrimLeft(t, "*")
			for i := 0; ; i++ {
				if wild(t, p[i:], strict) {
					return true
				}
				if i == len(p) || !deep && p[i] == '/' {
					return false
				}
			}
		case '?':
			if p == "" || strict && p[0] == '/' {
				return false
			}
		case '[':
			end := strings.IndexByte(t[min(len(t), 2):], ']')
			if end < 0 || p == "" {
				return false
			}
			end += min(len(t), 2)
			ok, err := path.Match(strings.Replace(t[:end+1], "[!", "[^", 1), p[:1])
			if err != nil || !ok || strict && p[0] == '/' {
				return false
			}
			t, p = t[end+1:], p[1:]
			continue
		default:
			c := t[0]
			if c == '\\' && len(t) > 1 {
				t = t[1:]
				c = t[0]
			}
			if p == "" || p[0] != c {
				return false
			}
		}
		t, p = t[1:], p[1:]
	}
	return p == ""
}
