package bridge

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

func (s *Server) postCall(w http.ResponseWriter, r *http.Request, by op.Caller) {
	var req op.Request
	var warnings []op.Warning
	o, err := body(r)
	if err == nil {
		req, warnings, err = op.RequestFrom(o)
	}
	if err != nil {
		answer := s.Engine.Malformed(by, req.Op, err)
		reply(w, statusOf(answer), answer)
		return
	}
	answer := s.Engine.Call(r.Context(), by, req, warnings)
	reply(w, statusOf(answer), answer)
}

func (s *Server) postPreflight(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err != nil {
		fail(w, err)
		return
	}
	var answer any
	var why *op.Error
	if list, ok := o["paths"]; ok {
		paths, root, page, err := pathList(o, list)
		if err != nil {
			fail(w, err)
			return
		}
		answer, why = s.Engine.Facts(r.Context(), by, root, paths, page)
	} else {
		req, warnings, err := op.RequestFrom(o)
		if err != nil {
			fail(w, err)
			return
		}
		answer, why = s.Engine.Preflight(r.Context(), by, req, warnings)
	}
	status := http.StatusOK
	if why != nil {
		status = op.HTTPStatus(why.Code)
	}
	reply(w, status, answer)
}

func pathList(o op.Object, v any) (paths []string, root string, page op.Page, err error) {
	if err = only(o, "root", "paths", "page_size", "page"); err != nil {
		return nil, "", page, err
	}
	if root, err = text(o, "root"); err == nil {
		page, err = pageOf(o)
	}
	if err != nil {
		return nil, "", page, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, "", page, op.Fail(op.BadRequest, "paths must be a list of strings").In("paths")
	}
	paths = make([]string, len(list))
	for i, p := range list {
		if paths[i], ok = p.(string); !ok {
			return nil, "", page, op.Fail(op.BadRequest, "paths must be a list of strings").In(fmt.Sprintf("paths[%d]", i))
		}
	}
	return paths, root, page, nil
}

// maxPage is how many facts a page may hold: as many as there are paths in one call.
const maxPage = 10_000

func pageOf(o op.Object) (p op.Page, err error) {
	if v, given := o["page_size"]; given {
		size, ok := v.(int64)
		if !ok || size < 1 || size > maxPage {
			return p, op.Fail(op.BadRequest, "page_size must be a number from 1 to 10,000").In("page_size")
		}
		p.Size = int(size)
	}
	if p.After, err = text(o, "page"); err == nil && p.After != "" && p.Size == 0 {
		err = op.Fail(op.BadRequest, "page goes with page_size").In("page_size")
	}
	return p, err
}

// postUndo takes a credential or an operation id; it is the operation undo, spelled short.
func (s *Server) postUndo(w http.ResponseWriter, r *http.Request, by op.Caller) {
	if by.Role != op.Agent && !by.Role.Includes(op.Reviewer) {
		turnAway(w, r, http.StatusForbidden, op.Fail(op.Forbidden, "an observer cannot undo"))
		return
	}
	o, err := body(r)
	if err == nil {
		err = only(o, "credential", "operation_id", "operations", "merge", "keep_going", "force", "root", "dry_run", "request_id", "session", "stage", "execution_id", "intent")
	}
	if err != nil {
		answer := s.Engine.Malformed(by, op.Undo, err)
		reply(w, statusOf(answer), answer)
		return
	}
	call := op.Object{"op": string(op.Undo)}
	args := op.Object{}
	for k, v := range o {
		switch k {
		case "credential", "operation_id", "operations", "merge", "keep_going", "force":
			args[k] = v
		default:
			call[k] = v
		}
	}
	call["args"] = args
	req, warnings, err := op.RequestFrom(call)
	if err != nil {
		answer := s.Engine.Malformed(by, op.Undo, err)
		reply(w, statusOf(answer), answer)
		return
	}
	answer := s.Engine.Call(r.Context(), by, req, warnings)
	reply(w, statusOf(answer), answer)
}

