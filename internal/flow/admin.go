package flow

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"

	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/preflight"
	"holdpoint/protected"
	"holdpoint/trusted"
)

const metaPassphrase = "reviewer_passphrase"

// Argon2id parameters: the first choice of RFC 9106 section 4 for memory-constrained
// hosts, 64 MiB and 3 passes.
const (
	argonTime, argonMemory, argonThreads, argonKey = 3, 64 << 10, 4, 32
)

// SetPassphrase keeps the Argon2id hash of the reviewer's passphrase, and nothing else.
func (e *Engine) SetPassphrase(ctx context.Context, passphrase string) error {
	hash, err := HashPassphrase(passphrase)
	if err != nil {
		return err
	}
	return e.jrn.SetMeta(ctx, metaPassphrase, hash)
}

// HasPassphrase reports whether one is set.
func (e *Engine) HasPassphrase(ctx context.Context) (bool, error) {
	v, err := e.jrn.Meta(ctx, metaPassphrase)
	if err != nil && op.AsError(err).Code == op.NotFound {
		return false, nil
	}
	return v != "", err
}

// CheckPassphrase tells whether it is the reviewer's.
func (e *Engine) CheckPassphrase(ctx context.Context, passphrase string) error {
	v, err := e.jrn.Meta(ctx, metaPassphrase)
	if err != nil && op.AsError(err).Code != op.NotFound {
		return err
	}
	return VerifyPassphrase(v, passphrase)
}

// VerifyPassphrase tells whether a passphrase is the one of a hash that HashPassphrase gave.
func VerifyPassphrase(v, passphrase string) error {
	salt, sum, _ := strings.Cut(v, ":")
	s, err1 := hex.DecodeString(salt)
	want, err2 := hex.DecodeString(sum)
	if err1 != nil || err2 != nil || len(want) != argonKey {
		return op.Fail(op.Unauthenticated, "no passphrase is set").Do("run serve once on a terminal")
	}
	got := argon2.IDKey([]byte(passphrase), s, argonTime, argonMemory, argonThreads, argonKey)
	if subtle.ConstantTimeCompare(got, want) != 1 {
		return op.Fail(op.Unauthenticated, "the passphrase is not right")
	}
	return nil
}

// TokenSpec is a token as the operator asks for it.
type TokenSpec struct {
	Name, Workflow, Profile string
	Role                    op.Role
	Roots                   []string
	Clearance               int
	Expires                 time.Duration
	SocketOnly              bool
}

// NewSecret gives a token's secret: a prefix that is easy to search for, and 256 random bits.
func NewSecret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return "hp_" + base64.RawURLEncoding.EncodeToString(b)
}

// CreateToken makes a token and gives its secret, once.
func (e *Engine) CreateToken(ctx context.Context, s TokenSpec) (journal.Token, string, error) {
	switch s.Role {
	case op.Agent, op.Observer, op.Reviewer, op.Operator:
	default:
		return journal.Token{}, "", op.Fail(op.BadRequest, "role must be agent, observer, reviewer or operator").In("role")
	}
	if s.Role == op.Operator && len(s.Roots) > 0 {
		return journal.Token{}, "", op.Fail(op.BadRequest, "an operator's token is for the whole daemon").In("root").Do("give a reviewer's token the roots instead")
	}
	if !op.Label(s.Name) {
		return journal.Token{}, "", op.Fail(op.BadRequest, "name must be 1 to 64 of A-Z a-z 0-9 . _ : -").In("name")
	}
	if s.Workflow != "" && !op.Label(s.Workflow) {
		return journal.Token{}, "", op.Fail(op.BadRequest, "workflow must be 1 to 64 of A-Z a-z 0-9 . _ : -").In("workflow")
	}
	if s.Profile != "" {
		if _, ok, err := e.profileNamed(ctx, s.Profile); err != nil {
			return journal.Token{}, "", err
		} else if !ok {
			return journal.Token{}, "", op.Fail(op.BadRequest, fmt.Sprintf("there is no profile %q", s.Profile)).In("profile")
		}
	}
	for _, r := range s.Roots {
		if _, err := e.workspace(op.Caller{Role: op.Operator}, r); err != nil {
			return journal.Token{}, "", err
		}
	}
	now := e.cfg.Now().UTC()
	t := journal.Token{ID: e.jrn.NewID("tk_"), Name: s.Name, Role: s.Role, Roots: s.Roots, Workflow: s.Workflow, Profile: s.Profile,
		Clearance: s.Clearance, Created: now, SocketOnly: s.SocketOnly}
	if s.Expires > 0 {
		t.Expires = now.Add(s.Expires)
	}
	secret := NewSecret()
	return t, secret, e.jrn.AddToken(ctx, t, secret)
}

