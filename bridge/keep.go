package bridge

import (
	"net/http"

	"holdpoint/op"
)

// The routes by which a person looks after what is kept: the net patch, collection,
// forgetting, taking out, and checking.

func (s *Server) postDiff(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "root", "operations")
	}
	root, ids := "", []string(nil)
	if err == nil {
		root, err = text(o, "root")
	}
	if err == nil {
		ids, err = texts(o, "operations")
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.NetDiff(r.Context(), by, root, ids)
	result(w, v, err)
}

func (s *Server) postCollect(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "dry_run", "now")
	}
	dry, now := false, ""
	if err == nil {
		dry, err = flag(o, "dry_run")
	}
	if err == nil {
		now, err = text(o, "now")
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.Collect(r.Context(), by, dry, op.ID(now))
	result(w, v, err)
}

func (s *Server) postForget(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "root", "what")
	}
	root, what := "", ""
	if err == nil {
		root, err = text(o, "root")
	}
	if err == nil {
		what, err = text(o, "what")
	}
	if err == nil && what == "" {
		err = op.Fail(op.BadRequest, "what names an operation or a path").In("what")
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.Forget(r.Context(), by, root, what)
	result(w, v, err)
}

func (s *Server) getExport(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.Export(r.Context(), by, op.ID(r.PathValue("id")))
	result(w, v, err)
}

func (s *Server) postVerify(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "repair")
	}
	repair := false
	if err == nil {
		repair, err = flag(o, "repair")
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.Verify(r.Context(), by, repair)
	result(w, v, err)
}

// getReplay makes every decision on record again; nothing is changed.
func (s *Server) getReplay(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	v, err := s.Engine.Replay(r.Context())
	result(w, v, err)
}

// texts takes a list of strings; absent is none.
func texts(o op.Object, name string) ([]string, error) {
	v, given := o[name]
	if !given {
		return nil, nil
	}
	list, ok := v.([]any)
	out := make([]string, len(list))
	for i, e := range list {
		var isText bool
		out[i], isText = e.(string)
		ok = ok && isText
	}
	if !ok {
		return nil, op.Fail(op.BadRequest, name+" must be a list of strings").In(name)
	}
	return out, nil
}
