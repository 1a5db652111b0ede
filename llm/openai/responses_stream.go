package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/internal/sse"
	"github.com/treadle-go/treadle/llm"
)

// responseReader converts a response to chunks. A stream consists of items, each
// with parts:
//
//	response.created (output_item.added (….delta)… output_item.done)… response.completed
//
// The item in output_item.done is complete. Some servers send no pieces, and some
// no IDs or indexes.
type responseReader struct {
	model *Model
	cites bool // texts may have annotations

	items   []*openItem // in order of their first event
	blocks  int         // the number of blocks started
	calls   int
	refused bool
	begun   bool // a chunk with content was returned
	current responseEvent
	end     *response
}

// response is a whole response, or the end of a streamed one.
type response struct {
	ID, Model, Status string
	Object            string
	Tier              string `json:"service_tier"`
	Output            []json.RawMessage
	Error             json.RawMessage
	Incomplete        struct{ Reason string } `json:"incomplete_details"`
	Usage             json.RawMessage
	Removed           []struct{ Action, Reason string } `json:"input_transformations"`
}

// responseEvent contains the fields of all types of events. It is reused for all
// events of a stream.
type responseEvent struct {
	kind, itemID, delta    string
	content, summary       int64
	item, response, annote []byte
}

func (e *responseEvent) scan(s *scanner, kind string) {
	before := *e
	*e = responseEvent{kind: kind}
	if !s.open('{') {
		return
	}
	for s.more('}') {
		switch string(s.key()) {
		case "type":
			e.kind = s.text(kind)
		case "item_id":
			e.itemID = s.text(before.itemID)
		case "delta":
			e.delta = s.str("")
		case "content_index":
			e.content = s.number()
		case "summary_index":
			e.summary = s.number()
		case "item":
			e.item = s.raw()
		case "response":
			e.response = s.raw()
		case "annotation":
			e.annote = s.raw()
		default:
			s.skip()
		}
	}
}

func (r *responseReader) state() (begun, complete, done bool) {
	return r.begun, r.end != nil, r.end != nil
}

func (r *responseReader) event(ev sse.Event) (chunk llm.Chunk, ok bool, err error) {
	if bytes.HasPrefix(ev.Data, []byte("[DONE]")) { // not promised, but sent by some servers
		return chunk, false, nil
	}
	s := scanner{data: ev.Data}
	isObject := s.peek() == '{'
	e := &r.current
	e.scan(&s, ev.Type)
	s.end()
	switch {
	case s.broken:
		return chunk, false, cmp.Or(json.Unmarshal(ev.Data, new(json.RawMessage)), errNoJSON)
	case !isObject:
		return chunk, false, fmt.Errorf("event is not a JSON object: %s", adapter.Excerpt(string(ev.Data)))
	case e.kind == "error" || ev.Type == "error":
		return chunk, false, &toldError{bytes.Clone(ev.Data)}
	}
	chunk, err = r.read(e)
	ok = chunk.Content != "" || len(chunk.Blocks) > 0 || len(chunk.ToolCalls) > 0
	r.begun = r.begun || ok
	return chunk, ok, err
}

// read returns the chunk for an event, or the zero Chunk.
func (r *responseReader) read(e *responseEvent) (llm.Chunk, error) {
	switch e.kind {
	case "response.output_text.delta":
		return r.text(r.find(e.itemID), int(e.content), e.delta, false), nil
	case "response.refusal.delta":
		return r.text(r.find(e.itemID), int(e.content), e.delta, true), nil
	case "response.reasoning_summary_text.delta":
		return r.thought(r.find(e.itemID), int(e.summary), e.delta), nil
	case "response.reasoning_text.delta":
		return r.thought(r.find(e.itemID), int(e.content), e.delta), nil
	case "response.function_call_arguments.delta":
		return r.arguments(r.find(e.itemID), e.delta), nil
	case "response.output_text.annotation.added":
		r.find(e.itemID).annotate(int(e.content), e.annote)
		return llm.Chunk{}, nil
	case "response.output_item.added", "response.output_item.done":
		return r.item(e.item, e.kind == "response.output_item.done")
	case "response.completed", "response.incomplete", "response.failed":
		return r.finish(e.kind, e.response)
	}
	if !isProgress(e.kind) {
		r.model.warn.UnknownEvent(e.kind)
	}
	return llm.Chunk{}, nil
}

