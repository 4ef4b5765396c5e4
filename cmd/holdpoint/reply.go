package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"holdpoint/op"
)

// reply is a Reply as it came, its result still raw.
type reply struct {
	op.Reply
	Result json.RawMessage `json:"result"`
	raw    json.RawMessage
}

// readReply reads the answer of a call. An answer that is only an error, as a wrong token
// gets, is given the form of a Reply.
func readReply(got answer, name op.Name) (reply, error) {
	r, err := parseReply(got.body)
	switch {
	case err == nil && r.Op == "": // turned away before the daemon read which call it is
		r.Op = name
		r.raw, err = json.Marshal(r.Reply)
		return r, err
	case err == nil:
		return r, nil
	}
	if got.status < 400 {
		return reply{}, op.Fail(op.Internal, "the daemon's answer is not understood: "+err.Error()).Because(err).
			Do("the call may have run: holdpoint log")
	}
	e := got.failure()
	whole := op.Reply{Status: op.Failed, Op: name, Error: e, Effects: []op.Effect{}}
	if got.status == 401 || got.status == 403 {
		whole.Status = op.Refused
	}
	raw, err := json.Marshal(whole)
	return reply{Reply: whole, raw: raw}, err
}

func parseReply(data []byte) (reply, error) {
	r := reply{raw: data}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, err
	}
	switch r.Status {
	case op.Done, op.Held, op.Refused, op.Failed:
		return r, nil
	}
	return r, fmt.Errorf("unknown status %q", r.Status)
}

// exit gives the exit code of a reply.
func (r reply) exit() int {
	switch {
	case r.Status == op.Done:
		return 0
	case r.Status == op.Held:
		return 3
	case r.Error != nil:
		return op.ExitStatus(r.Error.Code)
	case r.Status == op.Refused:
		return 4
	}
	return 1
}

// finishReply shows a reply and ends with its exit code.
func (a *app) finishReply(r reply, asked request) error {
	if a.json {
		a.printJSON(r.raw)
	} else {
		a.showReply(r, asked)
	}
	return exitWith(r.exit())
}

func (a *app) showReply(r reply, asked request) {
	for _, w := range r.Warnings {
		fmt.Fprintf(a.Err, "warning: %s (%s)\n", line(w.Message), line(w.Code))
	}
	switch r.Status {
	case op.Done:
		a.showDone(r, asked)
	case op.Held:
		a.showHeld(r)
	default:
		if r.Error == nil {
			r.Error = op.Fail(op.Internal, "the daemon gave no reason")
			if r.Decision != nil {
				r.Error = op.Fail(op.Code(r.Decision.Reason), "refused")
			}
		}
		a.showError(r.Error)
		if _, known := op.Lookup(r.Op); !known && r.Error.Code == op.UnknownOperation {
			var names []string
			for _, s := range op.Operations() {
				names = append(names, string(s.Name))
			}
			fmt.Fprintf(a.Err, "  %s\n", orNearest(string(r.Op), names, "holdpoint call --help lists the operations"))
		}
		if r.EffectsExecuted {
			fmt.Fprintln(a.Err, "  some of it was done:")
			a.showEffects(r.Effects)
		}
	}
}

// showHeld never leaves the reader without a way to the card.
func (a *app) showHeld(r reply) {
	if r.Approval == nil {
		fmt.Fprintln(a.Out, "Waiting for a person. See: "+a.command("review list"))
		return
	}
	id := line(string(r.Approval.ID))
	rows := [][]string{{"  card", id + "  " + a.until(r.Approval.ExpiresAt)}}
	if r.Decision != nil {
		rows = append(rows, []string{"  why", a.reasonCodes(r.Decision)})
	}
	if r.Approval.ReviewURL != "" {
		rows = append(rows, []string{"  link", line(r.Approval.ReviewURL)})
	}
	rows = append(rows,
		[]string{"  look", a.command("review show " + id)},
		[]string{"  answer", a.command("review approve "+id) + "   or   " + a.command("review reject "+id)})
	fmt.Fprintf(a.Out, "%s %s\n", a.bold("Waiting for a person:"), line(r.Approval.Title))
	table(a.Out, rows)
}

func (a *app) reasonCodes(d *op.Decision) string {
	words := []string{line(string(d.Reason))}
	for _, r := range d.Also {
		words = append(words, line(string(r)))
	}
	return strings.Join(words, ", ")
}

