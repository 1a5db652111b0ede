package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	capNetAdmin    = 12
	capSysAdmin    = 21
	capSysResource = 24 // for the limit of namespaces
	innerUser      = 1000
)

// job describes the command that the supervisor runs.
type job struct {
	Dir     string
	Script  string
	Env     []string
	Share   []string
	Limits  Limits
	Confine bool
	Network bool
}

// outcome is the report of a supervisor.
type outcome struct {
	Result
	Error string
}

func (l *Local) supported() error { return nil } // NewLocal runs a command

// run starts a supervisor for a command; see supervise.
func (l *Local) run(ctx context.Context, c Command) (Result, error) {
	control, controlOut, err := os.Pipe()
	if err != nil {
		return Result{}, fmt.Errorf("sandbox: %w", err)
	}
	reportIn, report, err := os.Pipe()
	if err != nil {
		return Result{}, errors.Join(fmt.Errorf("sandbox: %w", err), control.Close(), controlOut.Close())
	}
	defer func() { _ = reportIn.Close() }() // only read
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env, cmd.Dir = []string{supervisorName}, []string{}, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.Stdin), c.Stdout, c.Stderr
	cmd.ExtraFiles = []*os.File{control, report}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	release := sync.OnceFunc(func() { _ = controlOut.Close() }) // the supervisor then ends everything
	defer release()
	cmd.WaitDelay = 5 * time.Second
	cmd.Cancel = func() error { release(); return nil }
	if !l.opts.Unconfined {
		l.confine(cmd.SysProcAttr)
		cmd.Cancel = func() error { return cmd.Process.Kill() } // ends its namespace
	}
	err = cmd.Start()
	_, _ = control.Close(), report.Close() // the supervisor's
	if err != nil {
		if !l.opts.Unconfined {
			return Result{}, unconfinable(err.Error())
		}
		return Result{}, fmt.Errorf("sandbox: start supervisor: %w", err)
	}
	what, err := json.Marshal(job{l.dir, c.Script, l.env, l.opts.Share, l.opts.Limits, !l.opts.Unconfined, l.opts.Network})
	if err == nil {
		_, err = controlOut.Write(append(what, '\n'))
	}
	if err != nil {
		release()
	}
	waited := cmd.Wait()
	raw, readErr := io.ReadAll(reportIn)
	var o outcome
	if json.Unmarshal(raw, &o) != nil {
		return Result{}, fmt.Errorf("sandbox: supervisor ended without a report: %w", errors.Join(err, waited, readErr))
	}
	if o.Error != "" && !l.opts.Unconfined {
		return Result{}, unconfinable(o.Error)
	}
	if o.Error != "" {
		return Result{}, fmt.Errorf("sandbox: %s", o.Error)
	}
	return o.Result, nil
}

func unconfinable(cause string) error {
	return fmt.Errorf("%w: confine command: %s: permit user namespaces, use NewDocker, or set Unconfined", ErrUnsupported, cause)
}

// confine puts the supervisor into separate namespaces, with the privilege to set them up.
// Its user is not root there, so commands that it runs lose the privilege.
func (l *Local) confine(a *syscall.SysProcAttr) {
	a.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
	if !l.opts.Network {
		a.Cloneflags |= syscall.CLONE_NEWNET
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: innerUser, HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: innerUser, HostID: os.Getegid(), Size: 1}}
	a.AmbientCaps = []uintptr{capSysAdmin, capNetAdmin, capSysResource}
}
