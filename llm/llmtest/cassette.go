package llmtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/llm"
)

// Cassette is a model that replays recorded calls of a real model. Each call is a
// JSON file in a directory, so that people can read it and keep it under version
// control. A request gets the response recorded for it; message IDs are ignored. If
// a request is repeated, it gets the next response recorded for it.
type Cassette struct {
	dir  string
	live llm.Model

	mu    sync.Mutex
	times map[string]int
}

// NewCassette returns a model that replays the calls in dir. A request that is not
// recorded is sent to live and recorded. If live is nil, as in tests without an API
// key, such a request fails.
func NewCassette(dir string, live llm.Model) *Cassette {
	return &Cassette{dir: dir, live: live, times: map[string]int{}}
}

// tape is a recorded call.
type tape struct {
	Model   llm.Info     `json:"model"`
	Request tapeRequest  `json:"request"`
	Chunks  []llm.Chunk  `json:"chunks"`
	Error   *tapeFailure `json:"error,omitempty"`
}

type tapeRequest struct {
	Model       string         `json:"model,omitempty"`
	Messages    llm.Messages   `json:"messages"`
	Tools       []tapeTool     `json:"tools,omitempty"`
	ToolChoice  string         `json:"tool_choice,omitempty"`
	SerialTools bool           `json:"serial_tools,omitempty"`
	Output      any            `json:"output,omitempty"`
	MaxTokens   int            `json:"max_tokens,omitempty"`
	Temperature *float64       `json:"temperature,omitempty"`
	TopP        *float64       `json:"top_p,omitempty"`
	StopWords   []string       `json:"stop,omitempty"`
	Seed        *int64         `json:"seed,omitempty"`
	Reasoning   string         `json:"reasoning,omitempty"`
	Settings    map[string]any `json:"settings,omitempty"`
	NoStream    bool           `json:"no_stream,omitempty"`
}

type tapeTool struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Parameters  *jsonschema.Schema `json:"parameters,omitempty"`
	Extra       map[string]any     `json:"extra,omitempty"`
}

// tapeFailure is an [llm.Error] without its cause, or the text of another error.
type tapeFailure struct {
	Provider   string        `json:"provider,omitempty"`
	Status     int           `json:"status,omitempty"`
	Code       string        `json:"code,omitempty"`
	Message    string        `json:"message"`
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	Cut        bool          `json:"cut,omitempty"`
}

func failureOf(err error) *tapeFailure {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return &tapeFailure{Message: err.Error()}
	}
	f := &tapeFailure{e.Provider, e.Status, e.Code, e.Message, e.RetryAfter, e.Cut}
	if f.Message == "" && e.Err != nil {
		f.Message = e.Err.Error()
	}
	return f
}

func (f *tapeFailure) err() error {
	if f.Provider == "" {
		return errors.New(f.Message)
	}
	return &llm.Error{Provider: f.Provider, Status: f.Status, Code: f.Code, Message: f.Message, RetryAfter: f.RetryAfter, Cut: f.Cut}
}

// Describe implements [llm.Describer]. It describes the real model or, without one,
// the model of the first recorded call.
func (c *Cassette) Describe() llm.Info {
	if c.live != nil {
		return llm.Describe(c.live)
	}
	names, _ := filepath.Glob(filepath.Join(c.dir, "*.json"))
	for _, name := range names {
		if t, err := readTape(name); err == nil {
			return t.Model
		}
	}
	return llm.Info{}
}

// Stream implements [llm.Model].
func (c *Cassette) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		name, t, err := c.find(req)
		switch {
		case err == nil:
			t.play(ctx, yield)
		case !errors.Is(err, fs.ErrNotExist):
			yield(llm.Chunk{}, fmt.Errorf("llmtest: cassette: %w", err))
		case c.live == nil:
			yield(llm.Chunk{}, fmt.Errorf("llmtest: cassette: no call is recorded for the request that ends with %q (%s): record it by giving NewCassette a real model",
				req.Messages[len(req.Messages)-1].Text(), name))
		default:
			c.record(ctx, name, req, yield)
		}
	}
}

// find returns the recording of a request, and the name of its existing or future
// file.
func (c *Cassette) find(req *llm.Request) (name string, t *tape, err error) {
	key, err := json.Marshal(tapeOf(req))
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(key)
	id := hex.EncodeToString(sum[:8])
	c.mu.Lock()
	c.times[id]++
	n := c.times[id]
	c.mu.Unlock()
	name = filepath.Join(c.dir, fmt.Sprintf("%s-%d.json", id, n))
	t, err = readTape(name)
	return name, t, err
}

// tapeOf returns the parts of a request that identify it.
func tapeOf(req *llm.Request) tapeRequest {
	t := tapeRequest{Model: req.Model, ToolChoice: req.ToolChoice, SerialTools: req.SerialTools, MaxTokens: req.MaxTokens,
		Temperature: req.Temperature, TopP: req.TopP, StopWords: req.StopWords, Seed: req.Seed, Reasoning: req.Reasoning,
		Settings: req.Settings, NoStream: req.NoStream}
	if req.Output != nil {
		t.Output = req.Output
	}
	for _, m := range req.Messages {
		m.ID, m.Artifact, m.Usage = "", nil, nil
		t.Messages = append(t.Messages, m)
	}
	for _, tool := range req.Tools {
		t.Tools = append(t.Tools, tapeTool{tool.Name, tool.Description, tool.Parameters, tool.Extra})
	}
	return t
}

func readTape(name string) (*tape, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var t tape
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &t, nil
}

func (t *tape) play(ctx context.Context, yield func(llm.Chunk, error) bool) {
	for _, chunk := range t.Chunks {
		if err := context.Cause(ctx); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		chunk.ID = "" // each replay is a new message
		if !yield(chunk, nil) {
			return
		}
	}
	if t.Error != nil {
		yield(llm.Chunk{}, t.Error.err())
	}
}

// record calls the real model and saves its response. It does not save a call that
// was left or canceled, because that call says nothing about the model.
func (c *Cassette) record(ctx context.Context, name string, req *llm.Request, yield func(llm.Chunk, error) bool) {
	t := tape{Model: llm.Describe(c.live), Request: tapeOf(req)}
	for chunk, err := range c.live.Stream(ctx, req) {
		if err != nil {
			if ctx.Err() == nil {
				t.Error = failureOf(err)
				err = errors.Join(err, t.save(name))
			}
			yield(llm.Chunk{}, err)
			return
		}
		t.Chunks = append(t.Chunks, chunk)
		if !yield(chunk, nil) {
			return
		}
	}
	if err := t.save(name); err != nil {
		yield(llm.Chunk{}, err)
	}
}

func (t *tape) save(name string) error {
	raw, err := json.MarshalIndent(t, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o755)
	}
	if err == nil {
		err = os.WriteFile(name, append(raw, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("llmtest: cassette: %w", err)
	}
	return nil
}
