package gitread

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"holdpoint/op"
)

const (
	maxPointer = 64 << 10  // a file that names another place
	maxConfig  = 4 << 20   // a configuration
	maxIndex   = 512 << 20 // git's list of what it tracks
	deepest    = 64        // submodules in submodules, alternates of alternates
)

// repo is a repository open for one call.
type repo struct {
	o      Options
	top    place // of the work tree
	git    place // its own git directory
	common place // what it shares with other work trees
	conf   config
	store  *objects
	depth  int // of submodules
}

// find opens the repository that a path of the workspace lies in: the nearest directory
// at or above it with a .git of its own. A directory that only looks like a bare
// repository is none.
func find(ctx context.Context, o Options, p op.Path) (*repo, error) {
	at := place{o.Root, p}
	if at.kind(ctx) != op.Directory {
		at.path = p.Parent()
	}
	for {
		n, err := o.Root.Look(ctx, at.join(".git").path, true)
		if err != nil && !slices.Contains([]op.Code{op.NotFound, op.NotADirectory}, op.AsError(err).Code) {
			return nil, err
		}
		kind := op.Absent
		if err == nil {
			kind = n.Info.Kind
			n.Close()
		}
		if kind == op.File || kind == op.Directory && at.join(".git/HEAD").kind(ctx) == op.File {
			return open(ctx, o, at, 0)
		}
		if at.path == "." || at.path == "" {
			return nil, op.Fail(op.NotFound, "no git repository lies at or above this path in the workspace").At(p).Do("give a path inside a repository")
		}
		at.path = at.path.Parent()
	}
}

// open reads what must be known before anything is told of a repository. The caller
// closes it.
func open(ctx context.Context, o Options, top place, depth int) (*repo, error) {
	r := &repo{o: o, top: top, git: top.join(".git"), depth: depth}
	if r.git.kind(ctx) == op.File {
		text, err := r.git.small(ctx, maxPointer)
		if err != nil {
			return nil, err
		}
		to, ok := strings.CutPrefix(string(text), "gitdir:")
		if !ok {
			return nil, unsupported("the .git file names no directory").At(r.git.path)
		}
		if r.git, err = o.resolve(top, strings.TrimSpace(to)); err != nil {
			return nil, err
		}
	}
	r.common = r.git
	text, err := r.git.join("commondir").small(ctx, maxPointer)
	if err != nil {
		return nil, err
	}
	if text != nil {
		if r.common, err = o.resolve(r.git, strings.TrimSpace(string(text))); err != nil {
			return nil, err
		}
	}
	if err := r.settings(ctx); err != nil {
		return nil, err
	}
	if r.store, err = r.openObjects(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *repo) close() { r.store.close() }

// resolve finds where a pointer in a directory leads: below the root or below another
// directory that the operator named, else outside_workspace.
func (o Options) resolve(from place, to string) (place, error) {
	abs := to
	if !path.IsAbs(to) {
		abs = path.Join(from.abs(), to)
	}
	abs = path.Clean(abs)
	for _, root := range append(o.Others[:len(o.Others):len(o.Others)], o.Root) {
		for _, dir := range []string{root.Dir(), root.Given()} {
			if rel, ok := strings.CutPrefix(abs, strings.TrimSuffix(dir, "/")+"/"); ok {
				return place{root, op.Path(rel)}, nil
			}
			if abs == dir {
				return place{root, "."}, nil
			}
		}
	}
	return place{}, op.Fail(op.OutsideWorkspace, "the repository keeps data outside the workspace").At(from.path).
		Do("an operator can register the directory that holds it as a root of its own")
}

// settings reads the configuration and refuses what would make the answers wrong.
func (r *repo) settings(ctx context.Context) error {
	r.conf = config{}
	if err := r.readConfig(ctx, r.common.join("config")); err != nil {
		return err
	}
	if r.conf.flag("extensions.worktreeconfig", false) {
		if err := r.readConfig(ctx, r.git.join("config.worktree")); err != nil {
			return err
		}
	}
	if v, err := strconv.Atoi(r.conf["core.repositoryformatversion"]); r.conf["core.repositoryformatversion"] != "" && (err != nil || v > 1) {
		return unsupported("repository format " + op.Visible(r.conf["core.repositoryformatversion"], false) + " is not read")
	}
	for k, v := range r.conf {
		name, is := strings.CutPrefix(k, "extensions.")
		if !is {
			if k == "include.path" || strings.HasPrefix(k, "includeif.") {
				return unsupported("the configuration includes another file, which is not read")
			}
			continue
		}
		switch {
		case slices.Contains([]string{"noop", "noop-v1", "preciousobjects", "worktreeconfig", "relativeworktrees", "partialclone"}, name):
		case name == "objectformat" && strings.EqualFold(v, "sha1"), name == "refstorage" && strings.EqualFold(v, "files"):
		case name == "objectformat":
			return unsupported("the object format " + op.Visible(v, false) + " is not read")
		case name == "refstorage":
			return unsupported("refs kept as " + op.Visible(v, false) + " are not read")
		default:
			return unsupported("the repository extension " + op.Visible(name, false) + " is not known")
		}
	}
	return r.layout()
}

// layout refuses work trees that are not where, or not as, they seem.
func (r *repo) layout() error {
	if r.conf.flag("core.bare", false) && r.git == r.common {
		return unsupported("the repository is bare")
	}
	if w, set := r.conf["core.worktree"]; set {
		at, err := r.o.resolve(r.git, w)
		if err != nil {
			return err
		}
		if at != r.top {
			return unsupported("core.worktree names another directory than the one with .git")
		}
	}
	for _, k := range []string{"core.ignorecase", "core.precomposeunicode"} {
		if r.conf.flag(k, false) {
			return unsupported(k + " is set")
		}
	}
	if !r.conf.flag("core.symlinks", true) {
		return unsupported("core.symlinks is off")
	}
	return nil
}

func (r *repo) readConfig(ctx context.Context, at place) error {
	text, err := at.small(ctx, maxConfig)
	if err != nil {
		return err
	}
	if !r.conf.parse(string(text)) {
		return unsupported("the repository's configuration cannot be read")
	}
	return nil
}

// openObjects opens the object store with those that it borrows from.
func (r *repo) openObjects(ctx context.Context) (*objects, error) {
	main := gitFS{ctx, r.git}
	s := &objects{ctx: ctx, dirs: []place{r.common.join("objects")}}
	options := filesystem.Options{KeepDescriptors: true}
	c := cache.NewObjectLRU(cache.KiByte) // the library reads no objects
	if r.git == r.common {
		s.Storage = filesystem.NewStorageWithOptions(main, c, options)
	} else {
		s.Storage = filesystem.NewStorageWithOptions(dotgit.NewRepositoryFilesystem(main, gitFS{ctx, r.common}), c, options)
	}
	for i := 0; i < len(s.dirs) && len(s.dirs) < deepest; i++ {
		more, err := r.borrowed(ctx, s.dirs[i])
		if err != nil {
			s.close()
			return nil, err
		}
		for _, at := range more {
			if !slices.Contains(s.dirs, at) {
				s.dirs = append(s.dirs, at)
			}
		}
	}
	return s, nil
}

// borrowed lists the directories of objects that one names as further ones.
func (r *repo) borrowed(ctx context.Context, dir place) (out []place, err error) {
	list, err := dir.join("info/alternates").small(ctx, maxPointer)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(list)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		at, err := r.o.resolve(dir, line)
		if err != nil {
			return nil, err
		}
		out = append(out, at)
	}
	return out, nil
}
