package shellexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TryConfine takes from this process the right to make or write files, and then tries to
// make one in dir, for doctor: nil says that the kernel kept it from doing so. The process
// is good for nothing else afterwards.
func TryConfine(dir string) error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_WRITE_FILE}
	// The attribute's first word alone is what every version knows.
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return errno
	}
	runtime.LockOSThread() // only this thread is confined, and only it tries
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return errno
	}
	err := os.WriteFile(filepath.Join(dir, "confined"), nil, 0o600)
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	return fmt.Errorf("a confined program could write all the same: %v", err)
}

// LandlockABI is the version of the kernel's confinement; 0 where there is none.
func LandlockABI() int { return landlockABI() }
