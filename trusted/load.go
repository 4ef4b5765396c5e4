package trusted

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdpoint/op"
)

// LoadEnv is what decides whether a file may be believed.
type LoadEnv struct {
	Workspaces []string // canonical directories of all registered roots
	UID        int      // of the daemon
}

// Set is the policies of one file, ready to match. The zero Set grants nothing.
type Set struct {
	policies []Policy
	roots    [][]string // per policy, canonical, in the order of Roots
}

// Policies gives the entries as they stand in the file.
func (s *Set) Policies() []Policy { return append([]Policy(nil), s.policies...) }

// maxFile is far above any policy file; what is longer is not one.
const maxFile = 1 << 20

// Load reads a policy file. It is policy_invalid when it cannot be read or understood, and
// policy_unsafe_permissions when anybody but its owner (the daemon's user or root) could
// have written it: a link, a special file, a file with a second name, one that group or
// others may write, one in a directory open to all, one inside a workspace.
func Load(file string, env LoadEnv) (*Set, error) {
	set, _, err := load(file, env)
	return set, err
}

// load also gives the mark of what was read, which changes when the file does.
func load(file string, env LoadEnv) (*Set, mark, error) {
	unreadable := func(err error) error {
		return op.Fail(op.PolicyInvalid, "the policy file cannot be read: "+err.Error()).Because(err)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, mark{}, unreadable(err)
	}
	f, seen, err := openPlain(file)
	if err != nil {
		return nil, mark{}, err
	}
	defer f.Close()
	if err := seen.check(env.UID); err != nil {
		return nil, mark{}, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return nil, mark{}, unreadable(err)
	}
	if err := checkDirectories(dir); err != nil {
		return nil, mark{}, err
	}
	if err := Outside(file, env.Workspaces); err != nil {
		return nil, mark{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, mark{}, unreadable(err)
	}
	if len(data) > maxFile {
		return nil, mark{}, op.Fail(op.PolicyInvalid, fmt.Sprintf("the policy file is longer than %d bytes", maxFile))
	}
	policies, err := Parse(data)
	if err != nil {
		return nil, mark{}, err
	}
	return newSet(policies, env.Workspaces), mark{seen.identity, time.Now()}, nil
}

func newSet(policies []Policy, workspaces []string) *Set {
	s := &Set{policies: policies}
	for _, p := range policies {
		var roots []string
		for _, r := range p.Roots {
			if !strings.HasPrefix(r, ClientRoot) {
				r = canonicalRoot(r, workspaces)
			}
			roots = append(roots, r)
		}
		s.roots = append(s.roots, roots)
	}
	return s
}

func unsafe(what string) *op.Error {
	return op.Fail(op.PolicyUnsafePermissions, what).
		Do("keep the policy in a regular file of the daemon's user or root, mode 0644 or stricter, outside every workspace")
}

// Outside refuses a policy file that lies in a workspace, where whoever is judged by it
// could write it. It is asked again whenever a workspace is added.
func Outside(file string, workspaces []string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return op.Fail(op.PolicyInvalid, "the policy file cannot be found: "+err.Error()).Because(err)
	}
	// The name in the call, and what it leads to, must both lie outside.
	places := []string{filepath.Dir(file)}
	for _, p := range []string{filepath.Dir(file), file} {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			places = append(places, real)
		}
	}
	for _, ws := range workspaces {
		for _, place := range places {
			if within(place, ws) || holds(ws, place) {
				return unsafe("the policy file lies inside a workspace")
			}
		}
	}
	return nil
}

// holds reports whether dir or one above it is the same directory as ws, under whatever
// name: mounts and file systems that fold case give one directory several.
func holds(ws, dir string) bool {
	want, err := os.Stat(ws)
	if err != nil {
		return false
	}
	for {
		if got, err := os.Stat(dir); err == nil && os.SameFile(got, want) {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
}

// checkDirectories refuses a directory that everybody may write without the sticky bit: in
// it the file could be exchanged for another one, however well the file itself is kept.
func checkDirectories(dir string) error {
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return op.Fail(op.PolicyInvalid, "the policy file's directory cannot be read: "+err.Error()).Because(err)
		}
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			return unsafe("a directory above the policy file may be written by everybody")
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

func (f facts) check(uid int) error {
	switch {
	case !f.mode.IsRegular():
		return unsafe("the policy file is no regular file")
	case f.links != 1:
		return unsafe("the policy file has a second name (a hard link)")
	case f.mode.Perm()&0o022 != 0:
		return unsafe(fmt.Sprintf("the policy file may be written by group or others (mode %04o)", f.mode.Perm()))
	case f.uid != uid && f.uid != 0:
		return unsafe(fmt.Sprintf("the policy file belongs to user %d, neither the daemon's user nor root", f.uid))
	}
	return nil
}
