package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// LocalOptions configures [NewLocal]. A nil *LocalOptions means the defaults.
type LocalOptions struct {
	// Limits apply to each command.
	Limits Limits
	// Env lists environment variables of commands, as NAME=value. Commands do not have the
	// environment of this process.
	Env []string
	// Network gives commands the network of this machine.
	Network bool
	// Share lists directories of this machine that commands can read under the same path,
	// such as "/home/me/go".
	Share []string
	// Unconfined runs commands without namespaces, with the files and the rights of this
	// process, and the network: set Network too. The limits still apply.
	Unconfined bool
}

// Local is a sandbox that runs commands on this machine; see [NewLocal].
type Local struct {
	*workspace
	opts LocalOptions
	env  []string
}

// NewLocal returns a sandbox whose working directory is dir, which must exist. The caller
// closes it.
//
// On Linux, each command runs in its own namespaces. It sees the directory as /workspace, an
// empty /tmp, its own processes, and for reading /usr, /bin, /lib, and the files of /etc that
// programs need, such as certificates. It sees no other files, has no network, not even sockets of
// other programs, no privileges, no right to make namespaces, and none of this process's
// environment. Limits.Memory includes its temporary files. When its shell ends, the kernel ends
// everything that it has started, also if this process is killed. NewLocal runs a command to
// find out whether the system permits this, and otherwise returns an error that matches
// [ErrUnsupported]: it never uses weaker confinement than requested.
//
// With Unconfined, processes that leave the process group are ended too on Linux, unless
// they kill the process that supervises them. Other Unix systems only support Unconfined,
// with the limits Timeout and Output: set the others to -1. They end the process group.
//
// The program runs itself as a supervisor of each command: its executable must be
// readable by the user.
func NewLocal(dir string, opts *LocalOptions) (*Local, error) {
	if opts == nil {
		opts = &LocalOptions{}
	}
	l := &Local{opts: *opts}
	l.opts.Limits = opts.Limits.withDefaults()
	l.opts.Share = slices.Clone(opts.Share)
	if opts.Unconfined && !opts.Network {
		return nil, errors.New("sandbox: Unconfined commands have the network: set Network too, or unset Unconfined")
	}
	if opts.Unconfined && len(opts.Share) > 0 {
		return nil, errors.New("sandbox: Share has no effect: Unconfined commands see all files")
	}
	if err := absoluteDirs(opts.Share); err != nil {
		return nil, err
	}
	if err := l.supported(); err != nil {
		return nil, err
	}
	var err error
	if l.workspace, err = newWorkspace(dir, l.opts.Limits); err != nil {
		return nil, err
	}
	home := "/tmp"
	if opts.Unconfined {
		home = l.dir
	}
	if l.env, err = environment(home, opts.Env); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if r, err := l.Exec(context.Background(), Command{Script: ":"}); err != nil || r != (Result{}) {
		if err == nil {
			err = fmt.Errorf("%w: a command without effect ended with %+v: raise the limits", ErrUnsupported, r)
		}
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Exec implements [Sandbox].
func (l *Local) Exec(ctx context.Context, c Command) (Result, error) {
	return l.exec(ctx, c, l.opts.Limits, l.run)
}
