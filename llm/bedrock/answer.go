package bedrock

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// answer converts the content and the end of a response to chunks.
type answer struct {
	cites bool // texts may have citations; see cites
	// empty is the index of the last block if it is a call without arguments so
	// far.
	empty *int
}

// add returns a chunk with a block. A nil index means that the block is complete.
func (a *answer) add(index *int, b llm.Block) llm.Chunk {
	a.empty, b.Index = nil, index
	return llm.Chunk{Blocks: []llm.Block{b}}
}

// text returns a chunk with a piece of text. A text with citations is a block.
func (a *answer) text(index *int, text string) llm.Chunk {
	if a.cites && text != "" {
		return a.add(index, llm.Text(text))
	}
	a.empty = nil
	return llm.Chunk{Content: text}
}

func (a *answer) call(index int, id, name, args string) llm.Chunk {
	a.empty = nil
	if args == "" {
		a.empty = &index
	}
	return llm.Chunk{ToolCalls: []llm.ToolCallChunk{{Index: &index, ID: id, Name: name, Args: args}}}
}

func (a *answer) arguments(index int, args string) llm.Chunk {
	if args != "" {
		a.empty = nil
	}
	return llm.Chunk{ToolCalls: []llm.ToolCallChunk{{Index: &index, Args: args}}}
}

// other returns a chunk with a block that has no equivalent in package llm.
func (a *answer) other(value object) llm.Chunk {
	return a.add(nil, llm.Block{Type: nonStandard, Extra: map[string]any{"value": value}})
}

