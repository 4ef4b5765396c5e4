//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdpoint/internal/reach"
)

// reaches are what a program that a person released must not be able to do while it is
// confined, and can do when it is not.
var reaches = reach.With(map[string]reach.Try{
	"token": func(out string, _ int) error {
		_, err := os.ReadFile(reach.Note(out, "state") + "/tokens/agent")
		return err
	},
	// With whatever token it finds, or with that of an agent, which it was given here.
	"daemon": func(out string, _ int) error {
		c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{Dial: func(string, string) (net.Conn, error) {
			return net.Dial("unix", reach.Note(out, "state")+"/holdpoint.sock")
		}}}
		req, _ := http.NewRequest("GET", "http://x/v1/status", nil)
		req.Header.Set("Authorization", "Bearer "+reach.Note(out, "agent"))
		r, err := c.Do(req)
		if err == nil && r.StatusCode != 200 {
			return errors.New(r.Status)
		}
		return err
	},
})

// beReaching is the life of the test binary as such a program.
func beReaching() bool {
	if len(os.Args) != 4 || os.Args[1] != "reach" {
		return false
	}
	pid, _ := strconv.Atoi(os.Args[3])
	reach.Print(reaches, os.Args[2], pid)
	return true
}

func TestProcessReach(t *testing.T) {
	t.Parallel()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []int{0, 65534} {
		for _, confined := range []bool{true, false} {
			t.Run(fmt.Sprintf("what a released program reaches through the daemon, as uid %d, confined %v", uid, confined), func(t *testing.T) {
				root, state := dirs(t)
				os.Chmod(filepath.Dir(binary), 0o755)
				for p := filepath.Dir(root); p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
					os.Chmod(p, 0o755)
				}
				os.Mkdir(state, 0o700)
				program(t, filepath.Join(root, "tester"), self)
				for _, p := range []string{root, state} {
					if err := os.Chown(p, uid, uid); err != nil {
						t.Fatal(err)
					}
				}
				user := []string{"setpriv", fmt.Sprintf("--reuid=%d", uid), fmt.Sprintf("--regid=%d", uid), "--clear-groups"}
				d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), args: []string{"--review-auth", "token"}}
				if !confined {
					file := filepath.Join(filepath.Dir(state), "holdpoint.toml")
					write(t, file, "[process]\nconfinement = \"off\"\n")
					d.args = append(d.args, "--config", file)
				}
				d.run(append(user, "env", "HOME=/nonexistent")...)
				d.operator()
				t.Cleanup(func() { d.stop(syscall.SIGTERM) })
				out := reach.Beyond(t, uid)
				write(t, out+"/state", state)
				write(t, out+"/agent", d.Agent)
				victim := exec.Command(user[0], append(user[1:], "/bin/sleep", "60")...)
				if err := victim.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { victim.Process.Kill(); victim.Wait() }()
				until(t, "another user's process", func() bool {
					return strings.HasPrefix(reach.Note(fmt.Sprintf("/proc/%d", victim.Process.Pid), "comm"), "sleep")
				})
				r := d.approve(d.call("workspace_shell", M{"command": "./tester", "args": []string{"reach", out, strconv.Itoa(victim.Process.Pid)}}))
				got := map[string]string{}
				if err := json.Unmarshal([]byte(text(r, "result", "stdout")), &got); err != nil || len(got) != len(reaches) {
					t.Fatalf("%v: %v", err, r)
				}
				for name, why := range got {
					if confined == (why == "") {
						t.Errorf("%s: %q", name, why)
					}
				}
				if word := text(r, "result", "confinement", "level"); word != map[bool]string{true: "full", false: "none"}[confined] {
					t.Errorf("confinement is %s", word)
				}
			})
		}
	}
}
