package op

// Role of a target within a call.
type TargetRole string

const (
	RoleTarget      TargetRole = "target"
	RoleSource      TargetRole = "source"
	RoleDestination TargetRole = "destination"
	RoleParent      TargetRole = "parent"
)

// Target is what preflight saw of one path.
type Target struct {
	Path              Path       `json:"path"`
	Asked             string     `json:"asked,omitempty"` // the spelling in the call
	Links             []Link     `json:"links,omitzero"`  // symlinks walked on the way, in order; nil where nobody asks
	Role              TargetRole `json:"role"`
	Exists            bool       `json:"exists"`
	Kind              Kind       `json:"kind"`
	Size              int64      `json:"size"`
	Mode              string     `json:"mode,omitempty"`       // octal, "0644"; with setuid, setgid, sticky "4755"
	LinkCount         uint64     `json:"link_count,omitempty"` // hard links
	Hash              Digest     `json:"hash,omitempty"`       // of a file its bytes, of a directory its manifest
	Text              *TextFacts `json:"text,omitempty"`
	Protected         bool       `json:"protected"`
	ProtectedBy       string     `json:"protected_by,omitempty"`   // the pattern
	ProtectedFrom     string     `json:"protected_from,omitempty"` // builtin, operator, workspace, shape
	ContainsProtected bool       `json:"contains_protected,omitempty"`
	Sensitive         bool       `json:"sensitive"`
	Ignored           bool       `json:"ignored"`
	Deletes           bool       `json:"deletes,omitempty"` // in a batch: its item deletes, moves or rolls back
	Below             *Below     `json:"below,omitempty"`   // of a directory that was looked through
}

// Below sums up what lies below a directory. The list is for a person; the hash of the
// directory is what holds the call to it.
type Below struct {
	Files       int       `json:"files"`
	Directories int       `json:"directories,omitempty"`
	Others      int       `json:"others,omitempty"` // links and special files
	Bytes       int64     `json:"bytes"`
	List        []Beneath `json:"-"`
}

// Beneath is one thing below a directory.
type Beneath struct {
	Path Path
	Kind Kind
	Size int64
}

// Link is one symlink that was walked.
type Link struct {
	Path   Path   `json:"path"`
	Target string `json:"target"`
}

// TextFacts describes the bytes of a file without changing them.
type TextFacts struct {
	Encoding     string `json:"encoding"` // utf-8, utf-16le, utf-16be, latin-1 and others by cautious detection, binary
	EOL          string `json:"eol"`      // lf, crlf, mixed, none
	BOM          bool   `json:"bom"`
	FinalNewline bool   `json:"final_newline"`
}

// Facts is what preflight answers. A false or zero value is a missing fact and sends
// the call to review.
type Facts struct {
	WorkspaceBound    bool     `json:"workspace_bound"`
	Available         bool     `json:"available"`
	Planned           bool     `json:"planned"`
	Mutates           bool     `json:"mutates"`
	ProcessTier       Tier     `json:"process_tier"`
	ConfinedRehearsal bool     `json:"confined_rehearsal"`
	ChangeBytes       int64    `json:"change_bytes"` // -1 is unknown
	Overwrites        bool     `json:"overwrites"`
	Creates           bool     `json:"creates"`
	Targets           []Target `json:"targets"`
}

// Page asks for a part of what is answered. Size 0 is all of it; After is next of the part before.
type Page struct {
	Size  int
	After string
}

// Pin is one fact that a decision used and that must still hold when the effect lands.
// Absence is a fact and is pinned like any other.
type Pin struct {
	Path Path   `json:"path"`
	Kind Kind   `json:"kind"`
	Hash Digest `json:"hash,omitempty"` // file bytes, directory manifest, or of a link its text
}

// Pins returns what must still hold: every target's existence, kind and hash.
// Directories that are only passed through as parents are pinned by kind alone.
func (f Facts) Pins() []Pin {
	pins := make([]Pin, 0, len(f.Targets))
	for _, t := range f.Targets {
		p := Pin{Path: t.Path, Kind: t.Kind, Hash: t.Hash}
		if t.Role == RoleParent {
			p.Hash = ""
		}
		pins = append(pins, p)
	}
	return pins
}
