//go:build linux || darwin || freebsd || netbsd || openbsd

package database

import (
	"io/fs"
	"syscall"
)

// writable returns an error if a file or directory cannot be written. It does not open
// it.
func writable(path string) error {
	const write = 2
	if err := syscall.Access(path, write); err != nil {
		return &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}
