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
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// toy is a provider whose protocol is this package's own JSON: a request is a
// toyRequest, a response is a chunk, and a stream is a chunk on each line, the last
// with a stop reason. The suite must pass for it, or the suite is wrong.
type toy struct {
	url    string
	client *http.Client
	plain  bool // neither streams nor accepts images
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
	whole := req.NoStream || m.plain
	body := toyRequest{Model: "toy-1", Stream: !whole, ToolChoice: req.ToolChoice,
		MaxTokens: req.MaxTokens, Temperature: req.Temperature, StopWords: req.StopWords}
	for _, msg := range req.Messages {
		if m.plain && slices.ContainsFunc(msg.Blocks, isImage) && msg.Role != llm.RoleAI {
			return errors.New("toy: images are not supported")
		}
		body.Messages = append(body.Messages, toyMessage(msg))
	}
	if req.Model != "" {
		body.Model = req.Model
	}
	if req.Output != nil {
		body.Output = req.Output.Schema
	}
	for _, t := range req.Tools {
		if t.Run == nil {
			body.Tools = append(body.Tools, ReceivedTool{Fields: t.Extra})
			continue
		}
		params, err := json.Marshal(t.Parameters)
		if err != nil {
			return err
		}
		body.Tools = append(body.Tools, ReceivedTool{Name: t.Name, Description: t.Description, Parameters: params})
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
		return toyError(said, resp.StatusCode, time.Duration(after)*time.Second)
	}
	if whole {
		var c llm.Chunk
		said, err := io.ReadAll(resp.Body)
		if err == nil {
			err = json.Unmarshal(said, &c)
		}
		if err != nil {
			return &llm.Error{Provider: "toy", Cut: true, Err: err}
		}
		yield(c, nil)
		return nil
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if said, failed := bytes.CutPrefix(lines.Bytes(), []byte("error ")); failed {
			return toyError(said, 0, 0)
		}
		var c llm.Chunk
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return &llm.Error{Provider: "toy", Cut: true, Err: err}
		}
		if !yield(c, nil) || c.Stop != "" {
			return nil
		}
	}
	return &llm.Error{Provider: "toy", Cut: true, Err: errors.New("the stream has no end")}
}

func toyError(said []byte, status int, after time.Duration) error {
	return &llm.Error{Provider: "toy", Status: status, Message: string(said), RetryAfter: after}
}

// toyMessage returns a message whose blocks contain its content and the places of
// its calls, in order, without the reasoning of other providers.
func toyMessage(m llm.Message) llm.Message {
	var blocks []llm.Block
	for b, call := range m.Sequence() {
		if b.Type == llm.BlockReasoning && m.Metadata["model_provider"] != nil {
			continue
		}
		if call != nil {
			b = llm.Block{Type: llm.BlockToolCall, ID: call.ID}
		}
		blocks = append(blocks, b)
	}
	m.Content, m.Blocks = "", blocks
	return m
}

func toyWhole(r Reply) llm.Chunk {
	sum := llm.Chunk{ID: "toy", Usage: &r.Usage, Stop: r.Stop}
	for _, next := range toyChunks(r) {
		sum, _ = sum.Add(next)
	}
	return sum
}

func toyStream(r Reply) (lines [][]byte) {
	for _, c := range append(toyChunks(r), llm.Chunk{Usage: &r.Usage, Stop: r.Stop}) {
		raw, err := json.Marshal(c)
		if err != nil {
			panic(err)
		}
		lines = append(lines, append(raw, '\n'))
	}
	return lines
}

func toyChunks(r Reply) (chunks []llm.Chunk) {
	for i, p := range r.Parts() {
		p.Interleave = r.Interleave
		chunks = append(chunks, toyPart(p, 10*i)...)
	}
	return chunks
}

