package flow

import (
	"encoding/json"
	"strings"
	"time"

	"holdpoint/op"
	"holdpoint/shellexec"
)

// What runs in mode yolo without a person is written down in full: words, directory,
// input, all output and times, one file for each session of a token, in the folder of that
// token's output below the state directory (0700, files 0600). Of the environment it holds
// the names alone. It is kept as long as long outputs are.

type yoloLine struct {
	Time   time.Time `json:"time"`
	Run    op.ID     `json:"run_id"`
	Event  string    `json:"event"` // begins, ended
	Argv   []string  `json:"argv,omitempty"`
	Dir    string    `json:"dir,omitempty"`
	Env    []string  `json:"env,omitempty"` // names
	Stdin  string    `json:"stdin,omitempty"`
	Stdout *yoloOut  `json:"stdout,omitempty"`
	Stderr *yoloOut  `json:"stderr,omitempty"`
	Exit   *int      `json:"exit_code,omitempty"`
	Ending string    `json:"termination,omitempty"`
	TookMS int64     `json:"took_ms,omitempty"`
}

// yoloOut is one stream: whole, or its head and tail and the file beside this one that
// holds all of it.
type yoloOut struct {
	Text  string `json:"text"`
	Total int64  `json:"total_bytes"`
	File  string `json:"file,omitempty"`
}

// yoloBegins must be on disk before the program starts: what cannot be written down does
// not run.
func (e *Engine) yoloBegins(c *call, d op.Decision, id op.ID, spec shellexec.Spec) error {
	if d.Reason != op.ReasonYolo {
		return nil
	}
	l := yoloLine{Run: id, Event: "begins", Argv: spec.Argv, Dir: spec.Dir, Stdin: string(spec.Stdin)}
	for _, kv := range spec.Env {
		name, _, _ := strings.Cut(kv, "=")
		l.Env = append(l.Env, name)
	}
	return e.yoloLog(c, l)
}

func (e *Engine) yoloEnded(c *call, d op.Decision, id op.ID, res shellexec.Result) error {
	if d.Reason != op.ReasonYolo {
		return nil
	}
	whole := func(s shellexec.Stream) *yoloOut {
		return &yoloOut{strings.ToValidUTF8(string(s.Head)+string(s.Tail), "\uFFFD"), s.Total, s.File}
	}
	return e.yoloLog(c, yoloLine{Run: id, Event: "ended", Stdout: whole(res.Stdout), Stderr: whole(res.Stderr), Exit: res.Exit, Ending: res.Termination,
		TookMS: res.Took.Milliseconds()})
}

func (e *Engine) yoloLog(c *call, l yoloLine) error {
	l.Time = e.cfg.Now().UTC()
	body, err := json.Marshal(l)
	if err != nil {
		return op.Fail(op.Internal, "a line of the log of mode yolo cannot be worded").Because(err)
	}
	name := "yolo.jsonl"
	if c.req.Session != "" {
		name = "yolo-" + c.req.Session + ".jsonl" // a label: it holds no slash
	}
	return e.spill().Append(c.by.Token, name, append(body, '\n'))
}
