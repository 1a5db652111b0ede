//go:build !unix

package files_test

import "os"

// mkfifo creates a symbolic link, because there are no fifos.
func mkfifo(path string) error { return os.Symlink("nowhere", path) }
