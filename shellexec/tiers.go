package shellexec

import (
	"path"
	"slices"
	"strings"

	"holdpoint/op"
)

// The tables below rank what a card shows; none of them lets anything run. A program that
// is in no table is T3.

// readers only read, as long as none of the named options is given.
var readers = map[string][]string{
	"ls": nil, "cat": nil, "head": nil, "tail": nil, "wc": nil, "grep": nil, "egrep": nil, "fgrep": nil, "pwd": nil,
	"echo": nil, "printf": nil, "true": nil, "false": nil, "test": nil, "[": nil, ":": nil, "stat": nil, "du": nil, "df": nil,
	"basename": nil, "dirname": nil, "realpath": nil, "readlink": nil, "uname": nil, "whoami": nil, "id": nil, "cut": nil,
	"tr": nil, "nl": nil, "od": nil, "cmp": nil, "diff": nil, "md5sum": nil, "sha1sum": nil, "sha256sum": nil, "seq": nil,
	"sleep": nil, "cd": nil, "which": nil, "type": nil, "uniq": nil, "comm": nil, "paste": nil, "exit": nil, "return": nil, "shift": nil, "set": nil,
	"sort": {"-o", "--output", "--compress-program", "-T", "--temporary-directory", "--files0-from"},
	"rg":   {"--pre", "--hostname-bin", "-z", "--search-zip"},
	"find": {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"},
	"date": {"-s", "--set"},
	"file": {"-C", "--compile", "-m", "--magic-file"},
}

// writers change files in ways that are easy to see.
var writers = []string{"mkdir", "touch", "cp", "tee", "ln"}

// ruins take away what no undo of ours brings back, or change the machine or rights.
var ruins = []string{"rm", "rmdir", "shred", "unlink", "truncate", "dd", "mkfs", "wipefs", "fdisk", "parted", "kill", "killall", "pkill",
	"shutdown", "reboot", "halt", "poweroff", "sudo", "su", "doas", "pkexec", "chroot", "mount", "umount", "insmod", "modprobe",
	"crontab", "at", "systemctl", "service", "iptables", "nft", "useradd", "usermod", "passwd", "setcap", "unshare", "nsenter", "docker", "podman"}

// network names programs that send or fetch; they are T3 like all others, but it is said.
var network = []string{"curl", "wget", "nc", "ncat", "netcat", "socat", "ssh", "scp", "sftp", "rsync", "ftp", "telnet", "dig", "nslookup", "ping"}

// opaque builtins run text that is nowhere on the card.
var opaque = []string{"eval", "source", ".", "exec", "trap", "alias", "enable", "bind", "complete", "mapfile", "readarray", "hash"}

// indexers are builtins that take the name of a variable: a shell expands the index of an
// array in it, whatever quotes stood around it.
var indexers = []string{"printf", "test", "[", "read", "unset", "wait", "getopts"}

// indexRuns tells whether a text, read as the name of a variable, would run a substitution.
func indexRuns(w string) bool {
	_, in, ok := strings.Cut(w, "[")
	return ok && (strings.Contains(in, "$(") || strings.Contains(in, "`") || strings.Contains(in, "${"))
}

// sortWrites finds -o and -T among short options that are written as one word.
func sortWrites(w string) bool {
	if len(w) < 2 || w[0] != '-' || w[1] == '-' {
		return false
	}
	at := strings.IndexAny(w, "oT")
	return at > 0 && !strings.ContainsAny(w[:at], "ktS") // those take the rest of the word
}

// operands are the words that are neither options nor what the named options take.
func operands(words []string, taking ...string) (out []string) {
	for i := 0; i < len(words); i++ {
		switch {
		case slices.Contains(taking, words[i]):
			i++
		case words[i] == "-" || !strings.HasPrefix(words[i], "-"):
			out = append(out, words[i])
		}
	}
	return out
}

var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish"}

// codeFlags are the options by which an interpreter takes code as text.
var codeFlags = map[string][]string{
	"python": {"-c"}, "python2": {"-c"}, "python3": {"-c"}, "node": {"-e", "--eval", "-p", "--print"}, "nodejs": {"-e", "--eval", "-p"},
	"perl": {"-e", "-E"}, "ruby": {"-e"}, "php": {"-r"}, "lua": {"-e"}, "deno": {"eval"}, "osascript": {"-e"}, "awk": {""}, "gawk": {""}, "mawk": {""},
}

// launchers start the command behind their own options. The number is how many words of
// their own stand before it.
var launchers = map[string]int{"env": 0, "nice": 0, "nohup": 0, "time": 0, "timeout": 1, "command": 0, "builtin": 0, "stdbuf": 0, "setsid": 0,
	"ionice": 0, "xargs": 0, "busybox": 0, "chrt": 1, "taskset": 1, "flock": 1, "watch": 0, "strace": 0}

// tierOf ranks one command by its words, and gives what a shell inside of it would run.
func tierOf(words []string, depth int) (op.Tier, string, []Command) {
	name := path.Base(words[0])
	rest := words[1:]
	if words[0] != name && !strings.HasPrefix(words[0], "/") {
		return op.T3, "is a program of the workspace", nil // whatever it is called
	}
	switch {
	case name == "exec" && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		tier, why, inner := tierOf(rest, depth+1)
		return op.T4, "takes the place of the script", append([]Command{{Text: Quote(rest), Words: rest, Known: true, Tier: tier, Why: why}}, inner...)
	case slices.Contains(indexers, name) && slices.ContainsFunc(rest, indexRuns):
		return op.T4, "names an index of an array, and what stands in it may run", nil
	case name == "sort" && slices.ContainsFunc(rest, sortWrites):
		return op.T4, "its option -o or -T writes, deletes or runs something", nil
	case name == "uniq" && len(operands(rest, "-f", "-s", "-w")) > 1:
		return op.T2, "writes its second file", nil
	case slices.Contains(ruins, name) || strings.HasPrefix(name, "mkfs."):
		return op.T4, "takes away, or changes the machine or rights", nil
	case slices.Contains(opaque, name):
		return op.T4, "runs text that cannot be read here", nil
	case slices.Contains(shells, name):
		return shellTier(rest, depth)
	case name == "git":
		t, why := gitTier(rest)
		return t, why, nil
	case name == "sed":
		t, why := sedTier(rest)
		return t, why, nil
	case slices.Contains(network, name):
		return op.T3, "uses the network", nil
	case slices.Contains(writers, name):
		return op.T2, "writes files", nil
	}
	if flags, ok := codeFlags[name]; ok {
		for _, w := range rest {
			if slices.Contains(flags, w) || slices.Contains(flags, "") || len(w) > 2 && slices.Contains(flags, w[:2]) && w[1] != '-' {
				return op.T4, "is given code that cannot be read here", nil
			}
		}
		return op.T3, "", nil
	}
	if own, ok := launchers[name]; ok {
		return launchTier(name, rest, own, depth)
	}
	if flags, ok := readers[name]; ok {
		for _, w := range rest {
			for _, f := range flags {
				if w == f || strings.HasPrefix(w, f+"=") || len(f) == 2 && strings.HasPrefix(w, f) {
					return op.T4, "its option " + f + " writes, deletes or runs something", nil
				}
				// GNU programs take any unambiguous beginning of a long option.
				if stem, _, _ := strings.Cut(w, "="); len(stem) > 3 && strings.HasPrefix(stem, "--") && strings.HasPrefix(f, stem) {
					return op.T4, "its option " + f + " writes, deletes or runs something", nil
				}
			}
		}
		return op.T1, "", nil
	}
	return op.T3, "", nil
}

// shellTier reads what a shell is told to run. Without that it runs whatever comes in.
func shellTier(rest []string, depth int) (op.Tier, string, []Command) {
	for i, w := range rest {
		switch {
		case strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "c"):
			if i+1 >= len(rest) {
				return op.T4, "a shell without its text", nil
			}
			r := readScript(rest[i+1], depth+1)
			why := "a shell runs the text behind it"
			if r.Unread != "" {
				why = "a shell runs text that cannot be read: " + r.Unread
			}
			return worse(op.T3, r.Tier), why, r.Commands
		case w == "--rcfile" || w == "--init-file" || w == "-o" || w == "+o" || w == "-O":
			return op.T4, "a shell with options that change what it runs", nil
		case !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "+"):
			return op.T3, "runs the script " + w, nil
		}
	}
	return op.T4, "a shell runs whatever it is sent", nil
}

