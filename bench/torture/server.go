package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is one server under test and the workspace it works in.
type server struct {
	base, ws string
	client   *sdk.ClientSession
	ctx      context.Context // of the one probe that this server is started for
	has      map[string]bool
}

// learn asks for the tools. Desktop Commander keeps its allowed folders in a configuration
// that is set through a tool.
func (s *server) learn(ctx context.Context) error {
	list, err := s.client.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	s.has = map[string]bool{}
	for _, t := range list.Tools {
		s.has[t.Name] = true
	}
	if s.has["set_config_value"] {
		_, err = s.client.CallTool(ctx, &sdk.CallToolParams{Name: "set_config_value", Arguments: map[string]any{"key": "allowedDirectories", "value": []string{s.ws}}})
	}
	if err == nil && !s.has["write_file"] {
		err = errors.New("it has no write_file")
	}
	return err
}

func (s *server) at(p string) string { return filepath.Join(s.ws, p) }

// put writes past the server; what fails here shows as a probe that was not tried.
func (s *server) put(p, content string) {
	_ = os.MkdirAll(filepath.Dir(s.at(p)), 0o755)
	_ = os.WriteFile(s.at(p), []byte(content), 0o644)
}

func (s *server) get(p string) string {
	b, _ := os.ReadFile(s.at(p))
	return string(b)
}

// tool calls one tool: its text, and whether it said that it failed.
func (s *server) tool(name string, args map[string]any) (text string, ok bool) {
	r, err := s.client.CallTool(s.ctx, &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err.Error(), false
	}
	for _, c := range r.Content {
		if t, is := c.(*sdk.TextContent); is {
			text += t.Text
		}
	}
	return text, !r.IsError && !strings.HasPrefix(text, "Error")
}

func (s *server) edit(p, old, new string) (string, bool) {
	switch {
	case s.has["edit_block"]:
		return s.tool("edit_block", map[string]any{"file_path": s.at(p), "old_string": old, "new_string": new})
	case s.has["read_text_file"]:
		return s.tool("edit_file", map[string]any{"path": s.at(p), "edits": []map[string]any{{"oldText": old, "newText": new}}})
	}
	return s.tool("edit_file", map[string]any{"path": s.at(p), "old_string": old, "new_string": new})
}

func (s *server) read(p string) (string, bool) {
	name := "read_file"
	for _, n := range []string{"view_file", "read_text_file"} {
		if s.has[n] {
			name = n
		}
	}
	return s.tool(name, map[string]any{"path": s.at(p)})
}

func (s *server) write(p, content string) (string, bool) {
	return s.tool("write_file", map[string]any{"path": s.at(p), "content": content})
}

func (s *server) shell(line string) (string, bool) {
	switch {
	case s.has["workspace_shell"]:
		return s.tool("workspace_shell", map[string]any{"script": line})
	case s.has["start_process"]:
		return s.tool("start_process", map[string]any{"command": line, "timeout_ms": 5000})
	}
	return "", false
}
