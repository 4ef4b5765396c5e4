package rooted

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Manifest digests what lies below a directory: path, type, mode, size, and of a file its
// bytes, of a link its text. Things that vanish meanwhile are left out. What is known of a
// file from an earlier reading is taken from memory where that is sound (see Known), so that
// of a directory that nobody touched only the names and the inodes are looked at.
func (n *Node) Manifest(ctx context.Context) (Manifest, error) { return n.Survey(ctx, nil) }

// Survey is Manifest, and tells of each thing on the way, in the order of paths, a directory
// before what it holds. told may be nil.
func (n *Node) Survey(ctx context.Context, told func(p op.Path, info Info)) (Manifest, error) {
	return n.inventory(ctx, &inventory{told: told})
}

// memo keeps what a manifest was made from, so that a second one need not read again what
// nobody touched.
type memo map[string]seen

type seen struct {
	info   Info
	digest op.Digest
	at     time.Time // when reading began
	busy   bool      // somebody had it open for writing: no time need move at the next change
	known  bool      // it was told from the root's memory, which can be asked again
}

// tick is how far apart a change and a look must be to be told apart by a time stamp on
// file systems that keep coarse ones.
const tick = 20 * time.Millisecond

func (s seen) holds(now Info) bool {
	return !s.busy && s.info.untouched(now) && s.at.Sub(now.Ctime) > tick
}

// manifest also keeps what it was made from, and believes what an earlier one kept.
func (n *Node) manifest(ctx context.Context, old memo) (Manifest, memo, error) {
	v := &inventory{old: old, now: memo{}}
	m, err := n.inventory(ctx, v)
	if err != nil {
		return Manifest{}, nil, err
	}
	return m, v.now, nil
}

// manifestOf leaves out what without names by its path below n.
func (n *Node) manifestOf(ctx context.Context, without func(below string) bool) (Manifest, error) {
	return n.inventory(ctx, &inventory{without: without})
}

func (n *Node) inventory(ctx context.Context, v *inventory) (Manifest, error) {
	switch n.Info.Kind {
	case op.Directory:
	case op.Absent:
		return Manifest{}, op.Fail(op.NotFound, "nothing is there").At(n.Path)
	default:
		return Manifest{}, op.Fail(op.NotADirectory, "a "+string(n.Info.Kind)+" is there, not a directory").At(n.Path)
	}
	if n.known != nil && n.known.sound {
		v.known = n.known
	}
	v.top, v.began, v.hash = n, time.Now(), newManifestHash()
	if err := v.walk(ctx); err != nil {
		return Manifest{}, err
	}
	v.sum.Digest = wireDigest(v.hash.h)
	return v.sum, nil
}

// inventory puts a manifest together. All cores look at names and read files, one goroutine
// takes what they find in the order of paths.
type inventory struct {
	courier
	top     *Node
	known   *knowledge              // nil where nothing may be told from memory
	old     memo                    // may be nil
	now     memo                    // may be nil
	without func(below string) bool // may be nil
	told    func(op.Path, Info)     // may be nil
	began   time.Time

	hash manifestHash
	sum  Manifest
}

// folder is one directory of the walk.
type folder struct {
	job
	up     *folder
	name   string
	below  string // its path from the top, "" for that
	info   Info
	shares []*share
	err    error

	fd    int // none when nothing needs it any more
	users int // guarded by courier.mu: shares of it, and directories in it, that go by fd
}

// share is some of the names of a directory: a large one is looked at by several cores.
type share struct {
	job
	in    *folder
	names []Found
	found []found
	err   error
}

// found is one name as it was looked at.
type found struct {
	name  string
	info  Info
	seen  seen    // of a file
	child *folder // of a directory
}

// shareSize is how many names are looked at as one.
const shareSize = 256

func (v *inventory) walk(ctx context.Context) error {
	var cancel context.CancelFunc
	v.ctx, cancel = context.WithCancel(ctx)
	v.wake.L = &v.mu
	defer v.end()
	defer cancel()
	top := &folder{fd: none}
	top.do = func() { v.list(top) }
	top.do()
	if top.err != nil {
		return top.err
	}
	v.begin()
	return v.visit(top)
}

func (f *folder) path(top op.Path) op.Path {
	if f.below == "" {
		return top
	}
	return top.Join(f.below)
}

