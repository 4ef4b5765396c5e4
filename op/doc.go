// Package op holds the words that travel through Holdpoint: requests, facts, decisions,
// pins, steps, outcomes, credentials and replies, and the one table of operations with
// their arguments.
//
// It does no I/O, reads no clock and knows no other package of the house. The zero value
// of each type is the safe one: a zero Verdict refuses, a zero Kind is unknown.
package op

import "strings"

// Path is a canonical workspace path: slash-separated, relative to the root, without
// "." or ".." elements; the root itself is ".". Its bytes may be anything a file name
// may hold, so it is not always valid UTF-8 (see Escape).
type Path string

// Parent returns the directory that holds p; the root is its own parent.
func (p Path) Parent() Path {
	i := strings.LastIndexByte(string(p), '/')
	if i < 0 {
		return "."
	}
	return p[:i]
}

// Base returns the last name of p.
func (p Path) Base() string { return string(p[strings.LastIndexByte(string(p), '/')+1:]) }

// Join appends one name or a relative path.
func (p Path) Join(name string) Path {
	if p == "." || p == "" {
		return Path(name)
	}
	return p + "/" + Path(name)
}

// Within reports whether p is dir or lies below it, at a path boundary.
func (p Path) Within(dir Path) bool {
	return dir == "." || p == dir || strings.HasPrefix(string(p), string(dir)+"/")
}

// Digest is a BLAKE3 hash in its wire form, "blake3:" and 64 hexadecimal digits.
// The empty Digest means that nothing was hashed; it never equals another digest.
type Digest string

// ID is the name of a stored thing: "op_...", "ap_...", "tk_...". It carries at least
// 128 random bits and is no credential.
type ID string

// Kind says what stands at a path. The zero Kind is unknown, which is never the same
// as Absent.
type Kind string

const (
	Unknown   Kind = ""
	Absent    Kind = "absent"
	File      Kind = "file"
	Directory Kind = "directory"
	Symlink   Kind = "symlink"
	Fifo      Kind = "fifo"
	Socket    Kind = "socket"
	Device    Kind = "device"
)

// Tier is the rank of a call: T0 touches no workspace, T1 reads, T2 makes reversible
// changes, T3 runs processes or reaches the network, T4 destroys.
type Tier string

const (
	T0 Tier = "T0"
	T1 Tier = "T1"
	T2 Tier = "T2"
	T3 Tier = "T3"
	T4 Tier = "T4"
)

// Rank orders tiers; what is not a tier ranks above all, so that it is never let pass.
func (t Tier) Rank() int {
	if len(t) == 2 && t[0] == 'T' && t[1] >= '0' && t[1] <= '4' {
		return int(t[1] - '0')
	}
	return 5
}

// Mode is the highest tier that runs without asking; a person sets it, never a caller.
type Mode string

const (
	Deny     Mode = "deny"
	Prompt   Mode = "prompt"
	AutoMode Mode = "auto"
	Yolo     Mode = "yolo"
)

// Role is what a token may do. Each token has one. Operator includes reviewer, reviewer
// includes observer; agent stands apart.
type Role string

const (
	Agent    Role = "agent"
	Observer Role = "observer"
	Reviewer Role = "reviewer"
	Operator Role = "operator"
)

// Includes reports whether a holder of r may do what want asks for.
func (r Role) Includes(want Role) bool {
	if r == want {
		return true
	}
	rank := map[Role]int{Observer: 1, Reviewer: 2, Operator: 3}
	return rank[r] > 0 && rank[want] > 0 && rank[r] >= rank[want]
}
