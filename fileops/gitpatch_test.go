package fileops

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"holdpoint/op"
)

// TestGitPatch lets git apply patches of random changes, forward and back.
func TestGitPatch(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	content := func() []byte {
		var b bytes.Buffer
		for range r.IntN(12) {
			b.WriteString([]string{"same\n", "-- x\n", "+++ b/y\n", "@@ -1 +1 @@\n", "\n", "caf\xc3\xa9\n", "crlf\r\n"}[r.IntN(7)])
		}
		switch r.IntN(6) {
		case 0:
			b.WriteString("no newline")
		case 1:
			b.Write([]byte{0, 1, 0xff, byte(r.IntN(256))})
		case 2:
			for range r.IntN(300) {
				b.WriteByte(byte(r.IntN(256)))
			}
		}
		return b.Bytes()
	}
	modes := []string{"", "100644", "100755", "120000"}
	names := []string{"a.txt", "dir/b c.txt", "dir/q\"uote.txt", "tab\there", "caf\u00e9"}
	lay := func(dir string, list []FileChange, now bool) {
		t.Helper()
		for _, c := range list {
			mode, b := c.OldMode, c.Old
			if now {
				mode, b = c.NewMode, c.New
			}
			p := filepath.Join(dir, string(c.Path))
			os.MkdirAll(filepath.Dir(p), 0o755)
			var err error
			switch mode {
			case "":
				continue
			case "120000":
				err = os.Symlink(string(b), p)
			case "100755":
				err = os.WriteFile(p, b, 0o755)
			default:
				err = os.WriteFile(p, b, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 60 {
		var list []FileChange
		for _, n := range names {
			c := FileChange{Path: op.Path(n), OldMode: modes[r.IntN(4)], NewMode: modes[r.IntN(4)]}
			side := func(mode string) []byte {
				switch mode {
				case "":
					return nil
				case "120000":
					return fmt.Appendf(nil, "to%d", r.IntN(9))
				}
				return content()
			}
			c.Old, c.New = side(c.OldMode), side(c.NewMode)
			list = append(list, c)
		}
		patch := GitPatch(list)
		base := t.TempDir()
		dirs := map[bool]string{false: filepath.Join(base, "old"), true: filepath.Join(base, "new")}
		for now, dir := range dirs {
			os.Mkdir(dir, 0o755)
			lay(dir, list, now)
		}
		for _, back := range []bool{false, true} {
			work := filepath.Join(base, fmt.Sprint("work", back))
			os.Mkdir(work, 0o755)
			lay(work, list, back)
			args := []string{"apply", "--whitespace=nowarn", "-"}
			if back {
				args = []string{"apply", "--whitespace=nowarn", "-R", "-"}
			}
			git := exec.Command("git", args...)
			git.Dir, git.Stdin = work, bytes.NewReader(patch)
			git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+base)
			if len(patch) > 0 {
				if out, err := git.CombinedOutput(); err != nil {
					t.Fatalf("seed %d round %d back %v: %v\n%s\n%s", seed, round, back, err, out, patch)
				}
			}
			os.Remove(filepath.Join(work, "dir")) // git keeps no empty directories
			os.Remove(filepath.Join(dirs[!back], "dir"))
			if out, err := exec.Command("diff", "-r", "--no-dereference", dirs[!back], work).CombinedOutput(); err != nil {
				t.Fatalf("seed %d round %d back %v: %s\n%s", seed, round, back, out, patch)
			}
		}
	}
}
