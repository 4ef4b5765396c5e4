//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write puts a file into the root.
func (d *daemon) put(name, content string, mode os.FileMode) {
	d.t.Helper()
	p := filepath.Join(d.Root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), mode); err != nil {
		d.t.Fatal(err)
	}
}

// card gives the card of a held reply.
func (d *daemon) card(held M) M {
	d.t.Helper()
	_, row := d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.reviewer(), nil)
	c, _ := row["card"].(map[string]any)
	return c
}

func lines(card M) string {
	var out []string
	list, _ := card["lines"].([]any)
	for _, l := range list {
		s, _ := l.(string)
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

func TestProcessSmoke(t *testing.T) {
	d := start(t)
	held := d.call("workspace_shell", M{"command": "ls", "args": []string{"-la", "*"}})
	t.Logf("%v", held)
	t.Logf("%s", lines(d.card(held)))
	t.Logf("%v", d.approve(held))
	d.put("run.sh", "echo from script\ntouch made\n", 0o644)
	held = d.call("workspace_shell", M{"script": "bash run.sh | cat; rm -rf sub; curl x"})
	t.Logf("%s", lines(d.card(held)))
	t.Logf("%v", d.approve(held))
}