// result writes what an engine gave, or its error.
func result(w http.ResponseWriter, v any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, v)
}

// getApprovals lists cards: all of them for those who review, with mine=true an agent's own.
func (s *Server) getApprovals(w http.ResponseWriter, r *http.Request, by op.Caller) {
	if !by.Role.Includes(op.Observer) && r.URL.Query().Get("mine") != "true" {
		fail(w, op.Fail(op.Forbidden, "only observers and reviewers see the queue").Do("mine=true lists your own"))
		return
	}
	if q := r.URL.Query(); q.Has("limit") || q.Has("next") {
		s.getApprovalPage(w, r, by)
		return
	}
	list := &listing{w: w, name: "approvals"}
	list.end(s.Engine.EachApproval(r.Context(), by, r.URL.Query().Get("state"), list.add))
}

// getApprovalPage gives summaries: a queue of ten thousand cards stays usable.
func (s *Server) getApprovalPage(w http.ResponseWriter, r *http.Request, by op.Caller) {
	q := r.URL.Query()
	limit, next, err := partOf(q)
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.ApprovalPage(r.Context(), by, journal.ApprovalFilter{State: q.Get("state"), Limit: limit, After: next})
	result(w, v, err)
}

// partOf is which page of a list is wanted: at most limit entries, 1 to 1000, 100 unless said, and those
// beyond the next that the page before ended with, 0 for the first.
func partOf(q url.Values) (limit int, next int64, err error) {
	limit = 100
	if v := q.Get("limit"); v != "" {
		if limit, err = strconv.Atoi(v); err != nil || limit < 1 || limit > 1000 {
			return 0, 0, op.Fail(op.BadRequest, "limit must be 1 to 1000").In("limit")
		}
	}
	if v := q.Get("next"); v != "" {
		if next, err = strconv.ParseInt(v, 10, 64); err != nil || next < 0 {
			return 0, 0, op.Fail(op.BadRequest, "next must be the next of the page before").In("next")
		}
	}
	return limit, next, nil
}

func (s *Server) getApproval(w http.ResponseWriter, r *http.Request, by op.Caller) {
	var wait time.Duration
	if q := r.URL.Query().Get("wait"); q != "" {
		var err error
		if wait, err = time.ParseDuration(q); err != nil || wait < 0 {
			fail(w, op.Fail(op.BadRequest, "wait must be a time like 30s").In("wait"))
			return
		}
	}
	v, err := s.Engine.Approval(r.Context(), by, op.ID(r.PathValue("id")), min(wait, maxWait))
	result(w, v, err)
}

// getWholeDiff gives a card's change with all the lines around it, for an editor.
func (s *Server) getWholeDiff(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.WholeDiff(r.Context(), by, op.ID(r.PathValue("id")))
	result(w, v, err)
}

func (s *Server) postAnswer(w http.ResponseWriter, r *http.Request, by op.Caller) {
	if s.Answers != nil {
		s.Answers(w, r, by)
		return
	}
	id := op.ID(r.PathValue("id"))
	if !by.Role.Includes(op.Reviewer) {
		// The engine refuses, and puts on record who tried; the body is of no matter.
		_, err := s.Engine.Answer(r.Context(), by, id, journal.Answer{})
		fail(w, err)
		return
	}
	o, err := body(r)
	var a journal.Answer
	if err == nil {
		a, err = answerOf(o)
	}
	var v any
	if err == nil {
		v, err = s.Engine.Answer(r.Context(), by, id, a)
	}
	if err != nil {
		s.failWithRow(w, r, by, id, err)
		return
	}
	result(w, v, err)
}

