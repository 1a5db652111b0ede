package chaostest

import (
	"fmt"
	"syscall"
)

// mountMemory mounts a file system in memory.
func mountMemory(dir string, size int) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
}
