// The first program of the virtual machine of TestMachinePowerCut. It loads the modules that lie
// beside it, mounts the disk, serves a folder on it, tells on the console what it finds, and then
// edits from two clients until the power is gone: what it is about to do, and what was
// acknowledged. It is built without the race detector and without C.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	files  = 7
	socket = "/run/s"
	ws     = "/data/ws"
	state  = "/data/state"
)

func main() {
	if err := run(); err != nil {
		say("failed: %v", err)
	}
	select {} // the first program must not end
}

var speaking sync.Mutex

// say writes one line to the console, whole.
func say(format string, args ...any) {
	speaking.Lock()
	defer speaking.Unlock()
	fmt.Printf("hp "+format+"\n", args...)
}

func run() error {
	for _, m := range [][3]string{{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/run", "mode=755"}, {"tmpfs", "/tmp"}} {
		os.MkdirAll(m[1], 0o755)
		if err := syscall.Mount(m[0], m[1], m[0], 0, m[2]); err != nil && err != syscall.EBUSY {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	if err := modules(); err != nil {
		return err
	}
	if err := disk(); err != nil {
		return err
	}
	os.Setenv("HOME", "/tmp")
	serve := exec.Command("/holdpoint", "serve", "--root", ws, "--state", state, "--socket", socket, "--review-auth=token")
	serve.Stdout, serve.Stderr = os.Stderr, os.Stderr
	if err := serve.Start(); err != nil {
		return err
	}
	go func() { say("failed: the daemon ended: %v", serve.Wait()) }()
	if err := ready(); err != nil {
		return err
	}
	found()
	if err := undoNewest(); err != nil {
		return err
	}
	revs := found()
	operator, err := os.ReadFile(state + "/tokens/operator")
	if err != nil {
		return err
	}
	os.Setenv("HOLDPOINT_TOKEN", strings.TrimSpace(string(operator)))
	if out, err := exec.Command("/holdpoint", "--socket", socket, "audit", "verify").CombinedOutput(); err != nil {
		return fmt.Errorf("audit verify: %w %s", err, out)
	}
	say("ready")
	edit(revs)
	return nil
}

// modules loads /modules/* in the order of their names.
func modules() error {
	list, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	slices.Sort(list)
	for _, file := range list {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		none := []byte{0}
		if _, _, e := syscall.Syscall(syscall.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&none[0]))); e != 0 && e != syscall.EEXIST {
			return fmt.Errorf("load %s: %w", file, e)
		}
	}
	return nil
}

// disk mounts the disk by the kind that the kernel's command line names.
func disk() error {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	kind := ""
	for _, w := range strings.Fields(string(line)) {
		if k, ok := strings.CutPrefix(w, "hp.disk="); ok {
			kind = k
		}
	}
	os.MkdirAll("/data", 0o755)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := syscall.Mount("/dev/vda", "/data", kind, 0, "")
		if err == nil {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("mount the disk as %q: %w", kind, err)
		}
	}
	if _, err := os.Stat(ws); err == nil {
		return nil
	}
	if err := os.Mkdir(ws, 0o755); err != nil {
		return err
	}
	for i := range files {
		if err := os.WriteFile(at(i), content(0), 0o644); err != nil {
			return err
		}
	}
	syscall.Sync()
	return nil
}

func at(i int) string { return fmt.Sprintf("%s/f%d", ws, i) }

// content is one replacement as a whole, so that a torn file cannot pass.
func content(n int) []byte { return fmt.Appendf(nil, "rev = %06d\n%0512d\n", n, n) }

// found tells what stands in each file; a file that is no whole one is -1.
func found() []int {
	revs := make([]int, files)
	for i := range revs {
		b, err := os.ReadFile(at(i))
		n := -1
		if _, bad := fmt.Sscanf(string(b), "rev = %d", &n); err != nil || bad != nil || !bytes.Equal(b, content(n)) {
			n = -1
		}
		revs[i] = n
		say("have %d %d", i, n)
	}
	return revs
}

var client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", socket)
}}}

func ready() error {
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if r, err := client.Get("http://holdpoint/readyz"); err == nil {
			if r.Body.Close(); r.StatusCode == 200 {
				return nil
			}
		}
	}
	return fmt.Errorf("the daemon is not ready")
}

// ask makes one request as the agent.
func ask(method, path string, body any) (map[string]any, error) {
	token, err := os.ReadFile(state + "/tokens/agent")
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(method, "http://holdpoint"+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", "application/json")
	reply, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(text, &out)
}

// undoNewest takes the newest change back: its credential outlived the cut.
func undoNewest() error {
	log, err := ask("GET", "/v1/operations?state=committed&limit=1", nil)
	if err != nil {
		return err
	}
	list, _ := log["operations"].([]any)
	if len(list) == 0 {
		return nil
	}
	id := list[0].(map[string]any)["id"]
	r, err := ask("POST", "/v1/undo", map[string]any{"operation_id": id})
	if err != nil || r["status"] != "done" {
		return fmt.Errorf("the undo of %v: %v %v", id, r, err)
	}
	say("undone")
	return nil
}

// edit never ends: two clients, each file held by one at a time.
func edit(revs []int) {
	var held [files]sync.Mutex
	for range 2 {
		go func() {
			for {
				i := rand.IntN(files)
				if !held[i].TryLock() {
					continue
				}
				say("try %d %d", i, revs[i]+1)
				r, err := ask("POST", "/v1/call", map[string]any{"op": "edit_file", "args": map[string]any{
					"path": fmt.Sprintf("f%d", i), "old_string": string(content(revs[i])), "new_string": string(content(revs[i] + 1))}})
				if err != nil || r["status"] != "done" {
					say("failed: edit %d: %v %v", i, r, err)
					return
				}
				revs[i]++
				say("ack %d %d", i, revs[i])
				held[i].Unlock()
			}
		}()
	}
}
