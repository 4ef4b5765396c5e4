package bridge

import (
	"net/http"

	"holdpoint/op"
)

// CleanRequest asks for the cleanup of one entry of the trusted policy. It names no path.
type CleanRequest struct {
	PolicyID, Root                         string
	DryRun                                 bool
	RequestID, Session, Stage, ExecutionID string
}

// postClean runs the operator's own cleanup; the answer is a Reply like that of a call.
func (s *Server) postClean(w http.ResponseWriter, r *http.Request, by op.Caller) {
	var c CleanRequest
	labels := map[string]*string{"policy_id": &c.PolicyID, "root": &c.Root, "request_id": &c.RequestID, "session": &c.Session, "stage": &c.Stage, "execution_id": &c.ExecutionID}
	o, err := body(r)
	if err == nil {
		err = only(o, "policy_id", "root", "dry_run", "request_id", "session", "stage", "execution_id")
	}
	for name, dst := range labels {
		if err == nil {
			*dst, err = text(o, name)
		}
		if err == nil && name != "policy_id" && name != "root" && *dst != "" && !op.Label(*dst) {
			err = op.Fail(op.BadRequest, name+" must be at most 64 of A-Z a-z 0-9 . _ : -").In(name)
		}
	}
	if err == nil {
		c.DryRun, err = flag(o, "dry_run")
	}
	if err == nil && c.PolicyID == "" {
		err = op.Fail(op.BadRequest, "policy_id is missing").In("policy_id")
	}
	if err != nil {
		answer := s.Engine.Malformed(by, op.BatchFileOps, err)
		reply(w, statusOf(answer), answer)
		return
	}
	answer := s.Engine.Clean(r.Context(), by, c)
	reply(w, statusOf(answer), answer)
}
