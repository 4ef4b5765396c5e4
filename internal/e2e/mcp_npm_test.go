//go:build npm

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holdpoint/internal/ports"
)

// These need the clients of testdata/mcp/package.json installed; make test-mcp does that
// and names the directory. Without them the tests are not built, so that none skips.

func clientsDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HOLDPOINT_MCP_CLIENTS")
	if dir == "" {
		t.Fatal("HOLDPOINT_MCP_CLIENTS names no directory: run make test-mcp")
	}
	return dir
}

// TestMCPTypeScript drives every tool with both generations of the official TypeScript
// client, over both transports, on each protocol version that they speak.
func TestMCPTypeScript(t *testing.T) {
	dir := clientsDir(t)
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	env := map[string]string{}
	for _, v := range d.environ() {
		k, val, _ := strings.Cut(v, "=")
		env[k] = val
	}
	for _, c := range []struct {
		client  int
		version string
	}{{1, "2025-11-25"}, {2, "2025-06-18"}, {2, "2025-11-25"}, {2, "2026-07-28"}} {
		for _, transport := range []string{"stdio", "http"} {
			name := fmt.Sprintf("client %d %s %s", c.client, c.version, transport)
			t.Run(name, func(t *testing.T) {
				how := M{"client": c.client, "version": c.version, "dir": strings.ReplaceAll(name, " ", "-")}
				if transport == "stdio" {
					how["command"], how["env"], how["cwd"] = []string{binary, "mcp"}, env, d.Root
				} else {
					how["url"], how["token"] = "http://"+addr+"/mcp", d.Agent
				}
				cmd := exec.Command("node", "drive.mjs", string(mcpEncoded(t, how)))
				cmd.Dir = dir
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v: %s\n%s", err, out, mcpStderr(err))
				}
				var got struct {
					Version, Server string
					Tools           map[string]string
					Listed          []string
					Wrong           []M
				}
				if err := json.Unmarshal(out, &got); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if got.Server != "holdpoint" || got.Version != "" && got.Version != c.version || len(got.Wrong) > 0 || len(got.Listed) < 12 {
					t.Fatalf("got %s", out)
				}
				for _, tool := range got.Listed {
					switch got.Tools[tool] {
					case "done", "review", "failed", "refused":
					default:
						t.Errorf("%s: %q", tool, got.Tools[tool])
					}
				}
				if want := read(t, filepath.Join(d.Root, how["dir"].(string), "a.txt")); want != "one\ntwo\n" {
					t.Errorf("after the undo: %q", want)
				}
			})
		}
	}
}

func mcpStderr(err error) string {
	if e, ok := err.(*exec.ExitError); ok {
		return string(e.Stderr)
	}
	return ""
}

// TestMCPInspector drives every tool with the inspector's command line, one process a call.
func TestMCPInspector(t *testing.T) {
	dir := clientsDir(t)
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	inspect := func(transport string, args ...string) (M, error) {
		full := []string{"--cli"}
		if transport == "stdio" {
			full = append(full, binary, "mcp", "--root", d.Root)
		} else {
			full = append(full, "http://"+addr+"/mcp", "--transport", "http", "--header", "Authorization: Bearer "+d.Agent)
		}
		cmd := exec.Command(filepath.Join(dir, "node_modules", ".bin", "mcp-inspector"), append(full, args...)...)
		if transport == "stdio" {
			for _, v := range d.environ() {
				if strings.HasPrefix(v, "HOLDPOINT_") {
					cmd.Args = append(cmd.Args[:2:2], append([]string{"-e", v}, cmd.Args[2:]...)...)
				}
			}
		}
		cmd.Dir, cmd.Env = dir, append(d.environ(), "HOME="+t.TempDir())
		raw, err := cmd.CombinedOutput()
		var out M
		at := strings.IndexByte(string(raw), '{')
		if err != nil || at < 0 {
			return nil, fmt.Errorf("%v %v: %s", args, err, raw)
		}
		if err := json.NewDecoder(strings.NewReader(string(raw[at:]))).Decode(&out); err != nil {
			return nil, fmt.Errorf("%v %v: %s", args, err, raw)
		}
		return out, nil
	}
	var calls []struct {
		Tool, Status, Keep string
		Args               M
	}
	if err := json.Unmarshal([]byte(read(t, "testdata/mcp/calls.json")), &calls); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, transport := range []string{"stdio", "http"} {
		wg.Go(func() {
			list, err := inspect(transport, "--method", "tools/list")
			if err != nil {
				t.Error(err)
				return
			}
			rest := map[string]bool{}
			for _, v := range list["tools"].([]any) {
				rest[text(v.(map[string]any), "name")] = true
			}
			kept := map[string]string{"dir": "inspector-" + transport}
			run := func(tool, status string, args M) M {
				full := []string{"--method", "tools/call", "--tool-name", tool}
				for k, v := range args {
					word := string(mcpEncoded(t, v))
					if s, ok := v.(string); ok {
						word = s
					}
					for name, value := range kept {
						word = strings.ReplaceAll(word, "{{"+name+"}}", value)
					}
					full = append(full, "--tool-arg", k+"="+word)
				}
				r, err := inspect(transport, full...)
				facts, _ := r["structuredContent"].(map[string]any)
				if err != nil || status != "" && facts["status"] != status || facts["status"] == nil {
					t.Errorf("%s %s: got %v %v, want %s", transport, tool, r, err, status)
				}
				delete(rest, tool)
				return facts
			}
			for _, c := range calls {
				facts := run(c.Tool, c.Status, c.Args)
				if v, ok := facts[c.Keep].(string); ok {
					kept[c.Keep] = v
				}
			}
			for tool := range rest {
				run(tool, "", M{"path": "{{dir}}/a.txt"})
			}
		})
	}
	wg.Wait()
}
