package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// grace is the time that a process has to end after its input is closed, and again after
	// SIGTERM.
	grace = 2 * time.Second
	// drain limits how long the output is read after the process has ended. A surviving child
	// process could hold the pipe open forever.
	drain = time.Second
	// patience is the write timeout if the process does not read and its pipe is full.
	patience = 10 * time.Second
)

// process is a server's program. It implements the reader and writer of the SDK's transport.
// Output lines that are not messages go to the log.
type process struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	lines  *bufio.Scanner
	rest   []byte // rest of the message being read
	log    *tail
	exited chan struct{} // closed when the program has ended
	stop   sync.Once
}

func start(s Server) (*process, error) {
	cmd := exec.Command(s.Command[0], s.Command[1:]...) //nolint:noctx // outlives the call that starts it: Close ends it
	p := &process{cmd: cmd, log: &tail{to: s.Log}, exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = s.Dir, s.environ(), p.log
	p.cmd.WaitDelay = drain
	if err := p.launch(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()                                 // ProcessState contains the result
		_ = p.out.SetReadDeadline(time.Now().Add(drain)) // fails only if Close was faster
	}()
	return p, nil
}

// launch starts the program with pipes that support deadlines and that Wait does not close. The
// pipes of package exec are closed when the program ends, even if they still contain responses.
func (p *process) launch() (err error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = theirIn.Close() }() // the program has its own handles
	out, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	defer func() { _ = theirOut.Close() }()
	p.in = in
	p.cmd.Stdin = theirIn
	p.out = out
	p.cmd.Stdout = theirOut
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, mcp.DefaultMaxLineLength)
	if err := p.cmd.Start(); err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	return nil
}

// Read reads only messages.
func (p *process) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if !p.lines.Scan() {
			if err := p.lines.Err(); err != nil && !os.IsTimeout(err) {
				return 0, err
			}
			return 0, io.EOF
		}
		line := bytes.TrimSpace(p.lines.Bytes())
		if isMessage(line) {
			p.rest = slices.Concat(line, newline)
		} else if len(line) > 0 {
			p.log.write(slices.Concat(line, newline))
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

var newline = []byte("\n")

// isMessage reports whether a line is a message, as opposed to a banner or log line that the
// program prints by mistake.
func isMessage(line []byte) bool {
	type envelope struct{ JSONRPC string }
	var one envelope
	if json.Unmarshal(line, &one) == nil {
		return one.JSONRPC == "2.0"
	}
	var batch []envelope
	return json.Unmarshal(line, &batch) == nil && len(batch) > 0 && batch[0].JSONRPC == "2.0"
}

// Write sends a message. Its error matches mcp.ErrConnectionClosed if nothing was sent. It
// gives up on a program that does not read for a long time, because other writers wait for it.
func (p *process) Write(b []byte) (int, error) {
	err := p.in.SetWriteDeadline(time.Now().Add(patience))
	n := 0
	if err == nil {
		n, err = p.in.Write(b)
	}
	if err != nil && n == 0 {
		err = fmt.Errorf("%w: %w", mcp.ErrConnectionClosed, err)
	}
	return n, err
}

// Close ends the program as the protocol prescribes: it closes the input, then sends SIGTERM,
// then kills the program.
func (p *process) Close() error {
	p.stop.Do(func() {
		_ = p.in.Close() // pipes are not buffered
		if !p.endsWithin(grace) {
			if p.cmd.Process.Signal(syscall.SIGTERM) != nil || !p.endsWithin(grace) {
				p.kill()
			}
		}
		_ = p.out.Close()
	})
	return nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if the program has ended
	<-p.exited
}

func (p *process) endsWithin(d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-p.exited:
		return true
	case <-late.C:
		return false
	}
}

// fate describes how the program ended and its last output.
func (p *process) fate() string {
	select {
	case <-p.exited:
	default:
		return "program closed its output"
	}
	said := "program ended: " + p.cmd.ProcessState.String()
	if last := p.log.String(); last != "" {
		said += "; last output: " + last
	}
	return said
}

// tail forwards writes and keeps the end of the output for errors.
type tail struct {
	to io.Writer

	mu   sync.Mutex // guards last, and writing to to
	last []byte
}

const tailSize = 1 << 10

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.write(b)
	return len(b), nil
}

func (t *tail) write(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if extra := len(t.last) - tailSize; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	if t.to != nil {
		_, _ = t.to.Write(b) // a failing log must not fail the server
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.last), ""))
}

type nopWriteCloser struct{ io.Writer }

// Close does nothing: [process.Close] closes the pipe.
func (nopWriteCloser) Close() error { return nil }
