package bridge

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// TokenView is a token of the roster; no secret is in it.
type TokenView struct {
	ID        op.ID     `json:"id"`
	Name      string    `json:"name"`
	Role      op.Role   `json:"role"`
	Roots     []string  `json:"roots,omitempty"`
	Workflow  string    `json:"workflow,omitempty"`
	Profile   string    `json:"profile,omitempty"`
	Clearance int       `json:"clearance,omitempty"`
	Created   time.Time `json:"created_at"`
	Expires   time.Time `json:"expires_at,omitzero"`
	Revoked   bool      `json:"revoked"`
}

func viewOf(t journal.Token) TokenView {
	return TokenView{t.ID, t.Name, t.Role, t.Roots, t.Workflow, t.Profile, t.Clearance, t.Created, t.Expires, t.Revoked}
}

func (s *Server) getTokens(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	list, err := s.Engine.Tokens(r.Context())
	views := []TokenView{}
	for _, t := range list {
		views = append(views, viewOf(t))
	}
	result(w, map[string]any{"tokens": views}, err)
}

func (s *Server) postToken(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "name", "role", "root", "roots", "workflow", "profile", "clearance", "expires")
	}
	var req TokenRequest
	var role, root, expires string
	for name, dst := range map[string]*string{"name": &req.Name, "role": &role, "root": &root, "workflow": &req.Workflow, "profile": &req.Profile, "expires": &expires} {
		if err == nil {
			*dst, err = text(o, name)
		}
	}
	req.Role = op.Role(role)
	if root != "" {
		req.Roots = []string{root}
	}
	// A list that is passed over because it is none would leave the token unbound.
	var more []string
	if err == nil {
		more, err = texts(o, "roots")
	}
	req.Roots = append(req.Roots, more...)
	if err == nil {
		req.Clearance, err = clearanceOf(o)
	}
	if err == nil && expires != "" {
		if req.Expires, err = Span(expires); err != nil {
			err = op.Fail(op.BadRequest, "expires must be a time like 12h or 30d").In("expires")
		}
	}
	if err != nil {
		fail(w, err)
		return
	}
	t, secret, err := s.Engine.CreateToken(r.Context(), req)
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, struct {
		TokenView
		Token string `json:"token"` // shown this once
	}{viewOf(t), secret})
}

// clearanceOf takes the owner's clearance; absent is none.
func clearanceOf(o op.Object) (int, error) {
	n, err := number(o, "clearance")
	if _, given := o["clearance"]; given && err == nil && (n < 1 || n > maxClearance) {
		err = op.Fail(op.BadRequest, "clearance must be a number from 1 to 1,000,000").In("clearance")
	}
	return int(n), err
}

const maxClearance = 1_000_000

// Span reads a length of time; "30d" counts days.
func Span(s string) (time.Duration, error) {
	if len(s) > 1 && s[len(s)-1] == 'd' {
		n, err := strconv.ParseUint(s[:len(s)-1], 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	d, err := time.ParseDuration(s)
	if err == nil && d <= 0 {
		err = fmt.Errorf("not a length of time: %s", s)
	}
	return d, err
}

func (s *Server) deleteToken(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	err := s.Engine.RevokeToken(r.Context(), op.ID(r.PathValue("id")))
	result(w, map[string]any{"id": r.PathValue("id"), "revoked": true}, err)
}

func (s *Server) postRoot(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "name", "dir")
	}
	var name, dir string
	if err == nil {
		name, err = text(o, "name")
	}
	if err == nil {
		dir, err = text(o, "dir")
	}
	if err == nil && dir == "" {
		err = op.Fail(op.BadRequest, "dir is missing").In("dir")
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.AddRoot(r.Context(), name, dir)
	result(w, v, err)
}

func (s *Server) deleteRoot(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	err := s.Engine.RemoveRoot(r.Context(), r.PathValue("name"))
	result(w, map[string]any{"name": r.PathValue("name"), "removed": true}, err)
}