// Caller gives who a secret belongs to.
func (e *Engine) Caller(ctx context.Context, secret string) (op.Caller, journal.Token, error) {
	now := e.cfg.Now()
	t, err := e.known.token(ctx, secret, func() (journal.Token, error) { return e.jrn.TokenBySecret(ctx, secret, now) })
	if err == nil && !t.Expires.IsZero() && !now.Before(t.Expires) {
		// It was good when it was read; the journal words the refusal.
		t, err = e.jrn.TokenBySecret(ctx, secret, now)
	}
	if err != nil {
		return op.Caller{}, t, err
	}
	by, err := e.narrowed(ctx, op.Caller{Token: t.ID, Name: t.Name, Role: t.Role, Roots: t.Roots, Workflow: t.Workflow, Profile: t.Profile, Clearance: t.Clearance})
	return by, t, err
}

// Tokens lists the roster; secrets are not kept.
func (e *Engine) Tokens(ctx context.Context) ([]journal.Token, error) { return e.jrn.Tokens(ctx) }

// RevokeToken ends a token.
func (e *Engine) RevokeToken(ctx context.Context, id op.ID) error {
	defer e.known.forget()
	return e.jrn.RevokeToken(ctx, id)
}

// RootView is one root in status.
type RootView struct {
	Name     string       `json:"name"`
	Key      string       `json:"key"`
	Dir      string       `json:"dir,omitempty"`
	Store    string       `json:"store"`
	Ready    bool         `json:"ready"`
	Warnings []op.Warning `json:"warnings,omitempty"`
	Watch    *RootWatch   `json:"watch,omitempty"` // of its changes, where somebody asked for them
}

// Status is the daemon's own state.
type Status struct {
	Version    string         `json:"version"`
	Roots      []RootView     `json:"roots"`
	ReviewAuth string         `json:"review_auth"`
	Pending    int            `json:"pending"`
	Policy     trusted.Status `json:"policy"`
	Warnings   []op.Warning   `json:"warnings"`
	Watches    WatchView      `json:"watches"`
	State      string         `json:"state,omitempty"`
}

// WatchView tells whether all waiting cards are watched for drift: ok or degraded. No
// decision rests on it.
type WatchView struct {
	State   string  `json:"state"`
	Code    op.Code `json:"code,omitempty"`
	Message string  `json:"message,omitempty"`
}

func (e *Engine) watches(s *Status) {
	s.Watches.State = "ok"
	if why := e.drift.lacks(); why != nil {
		s.Watches = WatchView{State: "degraded", Code: why.Code, Message: why.Message + "; " + why.Hint}
		s.Warnings = append(s.Warnings, op.Warning{Code: string(why.Code), Message: "not all waiting cards are watched for drift: " + s.Watches.Message})
	}
}

// lookAgain reads the workspace's own files where they changed, so that status tells of what
// is in them before the first call meets it. It says which cannot be read.
func (w *Workspace) lookAgain(ctx context.Context, there bool) (out []op.Warning) {
	if !there {
		return nil
	}
	_, tight := w.tightened(ctx)
	for name, err := range map[op.Path]error{patternFile: w.refresh(ctx), tightFile: tight} {
		if err != nil {
			out = append(out, op.Warning{Code: string(op.AsError(err).Code), Message: string(name) + " cannot be read: " + op.AsError(err).Message})
		}
	}
	return out
}

// weaker names what the root's filesystem cannot do, and what follows.
func (w *Workspace) weaker() []op.Warning {
	f := w.Store.Features()
	switch {
	case !f.Exchange:
		return []op.Warning{{Code: "weak_filesystem", Message: "this filesystem cannot exchange two names in one step: files that are there cannot be changed safely, and are not"}}
	case !f.Lease:
		return []op.Warning{{Code: "weak_filesystem", Message: "this filesystem has no leases: a program that holds a file open may still write into the version that was replaced; it is found and named afterwards"}}
	}
	return nil
}

// RelaxedText says what the operator gave up.
const RelaxedText = "changes are not flushed to the disk: a power cut or a crash of the system can take an acknowledged change, the old version of the file and the new one; the operator chose durability = \"relaxed\""

