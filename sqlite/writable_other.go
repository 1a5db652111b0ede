//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package sqlite

import "os"

// writable says whether there is such a file or directory: what it may be used
// for shows when SQLite tries.
func writable(path string) error {
	_, err := os.Stat(path)
	return err
}
