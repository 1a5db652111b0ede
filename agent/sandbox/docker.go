package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DockerOptions configures [NewDocker]. A nil *DockerOptions means the defaults.
type DockerOptions struct {
	// Engine is the command-line program, such as "podman"; "" means "docker".
	Engine string
	// Limits apply to each command.
	Limits Limits
	// Env lists environment variables of commands, as NAME=value.
	Env []string
	// Network gives commands the engine's default network.
	Network bool
	// User is the user, as uid:gid, that runs commands and owns the files they create; ""
	// means 1000:1000. The user must be able to write to the directory.
	User string
}

// Docker is a sandbox that runs commands in containers; see [NewDocker].
type Docker struct {
	*workspace
	opts  DockerOptions
	image string
	env   []string
}

const (
	engineFailed = 125 // exit code of the engine if it cannot run the command
	engineTime   = 30 * time.Second
	dockerLabel  = "treadle-sandbox"
)

// NewDocker returns a sandbox whose working directory is dir, which must exist. The caller
// closes it. Each command runs in a new container of an image, which must have /bin/sh, with
// the directory as /workspace, an empty /tmp, and nothing else to write to; without
// capabilities, the environment of this process, and, unless requested, network.
//
// The engine keeps the limits and ends the container with the command. A container that
// exceeds Memory is killed, which is the exit code 137. A container survives the death of this process:
// NewDocker removes the containers of an earlier process for the same
// directory, so only one process may use it. The image is not pulled. An exit code of 125 is
// reported as a failure of the engine, because its command line does not distinguish them.
func NewDocker(ctx context.Context, dir, image string, opts *DockerOptions) (*Docker, error) {
	if opts == nil {
		opts = &DockerOptions{}
	}
	d := &Docker{opts: *opts, image: image}
	d.opts.Engine, d.opts.User = cmp.Or(opts.Engine, "docker"), cmp.Or(opts.User, "1000:1000")
	d.opts.Limits = opts.Limits.withDefaults()
	if image == "" || strings.HasPrefix(image, "-") {
		return nil, fmt.Errorf("sandbox: invalid image %q", image)
	}
	var err error
	if d.env, err = environment("/tmp", opts.Env); err != nil {
		return nil, err
	}
	if d.workspace, err = newWorkspace(dir, d.opts.Limits); err != nil {
		return nil, err
	}
	if strings.ContainsAny(d.dir, ",\"\n") {
		return nil, errors.Join(fmt.Errorf("sandbox: invalid directory %q: commas, quotes, and line breaks are not supported", d.dir), d.Close())
	}
	left, err := d.engine(ctx, "ps", "--all", "--quiet", "--filter", "label="+dockerLabel+"="+d.dir)
	if ids := strings.Fields(left); err == nil && len(ids) > 0 {
		_, err = d.engine(ctx, append([]string{"rm", "--force"}, ids...)...)
	}
	if err == nil {
		_, err = d.engine(ctx, "image", "inspect", "--format", "{{.Id}}", image)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// engine calls the engine and returns its output.
func (d *Docker) engine(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.opts.Engine, args...)
	cmd.WaitDelay = time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("sandbox: %s %s: %w: %s", d.opts.Engine, args[0], err, strings.TrimSpace(errs.String()))
	}
	return string(out), nil
}

// Exec implements [Sandbox].
func (d *Docker) Exec(ctx context.Context, c Command) (Result, error) {
	return d.exec(ctx, c, d.opts.Limits, d.run)
}

func (d *Docker) run(ctx context.Context, c Command) (Result, error) {
	name := randomName()
	cmd := exec.CommandContext(ctx, d.opts.Engine, d.args(name, c.Script)...)
	var failure tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.Stdin), c.Stdout, io.MultiWriter(c.Stderr, &failure)
	cmd.WaitDelay = engineTime + time.Second
	cmd.Cancel = func() error { // killing the client would leave the container
		_, err := d.engine(context.WithoutCancel(ctx), "rm", "--force", name)
		return errors.Join(err, cmd.Process.Kill())
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		return Result{Code: -1}, nil //nolint:nilerr // the method exec reports why ctx ended
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return Result{}, nil
	case !ok:
		return Result{}, fmt.Errorf("sandbox: %s: %w", d.opts.Engine, err)
	case exit.ExitCode() == engineFailed || exit.ExitCode() < 0:
		return Result{}, fmt.Errorf("sandbox: %s run: %w: %s", d.opts.Engine, err, strings.TrimSpace(string(failure)))
	}
	return Result{Code: exit.ExitCode()}, nil
}

// args returns the arguments of the engine that run a script.
func (d *Docker) args(name, script string) []string {
	lim := d.opts.Limits
	args := []string{"run", "--rm", "--interactive", "--init", "--pull=never", "--name=" + name, "--label=" + dockerLabel + "=" + d.dir,
		"--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=" + d.opts.User, "--ulimit=core=0:0"}
	if strings.HasPrefix(filepath.Base(d.opts.Engine), "podman") {
		args = append(args, "--userns=keep-id")
	}
	if !d.opts.Network {
		args = append(args, "--network=none")
	}
	tmp := "type=tmpfs,destination=/tmp"
	if lim.FileSize > 0 {
		n := strconv.FormatInt(lim.FileSize, 10)
		tmp += ",tmpfs-size=" + n
		args = append(args, "--ulimit=fsize="+n+":"+n)
	}
	if lim.Memory > 0 {
		n := strconv.FormatInt(lim.Memory, 10)
		args = append(args, "--memory="+n, "--memory-swap="+n)
	}
	if lim.Processes > 0 {
		args = append(args, "--pids-limit="+strconv.Itoa(lim.Processes))
	}
	if lim.CPU > 0 {
		n := strconv.FormatInt(int64(max(lim.CPU/time.Second, 1)), 10)
		args = append(args, "--ulimit=cpu="+n+":"+n)
	}
	args = append(args, "--mount="+tmp, "--mount=type=bind,source="+d.dir+",destination=/workspace", "--workdir=/workspace")
	for _, kv := range d.env {
		args = append(args, "--env="+kv)
	}
	return append(args, "--entrypoint=/bin/sh", d.image, "-c", script)
}

// tail keeps the last bytes that were written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-1000):]
	return len(p), nil
}
