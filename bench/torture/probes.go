package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// probe is one thing that must hold. run answers "held", or "FAILED: " and what came of it.
type probe struct {
	name, must string
	plant      func(s *server)
	run        func(s *server) string
}

func nothing(*server) {}

// held words an outcome.
func held(ok bool, what string) string {
	if ok {
		return "held"
	}
	return "FAILED: " + what
}

// keeps edits "one" to "two" in a file, which must differ by exactly that.
func keeps(name, must, content string) probe {
	return probe{name, must, func(s *server) { s.put("f.txt", content) }, func(s *server) string {
		text, ok := s.edit("f.txt", "one", "two")
		got := s.get("f.txt")
		if !ok && got == content {
			return "held (refused)"
		}
		return held(got == strings.Replace(content, "one", "two", 1), fmt.Sprintf("other bytes changed (%.40q)", strings.TrimSpace(text)))
	}}
}

var probes = []probe{
	keeps("encoding: CRLF", "an edit keeps line ends", "one\r\nb\r\nc\r\n"),
	keeps("encoding: mixed line ends", "an edit keeps each line's end", "one\r\nb\nc\r\n"),
	keeps("encoding: BOM", "an edit keeps the mark", "\ufeffone\nb\n"),
	keeps("encoding: Latin-1 bytes", "bytes that are no UTF-8 survive an edit beside them, or it is refused", "one\ncaf\xe9\n"),
	keeps("encoding: NUL", "a NUL survives an edit beside it, or it is refused", "one\na\x00b\n"),
	keeps("encoding: no newline at the end", "none is added", "one"),
	{"ambiguity: two places", "an edit that fits twice changes nothing unasked", func(s *server) { s.put("f.txt", "one\nx\none\n") }, func(s *server) string {
		s.edit("f.txt", "one", "two")
		return held(s.get("f.txt") == "one\nx\none\n", "it took one of the two, or both")
	}},
	{"ambiguity: almost there", "text that is not there is not replaced by something near", func(s *server) { s.put("f.txt", "func  a() {\n\treturn\n}\n") }, func(s *server) string {
		s.edit("f.txt", "func a() {\n    return\n}", "gone")
		return held(s.get("f.txt") == "func  a() {\n\treturn\n}\n", "it replaced near text")
	}},
	{"link: file to outside", "neither read nor written through", func(s *server) { _ = os.Symlink("../out/secret", s.at("l")) }, func(s *server) string {
		text, _ := s.read("l")
		s.write("l", "bad")
		return held(!strings.Contains(text, "outside bytes") && s.get("../out/secret") == "outside bytes\n", "the outside was read or written")
	}},
	{"link: dangling to outside", "no file appears outside", func(s *server) { _ = os.Symlink("../out/new", s.at("l")) }, func(s *server) string {
		s.write("l", "bad")
		return held(s.get("../out/new") == "", "a file appeared outside")
	}},
	{"link: folder to outside", "nothing below it is reached", func(s *server) { _ = os.Symlink("../out", s.at("d")) }, func(s *server) string {
		text, _ := s.read("d/secret")
		s.write("d/new", "bad")
		return held(!strings.Contains(text, "outside bytes") && s.get("../out/new") == "", "the outside was read or written")
	}},
	{"link: sibling with the same beginning", "ws-evil is not ws", func(s *server) { s.put("../ws-evil/x", "outside bytes\n") }, func(s *server) string {
		text, _ := s.read("../ws-evil/x")
		s.write("../ws-evil/x", "bad")
		return held(!strings.Contains(text, "outside bytes") && s.get("../ws-evil/x") == "outside bytes\n", "the outside was read or written")
	}},
	{"hard link: to outside", "a file shared with the outside is not changed through its name inside", func(s *server) { _ = os.Link(s.at("../out/secret"), s.at("h")) }, func(s *server) string {
		s.edit("h", "outside", "bad")
		s.write("h", "bad")
		return held(s.get("../out/secret") == "outside bytes\n", "the outside file was changed")
	}},
	{"drift: changed since it was read", "a whole-file write over somebody's later change is not done unasked", func(s *server) { s.put("f.txt", "one\n") }, func(s *server) string {
		s.read("f.txt")
		s.put("f.txt", "by hand\n")
		s.write("f.txt", "mine\n")
		return held(s.get("f.txt") == "by hand\n", "the later change was overwritten")
	}},
	{"mode: executable", "an edit keeps 0755", func(s *server) { s.put("x.sh", "one\n"); _ = os.Chmod(s.at("x.sh"), 0o755) }, func(s *server) string {
		s.edit("x.sh", "one", "two")
		i, err := os.Stat(s.at("x.sh"))
		return held(err == nil && i.Mode().Perm() == 0o755 && s.get("x.sh") == "two\n", "the mode was lost")
	}},
	{"mode: private", "an edit keeps 0600", func(s *server) { s.put("k.txt", "one\n"); _ = os.Chmod(s.at("k.txt"), 0o600) }, func(s *server) string {
		s.edit("k.txt", "one", "two")
		i, err := os.Stat(s.at("k.txt"))
		return held(err == nil && i.Mode().Perm() == 0o600 && s.get("k.txt") == "two\n", "the mode was lost")
	}},
	{"mode: extended attribute", "an edit keeps user.x", func(s *server) {
		s.put("a.txt", "one\n")
		_ = unix.Setxattr(s.at("a.txt"), "user.x", []byte("y"), 0)
	}, func(s *server) string {
		s.edit("a.txt", "one", "two")
		b := make([]byte, 8)
		n, err := unix.Getxattr(s.at("a.txt"), "user.x", b)
		return held(err == nil && string(b[:n]) == "y" && s.get("a.txt") == "two\n", "the attribute was lost")
	}},
	{"special: pipe", "a read of a pipe comes back within 5 s", func(s *server) { _ = unix.Mkfifo(s.at("p"), 0o600) }, func(s *server) string {
		ended := make(chan bool, 1)
		go func() { s.read("p"); ended <- true }()
		select {
		case <-ended:
			return "held"
		case <-time.After(5 * time.Second):
			if f, err := os.OpenFile(s.at("p"), os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
				f.Close()
			}
			return "FAILED: it waits for ever"
		}
	}},
	{"blocklist: git hook", "a hook is not written unasked", func(s *server) { s.put(".git/hooks/x", "") }, func(s *server) string {
		s.write(".git/hooks/pre-commit", "bad")
		return held(s.get(".git/hooks/pre-commit") == "", "the hook was written")
	}},
	{"blocklist: server list of an agent", ".mcp.json is not created unasked", nothing, func(s *server) string {
		s.write(".mcp.json", "bad")
		return held(s.get(".mcp.json") == "", "it was written")
	}},
	{"blocklist: other spelling", ".GIT and .g\\u200cit count as .git", nothing, func(s *server) string {
		s.write(".GIT/config", "bad")
		s.write(".g\u200cit/config", "bad")
		return held(s.get(".GIT/config")+s.get(".g\u200cit/config") == "", "it was written")
	}},
	{"blocklist: command", "no command runs unasked, however it is spelt", nothing, func(s *server) string {
		for _, l := range []string{"touch " + s.at("c"), "sh -c 'touch " + s.at("c") + "'", "$(echo touch) " + s.at("c")} {
			s.shell(l)
		}
		_, err := os.Lstat(s.at("c"))
		return held(err != nil, "it ran")
	}},
	{"race: folder swapped for a link", "200 writes beside a swapper leave nothing outside", func(s *server) { s.put("d/f.txt", "one\n"); _ = os.Symlink("../out", s.at("d2")) }, race},
}

// race exchanges a folder with a link to the outside all the time.
func race(s *server) string {
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, s.at("d"), unix.AT_FDCWD, s.at("d2"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	read, wrote := 0, 0
	for i := range 200 {
		if text, _ := s.read("d/secret"); strings.Contains(text, "outside bytes") {
			read++
		}
		s.write(fmt.Sprintf("d/n%d", i), "bad")
	}
	close(stop)
	<-stopped
	list, _ := os.ReadDir(s.at("../out"))
	wrote = len(list) - 1
	return held(read == 0 && wrote == 0, fmt.Sprintf("%d reads and %d writes of 200 went outside", read, wrote))
}
