package mcptool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
)

// serve is the environment variable that turns the test binary into a server.
const serve = "MCPTOOL_TEST_SERVE"

// Sessions must not leak goroutines.
func TestMain(m *testing.M) {
	mode, ok := os.LookupEnv(serve)
	if !ok {
		code := m.Run()
		if code == 0 {
			code = leftOver()
		}
		os.Exit(code)
	}
	if err := serveStdio(mode); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// leftOver returns 1 if goroutines are left. On a busy machine, a reader under the race detector
// parses a huge frame for longer than goleak waits, and ends afterwards.
func leftOver() int {
	var err error
	for range 20 {
		if err = goleak.Find(); err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func serveStdio(mode string) error {
	say := func(line string) { fmt.Fprintln(os.Stderr, line) }
	transport := &mcp.IOTransport{Reader: os.Stdin, Writer: os.Stdout}
	switch mode {
	case "broken":
		return fmt.Errorf("no license for %s", os.Getenv("CUSTOMER"))
	case "mute":
		say("ready")
		select {}
	case "stubborn": // ignores the end of its input and SIGTERM
		signal.Ignore(syscall.SIGTERM)
		if err := newServer(say).Run(context.Background(), transport); err != nil {
			return err
		}
		say("staying")
		select {}
	case "dying":
		return (&evil{calls: func(*evil, string) {
			fmt.Fprintln(os.Stderr, "stack trace with", os.Getenv("API_KEY"), os.Args)
			os.Exit(3)
		}}).run()
	case "evil":
		return evils[os.Getenv("EVIL")].run()
	case "noisy":
		transport.Writer = noise{os.Stdout}
		fmt.Fprintln(os.Stdout, "Welcome to the noisy server")
	}
	return newServer(say).Run(context.Background(), transport)
}

// noise mixes other output into a server's messages.
type noise struct{ io.WriteCloser }

func (n noise) Write(b []byte) (int, error) {
	fmt.Fprintf(n.WriteCloser, "[info] answering\n{\"level\":\"debug\"}\n42\n\n\x00\xff{\n")
	return n.WriteCloser.Write(b)
}

type sum struct {
	A int `json:"a" jsonschema:"the first"`
	B int `json:"b" default:"1"`
}

type none struct{}

// newServer returns a server with tools for the tests, two per page. The tools
// report their progress to say.
func newServer(say func(string)) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "v1"}, &mcp.ServerOptions{PageSize: 2})
	hall := newHall(20)
	release := make(chan struct{}, 1)
	err := mcptool.Add(s,
		llm.NewTool("add", "Adds two numbers.", func(_ context.Context, in sum) (llm.ToolOutput, error) {
			return llm.ToolOutput{Content: in.A + in.B, Artifact: map[string]int{"sum": in.A + in.B}}, nil
		}),
		llm.NewTool("pid", "", func(context.Context, none) (int, error) { return os.Getpid(), nil }),
		llm.NewTool("env", "", func(_ context.Context, in struct{ Name string }) (string, error) { return os.Getenv(in.Name), nil }),
		llm.NewTool("fail", "", func(context.Context, none) (string, error) { return "", fmt.Errorf("out of owls") }),
		llm.NewTool("hang", "", func(ctx context.Context, _ none) (string, error) {
			say("hanging")
			<-ctx.Done()
			say("cancelled")
			return "", ctx.Err()
		}),
		llm.NewTool("die", "", func(ctx context.Context, _ none) (string, error) {
			return "", kill(os.Getpid())
		}),
		llm.NewTool("meet", "", func(ctx context.Context, _ none) (string, error) { return hall.enter(ctx) }),
		llm.NewTool("release", "", func(context.Context, none) (string, error) { release <- struct{}{}; return "ok", nil }),
	)
	if err != nil {
		panic(err)
	}
	s.AddTool(&mcp.Tool{Name: "show", InputSchema: json.RawMessage(showSchema)}, show)
	s.AddTool(&mcp.Tool{Name: "long.job", Title: "A long job", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Total: 2, Message: "half"})
			<-release
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, err
		})
	return s
}

const showSchema = `{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema","title":"Show","required":["what"],
	"properties":{"what":{"type":"string","enum":["all","structured","error"],"x-order":1,"examples":["all"]},"n":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null}},
	"additionalProperties":false,"$defs":{"unused":{"type":"string","format":"uri"}}}`

