package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"holdpoint/bench/drive"
)

// resting is how long a daemon is left alone before its memory counts as that of an idle one:
// it looks every five seconds whether there was work.
const resting = 16 * time.Second

// tail takes note of how long edits took among many callers.
func (c *course) tail(of string, took ...time.Duration) {
	for _, d := range took {
		c.tails[of] = append(c.tails[of], float64(d.Nanoseconds())/1e3)
	}
}

// tailOf compares the 99th percentile of edits among many callers with the peer's.
func (c *course) tailOf(who string) func() (float64, error) {
	return func() (float64, error) {
		ours, theirs := c.tails[who], c.tails["fs"]
		if len(ours) == 0 || len(theirs) == 0 {
			return 0, errors.New("the row above did not run")
		}
		return ours.At(.99) / theirs.At(.99), nil
	}
}

// added is an edit, a checkpoint of git's, and a bare durable replace without record or undo.
func (c *course) added(dir string) []side {
	return []side{c.editBy(c.d, c.root, 4<<10), c.checkpoint(dir), c.editBy(drive.Raw{}, c.work, 4<<10)}
}

// undoAll takes back the last edit of each path in one call, all or nothing.
func (c *course) undoAll(paths []string) error {
	var ids []string
	for _, p := range paths {
		credential, _ := c.credentials[p].(map[string]any)
		id, _ := credential["operation_id"].(string)
		ids = append(ids, id)
	}
	b, err := c.d.Post("/v1/undo", map[string]any{"operations": ids})
	if err == nil && !strings.Contains(string(b), `"status":"done"`) {
		err = fmt.Errorf("%.300s", b)
	}
	for _, p := range paths {
		c.revised[p]--
		delete(c.credentials, p)
	}
	return err
}

// startOf runs the benchmark of starts, once, and gives one of its ratios.
func (c *course) startOf(what string) func() (float64, error) {
	return func() (float64, error) {
		if c.starts == nil {
			b, err := exec.Command("go", "test", "-run", "^$", "-bench", "Start$", "-benchtime", "100x", "./shellexec").CombinedOutput()
			if err != nil {
				return 0, fmt.Errorf("go test -bench: %w %.300s", err, b)
			}
			c.starts = map[string]float64{}
			for _, m := range regexp.MustCompile(`(?m)^(\S.*?)\s+[\d.]+ ms\s+([\d.]+) times`).FindAllStringSubmatch(string(b), -1) {
				c.starts[m[1]], _ = strconv.ParseFloat(m[2], 64)
			}
		}
		if c.starts[what] == 0 {
			return 0, errors.New("the benchmark does not name it")
		}
		return c.starts[what], nil
	}
}

// rehearsed runs the benchmark of rehearsals, with a helper that stands ready as in the daemon.
func (c *course) rehearsed() (float64, error) {
	b, err := exec.Command("go", "test", "-run", "^$", "-bench", "StartView$", "-benchtime", "1x", "./shellexec").CombinedOutput()
	m := regexp.MustCompile(`100000 files, a helper ready true .* ([\d.]+) times`).FindSubmatch(b)
	if err != nil || m == nil {
		return 0, fmt.Errorf("go test -bench: %w %.300s", err, b)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// waits asks for a program that prints the large file and leaves it to streamed to release.
func (c *course) waits(int) error {
	r, err := c.call("workspace_shell", map[string]any{"command": "cat", "args": []string{"big"}, "timeout_ms": 300_000})
	if err != nil {
		return err
	}
	return c.card(r)
}

// streamed releases it, and returns when it has ended.
func (c *course) streamed(int) error {
	before := c.d.Own()
	b, err := c.d.As(c.operator).Post("/v1/approvals/"+c.held+"/answer", map[string]any{"answer": "approve", "shown_digest": c.shown})
	if err != nil {
		return err
	}
	var out struct {
		Reply struct {
			Status string `json:"status"`
			Result struct {
				Run  string `json:"run_id"`
				Exit *int   `json:"exit_code"`
			} `json:"result"`
		} `json:"reply"`
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return err
	}
	if out.Reply.Result.Exit == nil || *out.Reply.Result.Exit != 0 {
		return fmt.Errorf("%.300s", b)
	}
	c.ran, c.grown = out.Reply.Result.Run, max(c.grown, c.d.Own()-before)
	return nil
}

// piped reads the same from the same program over a bare pipe.
func (c *course) piped(int) error {
	cmd := exec.Command("cat", filepath.Join(c.root, "big"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{out}, make([]byte, 64<<10))
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return err
	}
	if n != c.big {
		return fmt.Errorf("%d of %d bytes", n, c.big)
	}
	return nil
}

// retrieved reads the last of the streams back and compares it with the file, byte for byte.
func (c *course) retrieved() error {
	big, err := os.Open(filepath.Join(c.root, "big"))
	if err != nil {
		return err
	}
	defer big.Close()
	want := make([]byte, 1<<20)
	for n := int64(0); n < c.big; {
		b, err := c.d.Get(fmt.Sprintf("/v1/runs/%s/output?offset=%d&limit=%d", c.ran, n, len(want)))
		if err != nil {
			return err
		}
		var piece struct{ Content string }
		if err := json.Unmarshal(b, &piece); err != nil {
			return err
		}
		have := want[:min(len(piece.Content), len(want))]
		if _, err := big.ReadAt(have, n); err != nil || len(have) == 0 || piece.Content != string(have) {
			return fmt.Errorf("the output is not what was printed from byte %d on: %v", n, err)
		}
		n += int64(len(have))
	}
	return nil
}
