package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// guard is one place of the product on which requirements stand, and the same place
// without it. The product itself knows nothing of this: the other text is laid over it for
// one run of the tests.
type guard struct {
	ids      []string
	file     string
	old, new string
	line     int // of the list
}

// readGuards reads the list: blocks of a line of ids, the file, the lines that are there
// (-) and those that stand there without the guard (+). # begins a comment.
func readGuards(path string) ([]guard, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []guard
	for n, block := 1, ""; len(text) > 0; {
		block, text = cutBlock(text)
		g, err := parseGuard(block, n)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if g.file != "" {
			out = append(out, g)
		}
		n += strings.Count(block, "\n") + 1
	}
	return out, nil
}

func cutBlock(text []byte) (string, []byte) {
	block, rest, _ := strings.Cut(string(text), "\n\n")
	return block + "\n", []byte(rest)
}

func parseGuard(block string, at int) (guard, error) {
	g := guard{line: at}
	for _, line := range strings.Split(block, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line[0] == '-':
			g.old += line[1:] + "\n"
		case line[0] == '+':
			g.new += line[1:] + "\n"
		case g.ids == nil:
			g.ids = strings.Fields(line)
		case g.file == "":
			g.file = line
		default:
			return g, fmt.Errorf("%q is no part of a guard", line)
		}
	}
	if g.ids != nil && (g.file == "" || g.old == "") {
		return g, fmt.Errorf("a guard has ids, a file and the lines that are there")
	}
	return g, nil
}

// without gives the guard's file as it is without the guard.
func (g guard) without(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(g.file)))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), g.old); n != 1 {
		return "", fmt.Errorf("line %d of the guards: %s has these lines %d times, not once", g.line, g.file, n)
	}
	return strings.Replace(string(text), g.old, g.new, 1), nil
}
