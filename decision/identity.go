package decision

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"holdpoint/op"
)

// identityDomain keeps these digests apart from all others and from those of other
// versions: a rule remembered under another form never matches.
const identityDomain = "holdpoint call identity 1"

// shownPaths is how many paths stand in the readable half; the digest covers all.
const shownPaths = 64

// RolePath is one canonical path with its part in the call.
type RolePath struct {
	Role op.TargetRole
	Path op.Path
}

// Identity names a held call: operation, readable paths, and after the last '#' a digest
// over operation, root key, paths by role in their order, and flags as a set. Every part
// is counted and length-prefixed, so that no two different calls share an identity. Only
// the whole string may be compared, since readable paths are escaped and counted, not kept.
func Identity(opName op.Name, rootKey string, paths []RolePath, flags []string) string {
	flags = slices.Clone(flags)
	slices.Sort(flags)
	flags = slices.Compact(flags)

	h := blake3.New()
	put := func(parts ...string) {
		for _, s := range parts {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
			h.Write([]byte(s))
		}
	}
	count := func(n int) { h.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	put(identityDomain, string(opName), rootKey)
	count(len(paths))
	for _, p := range paths {
		put(string(p.Role), string(p.Path))
	}
	count(len(flags))
	put(flags...)
	return string(opName) + ":" + readable(paths) + "#blake3:" + hex.EncodeToString(h.Sum(nil))
}

func readable(paths []RolePath) string {
	var b strings.Builder
	for i, p := range paths {
		if i == shownPaths {
			fmt.Fprintf(&b, " and %d more", len(paths)-i)
			break
		}
		switch {
		case i > 0 && paths[i-1].Role == op.RoleSource:
			b.WriteString("->")
		case i > 0:
			b.WriteString(",")
		}
		b.WriteString(op.Visible(string(p.Path), false))
	}
	return b.String()
}

// Paths gives what an identity names of the facts: every path but the parents that are
// only passed through.
func Paths(f op.Facts) []RolePath {
	var out []RolePath
	for _, t := range f.Targets {
		if t.Role != op.RoleParent {
			out = append(out, RolePath{t.Role, t.Path})
		}
	}
	return out
}

// Flags gives the safety flags of a call for its identity.
func Flags(t op.Terms) []string {
	var out []string
	for _, f := range []struct {
		name string
		on   bool
	}{
		{"dry_run", t.DryRun}, {"allow_sensitive", t.AllowSensitive}, {"allow_ignored", t.AllowIgnored},
		{"force_overwrite", t.ForceOverwrite}, {"no_backup", !t.Backup}, {"backup_root=" + t.BackupRoot, t.BackupRoot != ""},
	} {
		if f.on {
			out = append(out, f.name)
		}
	}
	return out
}
