package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestReadsOfOddThings reads what is no file, no text or no document, on one daemon.
func TestReadsOfOddThings(t *testing.T) {
	t.Parallel()
	d := start(t)
	in := func(p string) string { return filepath.Join(d.Root, p) }
	write(t, in("odd/near"), "needle\n")
	syscall.Mkfifo(in("odd/p"), 0o644)
	device := "odd/null device; "
	if err := syscall.Mknod(in("odd/null"), syscall.S_IFCHR|0o666, 1<<8|3); os.Geteuid() != 0 {
		device = "" // only root makes devices
	} else if err != nil {
		t.Fatal(err)
	}
	t.Run("S16 (part) D70 (part) a pipe is never opened and never waited for", func(t *testing.T) {
		for name, args := range map[string]M{"search_files": {"path": "odd/p", "pattern": "x"}, "validate_file": {"path": "odd/p", "format": "json"}, "preview_markdown": {"path": "odd/p"},
			"view_file": {"path": "odd/null"}} {
			if args["path"] == "odd/null" && !rootToo(t, "a device is made") {
				continue
			}
			begin := time.Now()
			if c := code(d.call(name, args)); c != "special_file" {
				t.Errorf("%s: %s", name, c)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("%s took %v", name, took)
			}
		}
		r := object(must(t, d.call("search_files", M{"path": "odd", "pattern": "needle", "show_hidden": true}), "done")["result"])
		if number(r["count"]) != 1 {
			t.Errorf("%v", r)
		}
		kinds := ""
		for _, e := range objects(object(must(t, d.call("file_tree", M{"path": "odd"}), "done")["result"])["entries"]) {
			kinds += text(e, "path") + " " + text(e, "type") + "; "
		}
		if kinds != "odd/near file; "+device+"odd/p fifo; " {
			t.Error(kinds)
		}
	})
	t.Run("S15 (part) reads of directories refuse what lies outside in the same words", func(t *testing.T) {
		write(t, filepath.Join(filepath.Dir(d.Root), "out/secret"), "needle\n")
		os.Symlink("../out", in("to-out"))
		os.Symlink("../nowhere", in("to-none"))
		for _, name := range []string{"file_tree", "search_files", "list_directory", "detect_tests", "validate_file", "preview_markdown"} {
			for _, p := range []string{"to-out", "to-none", "../out", "to-out/secret"} {
				args := M{"path": p}
				if name == "search_files" {
					args["pattern"] = "needle"
				}
				if c := code(d.call(name, args)); c != "outside_workspace" {
					t.Errorf("%s %s: %s", name, p, c)
				}
			}
		}
		r := object(d.call("search_files", M{"pattern": "needle", "mode": "files"})["result"])
		for _, m := range objects(r["matches"]) {
			if strings.Contains(text(m, "path"), "out") {
				t.Errorf("found through a link: %v", m)
			}
		}
	})
	t.Run("C24 new reads are never held", func(t *testing.T) {
		write(t, in("go.mod"), "module x\n")
		write(t, in("a.json"), "{\n \"a\": }\n")
		write(t, in("a.md"), "# Hi\n<script>x</script>\n")
		for name, args := range map[string]M{"file_tree": {}, "search_files": {"pattern": "x"}, "validate_file": {"path": "a.json"}, "preview_markdown": {"path": "a.md"}, "detect_tests": {}} {
			r := must(t, d.call(name, args), "done")
			if text(r, "decision", "reason") != "read_only" || r["effects_executed"] != false {
				t.Errorf("%s: %v", name, r)
			}
		}
		r := object(d.call("validate_file", M{"path": "a.json"})["result"])
		if e := objects(r["errors"]); r["valid"] != false || len(e) != 1 || number(e[0]["line"]) != 2 || number(e[0]["column"]) != 7 {
			t.Errorf("%v", r)
		}
		if h := text(object(d.call("preview_markdown", M{"path": "a.md"})["result"]), "html"); strings.Contains(h, "<script") || !strings.Contains(h, "<h1") {
			t.Error(h)
		}
		list := objects(object(d.call("detect_tests", M{})["result"])["runners"])
		if len(list) != 1 || text(list[0], "runner") != "go test" {
			t.Errorf("%v", list)
		}
	})
	t.Run("an image comes whole, as base64 with its kind", func(t *testing.T) {
		img := image.NewNRGBA(image.Rect(0, 0, 500, 500))
		for i, v := 0, uint32(1); i < len(img.Pix); i++ {
			v = v*1664525 + 1013904223
			img.Pix[i] = byte(v >> 24)
		}
		img.Set(0, 0, color.Black)
		var b bytes.Buffer
		png.Encode(&b, img)
		if b.Len() < 300<<10 {
			t.Fatalf("only %d bytes: it would be shown whole anyway", b.Len())
		}
		write(t, in("i.png"), b.String())
		r := object(must(t, d.call("view_file", M{"path": "i.png"}), "done")["result"])
		got, _ := base64.StdEncoding.DecodeString(text(r, "content_base64"))
		if !bytes.Equal(got, b.Bytes()) || text(r, "mime") != "image/png" || r["eof"] != true || strings.HasSuffix(text(r, "hash"), "+partial") {
			t.Errorf("%d bytes of %d, %v", len(got), b.Len(), r["mime"])
		}
	})
	t.Run("invisible characters are marked on request", func(t *testing.T) {
		write(t, in("trick.go"), "a\u202eb\u200bc\n\td\u00e9\n")
		plain := object(d.call("view_file", M{"path": "trick.go"})["result"])
		r := object(d.call("view_file", M{"path": "trick.go", "mark_invisible": true})["result"])
		if text(r, "content") != "a\\u{202E}b\\u{200B}c\n\td\u00e9\n" || number(r["marked"]) != 2 || text(plain, "content") != "a\u202eb\u200bc\n\td\u00e9\n" {
			t.Errorf("%q", text(r, "content"))
		}
	})
	t.Run("D76 (part) more names than a page holds", func(t *testing.T) {
		const n = 1201
		for i := range n {
			write(t, in(fmt.Sprintf("many/%04d", (i*7919)%n)), "")
		}
		for _, name := range []string{"list_directory", "file_tree"} {
			first := object(d.call(name, M{"path": "many", "page_size": 1000})["result"])
			if len(objects(first["entries"])) != 1000 || first["truncated"] != "page" || text(first, "next") == "" {
				t.Errorf("%s: %d entries, %v", name, len(objects(first["entries"])), first["truncated"])
			}
			seen := map[string]int{}
			for _, e := range listed(t, d, name, M{"path": "many", "page_size": 97}) {
				seen[e]++
			}
			for e, k := range seen {
				if k != 1 {
					t.Errorf("%s: %s %d times", name, e, k)
				}
			}
			if len(seen) != n {
				t.Errorf("%s: %d names", name, len(seen))
			}
		}
	})
	t.Run("facts of many paths come in their order", func(t *testing.T) {
		write(t, in("many/.gitignore"), "00*\n")
		var paths []string
		for i := range 1201 {
			paths = append(paths, fmt.Sprintf("many/%04d", i))
		}
		paths = append(paths, "../out", "gone")
		_, r := d.http("POST", "/v1/preflight", d.Agent, M{"paths": paths})
		targets := objects(object(r["facts"])["targets"])
		if len(targets) != 1202 || object(r["facts"])["available"] != false || len(objects(r["warnings"])) != 1 {
			t.Fatalf("%d targets, %v", len(targets), r["warnings"])
		}
		for i, e := range targets[:1201] {
			if text(e, "path") != paths[i] || e["ignored"] != (i < 100) || text(e, "hash") == "" {
				t.Fatalf("%d: %v", i, e)
			}
		}
		if targets[1201]["exists"] != false {
			t.Errorf("%v", targets[1201])
		}
	})
	t.Run("reads of a tree that changes under them end and stay inside", func(t *testing.T) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		write(t, in("swap/d/needle"), "needle\n")
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				os.Rename(in("swap/d"), in("swap/away"))
				os.Symlink("../../out", in("swap/d"))
				os.Remove(in("swap/d"))
				os.Rename(in("swap/away"), in("swap/d"))
			}
		})
		for range 60 {
			r := object(must(t, d.call("search_files", M{"path": "swap", "pattern": "needle"}), "done")["result"])
			for _, m := range objects(r["matches"]) {
				if strings.Contains(text(m, "path"), "secret") {
					t.Errorf("reached what lies outside: %v", m)
				}
			}
			for _, e := range objects(object(must(t, d.call("file_tree", M{"path": "swap"}), "done")["result"])["entries"]) {
				if strings.Contains(text(e, "path"), "secret") {
					t.Errorf("listed what lies outside: %v", e)
				}
			}
		}
		close(stop)
		wg.Wait()
	})
}

// TestFileInfoOfText asks for the facts of texts, small and large.
func TestFileInfoOfText(t *testing.T) {
	t.Parallel()
	d := start(t)
	big := strings.Repeat("line of text\r\n", 150_000)
	for name, text := range map[string]string{"lf": "a\nb\n", "open": "a\nb", "big": big, "empty": "", "bin": "a\x00b\n"} {
		write(t, filepath.Join(d.Root, name), text)
	}
	for name, want := range map[string]string{
		"lf":    "2 utf-8 lf true text/plain; charset=utf-8",
		"open":  "2 utf-8 lf false text/plain; charset=utf-8",
		"big":   "150000 utf-8 crlf true text/plain; charset=utf-8",
		"empty": "0 utf-8 none false text/plain; charset=utf-8",
		"bin":   "1 binary <nil> <nil> application/octet-stream",
	} {
		r := object(must(t, d.call("file_info", M{"path": name}), "done")["result"])
		if got := fmt.Sprint(number(r["lines"]), " ", r["encoding"], " ", r["eol"], " ", r["final_newline"], " ", r["mime"]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
