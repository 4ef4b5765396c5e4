package flow

import (
	"context"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"github.com/zeebo/blake3"

	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/protected"
)

// Workspace is one registered root with its store and its marks.
type Workspace struct {
	Name     string
	Key      string // names it on the wire; a digest, never a path
	Root     *rooted.Root
	Store    *rooted.Store
	StoreAt  string // beside, state, in-root or copied
	operator []string
	excludes []string

	mu           sync.Mutex // guards what follows
	set          *protected.Set
	setFrom      rooted.Info            // of the workspace's own pattern file, when set was made
	below        map[belowKey]belowMark // what set says of directories that were looked through
	Warnings     []op.Warning
	ignoring     *protected.Ignorer // compiled from the excludes and ignoringFrom
	ignoringFrom []ignoreText

	watching watching

	tight         tight // of the workspace's own file
	tightFrom     rooted.Info
	tightWarnings []op.Warning
}

// RootSpec is a root as the operator named it.
type RootSpec struct {
	Name       string // default: the directory's name
	Dir        string
	AllowBroad bool   // also "/", a home directory, or a place that holds the state
	Home       string // the operator's home directory
}

// RootKey names a workspace by machine and canonical directory: no device or inode,
// which change over reboots and moves.
func RootKey(machineID, dir string) string {
	h := blake3.NewDeriveKey("holdpoint 2026 root key")
	h.Write([]byte(machineID + "\x00" + dir))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// AddRoot opens a root, finds a place for its store, and settles what a crash left there.
func (e *Engine) AddRoot(ctx context.Context, spec RootSpec) (*Workspace, error) {
	root, err := rooted.Open(spec.Dir, rooted.Options{})
	if err != nil {
		return nil, err
	}
	w := &Workspace{Name: spec.Name, Root: root, Key: RootKey(e.cfg.MachineID, root.Dir()), operator: e.settings().Protected, excludes: e.cfg.Excludes}
	w.Root.Hide(storeName)
	if w.Name == "" {
		w.Name = filepath.Base(root.Dir())
	}
	if err := e.admit(w, spec); err != nil {
		root.Close()
		return nil, err
	}
	if err := e.place(w); err != nil {
		root.Close()
		return nil, err
	}
	if err := w.reload(ctx, rooted.Info{}, nil); err != nil {
		w.close()
		return nil, err
	}
	if err := e.recover(ctx, w); err != nil {
		w.close()
		return nil, err
	}
	e.mu.Lock()
	e.roots = append(e.roots, w)
	e.mu.Unlock()
	return w, nil
}

// storeName is the folder that an in-root store lies in; the name is refused to every
// operation whether or not it is in use.
const storeName = ".holdpoint"

// admit refuses roots that overlap, and those that hold what must not be reached.
func (e *Engine) admit(w *Workspace, spec RootSpec) error {
	dir := w.Root.Dir()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, o := range e.roots {
		switch {
		case o.Root.Same(w.Root):
			return op.Fail(op.BadRequest, "this directory is registered already as "+o.Name).In("root")
		case o.Root.Holds(dir) || w.Root.Holds(o.Root.Dir()):
			return op.Fail(op.BadRequest, "this root overlaps with "+o.Name).In("root").Do("register one of the two")
		case o.Name == w.Name:
			return op.Fail(op.BadRequest, "the name "+w.Name+" is taken").In("root").Do("give this root another name: NAME=DIR")
		}
	}
	state := e.jrn.Dir()
	if strings.HasPrefix(dir+"/", state+"/") {
		return op.Fail(op.BadRequest, "a root inside the state directory (root_contains_state)").In("root")
	}
	if rel, err := filepath.Rel(dir, state); err == nil && w.Root.Holds(state) {
		w.Root.Hide(op.Path(filepath.ToSlash(rel)))
		if !spec.AllowBroad {
			return op.Fail(op.BadRequest, "this root holds the daemon's own state (root_contains_state)").In("root").Do("put the state elsewhere with --state, or say --allow-broad-root")
		}
	}
	if at := e.cfg.Socket; at != "" && !strings.HasPrefix(at, state+"/") && w.Root.Holds(filepath.Dir(at)) {
		if rel, err := filepath.Rel(dir, at); err == nil {
			w.Root.Hide(op.Path(filepath.ToSlash(rel)))
		}
		if !spec.AllowBroad {
			return op.Fail(op.BadRequest, "this root holds the daemon's own socket (root_contains_state)").In("root").Do("put the socket elsewhere with --socket, or say --allow-broad-root")
		}
	}
	if !spec.AllowBroad && (dir == "/" || spec.Home != "" && w.Root.Holds(spec.Home)) {
		return op.Fail(op.BadRequest, dir+" is very broad for a workspace").In("root").Do("name a project directory, or say --allow-broad-root")
	}
	return nil
}

// place opens the store where a rename can reach it: in the state directory when that is
// on the root's mount, else in a folder of its own beside the root; where neither is, the
// state directory holds copies. Inside the root only when the operator says so.
func (e *Engine) place(w *Workspace) error {
	if err := e.placed(w); err != nil || !e.cfg.Relaxed {
		return err
	}
	w.Store.Relax()
	return nil
}

func (e *Engine) placed(w *Workspace) error {
	dir := w.Root.Dir()
	places := []struct{ at, dir string }{
		{"state", filepath.Join(e.jrn.Dir(), "store", w.Key)},
		{"beside", filepath.Join(filepath.Dir(dir), ".holdpoint-store-"+w.Key[:12])},
	}
	if e.cfg.Store == "in-root" {
		places = places[:0]
		places = append(places, struct{ at, dir string }{"in-root", filepath.Join(dir, storeName, "store")})
	}
	var err error
	for _, p := range places {
		if w.Store, err = rooted.OpenStore(p.dir, w.Root); err == nil {
			w.StoreAt = p.at
			return nil
		}
		if !errors.Is(err, op.CrossDevice) && !errors.Is(err, op.PermissionDenied) && !errors.Is(err, op.ReadOnlyFilesystem) {
			return err
		}
	}
	if e.cfg.Store == "in-root" {
		return op.Fail(op.CrossDevice, "the folder in the root is not on the root's filesystem").In("root").Because(err)
	}
	if w.Store, err = rooted.OpenCopies(places[0].dir, w.Root); err != nil {
		return err
	}
	w.StoreAt = "copied"
	return nil
}

func (w *Workspace) close() {
	w.watching.close()
	if w.Store != nil {
		w.Store.Close()
	}
	w.Root.Close()
}
