package fileops

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"holdpoint/op"
)

// wholeReach is up to how many things below a directory are listed one by one. Beyond, each
// directory is one line with what it holds itself: nothing is left out of the sum.
const wholeReach = 20_000

// with words what lies below a directory: " with 1,900 files, 3 directories".
func with(b *op.Below) string {
	if b == nil {
		return ""
	}
	words := []string{many(b.Files, "file")}
	if b.Directories > 0 {
		words = append(words, many(b.Directories, "directory"))
	}
	if b.Others > 0 {
		words = append(words, many(b.Others, "other"))
	}
	return " with " + strings.Join(words, ", ")
}

// reach gives a line for each thing that a call takes or moves along with its directory.
func reach(verb string, b *op.Below) []string {
	if b == nil {
		return nil
	}
	if len(b.List) > wholeReach {
		return reachByDirectory(verb, b)
	}
	out := make([]string, 0, len(b.List))
	for _, one := range b.List {
		name := op.Escape(string(one.Path))
		switch one.Kind {
		case op.File:
			out = append(out, line(verb, one.Path, one.Size))
		case op.Directory:
			out = append(out, verb+" "+name+"/")
		default:
			out = append(out, verb+" "+name+", "+string(one.Kind))
		}
	}
	return out
}

func reachByDirectory(verb string, b *op.Below) []string {
	var order []string
	sums := map[string]*op.Below{}
	for _, one := range b.List {
		if one.Kind == op.Directory {
			continue
		}
		dir := path.Dir(string(one.Path))
		s := sums[dir]
		if s == nil {
			s = &op.Below{}
			sums[dir], order = s, append(order, dir)
		}
		if one.Kind == op.File {
			s.Files, s.Bytes = s.Files+1, s.Bytes+one.Size
		} else {
			s.Others++
		}
	}
	out := make([]string, 0, len(order))
	for _, dir := range order {
		out = append(out, fmt.Sprintf("%s %s/%s, %d bytes", verb, op.Escape(dir), with(sums[dir]), sums[dir].Bytes))
	}
	return out
}

// many words a number of things, its thousands apart.
func many(n int, what string) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	switch {
	case n == 1:
		return digits + " " + what
	case strings.HasSuffix(what, "y"):
		return digits + " " + strings.TrimSuffix(what, "y") + "ies"
	}
	return digits + " " + what + "s"
}