// launchTier ranks what a launcher starts; it is never below T3 itself.
func launchTier(name string, rest []string, own, depth int) (op.Tier, string, []Command) {
	i := 0
	for ; i < len(rest); i++ {
		w := rest[i]
		switch {
		case name == "env" && (strings.HasPrefix(w, "-S") || strings.HasPrefix(w, "--s") || strings.HasPrefix(w, "-") && strings.Contains(w, "S")):
			return op.T4, "splits text into a command that is not on the card", nil
		case name == "env" && strings.Contains(w, "=") && !strings.HasPrefix(w, "-"):
			if k, _, _ := strings.Cut(w, "="); Steers(k) {
				return op.T4, "sets " + k + ", which changes what programs run", nil
			}
		case strings.HasPrefix(w, "-"):
			if !alone[name+" "+w] {
				return op.T4, "starts a program behind options that are not read here", nil
			}
		case own > 0:
			own--
		default:
			tier, why, inner := tierOf(rest[i:], depth+1)
			c := Command{Text: Quote(rest[i:]), Words: rest[i:], Known: name != "xargs", Tier: tier, Why: why}
			if name == "xargs" {
				return op.T4, "starts a program with words that are known only when it runs", []Command{c}
			}
			return worse(op.T3, tier), "starts another program", append([]Command{c}, inner...)
		}
	}
	if name == "env" {
		return op.T3, "shows the environment", nil
	}
	return op.T3, "", nil
}

