//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRehearseSees has programs that say nothing of what they meet in a view, as a user for
// whom the files of others cannot be written in one.
func TestRehearseSees(t *testing.T) {
	t.Parallel()
	d := plainly(t, func(root string) {
		write(t, filepath.Join(root, "dir", "x"), "x\n")
		write(t, filepath.Join(root, "a"), "one\n")
	})
	theirs := filepath.Join(d.Root, "theirs")
	write(t, theirs, "shared\n")
	os.Chmod(theirs, 0o666)
	read := "import os, socket\n"
	for _, c := range []struct{ name, script, want string }{
		{"a directory that could not be renamed is named, though the program says nothing", "try: os.rename('dir', 'to')\nexcept OSError: pass", "renaming the directory dir failed in the view (EXDEV)"},
		{"a file of another owner that could not be written is named, though the program says nothing", "try: open('theirs', 'w').write('mine')\nexcept OSError: pass", "writing theirs, which another owner has, failed in the view (EOVERFLOW)"},
		{"attempts at the network are in the result and on the card", "socket.socket().connect_ex(('192.0.2.7', 443))", "it tried to use the network, which was off, 1 times: 192.0.2.7:443"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := on(d, t)
			r, set := d.rehearsal("python3 -c \"" + read + c.script + "\nopen('a', 'a').write('more')\"")
			if !strings.Contains(fmt.Sprint(r["warnings"]), c.want) {
				t.Errorf("the result: %v", r)
			}
			held := M{"approval": M{"id": text(set, "approval_id")}}
			if card := lines(d.card(held)); !strings.Contains(card, "differs from a real run: "+c.want) {
				t.Errorf("the card: %s", card)
			}
			d.http("POST", "/v1/approvals/"+text(set, "approval_id")+"/answer", d.reviewer(), M{"answer": "reject"})
		})
	}
}
