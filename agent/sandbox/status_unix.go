//go:build unix

package sandbox

import "syscall"

// resultOf converts the status of a shell.
func resultOf(s syscall.WaitStatus) Result {
	if s.Signaled() {
		return Result{Code: 128 + int(s.Signal())}
	}
	return Result{Code: s.ExitStatus()}
}
