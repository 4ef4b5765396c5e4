package gitread

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"holdpoint/op"
)

// head tells which branch the work tree is on and at which commit; the branch is empty
// where the head is detached, the commit zero where there is none yet.
func (r *repo) head() (branch string, at plumbing.Hash, err error) {
	ref, err := r.store.Reference(plumbing.HEAD)
	if err != nil {
		return "", at, unsupported("HEAD cannot be read").Because(err)
	}
	for range 5 {
		if ref.Type() == plumbing.HashReference {
			return branch, ref.Hash(), nil
		}
		branch = strings.TrimPrefix(string(ref.Target()), "refs/heads/")
		if ref, err = r.store.Reference(ref.Target()); errors.Is(err, plumbing.ErrReferenceNotFound) {
			return branch, at, nil
		}
		if err != nil {
			return "", at, unsupported("a reference cannot be read").Because(err)
		}
	}
	return "", at, unsupported("references point at each other in a circle")
}

var (
	suffixes = regexp.MustCompile(`(?:[~^][0-9]*|\^\{(?:commit|tree|blob|)\})+$`)
	suffix   = regexp.MustCompile(`^(?:\^\{(commit|tree|blob|)\}|([~^])([0-9]*))`)
	hexName  = regexp.MustCompile(`^[0-9a-f]{4,40}$`)
)

// revision finds the object that a text names, as git's rev-parse does for names, hashes,
// and the suffixes ~ and ^. A tag is followed to what it marks where peel says so.
func (r *repo) revision(ctx context.Context, text, field string) (plumbing.Hash, error) {
	base := strings.TrimSuffix(text, suffixes.FindString(text))
	if strings.ContainsAny(base, "@{}:^~ ") && base != "@" && (strings.Contains(base, "@{") || strings.ContainsAny(base, ":^{}~ ")) {
		return plumbing.ZeroHash, unsupported("this way to name a revision is not read").In(field).Do("name a branch, a tag or a commit, with ~N and ^N behind")
	}
	at, err := r.named(base)
	if err != nil {
		return at, err
	}
	if at.IsZero() {
		return at, op.Fail(op.NotFound, "no such revision").In(field).Do("git_log lists commits")
	}
	for rest := text[len(base):]; rest != ""; {
		m := suffix.FindStringSubmatch(rest)
		rest = rest[len(m[0]):]
		if at, err = r.step(at, m); err != nil {
			return at, err
		}
		if at.IsZero() {
			return at, op.Fail(op.NotFound, "no such revision: there are not as many commits").In(field)
		}
	}
	return at, nil
}

// named looks a name up in git's order: a whole hash, a ref, a shortened hash.
func (r *repo) named(base string) (plumbing.Hash, error) {
	if base == "" || base == "@" {
		base = "HEAD"
	}
	if len(base) == 40 && hexName.MatchString(base) {
		return plumbing.NewHash(base), nil
	}
	for _, form := range []string{"%", "refs/%", "refs/tags/%", "refs/heads/%", "refs/remotes/%", "refs/remotes/%/HEAD"} {
		name := plumbing.ReferenceName(strings.Replace(form, "%", base, 1))
		if form == "%" && !strings.HasPrefix(base, "refs/") && strings.ToUpper(base) != base || strings.Contains(base, "..") {
			continue
		}
		for range 5 {
			ref, err := r.store.Reference(name)
			if err != nil {
				break
			}
			if ref.Type() == plumbing.HashReference {
				return ref.Hash(), nil
			}
			name = ref.Target()
		}
	}
	if !hexName.MatchString(base) {
		return plumbing.ZeroHash, nil
	}
	return r.shortened(base)
}

// shortened finds the one object whose name begins so; of several the only commit.
func (r *repo) shortened(base string) (plumbing.Hash, error) {
	even := base[:len(base)/2*2]
	prefix := make([]byte, len(even)/2)
	for i := range prefix {
		n, _ := strconv.ParseUint(even[2*i:2*i+2], 16, 8) // hexName holds
		prefix[i] = byte(n)
	}
	found := map[plumbing.Hash]bool{}
	list, err := r.store.begins(prefix)
	if err != nil {
		return plumbing.ZeroHash, unsupported("the objects cannot be listed").Because(err)
	}
	var commits []plumbing.Hash
	for _, h := range list {
		if !strings.HasPrefix(h.String(), base) || found[h] {
			continue
		}
		found[h] = true
		if o, err := r.store.EncodedObject(plumbing.AnyObject, h); err == nil && (o.Type() == plumbing.CommitObject || o.Type() == plumbing.TagObject) {
			commits = append(commits, h)
		}
	}
	switch {
	case len(commits) == 1:
		return commits[0], nil
	case len(found) > 1:
		return plumbing.ZeroHash, op.Fail(op.BadRequest, "several objects have names that begin so").Do("give more of the name")
	}
	for h := range found {
		return h, nil
	}
	return plumbing.ZeroHash, nil
}

// step follows one suffix.
func (r *repo) step(at plumbing.Hash, m []string) (plumbing.Hash, error) {
	if m[2] == "" {
		return r.peel(at, m[1])
	}
	n := 1
	if m[3] != "" {
		var err error
		if n, err = strconv.Atoi(m[3]); err != nil {
			return plumbing.ZeroHash, nil
		}
	}
	at, err := r.peel(at, "commit")
	if err != nil || n == 0 {
		return at, err
	}
	parent := n - 1
	if m[2] == "~" {
		parent = 0
	} else {
		n = 1
	}
	for range n {
		c, err := r.store.commit(at)
		if err != nil {
			return at, err
		}
		if parent >= len(c.ParentHashes) {
			return plumbing.ZeroHash, nil
		}
		at = c.ParentHashes[parent]
	}
	return at, nil
}

// peel follows tags, and from a commit to its tree where one is wanted; "" is anything
// but a tag.
func (r *repo) peel(at plumbing.Hash, want string) (plumbing.Hash, error) {
	for range deepest {
		o, err := r.store.EncodedObject(plumbing.AnyObject, at)
		if err != nil {
			return at, r.store.bad(err, at)
		}
		switch {
		case o.Type() == plumbing.TagObject:
			t, err := r.store.tag(at)
			if err != nil {
				return at, err
			}
			at = t.Target
			continue
		case want == "" || o.Type().String() == want:
			return at, nil
		case o.Type() == plumbing.CommitObject && want == "tree":
			c, err := r.store.commit(at)
			if err != nil {
				return at, err
			}
			return c.TreeHash, nil
		}
		return at, op.Fail(op.BadRequest, "the revision is a "+o.Type().String()+", not a "+want).In("args.rev")
	}
	return at, unsupported("tags mark each other without end")
}

// treeOf gives the tree of a revision.
func (r *repo) treeOf(ctx context.Context, text, field string) (plumbing.Hash, error) {
	at, err := r.revision(ctx, text, field)
	if err != nil {
		return at, err
	}
	return r.peel(at, "tree")
}

// commitOf gives the commit of a revision.
func (r *repo) commitOf(ctx context.Context, text, field string) (plumbing.Hash, error) {
	at, err := r.revision(ctx, text, field)
	if err != nil {
		return at, err
	}
	return r.peel(at, "commit")
}
