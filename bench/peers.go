package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	installTimeout = 10 * time.Minute // compiling the SQLite of LangGraph.js takes most of it
	peerTimeout    = 10 * time.Minute // several times what a quiet machine needs
)

// scriptPeer is a peer that is not written in Go: a script measures it in a
// separate process and prints a line per job.
type scriptPeer struct {
	name     string // name in results and progress
	dir      string
	progress io.Writer

	lacks   map[string]string // why jobs are missing from the script
	install func(ctx context.Context, p *scriptPeer) error
	script  []string // the command that measures; -only and names follow
}

// missing returns the note for the jobs of a peer that could not be installed. It
// omits the output of commands.
func (p *scriptPeer) missing(err error) string {
	reason, _, _ := strings.Cut(err.Error(), "\n")
	return (&notMeasuredError{"no " + p.name, errors.New(reason)}).Error()
}

// works returns the jobs that the script implements.
func (p *scriptPeer) works(jobs []job) []job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return p.lacks[j.name] != "" })
}

// run measures the jobs and passes each result to each as it arrives. The extra
// arguments are passed to the script.
func (p *scriptPeer) run(ctx context.Context, jobs []job, each func(line) error, extra ...string) error {
	jobs = p.works(jobs)
	if len(jobs) == 0 {
		return nil
	}
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.name
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	only := strings.Join(names, ",")
	cmd := p.command(ctx, p.script[0], slices.Concat(p.script[1:], []string{"-only", only}, extra)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	fmt.Fprintf(p.progress, "%s: measuring %s\n", p.name, strings.Join(names, ", "))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	readErr := p.read(stdout, jobs, func(l line) error {
		fmt.Fprintf(p.progress, "%s: %s\n", p.name, l.Name)
		return each(l)
	})
	if readErr != nil {
		cancel() // the remaining results are not read
	}
	if err := cmd.Wait(); err != nil && (readErr == nil || errors.Is(readErr, errIncomplete)) {
		return commandError(ctx, strings.Join(p.script, " "), err, stderr.Bytes())
	}
	return readErr
}

func (p *scriptPeer) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.dir
	// A developer's tracing settings would send every step to a server.
	cmd.Env = append(os.Environ(), "LANGSMITH_TRACING=false", "LANGCHAIN_TRACING_V2=false")
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// do runs an installation command.
func (p *scriptPeer) do(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if out, err := p.command(ctx, name, args...).CombinedOutput(); err != nil {
		return commandError(ctx, name+" "+strings.Join(args, " "), err, out)
	}
	return nil
}

var errIncomplete = errors.New("results of some jobs are missing")

// read reads the lines of a script and compares them with the catalog: jobs of
// different sizes must not be compared.
func (p *scriptPeer) read(r io.Reader, jobs []job, each func(line) error) error {
	left := map[string]job{}
	for _, j := range jobs {
		left[j.name] = j
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("%s printed %q: %w", p.name, lines.Text(), err)
		}
		j, ok := left[l.Name]
		lacking := l.NsPerOp == 0 && strings.HasPrefix(l.Note, "not measured: ")
		if !ok || l.N != j.n || l.NsPerOp <= 0 && !lacking {
			return fmt.Errorf("%s printed unexpected %q", p.name, lines.Text())
		}
		delete(left, l.Name)
		if err := each(l); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s: %w", p.name, errIncomplete)
	}
	return nil
}

// commandError returns the error of a failed command with the end of its output:
// npm, pip, node, and python print the reason last.
func commandError(ctx context.Context, name string, err error, output []byte) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errors.New("timed out")
	}
	const tail = 2000
	if cut := len(output) - tail; cut > 0 {
		output = append([]byte("…"), output[cut:]...)
	}
	return fmt.Errorf("%s: %w\n%s", name, err, bytes.TrimSpace(output))
}

// olderThan reports whether the file done, which an installation creates at its
// end, is missing or older than the pins: the installation did not finish or used
// other pins.
func olderThan(done, pins string) (bool, error) {
	wanted, err := os.Stat(pins)
	if err != nil {
		return false, fmt.Errorf("run peers from the bench directory: %w", err)
	}
	got, err := os.Stat(done)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	return err == nil && got.ModTime().Before(wanted.ModTime()), err
}

// withStores adds the store jobs to the jobs that a peer lacks.
func withStores(lacks map[string]string) map[string]string {
	for _, w := range append(ourStores, ourRecall) {
		lacks[w.name] = "not measured: stores are not part of the comparison"
	}
	return lacks
}

const (
	noGraph    = "not measured: no graph is involved"
	noPostgres = "not measured: Postgres is omitted, because SQLite shows the same"
	noRSS      = "not measured: the memory of another runtime is not comparable"
)