// isProgress reports whether events of a type only repeat or announce what other
// events contain.
func isProgress(kind string) bool {
	name, ok := strings.CutPrefix(kind, "response.")
	if !ok {
		return false
	}
	if slices.Contains([]string{"created", "queued", "in_progress", "output_text.done", "refusal.done", "reasoning_text.done", "function_call_arguments.done"}, name) {
		return true
	}
	for _, start := range []string{
		"content_part.", "reasoning_summary_part.", "reasoning_summary_text.", "custom_tool_call_input.", "mcp_call_arguments.", "mcp_call.", "mcp_list_tools.",
		"web_search_call.", "file_search_call.", "code_interpreter_call.", "code_interpreter_call_code.", "image_generation_call.",
		"shell_call", "local_shell_call", "apply_patch_call", "compaction.", "audio.", "tool_search", "steer",
	} {
		if strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// finish reads the event that ends a stream. It returns items that the stream did
// not contain, or not to their end.
func (r *responseReader) finish(kind string, raw []byte) (sum llm.Chunk, err error) {
	var end response
	if err := json.Unmarshal(raw, &end); err != nil {
		return sum, fmt.Errorf("%s: %w", kind, err)
	}
	if err := end.failure(kind == "response.failed"); err != nil {
		return sum, err
	}
	end.Status = strings.TrimPrefix(kind, "response.")
	streamed := len(r.items) > 0
	for _, raw := range end.Output {
		var head struct{ ID string }
		_ = json.Unmarshal(raw, &head) // item reports the error
		if known := r.known(head.ID); streamed && (known == nil || known.done) {
			continue
		}
		next, err := r.item(raw, true)
		if err == nil {
			sum, err = sum.Add(next)
		}
		if err != nil {
			return sum, err
		}
	}
	r.end = &end
	cut, err := sum.Add(r.cutCalls())
	return cut, err
}

// failure returns the failure that the response reports.
func (e *response) failure(failed bool) error {
	if !failed && e.Status != "failed" && (len(e.Error) == 0 || string(e.Error) == "null") {
		return nil
	}
	if len(e.Error) == 0 || string(e.Error) == "null" {
		e.Error = json.RawMessage(`{"message":"the response failed without a reason"}`)
	}
	return &toldError{slices.Concat([]byte(`{"error":`), e.Error, []byte("}"))}
}

// cutCalls makes the calls invalid whose arguments did not arrive: without
// arguments, they would be valid.
func (r *responseReader) cutCalls() (chunk llm.Chunk) {
	for _, it := range r.items {
		if it.call != nil && !it.done && it.args.Len() == 0 {
			chunk.ToolCalls = append(chunk.ToolCalls, llm.ToolCallChunk{Index: it.call, Args: "{"})
		}
	}
	return chunk
}

// last returns the chunk that ends the response.
func (r *responseReader) last() llm.Chunk {
	e := r.end
	head := head{id: e.ID, model: e.Model, tier: e.Tier}
	chunk := llm.Chunk{Metadata: head.metadata(), Stop: llm.StopEnd}
	chunk.Metadata[metaHost] = r.model.client.base.Host
	s := scanner{data: e.Usage}
	if len(e.Usage) > 0 {
		chunk.Usage = scanUsage(&s)
	}
	reason := e.Incomplete.Reason
	switch {
	case e.Status != "completed" && reason == "max_output_tokens":
		chunk.Stop = llm.StopLength
	case e.Status != "completed" && reason == "content_filter":
		chunk.Stop = llm.StopFilter
	case e.Status != "completed":
		chunk.Stop = llm.StopReason(cmp.Or(reason, e.Status))
	case r.calls > 0:
		chunk.Stop = llm.StopTools
	case r.refused:
		chunk.Stop = llm.StopRefusal
	}
	if len(e.Removed) > 0 {
		r.model.warn.Once("removed input", "server removed reasoning from the input", "reason", e.Removed[0].Reason)
	}
	return chunk
}

// whole returns a response that is not streamed.
func (r *responseReader) whole(raw []byte) (llm.Chunk, error) {
	var all response
	if err := json.Unmarshal(raw, &all); err != nil {
		return llm.Chunk{}, notJSON(raw)
	}
	if err := all.failure(false); err != nil {
		return llm.Chunk{}, err
	}
	switch {
	case all.Status == "queued" || all.Status == "in_progress":
		return llm.Chunk{}, fmt.Errorf("response %s is %s: remove the setting background, or stream the response", all.ID, all.Status)
	case all.Output == nil:
		return llm.Chunk{}, errors.New("response without output: " + adapter.Excerpt(string(raw)))
	}
	sum, err := r.finish("response."+cmp.Or(all.Status, "completed"), raw)
	if err == nil {
		sum, err = sum.Add(r.last())
	}
	return sum, err
}
