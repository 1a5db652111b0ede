//go:build unix && !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

func (l *Local) supported() error {
	if !l.opts.Unconfined {
		return fmt.Errorf("%w: only Linux can confine commands: use NewDocker, or set Unconfined", ErrUnsupported)
	}
	lim := l.opts.Limits
	if lim.CPU >= 0 || lim.Memory >= 0 || lim.Processes >= 0 || lim.FileSize >= 0 {
		return fmt.Errorf("%w: limits for CPU, Memory, Processes, and FileSize need Linux: set them to -1, or use NewDocker", ErrUnsupported)
	}
	return nil
}

// run runs a command in a separate process group.
func (l *Local) run(ctx context.Context, c Command) (Result, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.Script)
	cmd.Dir, cmd.Env = l.dir, l.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.Stdin), c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = end, time.Second
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("sandbox: start command: %w", err)
	}
	err := cmd.Wait()
	_ = end() // processes that the shell started
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return resultOf(exit.Sys().(syscall.WaitStatus)), nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return Result{}, err
}
