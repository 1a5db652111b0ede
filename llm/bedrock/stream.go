package bedrock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// event is an event of a stream, with the fields of all types of events:
//
//	messageStart (contentBlockStart? contentBlockDelta… contentBlockStop)… messageStop metadata
type event struct {
	Index int `json:"contentBlockIndex"`
	Start struct {
		ToolUse    *toolUse `json:"toolUse"`
		ToolResult object   `json:"toolResult"`
		Image      *struct {
			Format string `json:"format"`
		} `json:"image"`
	} `json:"start"`
	Delta struct {
		Text    string `json:"text"`
		ToolUse *struct {
			Input string `json:"input"`
		} `json:"toolUse"`
		ReasoningContent *struct {
			Text            string `json:"text"`
			Signature       string `json:"signature"`
			RedactedContent []byte `json:"redactedContent"`
		} `json:"reasoningContent"`
		Citation   object   `json:"citation"`
		ToolResult []object `json:"toolResult"`
		Image      *struct {
			Source struct {
				Bytes []byte `json:"bytes"`
			} `json:"source"`
		} `json:"image"`
	} `json:"delta"`
	ending
}

// reader reads the events of a stream. Unknown types of events, blocks, and deltas
// are skipped.
type reader struct {
	src     io.Reader
	decoder *eventstream.Decoder
	buf     []byte
	warn    *adapter.Warner

	answer answer
	server map[int]*serverBlock
	ending ending
	begun  bool // part of the response has been read
	// stopped and counted report whether the two last events have been read. The
	// stream is incomplete without them.
	stopped, counted bool
}

// serverBlock is the call or the result of a tool that Bedrock runs. Its pieces are
// meaningless, so it becomes one block.
type serverBlock struct {
	use    *toolUse
	input  strings.Builder
	result object
	parts  []any
}

// errNoEnd reports a stream without its last events.
var errNoEnd = errors.New("stream ended before the response was complete")

// next returns the next event with its type.
func (r *reader) next() (typ string, e *event, err error) {
	msg, err := r.decoder.Decode(r.src, r.buf[:0])
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errNoEnd
		}
		return "", nil, err
	}
	r.buf = msg.Payload
	header := func(name string) string {
		if v := msg.Headers.Get(name); v != nil {
			return v.String()
		}
		return ""
	}
	switch header(":message-type") {
	case "exception":
		return "", nil, exception(header(":exception-type"), msg.Payload)
	case "error":
		return "", nil, &reportedError{code: header(":error-code"), message: header(":error-message")}
	}
	typ, e = header(":event-type"), &event{}
	if err := json.Unmarshal(msg.Payload, e); err != nil {
		return "", nil, fmt.Errorf("invalid %s event: %w", typ, err)
	}
	return typ, e, nil
}

// read returns the chunk for an event, if any.
func (r *reader) read(typ string, e *event) (chunk llm.Chunk, ok bool) {
	switch typ {
	case "contentBlockStart":
		chunk, ok = r.start(e)
	case "contentBlockDelta":
		chunk, ok = r.delta(e)
	case "contentBlockStop":
		chunk, ok = r.stop(e.Index)
	case "messageStop":
		r.ending.StopReason, r.ending.Fields = e.StopReason, e.Fields
		r.stopped = true
	case "metadata":
		stop, fields := r.ending.StopReason, r.ending.Fields
		r.ending = e.ending
		r.ending.StopReason, r.ending.Fields = stop, fields
		r.counted = true
	case "messageStart":
	default:
		r.warn.UnknownEvent(typ)
	}
	r.begun = r.begun || ok
	return chunk, ok
}

func (r *reader) start(e *event) (chunk llm.Chunk, ok bool) {
	switch use := e.Start.ToolUse; {
	case use != nil && use.Type == "":
		return r.answer.call(e.Index, use.ToolUseID, use.Name, ""), true
	case use != nil || e.Start.ToolResult != nil:
		if r.server == nil {
			r.server = map[int]*serverBlock{}
		}
		r.server[e.Index] = &serverBlock{use: use, result: e.Start.ToolResult}
	case e.Start.Image != nil:
		return r.answer.add(&e.Index, llm.Block{Type: llm.BlockImage, MIMEType: "image/" + e.Start.Image.Format}), true
	}
	return chunk, false
}

func (r *reader) delta(e *event) (chunk llm.Chunk, ok bool) {
	d, open := &e.Delta, r.server[e.Index]
	switch {
	case d.Text != "":
		return r.answer.text(&e.Index, d.Text), true
	case d.ToolUse != nil && open != nil:
		open.input.WriteString(d.ToolUse.Input)
	case d.ToolUse != nil:
		return r.answer.arguments(e.Index, d.ToolUse.Input), d.ToolUse.Input != ""
	case d.ReasoningContent != nil && len(d.ReasoningContent.RedactedContent) > 0:
		return r.answer.add(&e.Index, llm.Block{Type: blockRedacted, Data: d.ReasoningContent.RedactedContent}), true
	case d.ReasoningContent != nil:
		b := thought(d.ReasoningContent.Text, d.ReasoningContent.Signature)
		return r.answer.add(&e.Index, b), b.Reasoning != "" || b.Extra != nil
	case d.Citation != nil:
		// Without a block, the text has already been sent, and the citation follows
		// it.
		return r.answer.add(&e.Index, llm.Block{Type: llm.BlockText, Extra: map[string]any{"citations": []any{d.Citation}}}), true
	case d.ToolResult != nil && open != nil:
		for _, part := range d.ToolResult {
			open.parts = append(open.parts, part)
		}
	case d.Image != nil:
		return r.answer.add(&e.Index, llm.Block{Type: llm.BlockImage, Data: d.Image.Source.Bytes}), true
	}
	return chunk, false
}

// stop ends a block of a tool that Bedrock runs.
func (r *reader) stop(index int) (chunk llm.Chunk, ok bool) {
	open := r.server[index]
	if open == nil {
		return chunk, false
	}
	delete(r.server, index)
	if open.use != nil {
		use := object{"toolUseId": open.use.ToolUseID, "name": open.use.Name, "type": open.use.Type}
		var input any
		if json.Unmarshal([]byte(open.input.String()), &input) != nil {
			input = object{}
		}
		use["input"] = input
		return r.answer.other(object{"toolUse": use}), true
	}
	open.result["content"] = open.parts
	return r.answer.other(object{"toolResult": open.result}), true
}
