package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestYoloLog(t *testing.T) {
	t.Parallel()
	d := start(t, "--allow-yolo")
	if status, out := d.http("PUT", "/v1/mode", d.reviewer(), M{"agent": "agent", "mode": "yolo", "confirm": true}); status != 200 {
		t.Fatalf("%d %v", status, out)
	}
	t.Run("X19 what runs in yolo is written down in full, private, without the values of its environment", func(t *testing.T) {
		_, r := d.http("POST", "/v1/call", d.Agent, M{"op": "workspace_shell", "session": "night", "args": M{"script": "read line; echo out $line; echo bad >&2; exit 3",
			"stdin": "typed in\n", "env": M{"API_TOKEN": "canary-value"}}})
		if must(t, r, "done"); text(r, "decision", "reason") != "yolo_mode" {
			t.Fatalf("got %v", r["decision"])
		}
		files, err := filepath.Glob(filepath.Join(d.State, "output", "*", "yolo-night.jsonl"))
		if err != nil || len(files) != 1 || strings.HasPrefix(files[0], d.Root) {
			t.Fatalf("got %v %v", files, err)
		}
		for path, mode := range map[string]os.FileMode{files[0]: 0o600, filepath.Dir(files[0]): 0o700} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v %v", path, info.Mode(), err)
			}
		}
		log := read(t, files[0])
		if strings.Contains(log, "canary-value") || !strings.Contains(log, "API_TOKEN") {
			t.Errorf("the environment: %s", log)
		}
		var lines []M
		for _, l := range strings.Split(strings.TrimSpace(log), "\n") {
			m := M{}
			if err := json.Unmarshal([]byte(l), &m); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, m)
		}
		if len(lines) != 2 || lines[0]["event"] != "begins" || lines[1]["event"] != "ended" || lines[0]["run_id"] != lines[1]["run_id"] {
			t.Fatalf("got %v", lines)
		}
		if lines[0]["stdin"] != "typed in\n" || text(lines[1], "stdout", "text") != "out typed in\n" || text(lines[1], "stderr", "text") != "bad\n" ||
			lines[1]["exit_code"] != 3.0 || lines[1]["termination"] != "exited" || len(list(lines[0]["argv"])) == 0 || lines[0]["dir"] != d.Root || lines[1]["time"] == "" {
			t.Errorf("got %v", lines)
		}
	})
	t.Run("a program that a person released is not in that log", func(t *testing.T) {
		d.http("PUT", "/v1/mode", d.reviewer(), M{"agent": "agent", "mode": "auto"})
		_, held := d.http("POST", "/v1/call", d.Agent, M{"op": "workspace_shell", "session": "day", "args": M{"script": "true"}})
		must(t, d.approve(must(t, held, "review")), "done")
		if files, _ := filepath.Glob(filepath.Join(d.State, "output", "*", "yolo*")); len(files) != 1 {
			t.Errorf("got %v", files)
		}
	})
}
