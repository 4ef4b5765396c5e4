package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

const passphrase = "only for recordings 1"

// hour is one hour that is being recorded: a daemon on a workspace of its own, an MCP
// client of it, and a clock that each call moves on by what an agent takes for it.
type hour struct {
	head
	dir, root, state, bin string
	env                   []string
	serve                 *exec.Cmd
	client                *sdk.ClientSession
	clock                 int
	calls                 []made
	ids                   []op.ID // of the record that each call left; "" for reads
}

// Seconds that an agent takes, thinking included, for one call of a kind.
const (
	readTime, changeTime, runTime = 12, 30, 45
	wholeHour                     = 3600
)

var errOver = errors.New("the hour is over")

func recordAll(dir, holdpoint, repo string, only int) error {
	bin, err := filepath.Abs(holdpoint)
	if err != nil {
		return err
	}
	if repo, err = filepath.Abs(repo); err != nil {
		return err
	}
	works, err := plan(repo)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for n, w := range works {
		if only != 0 && only != n+1 {
			continue
		}
		h := &hour{head: head{Hour: n + 1, What: w.what, Client: "MCP Go SDK over stdio"}, bin: bin}
		if err := h.record(w, filepath.Join(dir, fmt.Sprintf("%02d.jsonl", n+1))); err != nil {
			return fmt.Errorf("hour %d (%s): %w", n+1, w.what, err)
		}
		fmt.Printf("hour %d: %d calls\n", n+1, len(h.calls))
	}
	return nil
}

func (h *hour) record(w work, file string) error {
	var err error
	if h.dir, err = os.MkdirTemp("", "hpf"); err != nil {
		return err
	}
	defer os.RemoveAll(h.dir)
	h.root, h.state = filepath.Join(h.dir, "ws"), filepath.Join(h.dir, "state")
	if err := w.prepare(h.root); err != nil {
		return err
	}
	h.env = append(os.Environ(), "HOLDPOINT_STATE="+h.state, "HOLDPOINT_SOCKET="+filepath.Join(h.dir, "s"), "HOLDPOINT_REVIEW_PASSPHRASE="+passphrase,
		"XDG_CONFIG_HOME="+filepath.Join(h.dir, "none"))
	if err := h.start(); err != nil {
		return err
	}
	err = w.do(h)
	h.client.Close()
	h.serve.Process.Signal(os.Interrupt)
	h.serve.Wait()
	if err != nil && !errors.Is(err, errOver) {
		return err
	}
	return h.save(file)
}

func (h *hour) start() error {
	h.serve = exec.Command(h.bin, "serve", "--root", h.root)
	h.serve.Env, h.serve.Stderr = h.env, os.Stderr
	if err := h.serve.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(h.dir, "s")); err == nil {
			break
		} else if time.Now().After(end) {
			h.serve.Process.Kill()
			return errors.New("the daemon did not get ready")
		}
	}
	cmd := exec.Command(h.bin, "mcp")
	cmd.Env, cmd.Dir = h.env, h.root
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	h.client, err = sdk.NewClient(&sdk.Implementation{Name: "fatigue", Version: "1"}, nil).Connect(ctx, &sdk.CommandTransport{Command: cmd}, nil)
	return err
}

// call makes one call and gives its status. What waits is answered by a person at once: a
// change is approved, so that the work goes on, and a program is turned down, because the
// recording needs what it was judged from and not what it does.
func (h *hour) call(name op.Name, args map[string]any, run string, leaves bool) (string, error) {
	spec, _ := op.Lookup(name)
	took := changeTime
	switch spec.Class {
	case op.Read:
		took = readTime
	case op.Process:
		took = runTime
	}
	if h.clock += took; h.clock > wholeHour {
		return "", errOver
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r, err := h.client.CallTool(ctx, &sdk.CallToolParams{Name: string(name), Arguments: args})
	if err != nil {
		return "", err
	}
	facts, _ := r.StructuredContent.(map[string]any)
	status, _ := facts["status"].(string)
	operation, _ := facts["operation_id"].(string)
	card, _ := facts["approval_id"].(string)
	m := made{At: h.clock, Run: run, Leaves: leaves}
	if spec.Class == op.Read {
		m.Read = name
	} else if operation == "" && card == "" {
		return status, nil // it failed, or changed nothing: nobody was asked and nothing is on record
	}
	h.calls, h.ids = append(h.calls, m), append(h.ids, op.ID(first(card, operation)))
	if status != "review" {
		return status, nil
	}
	word := "approve"
	if spec.Class == op.Process {
		word = "reject"
	}
	cmd := exec.Command(h.bin, "review", word, card)
	cmd.Env = h.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s %s: %v: %s", word, name, err, out)
	}
	return "answered", nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// save takes from the journal what each call was judged from, and writes it without what
// all calls of the hour have in common, and without paths.
func (h *hour) save(file string) error {
	j, err := journal.Open(h.state, journal.Options{})
	if err != nil {
		return err
	}
	defer j.Close()
	var body strings.Builder
	for i, m := range h.calls {
		if m.Read == "" {
			var b struct {
				Request     op.Terms       `json:"request"`
				Profile     op.Profile     `json:"profile"`
				Facts       op.Facts       `json:"facts"`
				Environment op.Environment `json:"environment"`
			}
			raw, err := j.Basis(context.Background(), h.ids[i])
			if err != nil || raw == nil {
				return fmt.Errorf("%s has no basis: %v", h.ids[i], err)
			}
			if err := json.Unmarshal(raw, &b); err != nil {
				return err
			}
			for k := range b.Facts.Targets {
				b.Facts.Targets[k].Path = "p"
			}
			m.Request, m.Facts, h.Profile, h.Environment = &b.Request, b.Facts, b.Profile, b.Environment
		}
		body.Write(slim(m))
		body.WriteByte('\n')
	}
	return os.WriteFile(file, append(append(slim(h.head), '\n'), body.String()...), 0o644)
}

// slim is a value as JSON without what is false, zero or empty.
func slim(v any) []byte {
	full, err := json.Marshal(v)
	if err != nil {
		panic("fatigue: internal error: " + err.Error())
	}
	var tree any
	if err := json.Unmarshal(full, &tree); err != nil {
		panic("fatigue: internal error: " + err.Error())
	}
	out, _ := json.Marshal(pruned(tree))
	return out
}

func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			e = pruned(e)
			if e == nil || e == false || e == "" || e == 0.0 {
				delete(v, k)
				continue
			}
			v[k] = e
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
		for i := range v {
			v[i] = pruned(v[i])
		}
	}
	return v
}
