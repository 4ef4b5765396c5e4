package rooted

import (
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// part is one name still to be walked.
type part struct {
	name   string
	linked bool // it comes out of a link's text
}

// walker resolves a path name by name over handles that it holds, so that each step
// starts from a directory that was reached from the root, whatever is renamed meanwhile.
// It never asks the file system for "..": it goes back to the handle it came from.
type walker struct {
	r     *Root
	asked op.Path
	stack []int    // handles from the root down; the first is the root's own
	names []string // names[i] led from stack[i] to stack[i+1]
	todo  []part
	links []op.Link
}

// walk resolves p below the handle root.
func (r *Root) walk(root int, p op.Path, follow bool) (*Node, error) {
	w := &walker{r: r, asked: p, stack: []int{root}}
	defer w.close()
	for _, name := range split(string(p)) {
		w.todo = append(w.todo, part{name: name})
	}
	for len(w.todo) > 0 {
		next := w.todo[0]
		w.todo = w.todo[1:]
		if next.name == "." { // a link's text ended in "/": a directory stands here, being on the stack
			continue
		}
		if next.name == ".." {
			if !w.up() {
				return nil, outside(p)
			}
			continue
		}
		n, err := w.step(next, follow)
		if n != nil || err != nil {
			return n, err
		}
	}
	return w.here()
}

// step walks one name. It answers a node when the walk ends there.
func (w *walker) step(next part, follow bool) (*Node, error) {
	fd, err := w.r.in.open(w.top(), next.name, unix.O_PATH)
	if err == unix.ENOENT {
		return w.absent(next)
	}
	if err != nil {
		return nil, err
	}
	info, _, err := lookAt(fd, "")
	last := len(w.todo) == 0
	switch {
	case err != nil:
		closeFD(fd)
		return nil, err
	case info.Kind == op.Symlink && (!last || follow):
		closeFD(fd)
		return nil, w.link(next.name, info.Target)
	case last:
		return w.node(fd, next.name, info)
	case info.Kind != op.Directory:
		closeFD(fd)
		return nil, op.Fail(op.NotADirectory, "a name on the way is a "+string(info.Kind)+", not a directory").At(w.asked)
	}
	w.stack, w.names = append(w.stack, fd), append(w.names, next.name)
	return nil, nil
}

// link puts a link's text before what is left to walk.
func (w *walker) link(name, target string) error {
	at := w.path(name)
	w.links = append(w.links, op.Link{Path: at, Target: target})
	if len(w.links) > maxLinks {
		return op.Fail(op.SymlinkRefused, "the links on the way go round in a circle").At(w.asked)
	}
	if strings.HasPrefix(target, "/") {
		return w.absoluteLink(at, target)
	}
	var parts []part
	for _, name := range strings.Split(target, "/") {
		if name != "" && name != "." {
			parts = append(parts, part{name, true})
		}
	}
	if MeansDirectory(target) {
		parts = append(parts, part{".", true})
	}
	w.todo = append(parts, w.todo...)
	return nil
}

// absoluteLink refuses: such a link would lead elsewhere when the workspace is moved or
// mounted at another place, and the kernel's own walk refuses it too.
func (w *walker) absoluteLink(at op.Path, target string) error {
	inside, err := cleanPath(target, w.r.given, w.r.dir)
	if err != nil {
		return outside(w.asked)
	}
	rel, err := filepath.Rel("/"+string(at.Parent()), path.Join("/", string(inside)))
	if err != nil {
		return outside(w.asked)
	}
	return op.Fail(op.SymlinkRefused, "the link "+op.Escape(string(at))+" is absolute; only relative links are followed").
		At(w.asked).Do("make it a link to " + op.Escape(rel))
}

// absent ends the walk at a name that does not exist.
func (w *walker) absent(next part) (*Node, error) {
	if next.linked {
		return nil, w.dangling()
	}
	n := &Node{Info: Info{Kind: op.Absent}}
	at := w.path(next.name)
	for _, p := range w.todo {
		n.Missing = append(n.Missing, at)
		at = at.Join(p.name)
	}
	n.Path = at
	if len(n.Missing) > 0 {
		above, err := w.above(n.Missing[0].Parent())
		if err != nil {
			return nil, err
		}
		n.above = above
		return w.fill(n, none, none, at.Base())
	}
	parent, err := dup(w.top())
	if err != nil {
		return nil, err
	}
	return w.fill(n, parent, none, next.name)
}

// dangling refuses a link that leads to nothing. Where the rest of its text would leave
// the root it is outside, by the text alone.
func (w *walker) dangling() error {
	depth := len(w.names) + 1
	for _, p := range w.todo {
		switch {
		case !p.linked:
		case p.name == "..":
			depth--
		case p.name != ".":
			depth++
		}
		if depth < 0 {
			return outside(w.asked)
		}
	}
	return op.Fail(op.NotFound, "a link on the way leads to nothing").At(w.asked).Do("name the file itself, or remove the link")
}

// here ends the walk at the directory on top: the root, or where a link's "..", "." led.
func (w *walker) here() (*Node, error) {
	self, err := dup(w.top())
	if err != nil {
		return nil, err
	}
	info, _, err := lookAt(self, "")
	if err != nil {
		closeFD(self)
		return nil, err
	}
	if len(w.names) == 0 {
		return w.fill(&Node{Info: info, Path: "."}, none, self, ".")
	}
	name := w.names[len(w.names)-1]
	w.up()
	return w.node(self, name, info)
}

func (w *walker) node(self int, name string, info Info) (*Node, error) {
	parent, err := dup(w.top())
	if err != nil {
		closeFD(self)
		return nil, err
	}
	return w.fill(&Node{Info: info, Path: w.path(name)}, parent, self, name)
}

func (w *walker) fill(n *Node, parent, self int, name string) (*Node, error) {
	n.Asked, n.Links = w.asked, w.links
	n.in, n.hides, n.known, n.parent, n.self, n.name = w.r.in, w.r.hides, &w.r.known, parent, self, name
	return n, nil
}

// above is the directory that the walk has come to, on a handle of its own.
func (w *walker) above(p op.Path) (*Node, error) {
	fd, err := dup(w.top())
	if err != nil {
		return nil, err
	}
	n := &Node{Asked: p, Path: p, in: w.r.in, hides: w.r.hides, parent: none, self: fd}
	if n.Info, _, err = lookAt(fd, ""); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (w *walker) top() int { return w.stack[len(w.stack)-1] }

func (w *walker) path(name string) op.Path {
	return op.Path(strings.Join(w.names, "/")).Join(name)
}

// up leaves the directory on top; false at the root.
func (w *walker) up() bool {
	if len(w.names) == 0 {
		return false
	}
	closeFD(w.top())
	w.stack, w.names = w.stack[:len(w.stack)-1], w.names[:len(w.names)-1]
	return true
}

func (w *walker) close() {
	for w.up() {
	}
}

// split gives the names of a cleaned path; the root has none.
func split(p string) []string {
	if p == "." || p == "" {
		return nil
	}
	return strings.Split(p, "/")
}
