package main

// What each client must be told: where the server is, and that its own tools for editing
// files and running commands stay off, so that nothing goes past Holdpoint. docs/mcp.md
// says which of this was tried and which is taken from the makers' documentation.

// setting is one file of a client and what must stand in it.
type setting struct {
	file string // "~/" is in the user's home, else below the working directory
	why  string
	json map[string]any // what must be in a JSON file
	toml string         // or what must be in a TOML file
	text string         // or the whole of a file of its own
}

func clientNames() []string { return []string{"claude", "codex", "gemini", "cursor", "vscode", "zed"} }

// settingsOf lists a client's files. program is how it starts this one.
func settingsOf(name, program, dir string) []setting {
	const server, off = "the server", "the client's own edit and shell tools stay off"
	entry := func(args ...string) obj {
		return obj{"command": program, "args": texts(append([]string{"mcp"}, args...)...)}
	}
	switch name {
	case "claude":
		return []setting{
			{file: ".mcp.json", why: server, json: obj{"mcpServers": obj{"holdpoint": entry()}}},
			{file: ".claude/settings.json", why: off, json: obj{"permissions": obj{
				"deny": texts("Bash", "Edit", "MultiEdit", "NotebookEdit", "Write"), "allow": texts("mcp__holdpoint")}}}}
	case "codex":
		// apply_patch has no switch of its own that is documented; the read-only sandbox
		// keeps it from changing anything without asking the person.
		return []setting{{file: ".codex/config.toml", why: server + "; " + off, toml: "sandbox_mode = \"read-only\"\n\n" +
			"[features]\nshell_tool = false\nunified_exec = false\n\n" +
			"[mcp_servers.holdpoint]\ncommand = " + tomlString(program) + "\nargs = [\"mcp\"]\ntool_timeout_sec = 600\n"}}
	case "gemini":
		return []setting{{file: ".gemini/settings.json", why: server + "; " + off, json: obj{
			"mcpServers": obj{"holdpoint": entry()}, "tools": obj{"exclude": texts("replace", "run_shell_command", "write_file")}}}}
	case "cursor":
		return []setting{
			{file: ".cursor/mcp.json", why: server, json: obj{"mcpServers": obj{"holdpoint": entry("--root", "${workspaceFolder}")}}},
			{file: ".cursor/cli.json", why: off + " (in Cursor's CLI)", json: obj{"permissions": obj{
				"deny": texts("Shell(*)", "Write(**)"), "allow": texts("Mcp(holdpoint:*)")}}}}
	case "vscode":
		own := entry("--root", "${workspaceFolder}")
		own["type"] = "stdio"
		return []setting{
			{file: ".vscode/mcp.json", why: server, json: obj{"servers": obj{"holdpoint": own}}},
			{file: ".github/agents/holdpoint.agent.md", why: off + " in the agent Holdpoint; choose it in the chat", text: agentFile}}
	case "zed":
		return []setting{{file: "~/.config/zed/settings.json", why: server + "; " + off + " in the profile Holdpoint; choose it in the agent panel", json: obj{
			"context_servers": obj{"holdpoint": entry("--root", dir)},
			"agent": obj{"profiles": obj{"holdpoint": obj{"name": "Holdpoint", "enable_all_context_servers": true, "tools": obj{
				"copy_path": false, "create_directory": false, "delete_path": false, "edit_file": false, "move_path": false, "save_file": false, "terminal": false,
				"read_file": true, "grep": true, "find_path": true, "list_directory": true, "thinking": true}}}}}}}
	}
	return nil
}

const agentFile = `---
name: Holdpoint
description: Works through Holdpoint, where risky changes wait for a person and the rest can be undone.
tools: ['search', 'holdpoint/*']
---
Change files and run commands only with the tools of the server holdpoint.
`

func texts(words ...string) []any {
	var list []any
	for _, w := range words {
		list = append(list, w)
	}
	return list
}
