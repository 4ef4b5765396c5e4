package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/op"
)

const (
	// maxText bounds the text of a result, in bytes: about 25,000 tokens, past which
	// common clients cut by themselves and lose the end.
	maxText = 80_000
	// maxSummary bounds what is said of a change.
	maxSummary = 600
	// maxFacts bounds the structured side, which holds no content.
	maxFacts = 16 << 10
)

// answer is a tool's result: the text once, and facts beside it.
type answer struct {
	text    string
	facts   map[string]any
	isError bool
	held    *op.Approval // the call waits for a person
	image   string       // base64 of a whole image, which goes beside the text
	mime    string       // of the image
}

func (a *answer) fact(name string, v any) {
	if a.facts == nil {
		a.facts = map[string]any{}
	}
	a.facts[name] = v
}

// structured gives the facts as JSON; lists go first when there is too much of it.
func (a answer) structured() []byte {
	b := encode(a.facts)
	if len(b) <= maxFacts {
		return b
	}
	small := map[string]any{"facts_cut": true}
	for k, v := range a.facts {
		switch v.(type) {
		case string, bool, int64, int, float64:
			if len(encode(v)) <= 1024 {
				small[k] = v
			}
		}
	}
	return encode(small)
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte(`{"status":"failed"}`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// failed words an error that is no reply of the engine.
func failed(err error) answer {
	return worded(op.Reply{Status: op.Failed, Error: op.AsError(err)}, "")
}

// worded puts a reply into words and facts. note is what a reviewer said.
func worded(r op.Reply, note string) answer {
	a := answer{facts: map[string]any{"status": string(r.Status)}}
	if r.Decision != nil && r.Status != op.Done {
		a.fact("reason", string(r.Decision.Reason))
	}
	switch {
	case r.Error != nil:
		a.wordError(r)
	case r.Status == op.Held:
		a.wordHeld(r)
	case r.OperationID != "" && !printed(r):
		a.wordChange(r, note)
	default:
		a.wordResult(r)
	}
	if _, told := a.facts["undo"]; !told && r.UndoCredential != nil {
		a.fact("operation_id", string(r.OperationID))
		a.fact("undo", string(r.UndoCredential.ID))
	}
	return a
}

// printed reports a program's end: what it printed is the answer, whatever it changed.
func printed(r op.Reply) bool {
	facts, _ := r.Result.(map[string]any)
	_, ran := facts["run_id"]
	return ran
}

func (a *answer) wordError(r op.Reply) {
	e := *r.Error
	a.isError = true
	if e.Hint == "" {
		e.Hint = op.NextStep(e.Code)
	}
	diff := e.Diff
	e.Diff = "" // it travels once, as text
	a.fact("error", &e)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Code, sentence(e.Message))
	if e.Path != "" {
		fmt.Fprintf(&b, " Path: %s.", op.Escape(string(e.Path)))
	}
	if e.CurrentHash != "" {
		fmt.Fprintf(&b, " Current hash: %s.", e.CurrentHash)
	}
	if e.Hint != "" {
		b.WriteString(" Next: " + sentence(e.Hint))
	}
	if !r.EffectsExecuted && r.Op != "" {
		b.WriteString(" Nothing was changed.")
	}
	if diff != "" {
		b.WriteString("\nChanged since:\n" + diff)
	}
	if e.NoDiff != "" {
		b.WriteString("\n[no diff of what changed: " + e.NoDiff + "]")
	}
	if e.StillApplies != nil {
		a.fact("still_applies", *e.StillApplies)
		if *e.StillApplies {
			b.WriteString("\nThe same change still applies to what is there now; send it with the current hash, or without expected_hash.")
		} else {
			b.WriteString("\nThe same change does not apply to what is there now.")
		}
	}
	a.text = cut(b.String(), maxText)
}

// wordHeld answers at once: the agent learns the id, where a person answers, and how to
// wait. An approval id is no right to anything.
func (a *answer) wordHeld(r op.Reply) {
	p := r.Approval
	if p == nil {
		a.text = "This call waits for a person."
		return
	}
	a.held = p
	a.fact("approval_id", string(p.ID))
	a.fact("title", p.Title)
	if !p.ExpiresAt.IsZero() {
		a.fact("expires_at", p.ExpiresAt.UTC().Format(time.RFC3339))
	}
	where := "holdpoint review approve " + string(p.ID)
	if p.ReviewURL != "" {
		a.fact("review_url", p.ReviewURL)
		where = p.ReviewURL + " or " + where
	}
	a.text = fmt.Sprintf("Held for a person: %s. Nothing was changed yet. Approval: %s. A person answers at %s. Next: call approval_wait with approval_id %s; do not send the call again.",
		op.Visible(p.Title, false), p.ID, where, p.ID)
	if r.Decision != nil && otherWays[r.Decision.Reason] != "" {
		a.text += " For another time: " + otherWays[r.Decision.Reason]
	}
}

// wordChange says what changed in a few words, with the short id that undo takes.
func (a *answer) wordChange(r op.Reply, note string) {
	a.fact("operation_id", string(r.OperationID))
	var b strings.Builder
	for i, e := range r.Effects {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == 3 {
			fmt.Fprintf(&b, "and %d more", len(r.Effects)-i)
			break
		}
		fmt.Fprintf(&b, "%s %s", e.Change, short(op.Escape(string(e.Path)), 80))
		if e.To != "" {
			b.WriteString(" to " + short(op.Escape(string(e.To)), 80))
		}
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, "%s done", r.Op)
	}
	facts, _ := r.Result.(map[string]any)
	for _, k := range []string{"hash", "size", "replacements", "created", "backup_id", "exit_code"} {
		if v, ok := facts[k]; ok {
			a.fact(k, v)
		}
	}
	if n, ok := facts["replacements"]; ok {
		fmt.Fprintf(&b, ", %v replaced", n)
	}
	if h, ok := facts["hash"]; ok {
		fmt.Fprintf(&b, "; now %v", h)
	}
	b.WriteByte('.')
	if r.UndoCredential != nil {
		a.fact("undo", string(r.UndoCredential.ID))
		fmt.Fprintf(&b, " Undo: %s.", r.UndoCredential.ID)
	}
	if note != "" {
		a.fact("note", note)
		b.WriteString(" The reviewer says: " + op.Visible(note, false))
	}
	for _, w := range r.Warnings {
		b.WriteString(" Note: " + sentence(w.Message))
	}
	if len(r.Warnings) > 0 {
		a.fact("warnings", r.Warnings)
	}
	a.text = short(b.String(), maxSummary)
}

