package bridge

import (
	"context"
	"encoding/base64"
	"net/http"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// People is what the bridge needs of the roster of reviewers and of their passkeys.
// Exchanges with a browser pass through as the JSON they are.
type People interface {
	Me(ctx context.Context, by op.Caller) (any, error)
	Reviewers(ctx context.Context) (any, error)
	AddReviewer(ctx context.Context, by op.Caller, r ReviewerRequest) (any, error)
	RevokeReviewer(ctx context.Context, by op.Caller, which string) (any, error)
	BeginPasskey(ctx context.Context, by op.Caller, proof []byte) (any, error)
	RegisterPasskey(ctx context.Context, by op.Caller, device string, made []byte) (any, error)
	Challenge(ctx context.Context, by op.Caller, id op.ID, a journal.Answer) (any, error)
	// Steady refuses what a token alone must not change once reviewers have passkeys.
	Steady(ctx context.Context, by op.Caller) error
	// Person gives whose an entry of the roster is while it counts.
	Person(ctx context.Context, entry op.ID) (op.Caller, error)
}

// ReviewerRequest asks for an entry of the roster that no browser makes.
type ReviewerRequest struct {
	Name, Kind, Account, Device string
	Passkey                     string // as the page of a hub shows it
	Public                      []byte
	Roots                       []string
	Expires                     time.Duration
}

// maxProof bounds what a browser says of a passkey, in bytes.
const maxProof = 64 << 10

// steady wraps what decides who may answer, or whether anybody is asked at all.
func (s *Server) steady(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request, by op.Caller) {
		if err := s.Engine.Steady(r.Context(), by); err != nil {
			fail(w, err)
			return
		}
		h(w, r, by)
	}
}

func (s *Server) getMe(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.Me(r.Context(), by)
	result(w, v, err)
}

func (s *Server) getReviewers(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	v, err := s.Engine.Reviewers(r.Context())
	result(w, map[string]any{"reviewers": v}, err)
}

func (s *Server) postReviewer(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "name", "kind", "public", "passkey", "account", "device", "roots", "expires")
	}
	var req ReviewerRequest
	var public, expires string
	for name, dst := range map[string]*string{"name": &req.Name, "kind": &req.Kind, "public": &public, "passkey": &req.Passkey, "account": &req.Account, "device": &req.Device, "expires": &expires} {
		if err == nil {
			*dst, err = text(o, name)
		}
	}
	if roots, given := o["roots"]; given && err == nil {
		req.Roots, err = stringList(roots, "roots")
	}
	if err == nil && public != "" {
		if req.Public, err = base64.StdEncoding.DecodeString(public); err != nil {
			err = op.Fail(op.BadRequest, "public must be base64").In("public")
		}
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
	v, err := s.Engine.AddReviewer(r.Context(), by, req)
	if err == nil {
		s.pairing.end() // it was opened while a token alone could, perhaps by this person's name
	}
	result(w, v, err)
}

func (s *Server) deleteReviewer(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.RevokeReviewer(r.Context(), by, r.PathValue("id"))
	result(w, map[string]any{"revoked": v}, err)
}

// postPasskeyBegin begins to register a passkey; who has one shows it first.
func (s *Server) postPasskeyBegin(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "proof")
	}
	var proof []byte
	if err == nil {
		proof, err = part(o, "proof")
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.BeginPasskey(r.Context(), by, proof)
	result(w, v, err)
}

func (s *Server) postPasskey(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "device", "credential")
	}
	var device string
	if err == nil {
		device, err = text(o, "device")
	}
	if err == nil && len(device) > 64 {
		err = op.Fail(op.TooLarge, "device is over 64 bytes").In("device")
	}
	var made []byte
	if err == nil {
		made, err = part(o, "credential")
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.RegisterPasskey(r.Context(), by, device, made)
	result(w, v, err)
}

// postChallenge gives what a passkey is to sign for one answer.
func (s *Server) postChallenge(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	var a journal.Answer
	if err == nil {
		a, err = answerOf(o)
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.Challenge(r.Context(), by, op.ID(r.PathValue("id")), a)
	result(w, v, err)
}

// answerOf reads what a person says to a card.
func answerOf(o op.Object) (a journal.Answer, err error) {
	if err = only(o, "answer", "remember", "note", "shown_digest", "proof"); err != nil {
		return a, err
	}
	for name, dst := range map[string]*string{"answer": &a.Answer, "note": &a.Note, "shown_digest": &a.ShownDigest} {
		if err == nil {
			*dst, err = text(o, name)
		}
	}
	if err == nil {
		a.Remember, err = flag(o, "remember")
	}
	if err == nil {
		a.Proof, err = part(o, "proof")
	}
	return a, err
}

// part takes an object that somebody else reads; absent is nil.
func part(o op.Object, name string) ([]byte, error) {
	v, given := o[name]
	if !given {
		return nil, nil
	}
	inner, ok := v.(op.Object)
	if !ok {
		return nil, op.Fail(op.BadRequest, name+" must be an object").In(name)
	}
	b := op.Canonical(inner)
	if len(b) > maxProof {
		return nil, op.Fail(op.TooLarge, name+" is over 64 KiB").In(name)
	}
	return b, nil
}
