package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// haltName is a file that the operator puts into the state directory, by whatever means is
// at hand, to stop all changes. No operation reaches that directory.
const haltName = "halt"

// Halted reports whether the operator stopped all changes. It asks the directory each time;
// what cannot be asked counts as stopped.
func (j *Journal) Halted() bool {
	_, err := os.Lstat(filepath.Join(j.dir, haltName))
	return !errors.Is(err, fs.ErrNotExist)
}