// textFields are where a result keeps what a client wants to read, in this order.
var textFields = []string{"content", "content_base64", "diff", "text", "patch", "html", "markdown", "stdout"}

// wordResult splits what was read: the text into the content, once, the facts beside it.
func (a *answer) wordResult(r op.Reply) {
	result, ok := r.Result.(map[string]any)
	if spec, known := op.Lookup(r.Op); !ok && r.Result != nil && known && spec.Class == op.Process {
		// What runs in the background is told by its id.
		o, err := op.ParseOwn(encode(r.Result))
		result, ok = o, err == nil
	}
	if !ok {
		if r.Result != nil {
			a.text = cut(string(encode(r.Result)), maxText)
		} else {
			a.text = string(r.Op) + " done; nothing changed."
		}
		return
	}
	shown := ""
	for _, k := range textFields {
		if s, ok := result[k].(string); ok {
			shown = k
			a.text = s
			break
		}
	}
	lists := false
	for k, v := range result {
		switch {
		case k == shown:
		case k == "entries" || k == "matches":
			lists = true
		case k == "stderr":
		default:
			if shown != "" || scalar(v) {
				a.fact(k, v)
			}
		}
	}
	switch {
	case shown == "content":
		a.boundView()
	case shown == "content_base64" && picture(result):
		a.image, a.mime = a.text, fmt.Sprint(result["mime"])
		a.text = fmt.Sprintf("%s, %v bytes.", a.mime, result["size"])
	case shown == "content_base64":
		a.fact("base64", true)
		a.text = cut(a.text, maxText)
	case shown == "stdout":
		if s, _ := result["stderr"].(string); s != "" {
			a.text += "\nstderr:\n" + s
		}
		a.text = cut(a.text, maxText)
	case shown == "diff" && a.text == "":
		a.text = "No difference in text."
	case shown != "":
		a.text = cut(a.text, maxText)
	case lists:
		a.listing(result)
	case result["unchanged"] == true:
		a.text = "Unchanged since the hash you know."
	default:
		a.text = cut(string(encode(result)), maxText)
	}
	if len(r.Warnings) > 0 {
		a.fact("warnings", r.Warnings)
	}
}

