package bridge

import (
	"net/http"
	"time"

	"holdpoint/op"
)

// RuleRequest asks for a grant or a mode.
type RuleRequest struct {
	Agent, Root, Scope, Session, Stage string
	Mode                               op.Mode
	Operations                         []op.Name
	Paths                              []string
	MaxTier                            op.Tier
	MaxCount, MaxBytes                 int64
	For                                time.Duration
	Confirm                            bool
}

// getRules lists modes, grants and remembered rules; all=true the ended ones too.
func (s *Server) getRules(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.Rules(r.Context(), by, r.URL.Query().Get("all") == "true")
	result(w, map[string]any{"rules": v}, err)
}

// putRule makes a grant.
func (s *Server) putRule(w http.ResponseWriter, r *http.Request, by op.Caller) {
	req, err := ruleRequest(r, "agent", "root", "scope", "session", "stage", "operations", "paths", "max_tier", "count", "bytes", "for")
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.Grant(r.Context(), by, req)
	result(w, v, err)
}

// putMode sets the mode of one token.
func (s *Server) putMode(w http.ResponseWriter, r *http.Request, by op.Caller) {
	req, err := ruleRequest(r, "agent", "root", "session", "mode", "for", "confirm")
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.SetMode(r.Context(), by, req)
	result(w, v, err)
}

func (s *Server) deleteRule(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.RevokeRule(r.Context(), by, op.ID(r.PathValue("id")))
	result(w, v, err)
}

// deleteMode ends one mode by its id, or those of an agent, in a session where one is named.
func (s *Server) deleteMode(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := bodyOrQuery(r, "id", "agent", "session", "root")
	var id string
	var req RuleRequest
	for name, dst := range map[string]*string{"id": &id, "agent": &req.Agent, "session": &req.Session, "root": &req.Root} {
		if err == nil {
			*dst, err = text(o, name)
		}
	}
	switch {
	case err != nil:
		fail(w, err)
	case id != "" && len(o) > 1:
		fail(w, op.Fail(op.BadRequest, "an id stands alone").In("id"))
	case id != "":
		r.SetPathValue("id", id)
		s.deleteRule(w, r, by)
	case req.Agent == "":
		fail(w, op.Fail(op.BadRequest, "say which: id, or agent and, where it was given to one, session").In("agent"))
	default:
		v, err := s.Engine.EndModes(r.Context(), by, req)
		result(w, map[string]any{"rules": v}, err)
	}
}

// named serves a DELETE that names its row in the query or the body instead of the path.
func named(field string, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request, by op.Caller) {
		o, err := bodyOrQuery(r, field)
		var id string
		if err == nil {
			id, err = text(o, field)
		}
		if err == nil && id == "" {
			err = op.Fail(op.BadRequest, field+" is missing").In(field)
		}
		if err != nil {
			fail(w, err)
			return
		}
		r.SetPathValue(field, id)
		h(w, r, by)
	}
}

// bodyOrQuery reads fields from a JSON body, or from the query where there is no body.
func bodyOrQuery(r *http.Request, fields ...string) (op.Object, error) {
	if r.ContentLength != 0 {
		o, err := body(r)
		if err == nil {
			err = only(o, fields...)
		}
		return o, err
	}
	o := op.Object{}
	for k, v := range r.URL.Query() {
		o[k] = v[0]
	}
	return o, only(o, fields...)
}

// getReach tells what remembering an answer would cover, over the log so far.
func (s *Server) getReach(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.RuleReach(r.Context(), by, op.ID(r.PathValue("id")))
	result(w, v, err)
}

func ruleRequest(r *http.Request, fields ...string) (RuleRequest, error) {
	var req RuleRequest
	o, err := body(r)
	if err == nil {
		err = only(o, fields...)
	}
	var mode, tier, span string
	for name, dst := range map[string]*string{"agent": &req.Agent, "root": &req.Root, "scope": &req.Scope, "session": &req.Session, "stage": &req.Stage,
		"mode": &mode, "max_tier": &tier, "for": &span} {
		if err == nil {
			*dst, err = text(o, name)
		}
	}
	if err == nil {
		req.Confirm, err = flag(o, "confirm")
	}
	for name, dst := range map[string]*int64{"count": &req.MaxCount, "bytes": &req.MaxBytes} {
		if err == nil {
			*dst, err = number(o, name)
		}
	}
	var ops []string
	for name, dst := range map[string]*[]string{"operations": &ops, "paths": &req.Paths} {
		if v, given := o[name]; given && err == nil {
			*dst, err = stringList(v, name)
		}
	}
	if err == nil && span != "" {
		if req.For, err = Span(span); err != nil {
			err = op.Fail(op.BadRequest, "for must be a time like 2h").In("for")
		}
	}
	req.Mode, req.MaxTier = op.Mode(mode), op.Tier(tier)
	for _, n := range ops {
		req.Operations = append(req.Operations, op.Name(n))
	}
	return req, err
}

// stringList takes a list of strings.
func stringList(v any, name string) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, op.Fail(op.BadRequest, name+" must be a list of strings").In(name)
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok {
			return nil, op.Fail(op.BadRequest, name+" must be a list of strings").In(name)
		}
	}
	return out, nil
}