// show returns every kind of content.
func show(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if strings.Contains(string(r.Params.Arguments), "structured") {
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: map[string]any{"n": 1}}, nil
	}
	return &mcp.CallToolResult{IsError: strings.Contains(string(r.Params.Arguments), "error"), Content: []mcp.Content{
		&mcp.TextContent{Text: "hello"},
		&mcp.ImageContent{MIMEType: "image/png", Data: []byte("png")},
		&mcp.AudioContent{MIMEType: "audio/wav", Data: []byte("wav")},
		&mcp.ResourceLink{URI: "https://example.com/owl.png", Name: "owl", MIMEType: "image/png"},
		&mcp.ResourceLink{URI: "https://example.com/owl.pdf", Name: "owl.pdf", MIMEType: "application/pdf"},
		&mcp.ResourceLink{URI: "memo://7", Name: "memo", Description: "About owls."},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a.txt", Text: "inside"}},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a/b.pdf", MIMEType: "application/pdf", Blob: []byte("pdf")}},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///c.png", MIMEType: "image/png", Blob: []byte("png")}},
	}}, nil
}

// hall releases its guests when all have arrived.
type hall struct {
	mu     sync.Mutex
	absent int
	full   chan struct{}
}

func newHall(guests int) *hall { return &hall{absent: guests, full: make(chan struct{})} }

func (h *hall) enter(ctx context.Context) (string, error) {
	h.mu.Lock()
	h.absent--
	if h.absent == 0 {
		close(h.full)
	}
	h.mu.Unlock()
	select {
	case <-h.full:
		return "met", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// words receives the lines that a server prints.
type words chan string

func (w words) say(line string) { w <- line }

// writer returns a writer that splits a process's output into words.
func (w words) writer(t *testing.T) io.Writer {
	r, out := io.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			w <- lines.Text()
		}
	})
	t.Cleanup(func() { out.Close(); reading.Wait() })
	return out
}

// await reads until line arrives.
func (w words) await(t *testing.T, line string) {
	t.Helper()
	for {
		select {
		case got := <-w:
			if got == line {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("server did not print %q", line)
		}
	}
}

// within reads until line arrives or the time is over. It reports whether the line arrived.
func (w words) within(d time.Duration, line string) bool {
	over := time.After(d)
	for {
		select {
		case got := <-w:
			if got == line {
				return true
			}
		case <-over:
			return false
		}
	}
}

// process returns a server that runs in a separate process.
func process(t *testing.T, mode string) (mcptool.Server, words) {
	w := make(words, 1000)
	return mcptool.Server{Name: "proc", Command: []string{os.Args[0]}, Env: map[string]string{serve: mode, "CUSTOMER": "owls", "GORACE": "atexit_sleep_ms=0"}, Log: w.writer(t)}, w
}

// overHTTP returns an HTTP server.
func overHTTP(t *testing.T) (mcptool.Server, words) {
	w := make(words, 1000)
	s := httptest.NewServer(mcptool.Handler(newServer(w.say), nil))
	t.Cleanup(s.Close)
	return mcptool.Server{Name: "http", URL: s.URL}, w
}

// overBoth runs a test with both kinds of servers.
func overBoth(t *testing.T, test func(t *testing.T, s mcptool.Server, w words)) {
	t.Run("stdio", func(t *testing.T) {
		s, w := process(t, "")
		test(t, s, w)
	})
	t.Run("http", func(t *testing.T) {
		s, w := overHTTP(t)
		test(t, s, w)
	})
}

type toolset map[string]*llm.Tool

// open connects to servers until the test ends.
func open(t *testing.T, servers ...mcptool.Server) (*mcptool.Servers, toolset) {
	t.Helper()
	all, err := mcptool.Connect(t.Context(), servers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	list, err := all.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set := toolset{}
	for _, tool := range list {
		set[tool.Name] = tool
	}
	return all, set
}

// call calls a tool and returns its result.
func (s toolset) call(ctx context.Context, name, args string) (llm.Message, error) {
	call := llm.ToolCall{ID: "c1", Name: name, Args: json.RawMessage(args)}
	out, err := s[name].Call(ctx, call)
	if err != nil {
		return llm.Message{}, err
	}
	return llm.ToolResult(call, out), nil
}

// says calls a tool and returns the text of its result.
func (s toolset) says(t *testing.T, name, args string) string {
	t.Helper()
	m, err := s.call(t.Context(), name, args)
	if err != nil {
		t.Fatal(err)
	}
	return m.Text()
}

// kill kills a process.
func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