// Status tells what a caller may know.
func (e *Engine) Status(ctx context.Context, by op.Caller) (Status, error) {
	s := Status{Version: e.cfg.Version, ReviewAuth: e.cfg.ReviewAuth, Roots: []RootView{}, Warnings: []op.Warning{}}
	s.Policy = trusted.Status{State: "none"}
	if e.trust != nil {
		s.Policy = e.trust.Status()
	}
	mine := op.ID("")
	if by.Role == op.Agent {
		mine = by.Token
	}
	var err error
	if s.Pending, err = e.jrn.CountApprovals(ctx, journal.Pending, mine); err != nil {
		return s, err
	}
	e.watches(&s)
	if w := e.hurt.warning(by); w != nil {
		s.Warnings = append(s.Warnings, *w)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, w := range e.roots {
		if mayUse(by, w) {
			ready := w.Root.Check() == nil
			unread := w.lookAgain(ctx, ready)
			w.mu.Lock()
			s.Roots = append(s.Roots, RootView{w.Name, w.Key, w.Root.Dir(), w.StoreAt, ready, slices.Concat(w.Warnings, w.tightWarnings, unread, w.weaker()), w.watching.view()})
			w.mu.Unlock()
		}
	}
	if what := e.fault.Load(); what != nil && *what != "" {
		s.Warnings = append(s.Warnings, op.Warning{Code: "config", Message: "the configuration on disk is not what holds: " + *what})
	}
	if e.cfg.ReviewAuth == "token" {
		s.Warnings = append(s.Warnings, op.Warning{Code: "review_auth_token", Message: "programs of the same user can approve: an operator token lies on disk"})
	}
	if e.cfg.Relaxed {
		s.Warnings = append(s.Warnings, op.Warning{Code: "relaxed_durability", Message: RelaxedText})
	}
	if e.cfg.AsRoot {
		s.Warnings = append(s.Warnings, op.Warning{Code: "running_as_root", Message: "the daemon runs as root: files keep their owners, but no file mode stops it"})
	}
	if e.cfg.Process.ApprovalDisabled {
		s.Warnings = append(s.Warnings, op.Warning{Code: string(op.ReasonProcessDisabled), Message: "programs run without asking anybody: the operator switched their approval off for this whole deployment"})
	}
	if e.cfg.Process.RehearseWithoutReview {
		s.Warnings = append(s.Warnings, op.Warning{Code: "rehearse_without_review", Message: "rehearsals that are fully confined and without network run without asking anybody: the operator switched that on"})
	}
	if e.cfg.Process.Confinement == "off" {
		s.Warnings = append(s.Warnings, op.Warning{Code: "confinement_off", Message: "programs run unconfined: the operator switched confinement off"})
	}
	if left := e.Leftovers(); len(left) > 0 {
		s.Warnings = append(s.Warnings, op.Warning{Code: string(op.DescendantsSurvived), Message: "an earlier daemon that was killed left running, ended since: " + strings.Join(left, ", ")})
	}
	return s, nil
}

// RemoveRoot forgets a root; its store and history stay.
func (e *Engine) RemoveRoot(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, w := range e.roots {
		if w.Name == name || w.Key == name {
			e.roots = append(e.roots[:i:i], e.roots[i+1:]...)
			w.close()
			return nil
		}
	}
	return op.Fail(op.UnknownRoot, "no workspace has this name or key").In("root")
}

// Protection lists the patterns of a root, or tells what holds of one path.
func (e *Engine) Protection(ctx context.Context, by op.Caller, root string) ([]protected.Described, error) {
	w, err := e.workspace(by, root)
	if err != nil {
		return nil, err
	}
	if err := w.refresh(ctx); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set.Patterns(), nil
}

// PathProtection is what holds of one path.
type PathProtection struct {
	Path      op.Path `json:"path"`
	Protected bool    `json:"protected"`
	By        string  `json:"protected_by,omitempty"`
	From      string  `json:"protected_from,omitempty"`
	Sensitive bool    `json:"sensitive"`
	Ignored   bool    `json:"ignored"`
}

// ProtectionOf tells what holds of one path, whether or not anything stands there.
func (e *Engine) ProtectionOf(ctx context.Context, by op.Caller, root, path string) (PathProtection, error) {
	w, err := e.workspace(by, root)
	if err != nil {
		return PathProtection{}, err
	}
	if err := w.refresh(ctx); err != nil {
		return PathProtection{}, err
	}
	s, err := preflight.Look(ctx, w.Root, w, []op.Subject{{Arg: "path", Asked: path, Role: op.RoleTarget}}, preflight.Shallow)
	if err != nil {
		return PathProtection{}, err
	}
	defer s.Close()
	t := s.Targets[0]
	return PathProtection{t.Path, t.Protected, t.ProtectedBy, t.ProtectedFrom, t.Sensitive, t.Ignored}, nil
}
