package shellexec

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdpoint/op"
)

// Spill is where the long output of released programs lies: a folder below the state
// directory, in it one for each token, so that no agent reads another's. This package
// writes the files while a program runs; here they are found again and ended.
type Spill struct{ Dir string }

// For gives the folder of one token's programs, made when it is not there.
func (s Spill) For(token op.ID) (string, error) {
	dir := filepath.Join(s.Dir, string(token))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", op.Fail(op.IOError, "there is no place for long output").Because(err)
	}
	return dir, nil
}

// Open gives one file of a token, or of any when token is empty. The caller closes it.
func (s Spill) Open(token op.ID, file string) (*os.File, error) {
	absent := op.Fail(op.NotFound, "no such output").Do("output that fits into its answer is not kept apart, and the rest not for ever")
	name := filepath.Join(s.Dir, string(token), file)
	if token == "" {
		all, err := filepath.Glob(filepath.Join(s.Dir, "*", file))
		if err != nil || len(all) != 1 {
			return nil, absent
		}
		name = all[0]
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, absent.Because(err)
	}
	return f, nil
}

// underWay ends the name of a mark that stands while a run is not known to have ended.
const underWay = ".running"

// Mark notes that a run begins, and unmark that nothing of it is left.
func (s Spill) Mark(token, run op.ID) (unmark func(), err error) {
	if err := s.Append(token, string(run)+underWay, nil); err != nil {
		return nil, err
	}
	return func() { os.Remove(filepath.Join(s.Dir, string(token), string(run)+underWay)) }, nil
}

// Unended takes the marks of runs that nobody saw to their end, as after a kill.
func (s Spill) Unended() []string {
	list, err := filepath.Glob(filepath.Join(s.Dir, "*", "*"+underWay))
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range list {
		out = append(out, strings.TrimSuffix(filepath.Base(name), underWay))
		os.Remove(name)
	}
	return out
}

// Append adds to a file of a token's, made when it is not there.
func (s Spill) Append(token op.ID, file string, b []byte) error {
	dir, err := s.For(token)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return op.Fail(op.IOError, "the side log cannot be written").Because(err)
	}
	_, err = f.Write(b)
	if bad := f.Close(); err == nil {
		err = bad
	}
	if err != nil {
		return op.Fail(op.IOError, "the side log cannot be written").Because(err)
	}
	return nil
}

// Tail reads at most the last max bytes of a file of total bytes.
func (s Spill) Tail(token op.ID, file string, total, max int64) ([]byte, error) {
	f, err := s.Open(token, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	from := total - max
	if from < 0 {
		from = 0
	}
	return io.ReadAll(io.NewSectionReader(f, from, max))
}

// Drop ends the files of one run, whoever's it was.
func (s Spill) Drop(run string) {
	for _, stream := range []string{".stdout", ".stderr", ".changes"} {
		all, _ := filepath.Glob(filepath.Join(s.Dir, "*", run+stream))
		for _, name := range all {
			os.Remove(name)
		}
	}
}

// Prune ends the files that were last written before a moment.
func (s Spill) Prune(before time.Time) {
	old, err := filepath.Glob(filepath.Join(s.Dir, "*", "*"))
	if err != nil {
		return
	}
	for _, name := range old {
		if info, err := os.Lstat(name); err == nil && info.ModTime().Before(before) {
			os.Remove(name)
		}
	}
}
