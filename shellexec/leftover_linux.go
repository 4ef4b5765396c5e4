package shellexec

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// RunVariable names the run in the environment of everything that belongs to it.
const RunVariable = "HOLDPOINT_RUN"

// Leftover finds what still runs of runs that a daemon did not see to their end, by their
// environment, and ends it. Each is named; one that could not be ended says so. A program
// that has changed its own environment is not found: within namespaces none is left.
func Leftover(runs []string) []string {
	if len(runs) == 0 {
		return nil
	}
	wanted := map[string]bool{}
	for _, r := range runs {
		wanted[r] = true
	}
	var found []string
	seen := map[int]bool{}
	for until := time.Now().Add(time.Second); ; time.Sleep(10 * time.Millisecond) {
		alive := 0
		list, err := os.ReadDir("/proc")
		if err != nil {
			return found
		}
		for _, d := range list {
			pid, err := strconv.Atoi(d.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			// The handle first: what the environment tells is then about the same process.
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			if run := runOf(pid); wanted[run] && stateOf(pid) != 'Z' {
				alive++
				if !seen[pid] {
					seen[pid] = true
					found = append(found, fmt.Sprintf("%d %s of %s", pid, nameOf(pid), run))
				}
				unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			unix.Close(fd)
		}
		if alive == 0 || time.Now().After(until) {
			if alive > 0 {
				found = append(found, fmt.Sprintf("%d of them could not be ended", alive))
			}
			return found
		}
	}
}

func runOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for _, kv := range strings.Split(string(b), "\x00") {
		if v, ok := strings.CutPrefix(kv, RunVariable+"="); ok {
			return v
		}
	}
	return ""
}
