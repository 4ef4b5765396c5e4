package bridge

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// What a code of pairing is held to.
const (
	pairLife    = 5 * time.Minute
	pairGuesses = 5
	pairLength  = 8
	// pairLetters has none that is taken for another one.
	pairLetters = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
)

// pairing is the one code that is open. It is good once, for a short while, and gone after
// a few wrong guesses, whoever made them. It lives in memory only.
type pairing struct {
	mu    sync.Mutex // guards the rest
	sum   [32]byte   // of the code
	life  TokenRequest
	ends  time.Time // zero when none is open
	over  string    // why none is open, for the audit; empty: none was yet
	wrong int
}

// Why a code is not good. The audit alone learns it.
const (
	codeNever   = "code_unknown" // none was opened
	codeWrong   = "code_wrong"
	codeEnded   = "code_ended" // its time is over
	codeUsed    = "code_used"
	codeGuessed = "code_guessed" // it was guessed at too often
)

func newCode() string {
	b := make([]byte, 0, pairLength)
	for one := make([]byte, 1); len(b) < pairLength; {
		rand.Read(one)
		if int(one[0]) < 256/len(pairLetters)*len(pairLetters) { // else some letters would come more often
			b = append(b, pairLetters[int(one[0])%len(pairLetters)])
		}
	}
	return string(b)
}

func (p *pairing) open(t TokenRequest) (string, time.Time) {
	code := newCode()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum, p.life, p.ends, p.wrong, p.over = sha256.Sum256([]byte(code)), t, time.Now().Add(pairLife), 0, codeEnded
	return code, p.ends
}

// claim ends the code when it is the right one, or was guessed at too often. why is empty
// for the right one.
func (p *pairing) claim(code string) (t TokenRequest, why string) {
	sum := sha256.Sum256([]byte(code))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !time.Now().Before(p.ends) && p.over == "":
		return t, codeNever
	case !time.Now().Before(p.ends):
		return t, p.over
	case subtle.ConstantTimeCompare(sum[:], p.sum[:]) == 1:
		p.ends, p.over = time.Time{}, codeUsed
		return p.life, ""
	}
	if p.wrong++; p.wrong >= pairGuesses {
		p.ends, p.over = time.Time{}, codeGuessed
	}
	return t, codeWrong
}

// end takes the open code back.
func (p *pairing) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ends.IsZero() {
		p.ends, p.over = time.Time{}, codeEnded
	}
}

// postPair opens a code, in place of the one that may be open.
func (s *Server) postPair(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "name", "expires")
	}
	t := TokenRequest{Role: op.Reviewer, Roots: by.Roots, Expires: sessionLife}
	var expires string
	for name, dst := range map[string]*string{"name": &t.Name, "expires": &expires} {
		if err == nil {
			*dst, err = text(o, name)
		}
	}
	if err == nil && !op.Label(t.Name) {
		err = op.Fail(op.BadRequest, "name must be 1 to 64 of A-Z a-z 0-9 . _ : -: it is what the audit and the cards call who answers").In("name")
	}
	if err == nil && expires != "" {
		if t.Expires, err = Span(expires); err != nil {
			err = op.Fail(op.BadRequest, "expires must be a time like 12h or 30d").In("expires")
		}
	}
	if err != nil {
		fail(w, err)
		return
	}
	code, ends := s.pairing.open(t)
	out := map[string]any{"code": code, "expires_at": ends.UTC()}
	if s.PublicURL != "" {
		// Behind the # it is sent to no server, and stands in no log of a proxy.
		out["url"] = s.PublicURL + "/#/pair/" + code
	}
	reply(w, http.StatusOK, out)
}

// postClaim gives a reviewer's token for a code. Every refusal is the same.
func (s *Server) postClaim(w http.ResponseWriter, r *http.Request) {
	if notJSON(w, r) {
		return
	}
	code, err := codeOf(w, r)
	if err != nil {
		fail(w, err)
		return
	}
	t, why := s.pairing.claim(strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code)))
	if why != "" {
		err := op.Fail(op.Unauthenticated, "this code is not good").Do("ask for a new one with holdpoint pair").Because(&journal.Unfit{Why: why})
		s.Engine.Denied("pair", err)
		fail(w, err)
		return
	}
	token, secret, err := s.Engine.CreateToken(r.Context(), t)
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"token": secret, "id": token.ID, "role": token.Role, "expires_at": token.Expires.UTC()})
}

// codeOf is the code that a person hands in for a token or a session.
func codeOf(w http.ResponseWriter, r *http.Request) (code string, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, 4096)
	o, err := body(r)
	if err == nil {
		err = only(o, "code")
	}
	if err == nil {
		code, err = text(o, "code")
	}
	if err == nil {
		err = asPerson(r.Context(), op.Reviewer)
	}
	return code, err
}
