package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// host is a server of LangGraph's API that the server jobs are done on: ours or a
// peer's, always as a process of its own.
type host struct {
	// command is the server at a port. dir is empty and the server's alone.
	command func(ctx context.Context, dir string, port int) (*exec.Cmd, error)
	patient bool // it takes half a second or more for a run, so fewer are asked for
}

// hostTimeout is how long a server may take to start or to end.
const hostTimeout = 2 * time.Minute

// serving is a server that runs.
type serving struct {
	address string // host and port
	cmd     *exec.Cmd
	took    time.Duration // from the start of the process to the first 200 of /ok
	dir     string
	output  *tail
	ended   chan struct{} // closed when the process is gone
	err     error         // why; set before ended is closed
}

// start starts a server and waits until it answers.
func (h *host) start(ctx context.Context) (*serving, error) {
	dir, err := os.MkdirTemp("", "treadle-bench-server")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	cmd, err := h.command(ctx, dir, port)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &serving{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), cmd: cmd, dir: dir, output: &tail{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = s.output, s.output
	inGroup(cmd) // the servers of the peers start others
	cmd.WaitDelay = 5 * time.Second
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		s.err = cmd.Wait()
		close(s.ended)
	}()
	if err := s.await(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.took = time.Since(begun)
	return s, nil
}

// await asks for /ok until it is there.
func (s *serving) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.ok(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return commandError(ctx, s.cmd.Path, errors.Join(errors.New("the server ended before it answered"), s.err), s.output.bytes())
		case <-ctx.Done():
			return commandError(ctx, s.cmd.Path, err, s.output.bytes())
		case <-again.C:
		}
	}
}

func (s *serving) ok(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/ok", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("/ok: %s", resp.Status)
	}
	return err
}

// stop ends the server and removes its directory.
func (s *serving) stop() error {
	endGroup(s.cmd, false)
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
	}
	endGroup(s.cmd, true) // also processes that it has left behind
	<-s.ended
	return os.RemoveAll(s.dir)
}

// on starts a server for what is done there.
func (h *host) on(ctx context.Context, do func(*serving) (line, error)) (l line, err error) {
	s, err := h.start(ctx)
	if err != nil {
		return line{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	return do(s)
}

// freePort is a port that nobody listens at.
func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// tail keeps the end of a server's output.
type tail struct {
	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if cut := len(t.end) - 4<<10; cut > 0 {
		t.end = append([]byte(nil), t.end[cut:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.end)
}

// ourHost is the program in serve on a SQLite file.
var ourHost = &host{command: func(ctx context.Context, dir string, port int) (*exec.Cmd, error) {
	program, err := ourProgram()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, program, "--port", strconv.Itoa(port), "--db", filepath.Join(dir, "bench.db")), nil
}}

// built is the program in serve, if it was built.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// ourProgram builds the program in serve the first time.
func ourProgram() (string, error) {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "treadle-bench-serve"); built.err != nil {
			return
		}
		out, err := exec.CommandContext(context.Background(), "go", "build", "-o", filepath.Join(built.dir, "serve"), "./serve").CombinedOutput()
		if err != nil {
			built.err = &notMeasuredError{"no program to serve with", commandError(context.Background(), "go build ./serve", err, out)}
		}
	})
	return filepath.Join(built.dir, "serve"), built.err
}

// removeProgram removes what ourProgram has built.
func removeProgram() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}

// serverPeer is a peer whose server does the server jobs. It is installed as the others are.
type serverPeer struct {
	*scriptPeer
	host *host
}

// isServer reports whether a job is one of servers, which have peers of their own.
func isServer(name string) bool { return strings.HasPrefix(name, "server_") }

// apart parts the jobs of servers from the others.
func apart(jobs []job) (others, servers []job) {
	for _, j := range jobs {
		if isServer(j.name) {
			servers = append(servers, j)
		} else {
			others = append(others, j)
		}
	}
	return others, servers
}

// parallelRuns is how many runs the peers execute at a time, their default. With 32 the
// Python server is four times slower, and the JavaScript server no faster.
const parallelRuns = "10"

func jsServer(progress io.Writer) *serverPeer {
	p := &scriptPeer{name: "langgraph.js", dir: filepath.Join("servers", "js"), progress: progress, install: installJSServer}
	cli := filepath.Join("node_modules", "@langchain", "langgraph-cli", "dist", "cli", "cli.mjs")
	return &serverPeer{p, p.host("node", cli, "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--config", "langgraph.json", "--n-jobs-per-worker", parallelRuns)}
}

func installJSServer(ctx context.Context, p *scriptPeer) error {
	if _, err := exec.LookPath("node"); err != nil {
		return errors.New("-peers needs Node.js 20 or newer for LangGraph's JavaScript server, and node was not found in PATH")
	}
	missing, err := olderThan(filepath.Join(p.dir, "node_modules", ".package-lock.json"), filepath.Join(p.dir, "package-lock.json"))
	if err != nil || !missing {
		return err
	}
	// npm ci refuses the lock file that npm itself writes, since a dependency names
	// builds for other systems, which the file leaves out.
	return npm(ctx, p, "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund")
}

// pyServerPins is where the Python server is pinned: the checks of our server's
// conformance use the same one. serve there makes the same virtual environment.
var pyServerPins = filepath.Join("..", "examples", "platform", "conformance", "official")

func pyServer(progress io.Writer) *serverPeer {
	p := &scriptPeer{name: "langgraph", dir: filepath.Join("servers", "py"), progress: progress, install: installPyServer}
	python, err := filepath.Abs(filepath.Join(pyServerPins, venvPython))
	if err != nil { // there is no working directory
		panic(err)
	}
	return &serverPeer{p, p.host(python, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--config", "langgraph.json", "--n-jobs-per-worker", parallelRuns)}
}

func installPyServer(ctx context.Context, p *scriptPeer) error {
	// One of its packages has no wheel and is built.
	at := &scriptPeer{name: p.name, dir: pyServerPins, progress: p.progress}
	return installVenv(ctx, at, "--only-binary", ":all:", "--no-binary", "forbiddenfruit")
}

// host is a peer's server. Its state is in the directory that it runs in and is
// removed before each start.
func (p *scriptPeer) host(name string, args ...string) *host {
	return &host{patient: true, command: func(ctx context.Context, _ string, port int) (*exec.Cmd, error) {
		if err := os.RemoveAll(filepath.Join(p.dir, ".langgraph_api")); err != nil {
			return nil, err
		}
		cmd := p.command(ctx, name, append(args, "--port", strconv.Itoa(port))...)
		cmd.Env = append(cmd.Env, "LANGGRAPH_CLI_NO_ANALYTICS=1")
		return cmd, nil
	}}
}

// servers measures the server jobs on the peers' servers.
func (b *bench) servers(ctx context.Context, p *serverPeer, jobs []job) error {
	for _, j := range jobs {
		fmt.Fprintf(b.progress, "%s: %s\n", p.name, j.name)
		l, err := serverTrials[j.name](p.host)(ctx, j)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			reason, _, _ := strings.Cut(err.Error(), "\n") // without the server's output
			note := "not measured: " + reason
			fmt.Fprintf(b.progress, "%s: %s: %v\n", p.name, j.name, err)
			b.lacks = append(b.lacks, fmt.Errorf("%s: %s: %w", p.name, j.name, err))
			if err := b.out.peer(peerLine{Name: j.name, Peer: p.name, Note: note}); err != nil {
				return err
			}
			continue
		}
		l.Name = j.name
		if err := b.out.peer(b.against(p.name, l)); err != nil {
			return err
		}
	}
	return nil
}