// alone are options of launchers that take no further word.
var alone = map[string]bool{"env -i": true, "env -": true, "command -v": true, "command -p": true, "time -p": true, "setsid -w": true, "setsid -f": true}

var gitReads = []string{"status", "log", "diff", "show", "blame", "rev-parse", "ls-files", "describe", "shortlog", "cat-file"}

// gitTier: options before the subcommand change what git runs, whatever follows.
func gitTier(rest []string) (op.Tier, string) {
	if len(rest) == 0 {
		return op.T3, ""
	}
	if strings.HasPrefix(rest[0], "-") {
		if rest[0] == "--version" || rest[0] == "--help" {
			return op.T1, ""
		}
		return op.T4, "git options before the subcommand change what it runs"
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(rest[1:], func(w string) bool { return slices.Contains(words, w) })
	}
	switch sub := rest[0]; {
	case sub == "clean", sub == "reset", sub == "restore", sub == "filter-branch", sub == "gc", sub == "prune", sub == "reflog", sub == "update-ref",
		sub == "rm", sub == "checkout", sub == "switch", sub == "config", sub == "push" && has("-f", "--force", "--mirror", "--delete"), sub == "branch" && has("-D", "-d"), sub == "stash" && has("drop", "clear"):
		return op.T4, "may throw changes away or change what git runs"
	case sub == "push", sub == "fetch", sub == "pull", sub == "clone":
		return op.T3, "uses the network"
	case slices.Contains(gitReads, sub):
		if slices.ContainsFunc(rest[1:], func(w string) bool {
			return strings.HasPrefix(w, "--output") || w == "--ext-diff" || w == "--textconv"
		}) {
			return op.T4, "its options write or run something"
		}
		return op.T2, "may run programs that the repository names"
	}
	return op.T3, ""
}

// sedTier: a sed script can write and run; only plain printing of lines is a read.
func sedTier(rest []string) (op.Tier, string) {
	plain := len(rest) >= 2 && rest[0] == "-n" && len(rest[1]) > 0 && strings.Trim(rest[1], "0123456789,$p") == "" &&
		!slices.ContainsFunc(rest[2:], func(w string) bool { return len(w) > 1 && w[0] == '-' }) // another script may stand behind a file
	for _, w := range rest {
		if strings.HasPrefix(w, "--in-place") || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "i") {
			return op.T4, "changes files in place"
		}
	}
	if plain {
		return op.T1, ""
	}
	return op.T4, "its script may write files or run programs"
}

// interactive finds what waits for somebody to type.
func interactive(argv []string) bool {
	name, rest := path.Base(argv[0]), argv[1:]
	if !slices.Contains(shells, name) && codeFlags[name] == nil || strings.Contains(name, "awk") {
		return false
	}
	for _, w := range rest {
		if w == "-i" || w == "--interactive" {
			return true
		}
		if !strings.HasPrefix(w, "-") || w == "-c" || slices.Contains(codeFlags[name], w) {
			return false
		}
	}
	return len(rest) == 0
}
