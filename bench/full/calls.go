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

// printed is the line that the program of the stream repeats, and prints what it is told.
const printed = "the quick brown fox jumps over the lazy dog, said a line of text"

func (c *course) prints() string { return fmt.Sprintf("yes '%s' | head -c %d", printed, c.big) }

// waits asks for a program that prints that much and leaves it to streamed to release.
// Its root is an empty one: what stands in a root is kept before a program runs in it, so
// that it can be taken back, which is no part of a stream.
func (c *course) waits(int) (err error) {
	if c.printer == nil {
		root := filepath.Join(c.work, "printed")
		if err := os.Mkdir(root, 0o755); err != nil {
			return err
		}
		state := filepath.Join(c.work, "state-printed")
		if c.printer, err = drive.StartDaemon(c.binary, root, state, "HOLDPOINT_CONFIG="+filepath.Join(c.work, "plain.toml")); err != nil {
			return err
		}
	}
	b, err := c.printer.Call("workspace_shell", map[string]any{"script": c.prints(), "timeout_ms": 300_000})
	if err != nil {
		return err
	}
	var r map[string]any
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	return c.card(c.printer, r)
}

// streamed releases it, and returns when it has ended.
func (c *course) streamed(int) error {
	before := c.printer.Own()
	b, err := c.reviewer(c.printer).Post("/v1/approvals/"+c.held+"/answer", map[string]any{"answer": "approve", "shown_digest": c.shown})
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
	c.ran, c.grown = out.Reply.Result.Run, max(c.grown, c.printer.Own()-before)
	return nil
}

// kept writes the same into a file, which is what keeping it takes at the least.
func (c *course) kept(int) error {
	return c.sh(".", c.prints()+" >../kept; rm ../kept")
}

// piped reads the same from the same program over a bare pipe, and forgets it.
func (c *course) piped(int) error {
	cmd := exec.Command("sh", "-c", c.prints())
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

// retrieved reads the last of the streams back and compares it with what was to be printed,
// byte for byte.
func (c *course) retrieved() error {
	const piece = 1 << 20
	want := strings.Repeat(printed+"\n", piece/len(printed)+2)
	for n := int64(0); n < c.big; {
		b, err := c.printer.Get(fmt.Sprintf("/v1/runs/%s/output?offset=%d&limit=%d", c.ran, n, piece))
		if err != nil {
			return err
		}
		var got struct{ Content string }
		if err := json.Unmarshal(b, &got); err != nil {
			return err
		}
		if !strings.HasPrefix(want[n%int64(len(printed)+1):], got.Content) || got.Content == "" {
			return fmt.Errorf("the output is not what was printed from byte %d on", n)
		}
		n += int64(len(got.Content))
	}
	return nil
}
