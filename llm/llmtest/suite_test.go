package llmtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/origin"
	"github.com/treadle-go/treadle/llm"
)

// toy is a provider whose protocol is this package's own JSON: a request is a
// toyRequest, an answer is a chunk, a stream is a chunk on each line and a line
// "end". The suite must pass for it, or the suite is wrong.
type toy struct {
	url    string
	client *http.Client
}

type toyRequest struct {
	Model       string
	Stream      bool
	Messages    llm.Messages
	Tools       []ReceivedTool
	ToolChoice  string
	Output      any
	MaxTokens   int
	Temperature *float64
	StopWords   []string
}

func (m *toy) Describe() llm.Info {
	return llm.Info{Provider: "toy", Model: "toy-1", NativeOutput: true}
}

func (m *toy) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := m.stream(ctx, req, yield); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			yield(llm.Chunk{}, err)
		}
	}
}

func (m *toy) stream(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) error {
	body := toyRequest{Model: "toy-1", Stream: !req.NoStream, Messages: req.Messages, ToolChoice: req.ToolChoice,
		MaxTokens: req.MaxTokens, Temperature: req.Temperature, StopWords: req.StopWords}
	if req.Model != "" {
		body.Model = req.Model
	}
	if req.Output != nil {
		body.Output = req.Output.Schema
	}
	for _, t := range req.Tools {
		params, err := json.Marshal(t.Parameters)
		if err != nil {
			return err
		}
		body.Tools = append(body.Tools, ReceivedTool{t.Name, t.Description, params})
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hreq, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	resp, err := m.client.Do(hreq)
	if err != nil {
		return &llm.Error{Provider: "toy", Err: err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &llm.Error{Provider: "toy", Status: resp.StatusCode, Message: string(said), RetryAfter: time.Duration(after) * time.Second}
	}
	if req.NoStream {
		var c llm.Chunk
		if err := json.NewDecoder(resp.Body).Decode(&c); err != nil {
			return &llm.Error{Provider: "toy", Cut: true, Err: err}
		}
		yield(c, nil)
		return nil
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if lines.Text() == "end" {
			return nil
		}
		var c llm.Chunk
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return &llm.Error{Provider: "toy", Cut: true, Err: err}
		}
		if !yield(c, nil) {
			return nil
		}
	}
	return &llm.Error{Provider: "toy", Cut: true, Err: errors.New("the stream has no end")}
}

func toyWhole(r Reply) llm.Chunk {
	c := llm.Chunk{ID: "toy", Content: strings.Join(r.Text, ""), Usage: &r.Usage, Stop: r.Stop}
	if len(r.Reasoning) > 0 {
		c.Content = ""
		c.Blocks = []llm.Block{{Type: llm.BlockReasoning, Reasoning: strings.Join(r.Reasoning, "")}, llm.Text(strings.Join(r.Text, ""))}
	}
	for i, call := range r.Calls {
		c.ToolCalls = append(c.ToolCalls, llm.ToolCallChunk{Index: new(i), ID: call.ID, Name: call.Name, Args: strings.Join(call.Args, "")})
	}
	return c
}

func toyStream(r Reply) (lines [][]byte) {
	line := func(c llm.Chunk) {
		raw, err := json.Marshal(c)
		if err != nil {
			panic(err)
		}
		lines = append(lines, append(raw, '\n'))
	}
	for _, s := range r.Reasoning {
		line(llm.Chunk{Blocks: []llm.Block{{Type: llm.BlockReasoning, Index: new(0), Reasoning: s}}})
	}
	for _, s := range r.Text {
		line(llm.Chunk{Content: s})
	}
	for round, more := 0, true; more; round++ {
		more = false
		for i, call := range r.Calls {
			pieces := call.Args
			if !r.Interleave {
				if round > 0 {
					continue
				}
			} else if round < len(pieces) {
				pieces, more = pieces[round:round+1], true
			} else {
				continue
			}
			for k, args := range pieces {
				c := llm.ToolCallChunk{Index: new(i), Args: args}
				if k == 0 && round == 0 {
					c.ID, c.Name = call.ID, call.Name
				}
				line(llm.Chunk{ToolCalls: []llm.ToolCallChunk{c}})
			}
		}
	}
	line(llm.Chunk{Usage: &r.Usage, Stop: r.Stop})
	return append(lines, []byte("end\n"))
}

func TestSuitePassesForAProviderThatKeepsItsRules(t *testing.T) {
	Run(t, Provider{
		Open: func(t *testing.T, url string) llm.Model {
			client := origin.Only(&http.Client{Transport: &http.Transport{}}, url)
			t.Cleanup(client.CloseIdleConnections)
			return &toy{url, client}
		},
		Request: func(_ *http.Request, body []byte) (Received, error) {
			var in toyRequest
			if err := json.Unmarshal(body, &in); err != nil {
				return Received{}, err
			}
			got := Received{Model: in.Model, Stream: in.Stream, Tools: in.Tools, ToolChoice: in.ToolChoice,
				MaxTokens: in.MaxTokens, Temperature: in.Temperature, StopWords: in.StopWords}
			if in.Output != nil {
				got.Output, _ = json.Marshal(in.Output)
			}
			for _, m := range in.Messages {
				if m.Role == llm.RoleSystem {
					got.System += m.Text()
				} else {
					got.Messages = append(got.Messages, m)
				}
			}
			return got, nil
		},
		Whole:      func(r Reply) []byte { raw, _ := json.Marshal(toyWhole(r)); return raw },
		Stream:     toyStream,
		StreamType: "application/x-ndjson",
		Failure:    func(f Failure) []byte { return fmt.Append(nil, f.Code, ": ", f.Message) },
	})
}
