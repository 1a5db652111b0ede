//go:build linux || darwin || freebsd || netbsd || openbsd

package standalone

import (
	"os"
	"syscall"
)

// lockFile locks a file until release is called or the process ends. It reports whether it
// holds the lock; otherwise, another process does.
func lockFile(path string) (release func(), ok bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return func() {}, false, nil //nolint:nilerr // it is another's
	}
	return func() { _ = f.Close() }, true, nil
}
