package shellexec

import (
	"fmt"
	"slices"
	"strings"

	"holdpoint/op"
)

const (
	maxVariables = 256
	maxEnviron   = 128 << 10
)

// startup are variables by which text or libraries get into programs when they start. They
// are never passed on from the daemon; a call may set them, in sight of a person, at T4.
var startup = []string{"BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "PS4", "CDPATH", "GLOBIGNORE", "GCONV_PATH", "LOCPATH", "HOSTALIASES", "GETCONF_DIR",
	"NLSPATH", "MALLOC_TRACE", "RESOLV_HOST_CONF", "RES_OPTIONS", "TMPDIR", "HOME"}

// forbidden are variables that no call may set: they name what is loaded or found instead
// of what the card shows.
func forbidden(name string) bool {
	upper := strings.ToUpper(name)
	return upper == "PATH" || strings.HasPrefix(upper, "LD_") || strings.HasPrefix(upper, "DYLD_") || strings.HasPrefix(upper, "BASH_FUNC_")
}

// Steers reports a variable by which programs are told to run others. Whatever sets one is
// ranked highest.
func Steers(name string) bool {
	if forbidden(name) || slices.Contains(startup, name) {
		return true
	}
	for _, p := range []string{"GIT_", "PYTHON", "PERL", "RUBY", "NODE_", "NPM_", "LUA_", "JAVA_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return slices.Contains([]string{"EDITOR", "VISUAL", "PAGER", "BROWSER", "SHELL", "VIMINIT", "LESSOPEN", "MAKEFLAGS", "GOFLAGS", "CC", "CXX", "RUSTC_WRAPPER"}, name)
}

// Extra checks the variables that a call asks for and gives them as NAME=value, sorted.
func Extra(vars op.Object) ([]string, error) {
	bad := func(format string, a ...any) error {
		return op.Fail(op.BadRequest, fmt.Sprintf(format, a...)).In("args.env")
	}
	if len(vars) > maxVariables {
		return nil, op.Fail(op.TooLarge, "more than 256 variables").In("args.env")
	}
	var out []string
	size := 0
	for name, v := range vars {
		value, ok := v.(string)
		switch {
		case !ok:
			return nil, bad("each value of env must be a string: %s", op.Visible(name, false))
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0):
			return nil, bad("a variable's name has no = in it, and neither side a NUL")
		case strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" || name[0] >= '0' && name[0] <= '9':
			return nil, bad("a variable's name is letters, digits and _: %s", op.Visible(name, false))
		case forbidden(name):
			return nil, bad("%s names what is loaded or run instead of what the card shows, and cannot be set", name)
		}
		if size += len(name) + len(value); size > maxEnviron {
			return nil, op.Fail(op.TooLarge, "the variables are longer than 128 KiB").In("args.env")
		}
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out, nil
}

// Environ is the whole environment of a process: a fixed minimum, what the operator lets
// through of the daemon's own, and what the call asks for. Nothing else of the daemon's
// environment is in it. Private is a directory of the process alone.
func Environ(daemon func(string) string, allow, extra []string, search, private string) []string {
	env := map[string]string{"PATH": search, "HOME": "/", "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": private, "XDG_CACHE_HOME": private + "/cache",
		"npm_config_cache": private + "/npm", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "false", "EDITOR": "false", "GIT_PAGER": "cat", "PAGER": "cat",
		"GIT_ASKPASS": "false", "SSH_ASKPASS": "false", "DEBIAN_FRONTEND": "noninteractive"}
	for _, name := range []string{"HOME", "USER", "LOGNAME", "LANG", "TZ"} {
		if v := daemon(name); v != "" {
			env[name] = v
		}
	}
	for _, name := range allow {
		if v := daemon(name); v != "" && !forbidden(name) && !slices.Contains(startup[:len(startup)-1], name) {
			env[name] = v
		}
	}
	for _, kv := range extra {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// Search is the daemon's PATH without relative names and without what lies in a workspace:
// a program that was just written must be named, never found.
func Search(daemon string, inRoot func(dir string) bool) string {
	var out []string
	for _, dir := range strings.Split(daemon, ":") {
		if strings.HasPrefix(dir, "/") && !inRoot(dir) {
			out = append(out, dir)
		}
	}
	if len(out) == 0 {
		return "/usr/local/bin:/usr/bin:/bin"
	}
	return strings.Join(out, ":")
}

// OnTerminal is an environment for a program on a terminal: it may page and edit there.
// What the call itself set stays.
func OnTerminal(env, extra []string) []string {
	own := map[string]bool{}
	for _, kv := range extra {
		k, _, _ := strings.Cut(kv, "=")
		own[k] = true
	}
	var out []string
	for _, kv := range env {
		k, _, _ := strings.Cut(kv, "=")
		switch {
		case own[k]:
		case k == "TERM":
			kv = "TERM=xterm"
		case k == "EDITOR", k == "GIT_EDITOR", k == "PAGER", k == "GIT_PAGER":
			continue
		}
		out = append(out, kv)
	}
	return out
}