func (a *app) showDone(r reply, asked request) {
	switch r.Op {
	case op.ViewFile:
		a.showFile(r.Result)
		return
	case op.ListDirectory, op.FileTree:
		a.showEntries(r.Result)
		return
	case op.WorkspaceShell, op.WorkspaceTests:
		a.showProcess(r)
		return
	}
	if a.showGit(r.Op, r.Result) {
		return
	}
	var changed struct {
		Diff string `json:"diff"`
	}
	// A result of another shape is shown whole below.
	_ = json.Unmarshal(r.Result, &changed)
	a.showEffects(r.Effects)
	shown := len(r.Effects) > 0
	if changed.Diff != "" {
		fmt.Fprint(a.Out, block(changed.Diff, a.diffLine))
		shown = true
	}
	if !shown && len(r.Result) > 0 && string(r.Result) != "null" {
		a.printJSON(r.Result)
	}
	switch {
	case asked.DryRun:
		fmt.Fprintln(a.Out, "Rehearsed; nothing was changed.")
	case r.UndoCredential != nil:
		fmt.Fprintf(a.Out, "Done. Take it back: %s\n", a.command("undo "+line(string(r.OperationID))))
	case r.EffectsExecuted:
		fmt.Fprintln(a.Out, "Done.")
	}
}

func (a *app) showEffects(effects []op.Effect) {
	for _, e := range effects {
		to := ""
		if e.To != "" {
			to = " -> " + showPath(e.To)
		}
		fmt.Fprintf(a.Out, "%-8s %s%s\n", line(e.Change), showPath(e.Path), to)
	}
}

// showProcess passes the two streams on: as they are to what is no terminal, safe to one.
func (a *app) showProcess(r reply) {
	if r.runs() {
		a.showRunning(r)
		return
	}
	var p struct {
		RunID       op.ID  `json:"run_id"`
		Typed       *int64 `json:"typed_bytes"`
		ExitCode    *int64 `json:"exit_code"`
		Signal      string `json:"signal"`
		Termination string `json:"termination"`
		Stdout      string `json:"stdout"`
		Stderr      string `json:"stderr"`
	}
	if err := json.Unmarshal(r.Result, &p); err != nil {
		a.printJSON(r.Result)
		return
	}
	if p.Typed != nil {
		fmt.Fprintf(a.Out, "Typed %d bytes into %s\n", *p.Typed, line(string(p.RunID)))
		return
	}
	if a.TTY {
		p.Stdout, p.Stderr = op.Visible(p.Stdout, true), op.Visible(p.Stderr, true)
	}
	fmt.Fprint(a.Out, p.Stdout)
	fmt.Fprint(a.Err, p.Stderr)
	switch {
	case p.ExitCode == nil:
		fmt.Fprintf(a.Err, "ended: %s\n", line(first(p.Signal, p.Termination, "abnormally")))
	case *p.ExitCode != 0:
		fmt.Fprintf(a.Err, "exit code %d\n", *p.ExitCode)
	}
	if r.UndoCredential != nil {
		fmt.Fprintf(a.Err, "Take back what it changed: %s\n", a.command("undo "+line(string(r.OperationID))))
	}
}

// showFile gives the bytes themselves, and nothing else, to whatever is no terminal. On a
// terminal what would drive it is shown instead, and said.
func (a *app) showFile(raw json.RawMessage) {
	var f struct {
		Content       string  `json:"content"`
		ContentBase64 *string `json:"content_base64"`
		Truncated     any     `json:"truncated"`
		Unchanged     bool    `json:"unchanged"`
		Next          any     `json:"next"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		a.printJSON(raw)
		return
	}
	text := f.Content
	if f.ContentBase64 != nil {
		b, err := base64.StdEncoding.DecodeString(*f.ContentBase64)
		if err != nil {
			a.printJSON(raw)
			return
		}
		text = string(b)
	}
	if !a.TTY {
		fmt.Fprint(a.Out, text)
	} else if text != "" {
		safe := op.Visible(strings.ReplaceAll(text, "\r\n", "\n"), true)
		fmt.Fprint(a.Out, safe)
		if !strings.HasSuffix(safe, "\n") {
			fmt.Fprintln(a.Out)
		}
		if safe != strings.ReplaceAll(text, "\r\n", "\n") {
			fmt.Fprintln(a.Err, "note: characters that do not show are written as escapes; a pipe gets the bytes themselves")
		}
	}
	switch {
	case f.Unchanged:
		fmt.Fprintln(a.Err, "note: unchanged since that hash")
	case f.Truncated != nil && f.Truncated != false && f.Truncated != "":
		fmt.Fprintf(a.Err, "note: this is not all of it (%s); next: %s\n", line(fmt.Sprint(f.Truncated)), line(fmt.Sprint(f.Next)))
	}
}

func (a *app) showEntries(raw json.RawMessage) {
	var l struct {
		Entries []struct {
			Path op.Path `json:"path"`
			Type string  `json:"type"`
			Size int64   `json:"size"`
		} `json:"entries"`
		Next string `json:"next"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		a.printJSON(raw)
		return
	}
	var rows [][]string
	for _, e := range l.Entries {
		size := "-"
		if e.Type == string(op.File) {
			size = fmt.Sprint(e.Size)
		}
		rows = append(rows, []string{line(e.Type), size, showPath(e.Path)})
	}
	table(a.Out, rows)
	if l.Next != "" {
		fmt.Fprintf(a.Err, "note: there is more; add page=%s\n", line(l.Next))
	}
}
