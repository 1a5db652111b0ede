// Package sandbox runs commands written by a model: in a local process without access to the
// network, the environment, and most of the file system, or in a container.
//
//	dir, err := sandbox.NewLocal("work", nil)
//	…
//	defer dir.Close()
//	result, err := dir.Exec(ctx, sandbox.Command{Script: "sort names.txt", Stdout: os.Stdout})
//
// [NewLocal] and [NewDocker] work on a directory of this machine, and can save and restore it;
// see [Snapshotter]. To use another kind of sandbox, for example a remote machine, implement
// [Sandbox] and run the suites of package sandboxtest on it. Package deep contains the tool with
// which an agent uses a sandbox.
package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle/agent/deep/files"
)

// A Sandbox runs commands in a working directory. It is safe for concurrent use.
type Sandbox interface {
	// Exec runs a command and returns when the command and all processes that it has started
	// have ended. If a command fails or exceeds a limit, Exec returns a Result, not an error.
	// If ctx is done, Exec ends the command and returns the cause.
	Exec(ctx context.Context, c Command) (Result, error)
	// Files returns the files in the working directory.
	Files() files.Backend
}

// Command is a command to run.
type Command struct {
	// Script is run by /bin/sh -c. It has at most [MaxScript] bytes.
	Script string
	// Stdin is the standard input.
	Stdin string
	// Stdout receives the standard output while the command runs; nil discards it.
	Stdout io.Writer
	// Stderr receives the standard error; nil means Stdout.
	Stderr io.Writer
	// Timeout shortens Limits.Timeout of the sandbox; 0 leaves it unchanged.
	Timeout time.Duration
}

// MaxScript is the maximum length of a script in bytes.
const MaxScript = 100_000

// Result describes how a command ended.
type Result struct {
	// Code is the exit code, 128 plus the number of a signal that killed the shell, or -1
	// if the command was stopped.
	Code int
	// Stopped is the limit that the command exceeded, or "".
	Stopped Limit
}

// A Limit names a limit whose violation stops a command.
type Limit string

// Limits that stop a command. The other limits make its system calls fail.
const (
	Timeout   Limit = "timeout"
	Memory    Limit = "memory"
	Processes Limit = "processes"
	Output    Limit = "output"
)

// Limits restricts a command with everything that it starts. 0 means the default, and a
// negative number means no limit.
type Limits struct {
	Timeout   time.Duration // by default 2 minutes
	CPU       time.Duration // processor time of each process, in seconds; by default 2 minutes
	Memory    int64         // bytes of all processes together; by default 1 GiB
	Processes int           // at the same time; by default 128
	FileSize  int64         // bytes of each file; by default 100 MiB
	Output    int64         // bytes of standard output and standard error; by default 10 MiB
	Snapshot  int64         // bytes of a snapshot of the working directory; by default 1 GiB
}

func (l Limits) withDefaults() Limits {
	l.Timeout = cmp.Or(l.Timeout, 2*time.Minute)
	l.CPU = cmp.Or(l.CPU, 2*time.Minute)
	l.Memory = cmp.Or(l.Memory, 1<<30)
	l.Processes = cmp.Or(l.Processes, 128)
	l.FileSize = cmp.Or(l.FileSize, 100<<20)
	l.Output = cmp.Or(l.Output, 10<<20)
	l.Snapshot = cmp.Or(l.Snapshot, 1<<30)
	return l
}

// Errors of sandboxes.
var (
	// ErrUnsupported reports that this system cannot confine commands as requested.
	ErrUnsupported = errors.New("sandbox: not supported by this system")
	// ErrClosed reports that the sandbox was closed.
	ErrClosed = errors.New("sandbox: closed")
)

func (c Command) check() error {
	switch {
	case strings.TrimSpace(c.Script) == "":
		return errors.New("sandbox: empty script")
	case len(c.Script) > MaxScript:
		return fmt.Errorf("sandbox: script of %d bytes exceeds the limit of %d: write it to a file", len(c.Script), MaxScript)
	case strings.ContainsRune(c.Script, 0):
		return errors.New("sandbox: script contains a NUL character")
	case c.Timeout < 0:
		return fmt.Errorf("sandbox: invalid Timeout %s: want 0 or more", c.Timeout)
	}
	return nil
}

// workspace is the directory of a sandbox on this machine.
type workspace struct {
	dir   string // absolute, without symbolic links
	files *files.Dir
	limit int64 // of a snapshot

	mu      sync.Mutex
	closed  bool
	torn    bool // a Restore has failed after its commit
	running int  // commands
	waiting int  // calls that want the directory for themselves, or have it
	alone   bool // one of them has it
	changed *sync.Cond
}

