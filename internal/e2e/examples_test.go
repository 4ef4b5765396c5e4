package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const examples = "../../examples/"

// recipe is a machine as the recipes expect it: daemon, policy, profile, token, and some
// build output that is old enough.
type recipe struct {
	*daemon
	secret, tokenFile, temp string
	env                     []string
}

func newRecipe(t *testing.T) recipe {
	root, state := dirs(t)
	base := filepath.Dir(root)
	policy := filepath.Join(base, "trusted-automation.json")
	write(t, policy, strings.ReplaceAll(read(t, examples+"policy/trusted-automation.json"), "/srv/project", root))
	r := recipe{temp: filepath.Join(base, "temp"), tokenFile: filepath.Join(base, "nightly.token")}
	r.daemon = quickOn(t, root, state, read(t, examples+"policy/holdpoint.toml"), []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + policy})
	r.secret = r.token(M{"name": "nightly", "role": "agent", "workflow": "nightly-cleanup", "profile": "nightly", "root": "ws", "expires": "90d"})
	write(t, r.tokenFile, r.secret+"\n")
	os.Chmod(r.tokenFile, 0o600)
	for _, d := range []string{r.temp, filepath.Join(base, "bin")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(binary, filepath.Join(base, "bin", "holdpoint")); err != nil {
		t.Fatal(err)
	}
	r.env = []string{"PATH=" + filepath.Join(base, "bin") + ":" + os.Getenv("PATH"), "HOME=" + r.temp, "HOLDPOINT_SOCKET=" + r.Socket}
	r.litter()
	return r
}

func (r recipe) litter() {
	for _, p := range []string{"build/a.o", "build/sub/b.log", "build/app", "src/c.o", "releases/old.tar"} {
		at := filepath.Join(r.Root, p)
		write(r.t, at, p)
		old(r.t, at, 60)
	}
}

// clean reports that exactly what the policy selects is gone, and brings it back.
func (r recipe) cleaned() {
	r.t.Helper()
	for p, gone := range map[string]bool{"build/a.o": true, "build/sub/b.log": true, "build/app": false, "src/c.o": false, "releases/old.tar": false} {
		if exists(filepath.Join(r.Root, p)) == gone {
			r.t.Errorf("%s: gone is not %v", p, gone)
		}
	}
	_, log := r.http("GET", "/v1/operations?limit=1", r.secret, nil)
	_, u := r.http("POST", "/v1/undo", r.secret, M{"operation_id": text(objects(log["operations"])[0], "id")})
	must(r.t, u, "done")
}