// picture reports a whole image of a kind that models look at.
func picture(result map[string]any) bool {
	hash, _ := result["hash"].(string)
	switch result["mime"] {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return !strings.HasSuffix(hash, "+partial")
	}
	return false
}

// boundView cuts a text that is too long after a line, and says where it goes on.
func (a *answer) boundView() {
	if len(a.text) <= maxText {
		return
	}
	n := strings.LastIndexByte(a.text[:maxText], '\n') + 1
	start, ok := a.facts["start_line"].(int64)
	if n == 0 || !ok {
		a.text = cut(a.text, maxText)
		a.fact("truncated", "result")
		return
	}
	a.text = a.text[:n]
	end := start + int64(strings.Count(a.text, "\n")) - 1
	a.fact("end_line", end)
	a.fact("next", end+1)
	a.fact("next_arg", "start_line")
	a.fact("eof", false)
	a.fact("truncated", "result")
	if h, ok := a.facts["hash"].(string); ok && !strings.HasSuffix(h, "+partial") {
		a.fact("hash", h+"+partial")
	}
}

// listing words entries or matches, one a line. The cursor stays right when it is cut:
// it is the last path shown.
func (a *answer) listing(result map[string]any) {
	var b strings.Builder
	raw := result["entries"]
	if raw == nil {
		raw = result["matches"]
	}
	list, ok := objects(raw)
	if !ok {
		a.text = cut(string(encode(raw)), maxText)
		return
	}
	last := ""
	for i, e := range list {
		line := entryLine(e)
		if b.Len()+len(line) > maxText {
			if _, ok := result["entries"]; ok {
				a.fact("next", last)
			}
			a.fact("truncated", "result")
			fmt.Fprintf(&b, "[%d more; go on with page, or ask for less]\n", len(list)-i)
			break
		}
		b.WriteString(line)
		last, _ = e["path"].(string)
	}
	if b.Len() == 0 {
		b.WriteString("Nothing found.\n")
	}
	if next, ok := a.facts["next"]; ok && next != "" {
		fmt.Fprintf(&b, "[more: page %v]\n", next)
	}
	a.text = b.String()
}

// objects makes a list of the engine's own values readable by name.
func objects(list any) ([]op.Object, bool) {
	o, err := op.ParseOwn(append(append([]byte(`{"list":`), encode(list)...), '}'))
	if err != nil {
		return nil, false
	}
	items, _ := o["list"].([]any)
	out := make([]op.Object, len(items))
	for i, v := range items {
		var ok bool
		if out[i], ok = v.(op.Object); !ok {
			return nil, false
		}
	}
	return out, true
}

func entryLine(e op.Object) string {
	path, _ := e["path"].(string)
	if name, ok := e["name"].(string); ok && path == "" {
		return name + "\n"
	}
	if letters, ok := e["status"].(string); ok { // of git_status
		if from, ok := e["from"].(string); ok {
			path = from + " -> " + path
		}
		return letters + " " + path + "\n"
	}
	if text, ok := e["text"].(string); ok {
		return fmt.Sprintf("%s:%v: %s\n", path, e["line"], strings.TrimRight(text, "\r\n"))
	}
	switch e["type"] {
	case "directory":
		return path + "/\n"
	case "file", nil:
		if size, ok := e["size"].(int64); ok {
			return fmt.Sprintf("%s\t%d\n", path, size)
		}
		return path + "\n"
	}
	return fmt.Sprintf("%s\t%v\n", path, e["type"])
}

func scalar(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) <= 1024
	case bool, int, int64, uint64, float64, op.Digest, op.Kind, nil:
		return true
	}
	return false
}

// cut bounds a text between characters and says that it did.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const note = "\n[cut: %d of %d bytes shown; ask for a smaller part]"
	n := limit - len(note) - 12
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + fmt.Sprintf(note, n, len(s))
}

// short bounds a sentence.
func short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := limit - len("...")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// sentence gives a text its full stop.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || slices.Contains([]byte(".!?"), s[len(s)-1]) {
		return s
	}
	return s + "."
}