// open opens a directory by the handle of the one that it lies in.
func (v *inventory) open(f *folder) (fd int, err error) {
	if f.up == nil {
		return unix.Openat(v.top.self, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	defer v.letGo(f.up)
	fd, err = v.top.in.open(f.up.fd, f.name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.ELOOP || err == unix.ENOTDIR {
		err = stale(f.path(v.top.Path), "the directory was replaced while it was looked at")
	}
	return fd, err
}

// list reads the names of a directory and gives out the work on them.
func (v *inventory) list(f *folder) {
	fd, err := v.open(f)
	if err != nil {
		f.err = fail(err, f.path(v.top.Path))
		return
	}
	v.holdOpen(f, fd)
	if f.info, _, err = lookAt(fd, ""); err != nil {
		f.err = fail(err, f.path(v.top.Path))
		return
	}
	names, err := (&Dir{in: v.top.in, hides: v.top.hides, path: f.path(v.top.Path), fd: fd}).Names(v.ctx)
	if err != nil && !errors.Is(err, op.NotFound) { // one that went since it was opened is as if nothing had been in it
		f.err = err
		return
	}
	if len(names) <= shareSize { // not worth a job of its own
		p := &share{in: f, names: names, job: job{state: jobDone}}
		f.shares = []*share{p}
		v.look(p)
		return
	}
	var jobs []*job
	for from := 0; from < len(names); from += shareSize {
		p := &share{in: f, names: names[from:min(from+shareSize, len(names))]}
		p.do = func() { v.look(p) }
		f.shares, jobs = append(f.shares, p), append(jobs, &p.job)
	}
	v.handOut(f, jobs)
	v.letGo(f)
}

// look looks at the names of a share.
func (v *inventory) look(p *share) {
	defer v.letGo(p.in)
	p.found = make([]found, 0, len(p.names))
	var jobs []*job
	for i, f := range p.names {
		if i%64 == 0 && v.ctx.Err() != nil {
			p.err = op.Fail(op.Cancelled, "cancelled while listing").At(p.in.path(v.top.Path)).Because(v.ctx.Err())
			break
		}
		e, err := v.entry(p.in, f.Name)
		if errors.Is(err, op.NotFound) {
			continue
		}
		if p.err = err; err != nil {
			break
		}
		if e.child != nil {
			jobs = append(jobs, &e.child.job)
		}
		if e.name != "" {
			p.found = append(p.found, e)
		}
	}
	p.names = nil
	v.foundNames(len(p.found))
	v.handOut(p.in, jobs)
}

// entry looks at one name. A file is opened only by its bytes' being asked for, and then it
// may have become another thing meanwhile.
func (v *inventory) entry(f *folder, name string) (e found, err error) {
	below := ""
	if v.old != nil || v.without != nil {
		below = joined(f.below, name)
	}
	if v.without != nil && v.without(below) {
		return e, nil
	}
	p := func() op.Path { return f.path(v.top.Path).Join(name) }
	for range readTries {
		info, s, err := inspect(f.fd, name)
		if err == nil {
			err = v.here(f, name, s)
		}
		if err != nil {
			return e, fail(err, p())
		}
		e.name, e.info = name, info
		switch info.Kind {
		case op.Directory:
			c := &folder{up: f, name: name, below: joined(f.below, name), fd: none}
			c.do = func() { v.list(c) }
			e.child = c
			return e, nil
		case op.Symlink:
			e.seen.digest = HashBytes([]byte(info.Target))
			return e, nil
		case op.File:
			if v.recalls(&e, below, s) {
				return e, nil
			}
			if e.seen, err = v.read(f.fd, name, info, s); err == errOther {
				continue
			}
			if err == errWritten {
				err = beingWritten(p())
			}
			if err != nil {
				return e, fail(err, p())
			}
			e.info = e.seen.info
			return e, nil
		}
		return e, nil
	}
	again := stale(p(), "it is being replaced while it is looked at")
	again.Retry = "same"
	return e, again
}

func joined(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// here refuses what lies on another mount. Where a look by name does not tell, opening does.
func (v *inventory) here(f *folder, name string, s imprint) error {
	switch s.mount {
	case v.top.in.mount:
		return nil
	case 0:
		fd, err := v.top.in.open(f.fd, name, unix.O_PATH)
		closeFD(fd)
		return err
	}
	return unix.EXDEV
}

// recalls fills in the digest of a file where it is known without reading.
func (v *inventory) recalls(e *found, below string, s imprint) bool {
	if was := v.old[below]; was.holds(e.info) {
		e.seen = was
		return true
	}
	if v.known == nil {
		return false
	}
	k, ok := v.known.get(s)
	if ok {
		e.seen = seen{digest: k.Digest, known: true}
	}
	return ok
}

// Neither leaves this file.
const (
	errOther   = op.Code("other")   // another thing stands there now
	errWritten = op.Code("written") // it changed under each reading
)

// read digests a file that was looked at by name. What comes to be known is remembered
// under the rules of Known.
func (v *inventory) read(dir int, name string, before Info, s imprint) (seen, error) {
	fd, err := v.top.in.open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err == unix.ELOOP || err == unix.ENXIO || err == unix.EISDIR {
		return seen{}, errOther
	}
	if err != nil {
		return seen{}, err
	}
	defer closeFD(fd) // and with it the lease
	for range readTries {
		at := time.Now()
		k, busy, after, now, err := v.known.fromFD(v.ctx, fd, before, s, 0, nil)
		switch {
		case err != nil:
			return seen{}, err
		case after.Kind != op.File:
			return seen{}, errOther
		case before.untouched(after):
			before.Size = k.Size
			return seen{info: before, digest: k.Digest, at: at, busy: busy}, nil
		}
		before, s = after, now
	}
	return seen{}, errWritten
}

// visit takes what was found in the order of paths.
func (v *inventory) visit(f *folder) error {
	for i, p := range f.shares {
		v.need(&p.job)
		for k := range p.found {
			e := &p.found[k]
			if e.child == nil {
				v.take(f.below, e)
				continue
			}
			c := e.child
			e.child = nil // what was visited need not be kept
			if v.need(&c.job); errors.Is(c.err, op.NotFound) {
				continue
			} else if c.err != nil {
				return c.err
			}
			e.info = c.info
			v.take(f.below, e)
			if err := v.visit(c); err != nil {
				return err
			}
		}
		if p.err != nil {
			return p.err
		}
		v.visited(len(p.found))
		f.shares[i] = nil
	}
	return nil
}

// take adds one thing to the manifest.
func (v *inventory) take(dir string, e *found) {
	if e.info.Kind == op.File {
		v.sum.Bytes += e.info.Size
		if v.now != nil && !e.seen.known {
			v.now[joined(dir, e.name)] = e.seen
		}
	}
	v.sum.Entries++
	v.hash.entryIn(dir, e.name, e.info, e.seen.digest)
	if v.told != nil {
		v.told(v.top.Path.Join(joined(dir, e.name)), e.info)
	}
}
