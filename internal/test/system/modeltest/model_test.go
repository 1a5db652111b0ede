package modeltest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/need"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "secret"

// A server is a process that serves the model.
type server struct {
	url string
	cmd *exec.Cmd
}

// serve starts a server on a port; "0" means any.
func serve(t *testing.T, port string) *server {
	t.Helper()
	need.Program(t, need.Python)
	python, err := filepath.Abs(filepath.Join(".venv", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("the model is not installed: run .ci/python: %v", err)
	}
	cmd := exec.CommandContext(context.Background(), python, "serve.py", port, "--key", key, "--stdin")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe() // closed when this process ends for any reason
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	s := &server{cmd: cmd}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
	})
	for s.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the server did not start: %v\n%s", err, stderr.String())
		}
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "ready "); ok {
			s.url = url
		}
	}
	return s
}

// models returns the model by each protocol.
func (s *server) models(t *testing.T, key string) map[string]llm.Model {
	t.Helper()
	chat, err := openai.New("smollm2", &openai.Options{BaseURL: s.url + "/v1", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	responses, err := openai.New("smollm2", &openai.Options{BaseURL: s.url + "/v1", Key: key, API: "responses"})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := anthropic.New("smollm2", &anthropic.Options{BaseURL: s.url, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]llm.Model{"chat": chat, "responses": responses, "messages": messages}
}

func TestAdaptersWithRealModel(t *testing.T) {
	s := serve(t, "0")
	for name, model := range s.models(t, key) {
		t.Run(name, func(t *testing.T) {
			t.Run("stream and usage", func(t *testing.T) { streams(t, model) })
			t.Run("cancellation", func(t *testing.T) { cancels(t, model) })
			if name != "responses" { // llama.cpp does not report there that it stopped at the limit
				t.Run("limit", func(t *testing.T) { limits(t, model) })
			}
			t.Run("long context", func(t *testing.T) { overflows(t, model) })
			t.Run("overload", func(t *testing.T) { queues(t, model) })
			t.Run("agent", func(t *testing.T) { converses(t, model) })
		})
	}
	t.Run("structured output", func(t *testing.T) { writesObjects(t, s.models(t, key)["chat"]) })
	for name, model := range s.models(t, "wrong") {
		_, err := llm.Generate(t.Context(), model, llm.User("Hi"))
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != 401 {
			t.Errorf("%s: with a wrong key: %v, want status 401", name, err)
		}
	}
}

// brief makes responses short and repeatable.
func brief(m llm.Model, tokens int) llm.Model {
	return llm.With(m, llm.MaxTokens(tokens), llm.Temperature(0))
}

func streams(t *testing.T, model llm.Model) {
	// The first call fills the server's cache. A response from the cache is rounded
	// differently, so only later ones are equal.
	if _, err := llm.Generate(t.Context(), brief(model, 1), llm.User("Write one sentence about the sea.")); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	chunks := 0
	m, err := llm.Collect(func(yield func(llm.Chunk, error) bool) {
		for c, err := range llm.Stream(t.Context(), brief(model, 24), llm.User("Write one sentence about the sea.")) {
			chunks++
			text.WriteString(c.Content)
			if !yield(c, err) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.Text() == "" || chunks < 5 || m.Usage == nil || m.Usage.Input < 5 || m.Usage.Output < 5 || m.Usage.Output > 24 {
		t.Errorf("%q in %d chunks, usage %+v", m.Text(), chunks, m.Usage)
	}
	whole, err := llm.Generate(t.Context(), llm.With(brief(model, 24), llm.NoStream()), llm.User("Write one sentence about the sea."))
	if err != nil {
		t.Fatal(err)
	}
	if whole.Text() != m.Text() {
		t.Errorf("without a stream, the model says %q, and with one %q", whole.Text(), m.Text())
	}
}

// cancels checks that the server accepts calls after one is canceled.
func cancels(t *testing.T, model llm.Model) {
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := llm.Collect(func(yield func(llm.Chunk, error) bool) {
			for c, err := range llm.Stream(ctx, brief(model, 1500), llm.User("Count from one to a thousand.")) {
				cancel()
				if !yield(c, err) {
					return
				}
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("err = %v, want context.Canceled", err)
		}
	}
	if _, err := llm.Generate(t.Context(), brief(model, 4), llm.User("Hi")); err != nil {
		t.Error(err)
	}
}

func limits(t *testing.T, model llm.Model) {
	m, err := llm.Generate(t.Context(), brief(model, 3), llm.User("Count from one to a thousand."))
	if err != nil || m.Stop != llm.StopLength {
		t.Errorf("stop %q, %v, want %q", m.Stop, err, llm.StopLength)
	}
}

func overflows(t *testing.T, model llm.Model) {
	var err error
	for range 3 { // the server may close the connection while it is sent a request that it has rejected
		_, err = llm.Generate(t.Context(), brief(model, 4), llm.User(strings.Repeat("word ", 4000)))
		if _, ok := errors.AsType[*llm.ContextError](err); ok {
			break
		}
	}
	if _, ok := errors.AsType[*llm.ContextError](err); !ok {
		t.Errorf("err = %v, want a ContextError", err)
	}
	// An agent clears what it can and tries again.
	clearing := agent.ClearResults(&agent.ClearOptions{Keep: -1})
	call := llm.ToolCall{ID: "c", Name: "read", Args: []byte("{}")}
	read := llm.NewTool("read", "Reads.", func(context.Context, struct{}) (string, error) { return "", nil })
	a := treadle.Must(agent.New(brief(model, 8), &agent.Options{Tools: []*llm.Tool{read}, Middleware: []*agent.Middleware{clearing}}))
	out, err := a.Run(t.Context(), agent.State{Chat: llm.Chat{Messages: llm.Messages{
		llm.User("Read the file."), llm.Assistant("", call), llm.ToolResult(call, strings.Repeat("word ", 4000)), llm.User("Thanks. Say hello.")}}})
	if err != nil || agent.Answer(out) == "" {
		t.Errorf("answer %q, %v", agent.Answer(out), err)
	}
}

// queues checks that calls beyond the server's slots wait for their turn.
func queues(t *testing.T, model llm.Model) {
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if m, err := llm.Generate(t.Context(), brief(model, 6), llm.User("Say hello.")); err != nil || m.Text() == "" {
				t.Errorf("%q, %v", m.Text(), err)
			}
		})
	}
	wg.Wait()
}

func converses(t *testing.T, model llm.Model) {
	a := treadle.Must(agent.New(brief(model, 12), &agent.Options{Prompt: "You are brief.", Graph: treadle.Options{Saver: checkpoint.NewMemory()}}))
	thread := a.Thread("1")
	tokens := 0
	for e, err := range thread.Stream(t.Context(), agent.Ask("My name is Ada."), treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := e.(treadle.Token); ok {
			tokens++
		}
	}
	out, err := thread.Run(t.Context(), agent.Ask("What is my name?"))
	if err != nil || tokens < 2 || len(out.Messages) != 4 {
		t.Errorf("%d tokens, %d messages, %v", tokens, len(out.Messages), err)
	}
}

func writesObjects(t *testing.T, model llm.Model) {
	type animal struct {
		Name string `json:"name" jsonschema:"one word"`
		Legs int    `json:"legs"`
	}
	got, err := llm.Object[animal](t.Context(), llm.With(brief(model, 60), llm.ByOutput), llm.User("Describe a dog: its name and its number of legs."))
	if err != nil || got.Name == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A server that is killed in the middle of a response is not a complete response, and
// the same model works after a restart.
func TestServerKilledInMiddleOfResponse(t *testing.T) {
	s := serve(t, "0")
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
	for name, model := range s.models(t, key) {
		_, err := llm.Collect(func(yield func(llm.Chunk, error) bool) {
			for c, err := range llm.Stream(t.Context(), brief(model, 1500), llm.User("Count from one to a thousand.")) {
				_ = s.cmd.Process.Kill()
				if !yield(c, err) {
					return
				}
			}
		})
		if e, ok := errors.AsType[*llm.Error](err); !ok || !e.Cut || !e.Temporary() {
			t.Errorf("%s: err = %v, want a cut response", name, err)
		}
		s = serve(t, port)
		if m, err := llm.Generate(t.Context(), brief(model, 6), llm.User("Say hello.")); err != nil || m.Text() == "" {
			t.Errorf("%s: after a restart: %q, %v", name, m.Text(), err)
		}
	}
}
