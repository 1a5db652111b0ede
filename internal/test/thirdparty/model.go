package thirdparty

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// Model is an [llm.Model] of a provider whose API is lines of JSON over HTTP. A request
// is a POST with the fields of wireRequest. The response is a single wireEvent, or, if
// streamed, one wireEvent per line, of which the last has Done set.
type Model struct {
	name, url, key string
	client         *http.Client
}

// NewModel returns the model with the given name of the provider at url.
func NewModel(name, url, key string) *Model {
	// The provider gets its key in a header that package http would send to every host.
	client := &http.Client{
		Transport: &http.Transport{},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Host != via[0].URL.Host {
				return fmt.Errorf("redirect to %s: another host than %s", r.URL.Host, via[0].URL.Host)
			}
			return nil
		},
	}
	return &Model{name: name, url: url, key: key, client: client}
}

// Close closes idle connections.
func (m *Model) Close() { m.client.CloseIdleConnections() }

// Describe implements [llm.Describer].
func (m *Model) Describe() llm.Info {
	return llm.Info{Provider: "thirdparty", Model: m.name, NativeOutput: true}
}

type wireRequest struct {
	Model       string        `json:"model"`
	Stream      bool          `json:"stream"`
	Messages    []wireMessage `json:"messages"`
	Tools       []wireTool    `json:"tools,omitempty"`
	ToolChoice  string        `json:"tool_choice,omitempty"`
	Schema      any           `json:"schema,omitempty"`
	MaxTokens   int           `json:"max_tokens,omitempty"`
	Temperature *float64      `json:"temperature,omitempty"`
	StopWords   []string      `json:"stop_words,omitempty"`
}

type wireMessage struct {
	Role   string      `json:"role"` // system, user, model, or tool
	Text   string      `json:"text,omitempty"`
	Images []wireImage `json:"images,omitempty"`
	Calls  []wireCall  `json:"calls,omitempty"`
	CallID string      `json:"call_id,omitempty"` // of a tool result
	Failed bool        `json:"failed,omitempty"`  // the tool failed
}

type wireImage struct {
	Type string `json:"type,omitempty"`
	Data []byte `json:"data,omitempty"`
	URL  string `json:"url,omitempty"`
}

type wireTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  any    `json:"parameters"`
}

