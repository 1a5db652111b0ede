//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package database

import "os"

// writable returns an error if a file or directory does not exist. Permissions are not
// checked here: SQLite reports them when it opens the file.
func writable(path string) error {
	_, err := os.Stat(path)
	return err
}