// failWithRow gives the error, and beside it the row as it is recorded: a second answer
// learns of the first.
func (s *Server) failWithRow(w http.ResponseWriter, r *http.Request, by op.Caller, id op.ID, err error) {
	e := op.AsError(err)
	out := map[string]any{"error": withRetry(e)}
	if e.Code == op.AlreadyAnswered || e.Code == op.Expired || e.Code == op.Cancelled {
		if v, err := s.Engine.Approval(r.Context(), by, id, 0); err == nil {
			out["approval"] = v
		}
	}
	reply(w, op.HTTPStatus(e.Code), out)
}

func (s *Server) postCancel(w http.ResponseWriter, r *http.Request, by op.Caller) {
	id := op.ID(r.PathValue("id"))
	if err := noFields(r); err != nil {
		fail(w, err)
		return
	}
	if err := s.Engine.Cancel(r.Context(), by, id); err != nil {
		s.failWithRow(w, r, by, id, err)
		return
	}
	v, err := s.Engine.Approval(r.Context(), by, id, 0)
	result(w, v, err)
}

func (s *Server) getOperations(w http.ResponseWriter, r *http.Request, by op.Caller) {
	q := r.URL.Query()
	limit, next, err := partOf(q)
	if err != nil {
		fail(w, err)
		return
	}
	f := journal.Filter{Root: q.Get("root"), Agent: q.Get("agent"), Session: q.Get("session"), Path: q.Get("path"), State: journal.OpState(q.Get("state")), Limit: limit, Before: next}
	if f.Since, err = sinceOf(r); err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.Operations(r.Context(), by, f)
	result(w, v, err)
}

// sinceOf reads the moment from which on a list goes; absent is from the beginning.
func sinceOf(r *http.Request) (t time.Time, err error) {
	if v := r.URL.Query().Get("since"); v != "" {
		if t, err = time.Parse(time.RFC3339, v); err != nil {
			err = op.Fail(op.BadRequest, "since must be a time like 2006-01-02T15:04:05Z").In("since")
		}
	}
	return t, err
}

// getSessions sums the log up by the labels that callers gave.
func (s *Server) getSessions(w http.ResponseWriter, r *http.Request, by op.Caller) {
	since, err := sinceOf(r)
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.Sessions(r.Context(), by, r.URL.Query().Get("root"), since)
	result(w, map[string]any{"sessions": v}, err)
}

func (s *Server) getOperation(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.Operation(r.Context(), by, op.ID(r.PathValue("id")))
	result(w, v, err)
}

func (s *Server) getStatus(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.Status(r.Context(), by)
	result(w, v, err)
}

// getTable shows what is built, with the gate that each operation carries.
func (s *Server) getTable(w http.ResponseWriter, _ *http.Request, _ op.Caller) {
	var rows []map[string]any
	for _, o := range op.Operations() {
		rows = append(rows, map[string]any{"op": o.Name, "class": o.Class.String(), "tier": o.Tier, "switch": o.Switch, "built": o.Built,
			"approval_per_call": o.NeedsApprovalPerCall(), "undo_with": o.UndoWith, "title": o.Title, "summary": o.Summary})
	}
	reply(w, http.StatusOK, map[string]any{"operations": rows})
}

func (s *Server) getProtect(w http.ResponseWriter, r *http.Request, by op.Caller) {
	q := r.URL.Query()
	v, err := s.Engine.Protection(r.Context(), by, q.Get("root"), q.Get("path"))
	result(w, v, err)
}

func (s *Server) getAudit(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil || n < 1 {
		n = 50
	}
	v, err := s.Engine.AuditTail(min(n, 10_000))
	result(w, map[string]any{"records": v}, err)
}

func (s *Server) getAuditHead(w http.ResponseWriter, _ *http.Request, _ op.Caller) {
	v, err := s.Engine.AuditHead()
	result(w, v, err)
}

func (s *Server) postAuditVerify(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "head")
	}
	var head []byte
	if err == nil {
		head, err = part(o, "head")
	}
	if err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.AuditVerify(head)
	result(w, v, err)
}
