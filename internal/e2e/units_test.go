//go:build !race

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const units = top + "packaging/systemd/"

// TestUnits has systemd read the units, and count what they leave exposed. That a daemon
// hardened so still confines and rehearses is tried by make test-service under a systemd.
func TestUnits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, u := range []string{"system/holdpoint@.service", "system/holdpoint@.socket", "user/holdpoint.service", "user/holdpoint.socket"} {
		write(t, filepath.Join(dir, strings.Replace(u, "@", "@root", 1)), strings.ReplaceAll(read(t, units+u), "/usr/bin/holdpoint", binary))
	}
	analyze := func(args ...string) string {
		cmd := exec.Command("systemd-analyze", args...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	for _, c := range []struct{ mode, unit string }{
		{"--system", "system/holdpoint@root.service"}, {"--system", "system/holdpoint@root.socket"},
		{"--user", "user/holdpoint.service"}, {"--user", "user/holdpoint.socket"},
	} {
		if out := analyze("verify", "--man=no", c.mode, filepath.Join(dir, c.unit)); strings.TrimSpace(out) != "" {
			t.Errorf("%s: %s", c.unit, out)
		}
	}
	level := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(analyze("security", "--offline=true", filepath.Join(dir, "system/holdpoint@root.service")))
	if level == nil {
		t.Fatal("no exposure level")
	}
	if n, _ := strconv.ParseFloat(level[1], 64); n > 4.5 {
		t.Errorf("the exposure of the system's unit is %s", level[1])
	}
	t.Logf("exposure of the system's unit: %s", level[1])
	for _, must := range []string{"NoNewPrivileges=yes", "CapabilityBoundingSet=\n", "User=%i"} {
		if !strings.Contains(read(t, units+"system/holdpoint@.service"), must) {
			t.Errorf("the system's unit lacks %q", must)
		}
	}
	t.Run("the AppArmor profile parses", func(t *testing.T) {
		// The parser of Debian 12 is older than the two lines that name user namespaces, and
		// than the kernels that ask for them. The rest is read by it.
		profile := read(t, top+"packaging/apparmor/holdpoint")
		if !strings.Contains(profile, "\n  userns,\n") {
			t.Error("user namespaces are not allowed")
		}
		old := strings.NewReplacer("abi <abi/4.0>,\n", "", "  userns,\n", "").Replace(profile)
		file := filepath.Join(dir, "holdpoint")
		write(t, file, old)
		if out, err := exec.Command("apparmor_parser", "-Q", "-K", file).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}