func newWorkspace(dir string, limits Limits) (*workspace, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: directory: %w", err)
	}
	if abs == filepath.Dir(abs) {
		return nil, fmt.Errorf("sandbox: directory %q is the root of the file system: use a separate directory", abs)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("sandbox: directory: %w", err)
	}
	defer func() { _ = root.Close() }() // every write was checked
	if err := finish(root); err != nil {
		return nil, fmt.Errorf("sandbox: finish the restore of %s: %w", abs, err)
	}
	_ = clean(root, oldPrefix, newPrefix) // Restore reports what cannot be removed
	d, err := files.NewDir(abs)
	if err != nil {
		return nil, err
	}
	w := &workspace{dir: abs, files: d, limit: limits.Snapshot}
	w.changed = sync.NewCond(&w.mu)
	return w, nil
}

// Files implements [Sandbox].
func (w *workspace) Files() files.Backend { return w.files }

// Close waits for the running commands and closes the sandbox. The directory stays.
func (w *workspace) Close() error {
	w.mu.Lock()
	was := w.closed
	w.closed = true
	w.changed.Broadcast()
	for w.running > 0 || w.alone {
		w.changed.Wait()
	}
	w.mu.Unlock()
	if was {
		return nil
	}
	return w.files.Close()
}

var errTorn = errors.New("sandbox: incomplete restore: restore again")

// enter registers a command. With alone, it registers a use of the directory during which no
// command runs.
func (w *workspace) enter(ctx context.Context, alone bool) (leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})()
	if alone {
		w.waiting++ // later commands wait too
	}
	for !w.closed && ctx.Err() == nil && (w.alone || alone && w.running > 0 || !alone && w.waiting > 0) {
		w.changed.Wait()
	}
	switch {
	case w.closed:
		err = ErrClosed
	case w.torn && !alone:
		err = errTorn
	default:
		err = context.Cause(ctx)
	}
	if err != nil {
		if alone {
			w.waiting--
			w.changed.Broadcast()
		}
		return nil, err
	}
	if alone {
		w.alone = true
	} else {
		w.running++
	}
	return func() { w.leave(alone) }, nil
}

func (w *workspace) leave(alone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if alone {
		w.alone = false
		w.waiting--
	} else {
		w.running--
	}
	w.changed.Broadcast()
}

// stopError is the cause of a context that ends because of a limit.
type stopError struct{ limit Limit }

func (e *stopError) Error() string { return "sandbox: limit exceeded: " + string(e.limit) }

// exec runs a command under the limits that need no help from the system.
func (w *workspace) exec(ctx context.Context, c Command, limits Limits, run func(ctx context.Context, c Command) (Result, error)) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	leave, err := w.enter(ctx, false)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	if c.Timeout > 0 && (limits.Timeout < 0 || c.Timeout < limits.Timeout) {
		limits.Timeout = c.Timeout
	}
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if limits.Timeout > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeoutCause(inner, limits.Timeout, &stopError{Timeout})
		defer cancel()
	}
	meter := &meter{left: limits.Output, stop: func() { stop(&stopError{Output}) }}
	if c.Stderr == nil {
		c.Stderr = c.Stdout
	}
	c.Stdout, c.Stderr = meter.limit(c.Stdout), meter.limit(c.Stderr)
	r, err := run(inner, c)
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	if stopped, ok := errors.AsType[*stopError](context.Cause(inner)); ok {
		return Result{Code: -1, Stopped: stopped.limit}, nil
	}
	return r, err
}

// meter limits the output of a command.
type meter struct {
	mu   sync.Mutex
	left int64 // negative for no limit
	stop func()
}

type metered struct {
	m  *meter
	to io.Writer
}

func (m *meter) limit(to io.Writer) io.Writer {
	if to == nil {
		to = io.Discard
	}
	return &metered{m, to}
}

// Write passes on output up to the limit. It serializes the writes of both streams.
func (w *metered) Write(p []byte) (int, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	part := p
	if w.m.left >= 0 {
		part = p[:min(int64(len(p)), w.m.left)]
		w.m.left -= int64(len(part))
	}
	if len(part) < len(p) {
		w.m.stop()
	}
	if len(part) > 0 {
		if n, err := w.to.Write(part); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// environment returns the environment of commands: the defaults, and what the caller adds.
func environment(home string, add []string) ([]string, error) {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "LANG=C.UTF-8"}
	for _, kv := range add {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.ContainsRune(kv, 0) {
			return nil, fmt.Errorf("sandbox: invalid environment entry %q: want NAME=value", name)
		}
		env = slices.DeleteFunc(env, func(have string) bool { return strings.HasPrefix(have, name+"=") })
		env = append(env, kv)
	}
	return env, nil
}

// absoluteDirs checks directories that commands may read.
func absoluteDirs(dirs []string) error {
	for _, d := range dirs {
		if info, err := os.Stat(d); err != nil || !info.IsDir() || !filepath.IsAbs(d) || filepath.Clean(d) != d || d == "/" {
			return fmt.Errorf("sandbox: shared directory %q: want the clean absolute path of a directory", d)
		}
	}
	return nil
}

func randomName() string { return "treadle-" + strings.ToLower(rand.Text()) }