// toolUse is a tool call. If Type is set, Bedrock has run the tool.
type toolUse struct {
	ToolUseID string          `json:"toolUseId"`
	Name      string          `json:"name"`
	Type      string          `json:"type,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// part is a content block of a whole response. One field is set.
type part struct {
	Text             *string  `json:"text"`
	ToolUse          *toolUse `json:"toolUse"`
	ReasoningContent *struct {
		ReasoningText struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		} `json:"reasoningText"`
		RedactedContent []byte `json:"redactedContent"`
	} `json:"reasoningContent"`
	CitationsContent *struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Citations []any `json:"citations"`
	} `json:"citationsContent"`
	Image *struct {
		Format string `json:"format"`
		Source struct {
			Bytes []byte `json:"bytes"`
		} `json:"source"`
	} `json:"image"`
}

// part returns a content block of a whole response as a chunk.
func (a *answer) part(i int, raw json.RawMessage) (llm.Chunk, error) {
	var p part
	if err := json.Unmarshal(raw, &p); err != nil {
		return llm.Chunk{}, err
	}
	switch {
	case p.Text != nil:
		return a.text(nil, *p.Text), nil
	case p.ToolUse != nil && p.ToolUse.Type == "":
		return a.call(i, p.ToolUse.ToolUseID, p.ToolUse.Name, string(p.ToolUse.Input)), nil
	case p.ReasoningContent != nil && len(p.ReasoningContent.RedactedContent) > 0:
		return a.add(nil, llm.Block{Type: blockRedacted, Data: p.ReasoningContent.RedactedContent}), nil
	case p.ReasoningContent != nil:
		return a.add(nil, thought(p.ReasoningContent.ReasoningText.Text, p.ReasoningContent.ReasoningText.Signature)), nil
	case p.CitationsContent != nil:
		b := llm.Text("")
		for _, c := range p.CitationsContent.Content {
			b.Text += c.Text
		}
		b.Extra = map[string]any{"citations": p.CitationsContent.Citations}
		return a.add(nil, b), nil
	case p.Image != nil:
		return a.add(nil, llm.Image("image/"+p.Image.Format, p.Image.Source.Bytes)), nil
	}
	var value object
	err := json.Unmarshal(raw, &value)
	return a.other(value), err
}

func thought(text, signature string) llm.Block {
	b := llm.Block{Type: llm.BlockReasoning, Reasoning: text}
	if signature != "" {
		b.Extra = map[string]any{"signature": signature}
	}
	return b
}

// whole is a response that is not streamed.
type whole struct {
	Output struct {
		Message struct {
			Content []json.RawMessage `json:"content"`
		} `json:"message"`
	} `json:"output"`
	ending
}

// ending is the data at the end of a response. A stream has it in two events.
type ending struct {
	StopReason string `json:"stopReason"`
	Usage      *usage `json:"usage"`
	Fields     struct {
		Usage struct {
			Details struct {
				Thinking int `json:"thinking_tokens"`
			} `json:"output_tokens_details"`
		} `json:"usage"`
		StopSequence string `json:"stop_sequence"`
	} `json:"additionalModelResponseFields"`
	Metrics           object `json:"metrics"`
	Trace             object `json:"trace"`
	ServiceTier       object `json:"serviceTier"`
	PerformanceConfig object `json:"performanceConfig"`
}

// usage has token counts. The input excludes tokens read from and written to the
// cache.
type usage struct {
	Input      int `json:"inputTokens"`
	Output     int `json:"outputTokens"`
	CacheRead  int `json:"cacheReadInputTokens"`
	CacheWrite int `json:"cacheWriteInputTokens"`
}

// end returns the last chunk, or an error if the model's output is malformed.
func (a *answer) end(r *request, e *ending, header http.Header) (chunk llm.Chunk, err error) {
	chunk.Metadata = map[string]any{"model_provider": source, "model_name": r.name, "stop_reason": e.StopReason}
	if id := header.Get("X-Amzn-Requestid"); id != "" {
		chunk.Metadata["request_id"] = id
	}
	if e.Fields.StopSequence != "" {
		chunk.Metadata["stop_sequence"] = e.Fields.StopSequence
	}
	for name, value := range map[string]object{"metrics": e.Metrics, "trace": e.Trace, "service_tier": e.ServiceTier, "performance_config": e.PerformanceConfig} {
		if len(value) > 0 {
			chunk.Metadata[name] = value
		}
	}
	if u := e.Usage; u != nil {
		total := llm.Usage{Input: u.Input + u.CacheRead + u.CacheWrite, Output: u.Output}
		total.Total = total.Input + total.Output
		total.InputDetails = details(map[string]int{llm.UsageCacheRead: u.CacheRead, llm.UsageCacheCreation: u.CacheWrite})
		total.OutputDetails = details(map[string]int{llm.UsageReasoning: e.Fields.Usage.Details.Thinking})
		chunk.Usage = &total
	}
	chunk.Stop = llm.StopReason(e.StopReason)
	switch e.StopReason {
	case "end_turn", "stop_sequence":
		chunk.Stop = llm.StopEnd
	case "tool_use":
		chunk.Stop = llm.StopTools
	case "max_tokens", "model_context_window_exceeded":
		chunk.Stop = llm.StopLength
		if a.empty != nil {
			// The limit was reached before the arguments, which would otherwise
			// count as complete.
			chunk.ToolCalls = []llm.ToolCallChunk{{Index: a.empty, Args: "{"}}
		}
	case "guardrail_intervened", "content_filtered":
		chunk.Stop = llm.StopFilter
	case "malformed_model_output", "malformed_tool_use":
		return llm.Chunk{}, &llm.Error{Provider: provider, Status: http.StatusOK, Code: e.StopReason, Cut: true,
			Message: fmt.Sprintf("model %s wrote %s: send the request again", r.name, strings.ReplaceAll(e.StopReason, "_", " "))}
	}
	return chunk, nil
}

// details returns the nonzero counts.
func details(all map[string]int) map[string]int {
	var out map[string]int
	for name, n := range all {
		if n == 0 {
			continue
		}
		if out == nil {
			out = make(map[string]int, len(all))
		}
		out[name] = n
	}
	return out
}