func (r recipe) sh(shell []string, script string, env ...string) (int, string) {
	r.t.Helper()
	cmd := exec.Command(shell[0], append(append([]string{}, shell[1:]...), "-c", script)...)
	cmd.Dir, cmd.Env = r.temp, append(append([]string{}, r.env...), env...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		r.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestExamples(t *testing.T) {
	t.Parallel()
	r := newRecipe(t)
	t.Run("github actions: each step as the runner would run it", func(t *testing.T) {
		var flow struct {
			Jobs map[string]struct {
				Env   map[string]string
				Steps []struct {
					Name, Run, Uses string
					Env             map[string]string
				}
			}
		}
		decodeYAML(t, "github-actions/cleanup.yml", &flow)
		known := map[string]string{"vars.HOLDPOINT_SOCKET": r.Socket, "secrets.HOLDPOINT_TOKEN": r.secret}
		filled := func(env map[string]string) (list []string) {
			for k, v := range env {
				list = append(list, k+"="+expression.ReplaceAllStringFunc(v, func(s string) string {
					name := strings.TrimSpace(strings.Trim(s, "${}"))
					if known[name] == "" {
						t.Errorf("nobody fills in %s", s)
					}
					return known[name]
				}))
			}
			return list
		}
		summary := filepath.Join(r.temp, "summary")
		steps := 0
		for _, job := range flow.Jobs {
			env := append(filled(job.Env), "RUNNER_TEMP="+r.temp, "GITHUB_RUN_ID=7001", "GITHUB_RUN_ATTEMPT=1", "GITHUB_STEP_SUMMARY="+summary)
			for _, s := range job.Steps {
				steps++
				if rc, out := r.sh([]string{"bash", "-eo", "pipefail"}, s.Run, append(env, filled(s.Env)...)...); rc != 0 {
					t.Fatalf("%s: %d %s", s.Name, rc, out)
				}
			}
		}
		if steps < 5 || !strings.Contains(read(t, summary), "holdpoint undo op_") || exists(filepath.Join(r.temp, "holdpoint-token")) {
			t.Errorf("%d steps, %s", steps, read(t, summary))
		}
		if rec := r.last(); rec["execution_id"] != "gh-7001" || rec["trusted_policy_id"] != "build-output" {
			t.Errorf("audit %v", rec)
		}
		r.cleaned()
	})
	t.Run("gitlab: each job's script, with the token in a file", func(t *testing.T) {
		var file map[string]struct{ Script []string }
		decodeYAML(t, "gitlab-ci/.gitlab-ci.yml", &file)
		for name, job := range file {
			if rc, out := r.sh([]string{"bash", "-eo", "pipefail"}, strings.Join(job.Script, "\n"), "HOLDPOINT_TOKEN_FILE="+r.tokenFile, "CI_JOB_ID=88"); rc != 0 || len(job.Script) == 0 {
				t.Errorf("%s: %d %s", name, rc, out)
			}
		}
		if cards := r.cards("pending"); len(cards) != 1 || cards[0]["op"] != "delete_file" {
			t.Errorf("cards: %v", cards)
		}
		r.cleaned()
	})
	t.Run("cron: silent when all is well, and words with the exit code when not", func(t *testing.T) {
		script := read(t, examples+"cron/holdpoint-clean")
		if rc, out := r.sh([]string{"sh"}, script, "HOLDPOINT_TOKEN_FILE="+r.tokenFile); rc != 0 || out != "" {
			t.Fatalf("%d %q", rc, out)
		}
		r.cleaned()
		if !strings.Contains(read(t, examples+"cron/crontab"), "holdpoint-clean") {
			t.Error("the crontab does not name the script")
		}
		if rc, out := r.sh([]string{"sh"}, script, "HOLDPOINT_TOKEN_FILE=/none"); rc == 0 || !strings.Contains(out, "did not run") {
			t.Errorf("without a token: %d %q", rc, out)
		}
	})
	t.Run("without a daemon the same recipe runs in the job's own process", func(t *testing.T) {
		r.stop(15)
		env := append([]string{"HOLDPOINT_STATE=" + r.State, "HOLDPOINT_CONFIG=" + filepath.Join(filepath.Dir(r.State), "holdpoint.toml")}, r.daemon.env...)
		rc, out := r.sh([]string{"sh", "-eu"}, `holdpoint --token-file "$HOLDPOINT_TOKEN_FILE" clean build-output --root "$WORKSPACE"`, append(env, "WORKSPACE="+r.Root, "HOLDPOINT_TOKEN_FILE="+r.tokenFile)...)
		if rc != 0 || !strings.Contains(out, "2 files") || exists(filepath.Join(r.Root, "build/a.o")) {
			t.Fatalf("%d %s", rc, out)
		}
	})
	t.Run("the readme's lines name commands and flags that there are", func(t *testing.T) {
		for _, l := range strings.Split(strings.ReplaceAll(read(t, examples+"README.md"), "\\\n", " "), "\n") {
			words := strings.Fields(l)
			if !strings.HasPrefix(l, "    holdpoint ") || words[1] == "policy" || words[1] == "config" {
				continue
			}
			at := words[1:2]
			if words[1] == "token" {
				at = words[1:3]
			}
			_, help, _ := outside(t, nil, append(at, "--help")...)
			for _, w := range words {
				if strings.HasPrefix(w, "--") && !strings.Contains(help, w+" ") {
					t.Errorf("%v has no flag %s", at, w)
				}
			}
		}
	})
}

var expression = regexp.MustCompile(`\$\{\{[^}]*\}\}`)

func decodeYAML(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, examples+file)), into); err != nil {
		t.Fatal(err)
	}
}