type wireCall struct {
	Index int    `json:"index"`
	ID    string `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	Args  string `json:"args,omitempty"` // JSON, or a piece of it
}

type wireEvent struct {
	Thought string     `json:"thought,omitempty"`
	Text    string     `json:"text,omitempty"`
	Calls   []wireCall `json:"calls,omitempty"`
	Stop    string     `json:"stop,omitempty"` // end, calls, length, or refusal
	Usage   *wireUsage `json:"usage,omitempty"`
	Done    bool       `json:"done,omitempty"`
}

type wireUsage struct {
	Input   int `json:"input"`
	Cached  int `json:"cached"`
	Output  int `json:"output"`
	Thought int `json:"thought"`
}

// Stream implements [llm.Model].
func (m *Model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := m.call(ctx, req, yield); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			yield(llm.Chunk{}, err)
		}
	}
}

// call sends a request and yields the response. It returns nil if yield returned false.
func (m *Model) call(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) error {
	out, err := m.request(req)
	if err != nil {
		return err
	}
	body, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("thirdparty: encode request: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("thirdparty: %w", err)
	}
	post.Header.Set("X-Key", m.key)
	post.Header["Idempotency-Key"] = nil // not sent; package http may send the request again if the connection was closed
	resp, err := m.client.Do(post)
	if err != nil {
		return &llm.Error{Provider: "thirdparty", Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // only read
	if resp.StatusCode != http.StatusOK {
		return failure(resp)
	}
	if !req.NoStream {
		return stream(resp.Body, yield)
	}
	var e wireEvent
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		return cut(err)
	}
	yield(e.chunk(), nil)
	return nil
}

// stream yields the events of a streamed response.
func stream(body io.Reader, yield func(llm.Chunk, error) bool) error {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return cut(err) // even io.EOF, because the last event has Done set
		}
		var e wireEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return cut(err)
		}
		if !yield(e.chunk(), nil) || e.Done {
			return nil
		}
	}
}

// cut returns the error for a response that broke off.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &llm.Error{Provider: "thirdparty", Cut: true, Err: err}
}

// failure returns the error that a response with an error status reports.
func failure(resp *http.Response) error {
	e := &llm.Error{Provider: "thirdparty", Status: resp.StatusCode}
	var body struct{ Code, Message string }
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&body) == nil {
		e.Code, e.Message = body.Code, body.Message
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// request converts a request to the wire format.
func (m *Model) request(req *llm.Request) (*wireRequest, error) {
	out := &wireRequest{Model: cmp.Or(req.Model, m.name), Stream: !req.NoStream, ToolChoice: req.ToolChoice,
		MaxTokens: req.MaxTokens, Temperature: req.Temperature, StopWords: req.StopWords}
	if req.Output != nil {
		out.Schema = req.Output.Schema
	}
	for _, t := range req.Tools {
		if t.Run == nil {
			return nil, fmt.Errorf("thirdparty: tool %q has no function, and the provider runs no tools", t.Name)
		}
		out.Tools = append(out.Tools, wireTool{t.Name, t.Description, t.Parameters})
	}
	for _, message := range req.Messages {
		w, err := wire(message)
		if err != nil {
			return nil, err
		}
		out.Messages = append(out.Messages, w)
	}
	return out, nil
}

var roles = map[llm.Role]string{llm.RoleSystem: "system", llm.RoleHuman: "user", llm.RoleAI: "model", llm.RoleTool: "tool"}

// wire converts a message to the wire format. Reasoning is not sent back.
func wire(m llm.Message) (wireMessage, error) {
	w := wireMessage{Role: roles[m.Role], Text: m.Text(), CallID: m.ToolCallID, Failed: m.Status == llm.StatusError}
	for _, b := range m.Parts() {
		switch b.Type {
		case llm.BlockText, llm.BlockReasoning:
		case llm.BlockImage:
			w.Images = append(w.Images, wireImage{b.MIMEType, b.Data, b.URL})
		default:
			if m.Role == llm.RoleAI {
				continue // another provider's model may write it
			}
			return w, fmt.Errorf("thirdparty: cannot send a block of type %q", b.Type)
		}
	}
	for i, c := range m.ToolCalls {
		w.Calls = append(w.Calls, wireCall{i, c.ID, c.Name, string(c.Args)})
	}
	return w, nil
}

var stops = map[string]llm.StopReason{"end": llm.StopEnd, "calls": llm.StopTools, "length": llm.StopLength, "refusal": llm.StopRefusal}

// chunk converts an event from the wire format.
func (e *wireEvent) chunk() llm.Chunk {
	c := llm.Chunk{Content: e.Text, Stop: stops[e.Stop]}
	if e.Thought != "" {
		c.Blocks = []llm.Block{{Type: llm.BlockReasoning, Index: new(0), Reasoning: e.Thought}}
		if e.Text != "" {
			c.Content, c.Blocks = "", append(c.Blocks, llm.Text(e.Text))
		}
	}
	for _, call := range e.Calls {
		c.ToolCalls = append(c.ToolCalls, llm.ToolCallChunk{Index: &call.Index, ID: call.ID, Name: call.Name, Args: call.Args})
	}
	if u := e.Usage; u != nil {
		c.Usage = &llm.Usage{Input: u.Input, Output: u.Output, Total: u.Input + u.Output,
			InputDetails:  map[string]int{llm.UsageCacheRead: u.Cached},
			OutputDetails: map[string]int{llm.UsageReasoning: u.Thought}}
	}
	return c
}
