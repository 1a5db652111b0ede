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

// host is a server of LangGraph's API for the server jobs, ours or a peer's, always
// in a separate process.
type host struct {
	// command returns the command that serves at a port. dir is an empty directory
	// for the server.
	command func(ctx context.Context, dir string, port int) (*exec.Cmd, error)
	patient bool // a run takes half a second or more, so fewer are requested
}

// hostTimeout is the timeout for the start and the end of a server.
const hostTimeout = 2 * time.Minute

// serving is a running server.
type serving struct {
	address string // host and port
	cmd     *exec.Cmd
	took    time.Duration // from the start of the process to the first 200 of /ok
	dir     string
	output  *tail
	ended   chan struct{} // closed when the process has ended
	err     error         // why; set before ended is closed
}

// start starts a server and waits until it responds.
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
	inGroup(cmd) // the peers' servers start other processes
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

// await requests /ok until it succeeds.
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
			return commandError(ctx, s.cmd.Path, errors.Join(errors.New("server ended before it responded"), s.err), s.output.bytes())
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
	endGroup(s.cmd, true) // including processes that it has left behind
	<-s.ended
	return os.RemoveAll(s.dir)
}

// on calls do with a running server.
func (h *host) on(ctx context.Context, do func(*serving) (line, error)) (l line, err error) {
	s, err := h.start(ctx)
	if err != nil {
		return line{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	return do(s)
}

// freePort returns an unused port.
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

// ourHost returns the program in serve with an SQLite file.
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

// removeProgram removes the program that ourProgram has built.
func removeProgram() error {
	if built.dir == "" {
		return nil
	}
	return os.RemoveAll(built.dir)
}

// serverPeer is a peer whose server runs the server jobs. It is installed like the others.
type serverPeer struct {
	*scriptPeer
	host *host
}

// isServer reports whether a job is a server job; server jobs have separate peers.
func isServer(name string) bool { return strings.HasPrefix(name, "server_") }

// apart separates the server jobs from the others.
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

// parallelRuns is the number of concurrent runs of the peers, their default. With
// 32, the Python server takes four times as long, and the JavaScript server is no
// faster.
const parallelRuns = "10"

func jsServer(progress io.Writer) *serverPeer {
	p := &scriptPeer{name: "langgraph.js", dir: filepath.Join("servers", "js"), progress: progress, install: installJSServer}
	cli := filepath.Join("node_modules", "@langchain", "langgraph-cli", "dist", "cli", "cli.mjs")
	return &serverPeer{p, p.host("node", cli, "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--config", "langgraph.json", "--n-jobs-per-worker", parallelRuns)}
}

func installJSServer(ctx context.Context, p *scriptPeer) error {
	if _, err := exec.LookPath("node"); err != nil {
		return errors.New("node was not found in PATH: -peers requires Node.js 20 or newer for LangGraph's JavaScript server")
	}
	missing, err := olderThan(filepath.Join(p.dir, "node_modules", ".package-lock.json"), filepath.Join(p.dir, "package-lock.json"))
	if err != nil || !missing {
		return err
	}
	// npm ci rejects the lock file that npm itself writes, because a dependency
	// lists builds for other systems, which the file omits.
	return npm(ctx, p, "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund")
}

// pyServerPins is the directory that pins the Python server, shared with the
// conformance tests of our server. serve there creates the same virtual
// environment.
var pyServerPins = filepath.Join("..", "examples", "platform", "conformance", "official")

func pyServer(progress io.Writer) *serverPeer {
	p := &scriptPeer{name: "langgraph", dir: filepath.Join("servers", "py"), progress: progress, install: installPyServer}
	python, err := filepath.Abs(filepath.Join(pyServerPins, venvPython))
	if err != nil { // no working directory
		panic(err)
	}
	return &serverPeer{p, p.host(python, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--config", "langgraph.json", "--n-jobs-per-worker", parallelRuns)}
}

func installPyServer(ctx context.Context, p *scriptPeer) error {
	// One of its packages has no wheel and is built.
	at := &scriptPeer{name: p.name, dir: pyServerPins, progress: p.progress}
	return installVenv(ctx, at, "--only-binary", ":all:", "--no-binary", "forbiddenfruit")
}

// host returns a peer's server. Its state is in its working directory and is
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
