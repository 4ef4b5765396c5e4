package bridge

import (
	"net/http"

	"holdpoint/op"
)

// getProfiles lists every profile with the agents under it. It is the operator's view;
// agents have the operation list_profiles.
func (s *Server) getProfiles(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	v, err := s.Engine.Profiles(r.Context())
	result(w, map[string]any{"profiles": v}, err)
}

// putProfile makes a profile, or replaces one that was made this way: the name beside the
// parameters, which are those of the configuration.
func (s *Server) putProfile(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	var name string
	if err == nil {
		name, err = text(o, "name")
	}
	if err != nil {
		fail(w, err)
		return
	}
	delete(o, "name")
	v, err := s.Engine.PutProfile(r.Context(), by, name, o)
	result(w, v, err)
}

func (s *Server) deleteProfile(w http.ResponseWriter, r *http.Request, by op.Caller) {
	name := r.PathValue("name")
	result(w, map[string]any{"name": name, "removed": true}, s.Engine.DeleteProfile(r.Context(), by, name))
}

// putProfileUse puts one agent under a profile.
func (s *Server) putProfileUse(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "agent")
	}
	var agent string
	if err == nil {
		agent, err = text(o, "agent")
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.UseProfile(r.Context(), by, r.PathValue("name"), agent)
	result(w, v, err)
}
