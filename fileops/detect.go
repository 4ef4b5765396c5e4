package fileops

import (
	"context"
	"encoding/json"
	"strings"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Runner is one way in which a project runs its tests.
type Runner struct {
	Kind     string   `json:"kind"`
	Runner   string   `json:"runner"`
	Command  []string `json:"command"`
	Evidence []string `json:"evidence"`
	Sure     bool     `json:"sure"` // the project says so itself, by a script or a target of this name
}

// maxManifest bounds a project file that is read, in bytes.
const maxManifest = 1 << 20

// detect answers detect_tests from the names in a directory and a few of its files. It
// runs nothing, and what it suggests is never run without a call of its own.
func detect(ctx context.Context, s Scene, _ *op.DetectArgs) (map[string]any, error) {
	t := s.Targets[0]
	switch {
	case !t.Exists:
		return nil, op.Fail(op.NotFound, "there is nothing at this path").At(t.Path)
	case t.Kind != op.Directory:
		return nil, op.Fail(op.NotADirectory, "this is a "+string(t.Kind)).At(t.Path).Do("give the project's directory")
	}
	b, err := s.Nodes[0].Below()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	d, err := b.Dir("")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Names(ctx)
	if err != nil {
		return nil, err
	}
	runners := project{d, names}.runners()
	if runners == nil {
		runners = []Runner{}
	}
	return map[string]any{"path": op.Escape(string(t.Path)), "runners": runners}, nil
}

type project struct {
	d     *rooted.Dir
	names []rooted.Found
}

func (p project) has(names ...string) string {
	for _, want := range names {
		for _, f := range p.names {
			if f.Name == want || want[0] == '*' && strings.HasSuffix(f.Name, want[1:]) {
				return f.Name
			}
		}
	}
	return ""
}

func (p project) text(name string) string { return string(p.d.Small(name, maxManifest)) }

// runners lists what was found, the surest first within each kind.
func (p project) runners() (out []Runner) {
	add := func(kind, runner string, sure bool, evidence []string, command ...string) {
		out = append(out, Runner{kind, runner, command, evidence, sure})
	}
	for _, name := range []string{"Makefile", "makefile", "GNUmakefile"} {
		if p.has(name) != "" && hasTarget(p.text(name), "test") {
			add("make", "make", true, []string{name + ": target test"}, "make", "test")
			break
		}
	}
	if f := p.has("justfile", "Justfile"); f != "" && hasTarget(p.text(f), "test") {
		add("just", "just", true, []string{f + ": recipe test"}, "just", "test")
	}
	if p.has("go.mod") != "" {
		add("go", "go test", true, []string{"go.mod"}, "go", "test", "./...")
	}
	if p.has("Cargo.toml") != "" {
		add("rust", "cargo", true, []string{"Cargo.toml"}, "cargo", "test")
	}
	if p.has("package.json") != "" {
		out = append(out, p.node()...)
	}
	if f := p.has("deno.json", "deno.jsonc"); f != "" {
		add("deno", "deno", true, []string{f}, "deno", "test")
	}
	out = append(out, p.python()...)
	if f := p.has("pom.xml"); f != "" {
		add("java", "maven", true, []string{f}, orWrapper(p.has("mvnw"), "mvn"), "test")
	}
	if f := p.has("build.gradle", "build.gradle.kts"); f != "" {
		add("java", "gradle", true, []string{f}, orWrapper(p.has("gradlew"), "gradle"), "test")
	}
	if f := p.has("*.sln", "*.csproj", "*.fsproj"); f != "" {
		add("dotnet", "dotnet", true, []string{f}, "dotnet", "test")
	}
	if p.has("mix.exs") != "" {
		add("elixir", "mix", true, []string{"mix.exs"}, "mix", "test")
	}
	if p.has("Gemfile") != "" {
		if p.has(".rspec", "spec") != "" {
			add("ruby", "rspec", false, []string{"Gemfile", p.has(".rspec", "spec")}, "bundle", "exec", "rspec")
		} else if p.has("Rakefile") != "" {
			add("ruby", "rake", false, []string{"Gemfile", "Rakefile"}, "bundle", "exec", "rake", "test")
		}
	}
	if f := p.has("phpunit.xml", "phpunit.xml.dist"); f != "" {
		add("php", "phpunit", false, []string{f}, "vendor/bin/phpunit")
	}
	if p.has("Package.swift") != "" {
		add("swift", "swift", true, []string{"Package.swift"}, "swift", "test")
	}
	return out
}

// node reads package.json: its own script, run by the manager whose lock file is there.
func (p project) node() []Runner {
	var manifest struct {
		Scripts        map[string]string `json:"scripts"`
		PackageManager string            `json:"packageManager"`
	}
	if json.Unmarshal([]byte(p.text("package.json")), &manifest) != nil {
		return nil
	}
	script := manifest.Scripts["test"]
	if script == "" || strings.Contains(script, "no test specified") {
		return nil
	}
	manager, evidence := "npm", []string{"package.json: scripts.test"}
	for _, l := range [][2]string{{"bun.lockb", "bun"}, {"bun.lock", "bun"}, {"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"package-lock.json", "npm"}} {
		if p.has(l[0]) != "" {
			manager, evidence = l[1], append(evidence, l[0])
			break
		}
	}
	if named, _, ok := strings.Cut(manifest.PackageManager, "@"); ok && (named == "pnpm" || named == "yarn" || named == "npm" || named == "bun") {
		manager, evidence = named, append(evidence, "package.json: packageManager")
	}
	return []Runner{{"node", manager, []string{manager, "run", "test"}, evidence, true}}
}

func (p project) python() []Runner {
	for _, c := range [][2]string{{"pytest.ini", "pytest.ini"}, {"conftest.py", "conftest.py"}, {"pyproject.toml", "[tool.pytest"}, {"setup.cfg", "[tool:pytest]"}, {"tox.ini", "[pytest]"}} {
		if p.has(c[0]) != "" && (c[0] == c[1] || strings.Contains(p.text(c[0]), c[1])) {
			return []Runner{{"python", "pytest", []string{"python", "-m", "pytest"}, []string{c[0]}, c[0] != "conftest.py"}}
		}
	}
	if p.has("tox.ini") != "" {
		return []Runner{{"python", "tox", []string{"tox"}, []string{"tox.ini"}, true}}
	}
	if f := p.has("pyproject.toml", "setup.py"); f != "" && p.has("tests", "test") != "" {
		runner := Runner{"python", "unittest", []string{"python", "-m", "unittest", "discover"}, []string{f, p.has("tests", "test")}, false}
		if strings.Contains(p.text(f), "pytest") {
			runner.Runner, runner.Command = "pytest", []string{"python", "-m", "pytest"}
		}
		return []Runner{runner}
	}
	return nil
}

func orWrapper(found, plain string) string {
	if found != "" {
		return "./" + found
	}
	return plain
}

// hasTarget reports whether a make file has a rule of this name.
func hasTarget(text, name string) bool {
	for line := range strings.Lines(text) {
		head, rest, ok := strings.Cut(line, ":")
		if ok && !strings.HasPrefix(rest, "=") && !strings.HasPrefix(line, "\t") {
			for _, t := range strings.Fields(head) {
				if t == name {
					return true
				}
			}
		}
	}
	return false
}
