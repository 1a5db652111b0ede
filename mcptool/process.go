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
	// grace is how long a process may take to end, once after its input is closed
	// and once after SIGTERM.
	grace = 2 * time.Second
	// drain is how long its output is read after it has ended. A child of its
	// that lives on may hold the pipe open forever.
	drain = time.Second
	// patience is how long it may leave a message unread when its pipe is full.
	patience = 10 * time.Second
)

// process is a server's program. Its messages are read and written as the SDK's
// transport wants it; other lines of its output go to the log.
type process struct {
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	lines  *bufio.Scanner
	rest   []byte // of the message that is being read
	log    *tail
	exited chan struct{} // closed when the program has ended
	stop   sync.Once
}

func start(s Server) (*process, error) {
	cmd := exec.Command(s.Command[0], s.Command[1:]...) //nolint:noctx // it outlives the call that starts it: Close ends it
	p := &process{cmd: cmd, log: &tail{to: s.Log}, exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = s.Dir, s.environ(), p.log
	p.cmd.WaitDelay = drain
	if err := p.launch(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()                                 // how it ended is in ProcessState
		_ = p.out.SetReadDeadline(time.Now().Add(drain)) // it fails only if Close was faster
	}()
	return p, nil
}

// launch starts the program with pipes that have deadlines and that Wait leaves
// alone: exec's own are closed when the program ends, with answers still inside.
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
	p.in, p.cmd.Stdin, p.out, p.cmd.Stdout = in, theirIn, out, theirOut
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, mcp.DefaultMaxLineLength)
	if err := p.cmd.Start(); err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	return nil
}

// Read reads messages and nothing else.
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

// isMessage tells messages from what a program prints by mistake, such as a
// banner or its log.
func isMessage(line []byte) bool {
	type envelope struct{ JSONRPC string }
	var one envelope
	if json.Unmarshal(line, &one) == nil {
		return one.JSONRPC == "2.0"
	}
	var batch []envelope
	return json.Unmarshal(line, &batch) == nil && len(batch) > 0 && batch[0].JSONRPC == "2.0"
}

// Write says by its error whether the message was not sent at all. A program that
// does not read for long is given up: nobody else can write meanwhile.
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

// Close ends the program, as the protocol wants it: first by closing its input,
// then by asking, then by force.
func (p *process) Close() error {
	p.stop.Do(func() {
		_ = p.in.Close() // a pipe holds nothing back
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
	_ = p.cmd.Process.Kill() // it fails only if the program has ended
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

// fate says how the program ended and what it said last.
func (p *process) fate() string {
	select {
	case <-p.exited:
	default:
		return "the program closed its output"
	}
	said := "the program ended: " + p.cmd.ProcessState.String()
	if last := p.log.String(); last != "" {
		said += "; it wrote: " + last
	}
	return said
}

// tail passes on what is written and keeps the end of it, for errors.
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
		_, _ = t.to.Write(b) // a log that fails is no reason to fail the server
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.last), ""))
}

type nopWriteCloser struct{ io.Writer }

// Close does nothing: that of the process does it.
func (nopWriteCloser) Close() error { return nil }
