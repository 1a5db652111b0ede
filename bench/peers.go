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
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	installTimeout = 10 * time.Minute // compiling SQLite takes most of it
	jsTimeout      = 10 * time.Minute // several times what a quiet machine needs
)

// jsLacks says why a name has no twin on LangGraph.js.
var jsLacks = storesToo(map[string]string{
	"chain100_postgres":   jsNoPostgres,
	"history500_postgres": jsNoPostgres,
	"threads10k_rss":      "not measured: the memory of another runtime is no measure of a library",
	"message_reduce_10k":  jsNoGraph,
	"trim_10k":            jsNoGraph,
})

// storesToo adds the stores to what a peer lacks.
func storesToo(lacks map[string]string) map[string]string {
	for _, w := range append(ourStores, ourRecall) {
		lacks[w.name] = "not measured: stores are not part of the comparison"
	}
	return lacks
}

const jsNoGraph = "not measured: no graph has a part in it"

const jsNoPostgres = "not measured: its Postgres saver is left out, SQLite shows the same"

// jsPeer runs LangGraph.js in a process of its own, from the directory js.
type jsPeer struct {
	dir      string
	progress io.Writer
}

// install makes sure that node is there and that the pinned packages are.
func (p jsPeer) install(ctx context.Context) error {
	if _, err := exec.LookPath("node"); err != nil {
		return errors.New("-peers needs Node.js 20 or newer for LangGraph.js, and node was not found in PATH")
	}
	missing, err := p.needsInstall()
	if err != nil {
		return err
	}
	if missing {
		if err := p.npm(ctx, "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			return err
		}
	}
	built, err := filepath.Glob(filepath.Join(p.dir, "node_modules", "better-sqlite3", "build", "Release", "better_sqlite3.node"))
	if err != nil || len(built) > 0 {
		return err
	}
	// Its SQLite is C, fetched or compiled by the one script that package.json
	// allows. Without it the jobs that need it say so.
	if err := p.npm(ctx, "rebuild", "better-sqlite3"); err != nil {
		fmt.Fprintln(p.progress, "langgraph.js: without SQLite:", err)
	}
	return nil
}

func (p jsPeer) npm(ctx context.Context, args ...string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.New("-peers installs LangGraph.js with npm, and npm was not found in PATH")
	}
	fmt.Fprintf(p.progress, "langgraph.js: npm %s, the first time only\n", args[0])
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if out, err := p.command(ctx, "npm", args...).CombinedOutput(); err != nil {
		return commandError(ctx, "npm "+args[0], err, out)
	}
	return nil
}

// needsInstall looks at the lock file that npm leaves in node_modules as its
// last act: without one an install did not finish, and one older than ours is
// from other pins.
func (p jsPeer) needsInstall() (bool, error) {
	wanted, err := os.Stat(filepath.Join(p.dir, "package-lock.json"))
	if err != nil {
		return false, fmt.Errorf("LangGraph.js is run from the bench directory: %w", err)
	}
	got, err := os.Stat(filepath.Join(p.dir, "node_modules", ".package-lock.json"))
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	return err == nil && got.ModTime().Before(wanted.ModTime()), err
}

// run measures the jobs and hands each result over as it arrives.
func (p jsPeer) run(ctx context.Context, jobs []job, each func(line) error) error {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return jsLacks[j.name] != "" })
	if len(jobs) == 0 {
		return nil
	}
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.name
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	// Fan-outs make node warn of ten abort listeners and more; on stderr that
	// would only hide the reason of a failure.
	cmd := p.command(ctx, "node", "--no-warnings", "bench.mjs", "-only", strings.Join(names, ","))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	fmt.Fprintf(p.progress, "langgraph.js: measuring %s\n", strings.Join(names, ", "))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	readErr := readJS(stdout, jobs, func(l line) error {
		fmt.Fprintf(p.progress, "langgraph.js: %s\n", l.Name)
		return each(l)
	})
	if readErr != nil {
		cancel() // the rest of its work is for nobody
	}
	if err := cmd.Wait(); err != nil && (readErr == nil || errors.Is(readErr, errIncomplete)) {
		return commandError(ctx, "node bench.mjs", err, stderr.Bytes())
	}
	return readErr
}

func (p jsPeer) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.dir
	// A developer's tracing settings would send every step to a server.
	cmd.Env = append(os.Environ(), "LANGSMITH_TRACING=false", "LANGCHAIN_TRACING_V2=false")
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

var errIncomplete = errors.New("LangGraph.js did not report every job")

// readJS reads the lines of bench.mjs and holds them against the catalogue: a
// job of another size than ours must not become a ratio.
func readJS(r io.Reader, jobs []job, each func(line) error) error {
	left := map[string]job{}
	for _, j := range jobs {
		left[j.name] = j
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("LangGraph.js printed %q: %w", lines.Text(), err)
		}
		j, ok := left[l.Name]
		lacking := l.NsPerOp == 0 && strings.HasPrefix(l.Note, "not measured: ")
		if !ok || l.N != j.n || l.NsPerOp <= 0 && !lacking {
			return fmt.Errorf("LangGraph.js printed %q, which no job asked for", lines.Text())
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
		return errIncomplete
	}
	return nil
}

// commandError says why a command failed, with the end of what it printed:
// npm and node give the reason last.
func commandError(ctx context.Context, name string, err error, output []byte) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errors.New("took too long and was stopped")
	}
	const tail = 2000
	if cut := len(output) - tail; cut > 0 {
		output = append([]byte("…"), output[cut:]...)
	}
	return fmt.Errorf("%s: %w\n%s", name, err, bytes.TrimSpace(output))
}
