package fileops

// find follows a path in a decoded document.
func find(doc any, path []string) (any, bool) {
	for _, key := range path {
		switch d := doc.(type) {
		case map[string]any:
			v, ok := d[key]
			if !ok {
				return nil, false
			}
			doc = v
		case []any:
			i, err := index(key, len(d), false)
			if err != nil {
				return nil, false
			}
			doc = d[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// put gives a copy of the document with a value in a place whose parent is there.
func put(doc any, path []string, v any) any {
	if len(path) == 0 {
		return v
	}
	switch d := doc.(type) {
	case map[string]any:
		out := make(map[string]any, len(d)+1)
		for k, e := range d {
			out[k] = e
		}
		out[path[0]] = put(d[path[0]], path[1:], v)
		return out
	case []any:
		out := append([]any(nil), d...)
		i, err := index(path[0], len(d), false)
		if err == nil {
			out[i] = put(d[i], path[1:], v)
		}
		return out
	}
	return doc
}

// without gives a copy of the document with a place removed that is there.
func without(doc any, path []string) any {
	up, key := path[:len(path)-1], path[len(path)-1]
	parent, _ := find(doc, up)
	switch p := parent.(type) {
	case map[string]any:
		out := make(map[string]any, len(p))
		for k, e := range p {
			if k != key {
				out[k] = e
			}
		}
		return put(doc, up, out)
	case []any:
		i, _ := index(key, len(p), false)
		out := append(append([]any{}, p[:i]...), p[i+1:]...)
		return put(doc, up, out)
	}
	return doc
}

// splice replaces text[from:to].
func splice(text []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(text)+len(with))
	return append(append(append(out, text[:from]...), with...), text[to:]...)
}
