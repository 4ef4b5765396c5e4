package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// prepare makes the tree, the small files and the large one, once; what is there already
// is taken as it is.
func prepare(dir string, files int, big int64) error {
	done := filepath.Join(dir, fmt.Sprintf("made-%d-%d", files, big))
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty and holds another tree", dir)
	}
	g := &maker{r: rand.New(rand.NewPCG(7, uint64(files)))}
	g.words()
	if err := g.tree(filepath.Join(dir, "tree"), files); err != nil {
		return err
	}
	for i := range 10_000 {
		if err := g.file(filepath.Join(dir, "small", fmt.Sprintf("f%05d.go", i)), 200+g.r.IntN(12_000), ""); err != nil {
			return err
		}
	}
	if err := g.large(filepath.Join(dir, "big"), big); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o644)
}

// maker writes text that looks like source: few words often, many seldom.
type maker struct {
	r     *rand.Rand
	lines []string
}

func (g *maker) words() {
	parts := strings.Fields("al ber con dor en fi gra hol is ju ker lo men no ob par que ro sen ti ur vel wo xi yan zu")
	var words []string
	for range 3000 {
		w := ""
		for range 2 + g.r.IntN(3) {
			w += parts[g.r.IntN(len(parts))]
		}
		words = append(words, w)
	}
	word := func() string { return words[int(float64(len(words))*g.r.Float64()*g.r.Float64()*g.r.Float64())] }
	shapes := []string{"\treturn %s.%s(%s)\n", "\tif %s == %s && %s != nil {\n", "// %s keeps %s apart from %s.\n", "func %s(%s int, %s string) error {\n",
		"\t%s := %s[%s]\n", "\t}\n", "\n", "\tfor _, %s := range %s.%s {\n", "type %s struct{ %s, %s int }\n"}
	for range 20_000 {
		s := shapes[g.r.IntN(len(shapes))]
		args := make([]any, strings.Count(s, "%s"))
		for i := range args {
			args[i] = word()
		}
		g.lines = append(g.lines, fmt.Sprintf(s, args...))
	}
}

func (g *maker) tree(root string, files int) error {
	if err := os.MkdirAll(filepath.Join(root, ".git"), 0o755); err != nil { // rg takes ignore files only in a repository
		return err
	}
	if err := os.WriteFile(filepath.Join(root, ".gitignore"), []byte("*.log\n/out/\nnode_modules/\n"), 0o644); err != nil {
		return err
	}
	endings := []string{".go", ".go", ".ts", ".py", ".md", ".json", ".c", ".h", ".log"}
	dirs := []string{root}
	for i := range files {
		if i%40 == 0 {
			up := dirs[g.r.IntN(len(dirs))]
			if strings.Count(up, "/")-strings.Count(root, "/") > 6 {
				up = root
			}
			dirs = append(dirs, filepath.Join(up, fmt.Sprintf("d%d", i/40)))
		}
		mark := ""
		if i%5003 == 11 {
			mark = fmt.Sprintf("const rare_needle_4c1d = %d\n", i)
		}
		size := 300 + int(9000*g.r.Float64()*g.r.Float64())
		if err := g.file(filepath.Join(dirs[len(dirs)-1], fmt.Sprintf("f%d%s", i, endings[g.r.IntN(len(endings))])), size, mark); err != nil {
			return err
		}
	}
	return nil
}

func (g *maker) file(path string, size int, mark string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var b strings.Builder
	for b.Len() < size {
		if mark != "" && b.Len() > size/2 {
			b.WriteString(mark)
			mark = ""
		}
		b.WriteString(g.lines[g.r.IntN(len(g.lines))])
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func (g *maker) large(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for n := int64(0); n < size; n += 8 {
		v := g.r.Uint64()
		w.Write([]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24), byte(v >> 32), byte(v >> 40), byte(v >> 48), byte(v >> 56)}[:min(8, size-n)])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
