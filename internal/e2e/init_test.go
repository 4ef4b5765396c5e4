package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/pelletier/go-toml/v2"
)

// initFiles are the files of each client, below its home or project, and what must stand
// in them to switch the client's own edit and shell tools off.
var initFiles = map[string]map[string][]string{
	"claude": {"project/.mcp.json": {`"holdpoint"`}, "project/.claude/settings.json": {`"Bash"`, `"Edit"`, `"Write"`, `"NotebookEdit"`, "mcp__holdpoint"}},
	"codex":  {"project/.codex/config.toml": {"shell_tool = false", "unified_exec = false", `sandbox_mode = "read-only"`, "[mcp_servers.holdpoint]"}},
	"gemini": {"project/.gemini/settings.json": {`"run_shell_command"`, `"write_file"`, `"replace"`, `"mcpServers"`}},
	"cursor": {"project/.cursor/mcp.json": {`"holdpoint"`}, "project/.cursor/cli.json": {`"Shell(*)"`, `"Write(**)"`}},
	"vscode": {"project/.vscode/mcp.json": {`"servers"`}, "project/.github/agents/holdpoint.agent.md": {"tools: ['search', 'holdpoint/*']"}},
	"zed":    {".config/zed/settings.json": {`"terminal": false`, `"edit_file": false`, `"context_servers"`}},
}

// entryOf finds how a client would start the server.
func entryOf(t *testing.T, file string) (command string, args []string) {
	t.Helper()
	var doc M
	text := []byte(read(t, file))
	var err error
	if strings.HasSuffix(file, ".toml") {
		err = toml.Unmarshal(text, &doc)
	} else {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, key := range []string{"mcpServers", "mcp_servers", "servers", "context_servers"} {
		servers, _ := doc[key].(map[string]any)
		if entry, ok := servers["holdpoint"].(map[string]any); ok {
			list, _ := entry["args"].([]any)
			for _, a := range list {
				args = append(args, a.(string))
			}
			command, _ = entry["command"].(string)
			return command, args
		}
	}
	t.Fatalf("%s names no server", file)
	return "", nil
}

func TestInit(t *testing.T) {
	t.Parallel()
	a := mcpAlone(t)
	project := a.repo("project")
	for client, files := range initFiles {
		t.Run(client+" is shown, checked, written and found again; its entry starts the server", func(t *testing.T) {
			code, out := a.terminal(project, "init", client)
			for file, words := range files {
				if code != 0 || !strings.Contains(out, filepath.Base(file)) {
					t.Fatalf("exit %d: %s", code, out)
				}
				for _, w := range words {
					if !strings.Contains(out, w) {
						t.Errorf("%s is not shown: %s", w, out)
					}
				}
			}
			if code, out := a.terminal(project, "init", client, "--check"); code == 0 || !strings.Contains(out, "missing") {
				t.Fatalf("a check of nothing: %d %s", code, out)
			}
			// What is the person's own stays.
			for file := range files {
				own := ""
				switch filepath.Ext(file) {
				case ".json":
					own = `{"mine": {"a": [1, 2.50]}, "permissions": {"deny": ["WebFetch"]}}`
				case ".toml":
					own = "# mine\nmodel = \"x\"\n\n[features]\nother = true\n"
				default:
					continue
				}
				write(t, filepath.Join(a.home, file), own)
			}
			if code, out := a.terminal(project, "init", client, "--write"); code != 0 {
				t.Fatalf("write: %d %s", code, out)
			}
			started := false
			for file, words := range files {
				path := filepath.Join(a.home, file)
				text := read(t, path)
				for _, w := range words {
					if !strings.Contains(text, w) {
						t.Errorf("%s: %s is not in it:\n%s", file, w, text)
					}
				}
				switch filepath.Ext(file) {
				case ".json":
					if !strings.Contains(text, "2.50") || !strings.Contains(text, "WebFetch") {
						t.Errorf("%s: the person's own is lost:\n%s", file, text)
					}
				case ".toml":
					if !strings.Contains(text, "# mine") || !strings.Contains(text, "other = true") || !strings.Contains(text, `model = "x"`) {
						t.Errorf("%s: the person's own is lost:\n%s", file, text)
					}
				}
				if strings.Contains(text, "agents") || started || filepath.Base(file) == "cli.json" || strings.HasSuffix(file, ".claude/settings.json") || filepath.Ext(file) == ".md" {
					continue
				}
				started = true
				command, args := entryOf(t, path)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "${workspaceFolder}", project)
				}
				cmd := exec.Command(command, args...)
				cmd.Env, cmd.Dir = a.environ(), project
				c, err := connectTo(&sdk.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}, "2025-11-25", nil)
				if err != nil {
					t.Fatalf("%s %v: %v", command, args, err)
				}
				tools := &mcpTools{c, t, cmd}
				if r := tools.done("view_file", M{"path": "a.txt"}); r.Text != "project\n" {
					t.Errorf("got %q", r.Text)
				}
				c.Close()
			}
			if !started {
				t.Error("no entry was started")
			}
			if code, out := a.terminal(project, "init", client, "--check"); code != 0 || strings.Contains(out, "missing") {
				t.Errorf("check: %d %s", code, out)
			}
			if code, out := a.terminal(project, "init", client, "--write"); code != 0 || !strings.Contains(out, "right already") {
				t.Errorf("a second write: %d %s", code, out)
			}
			// A setting that somebody takes out again is found missing.
			for file, words := range files {
				path := filepath.Join(a.home, file)
				write(t, path, strings.Replace(read(t, path), words[0], "", 1))
				if code, out := a.terminal(project, "init", client, "--check"); code == 0 {
					t.Errorf("%s without %s: %s", file, words[0], out)
				}
				break
			}
		})
	}
	t.Run("a file with comments is shown what to add and left alone", func(t *testing.T) {
		file := filepath.Join(a.home, "project/.mcp.json")
		write(t, file, "{ // mine\n}\n")
		code, out := a.terminal(project, "init", "claude", "--write")
		if code == 0 || !strings.Contains(out, "by hand") || read(t, file) != "{ // mine\n}\n" {
			t.Fatalf("exit %d %s", code, out)
		}
		os.Remove(file)
	})
}
