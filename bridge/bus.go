package bridge

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// onBus marks requests that others carried here, such as the servers of NATS, on a subject
// of one root.
type onBus struct{}

type busRoot struct{ key, name string }

// WithRoot marks a request as carried, for one root alone.
func WithRoot(ctx context.Context, key, name string) context.Context {
	return context.WithValue(ctx, onBus{}, busRoot{key, name})
}

// carried narrows a caller to the root of the subject. Tokens of people do not count there:
// whoever runs the servers could keep one and use it.
func carried(ctx context.Context, by op.Caller) (op.Caller, error) {
	root, is := ctx.Value(onBus{}).(busRoot)
	if !is {
		return by, nil
	}
	if by.Role != op.Agent {
		return by, op.Fail(op.Forbidden, "a token of the role "+string(by.Role)+" is not good over NATS, where others could keep it").
			Do("answer with a signature by a key that is enrolled on the machine, or on the machine itself")
	}
	mine := len(by.Roots) == 0
	for _, r := range by.Roots {
		mine = mine || r == root.key || r == root.name
	}
	if !mine {
		return by, op.Fail(op.Forbidden, "the token is not for the root of this subject")
	}
	by.Roots = []string{root.key}
	return by, nil
}

// Signed serves answers that carry a signature in place of a token. The request must be
// marked with its root.
func (s *Server) Signed() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, is := r.Context().Value(onBus{}).(busRoot)
		id, found := strings.CutPrefix(r.URL.Path, "/v1/approvals/")
		id, ends := strings.CutSuffix(id, "/answer")
		if !is || !found || !ends {
			fail(w, op.Fail(op.NotFound, "no such route"))
			return
		}
		a, proof, err := SignedAnswer(r)
		var v any
		if err == nil {
			v, err = s.Engine.AnswerCarried(r.Context(), root.key, op.ID(id), a, proof)
		}
		result(w, v, err)
	})
}

// SignedAnswer reads the words of an answer and its proof, strictly.
func SignedAnswer(r *http.Request) (a journal.Answer, proof json.RawMessage, err error) {
	r.Body = http.MaxBytesReader(nil, r.Body, 64<<10)
	o, err := body(r)
	if err == nil {
		err = only(o, "answer", "remember", "note", "shown_digest", "proof")
	}
	for name, dst := range map[string]*string{"answer": &a.Answer, "note": &a.Note, "shown_digest": &a.ShownDigest} {
		if err == nil {
			*dst, err = text(o, name)
		}
	}
	if err == nil {
		a.Remember, err = flag(o, "remember")
	}
	if err != nil {
		return a, nil, err
	}
	p, ok := o["proof"].(op.Object)
	if !ok {
		return a, nil, op.Fail(op.ProofInvalid, "an answer that others carry needs a signature").In("proof").Do("nothing was answered")
	}
	if err := only(p, "reviewer", "signature", "assertion"); err != nil {
		return a, nil, err
	}
	return a, op.Canonical(p), nil
}

// Fail writes an error as every route does, for those who serve some of these routes.
func Fail(w http.ResponseWriter, err error) { fail(w, err) }

// Reply writes a value as every route does.
func Reply(w http.ResponseWriter, v any) { reply(w, http.StatusOK, v) }
