// Command torture drives MCP file servers over stdio through probes of encodings, links,
// drift, races, ambiguity, hard links, modes and blocklists, and prints one table.
//
//	torture [-out FILE] NAME=COMMAND ...
//
// In a command, {ws} stands for the workspace and {base} for the folder that holds it.
// Every probe looks at the disk, not at what the server says. It promises nothing about
// servers whose tools it does not know by name.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	out := flag.String("out", "", "also write the table into this file")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "torture: name at least one server: NAME=COMMAND")
		os.Exit(2)
	}
	results := map[string]map[string]string{}
	var names []string
	for _, arg := range flag.Args() {
		name, command, ok := strings.Cut(arg, "=")
		if !ok || strings.ContainsAny(name, " /") {
			name, command = "server", arg
		}
		names = append(names, name)
		results[name] = map[string]string{}
		for _, p := range probes {
			results[name][p.name] = run(p, command)
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", name, p.name, results[name][p.name])
		}
	}
	table := write(names, results)
	fmt.Print(table)
	if *out != "" {
		if err := os.WriteFile(*out, []byte(table), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "torture:", err)
			os.Exit(1)
		}
	}
}

func write(names []string, results map[string]map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| probe | what must hold | %s |\n|---|---|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	held := map[string]int{}
	for _, p := range probes {
		fmt.Fprintf(&b, "| %s | %s |", p.name, p.must)
		for _, n := range names {
			r := results[n][p.name]
			if strings.HasPrefix(r, "held") {
				held[n]++
			}
			fmt.Fprintf(&b, " %s |", strings.ReplaceAll(r, "|", "/"))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "| **held** | of %d |", len(probes))
	for _, n := range names {
		fmt.Fprintf(&b, " **%d** |", held[n])
	}
	return b.String() + "\n"
}

// run gives one probe a fresh workspace and a fresh server.
func run(p probe, command string) string {
	base, err := os.MkdirTemp("", "torture")
	if err != nil {
		return "not tried: " + err.Error()
	}
	defer os.RemoveAll(base)
	s := &server{base: base, ws: filepath.Join(base, "ws")}
	for _, dir := range []string{s.ws, filepath.Join(base, "out"), filepath.Join(base, "home")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "not tried: " + err.Error()
		}
	}
	s.put("../out/secret", "outside bytes\n")
	p.plant(s)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.NewReplacer("{ws}", s.ws, "{base}", base).Replace("exec "+command))
	cmd.Dir = s.ws
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(base, "home"), "HOLDPOINT_STATE="+filepath.Join(base, "state"), "XDG_CONFIG_HOME="+filepath.Join(base, "home"))
	s.client, err = sdk.NewClient(&sdk.Implementation{Name: "torture", Version: "1"}, nil).Connect(ctx, &sdk.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}, nil)
	if err != nil {
		return "not tried: " + short(err.Error())
	}
	defer s.client.Close()
	if err := s.learn(ctx); err != nil {
		return "not tried: " + short(err.Error())
	}
	s.ctx = ctx
	// An engine that does nothing must not pass for a safe one.
	s.put("control.txt", "one\n")
	s.edit("control.txt", "one", "two")
	if s.get("control.txt") != "two\n" {
		return "not tried: not even a plain edit works"
	}
	if text, _ := s.write("control2.txt", "new\n"); s.get("control2.txt") != "new\n" {
		return "not tried: not even a plain write works: " + short(text)
	}
	return p.run(s)
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return s[:min(len(s), 90)]
}