// toyPart returns a part of a reply. Its indexes start at first.
func toyPart(r Reply, first int) (chunks []llm.Chunk) {
	line := func(c llm.Chunk) { chunks = append(chunks, c) }
	for _, s := range r.Reasoning {
		line(llm.Chunk{Blocks: []llm.Block{{Type: llm.BlockReasoning, Index: new(first), Reasoning: s}}})
	}
	if r.Signature != "" {
		line(llm.Chunk{Blocks: []llm.Block{{Type: llm.BlockReasoning, Index: new(first), Extra: map[string]any{"signature": r.Signature}}}})
	}
	for _, item := range r.Items {
		line(llm.Chunk{Blocks: []llm.Block{{Type: "toy_item", Extra: item}}})
	}
	for _, s := range r.Text {
		line(llm.Chunk{Content: s})
	}
	if r.Citation != nil {
		line(llm.Chunk{Metadata: map[string]any{"citation": r.Citation}})
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
				c := llm.ToolCallChunk{Index: new(first + i), Args: args}
				if k == 0 && round == 0 {
					c.ID, c.Name = call.ID, call.Name
				}
				line(llm.Chunk{ToolCalls: []llm.ToolCallChunk{c}})
			}
		}
	}
	return chunks
}

func TestSuitePassesForToyProvider(t *testing.T) { Run(t, toyProvider()) }

// An API without streams, images, and cached tokens passes the rest of the suite.
func TestSuitePassesForPlainProvider(t *testing.T) { Run(t, plainProvider()) }

// A model that waits for the whole response fails the suite; it does not stop it.
func TestMissingStreamIsReported(t *testing.T) {
	r := newRig(t, plainProvider())
	gone := make(chan time.Time, 1)
	r.will(r.hang(gone))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := r.untilText(ctx, cancel, time.Millisecond, streamCancellation, func(time.Time) bool {
		t.Error("a text arrived")
		return true
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "list StreamCancellation in Lacks") {
		t.Errorf("the error is %v", err)
	}
}

func plainProvider() Provider {
	p := toyProvider()
	open := p.Open
	p.Open = func(t *testing.T, url string) llm.Model {
		m := open(t, url).(*toy)
		m.plain = true
		return m
	}
	p.Stream = func(r Reply) [][]byte { return [][]byte{p.Whole(r)} }
	fail := p.Failure
	p.Failure = func(f Failure) []byte {
		if f.Stream {
			return nil
		}
		return fail(f)
	}
	p.Lacks = map[string]string{
		"Images":         "the API accepts no images",
		historyImages:    "the API accepts no images",
		cacheReadUsage:   "the API does not count them",
		"StreamedText":   "the API does not stream",
		"CutConnection":  "the API does not stream",
		"UnknownEvents":  "the API does not stream",
		"LeavingTheLoop": "the API does not stream",

		streamCancellation: "the API does not stream",
	}
	return p
}

func toyProvider() Provider {
	return Provider{
		Open: func(t *testing.T, url string) llm.Model {
			client := adapter.HTTPClient(&http.Client{Transport: &http.Transport{}}, url)
			t.Cleanup(client.CloseIdleConnections)
			return &toy{url: url, client: client}
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
		Unknown:    []byte("{\"content\":\"\"}\n"),
		Failure: func(f Failure) []byte {
			if f.Stream {
				return fmt.Appendf(nil, "error %s: %s\n", f.Code, f.Message)
			}
			return fmt.Append(nil, f.Code, ": ", f.Message)
		},
		Overflow: Failure{Status: http.StatusBadRequest, Code: "too_long", Message: "the input exceeds the context window"},
		Tool: Tool{
			Fields:   map[string]any{"type": "search"},
			Items:    []map[string]any{{"query": "weather"}, {"found": []any{"rain"}}},
			Citation: map[string]any{"url": "https://example.com/weather"},
		},
		Lacks: map[string]string{unknownEventLog: "the toy logs nothing"},
	}
}

func TestLacksCommentListsAllCases(t *testing.T) {
	source, err := os.ReadFile("provider.go")
	if err != nil {
		t.Fatal(err)
	}
	_, comment, _ := strings.Cut(string(source), "// Lacks maps")
	comment, _, _ = strings.Cut(comment, "Lacks map[string]string")
	words := strings.FieldsFunc(comment, func(r rune) bool { return !unicode.IsLetter(r) })
	names := slices.Clone(caseParts)
	for _, c := range cases {
		names = append(names, c.name)
	}
	for _, name := range names {
		if !slices.Contains(words, name) {
			t.Errorf("the comment of Provider.Lacks does not list %s", name)
		}
	}
}
