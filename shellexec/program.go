package shellexec

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/blake3"

	"holdpoint/op"
)

// Program is a file that will be executed, held open from its hashing to its start, so
// that another file under its name is not run instead. It does not keep anybody who may
// write the file itself from doing so in the moment between.
type Program struct {
	Asked  string // as the call names it
	Path   string // canonical
	Digest op.Digest
	File   *os.File
	// Through and Option are set for a script: the interpreter that its first line names.
	Through, Option string
}

// Close lets the file go.
func (p *Program) Close() { p.File.Close() }

// Find looks a name up as execvp would: with a slash from dir, else along search.
func Find(name, search, dir string) (string, error) {
	missing := op.Fail(op.SpawnFailed, "there is no program "+op.Visible(name, false)).In("args.command").Do("name it by its path, or a program that is installed")
	if name == "" || strings.ContainsRune(name, 0) {
		return "", missing
	}
	try := []string{name}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			try[0] = filepath.Join(dir, name)
		}
	} else {
		try = try[:0]
		for _, d := range filepath.SplitList(search) {
			try = append(try, filepath.Join(d, name))
		}
	}
	for _, p := range try {
		info, err := os.Stat(p)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			continue
		}
		return filepath.EvalSymlinks(p)
	}
	return "", missing
}

// Open opens and hashes what Find found.
func Open(asked, path string) (*Program, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, op.Fail(op.SpawnFailed, "the program "+op.Visible(path, false)+" cannot be read").In("args.command").Because(err)
	}
	return Take(asked, path, f)
}

// Take hashes a program that is open already, and closes it when it cannot.
func Take(asked, path string, f *os.File) (*Program, error) {
	p := &Program{Asked: asked, Path: path, File: f}
	head := make([]byte, 256)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, op.Fail(op.IOError, "the program cannot be read").Because(err)
	}
	if first, ok := bytes.CutPrefix(head[:n], []byte("#!")); ok {
		line, _, _ := strings.Cut(string(first), "\n")
		p.Through, p.Option, _ = strings.Cut(strings.TrimSpace(line), " ")
		p.Option = strings.TrimSpace(p.Option)
	}
	h := blake3.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<40)); err != nil {
		f.Close()
		return nil, op.Fail(op.IOError, "the program cannot be read").Because(err)
	}
	p.Digest = op.Digest("blake3:" + hex.EncodeToString(h.Sum(nil)))
	return p, nil
}
