package ollama

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// piece is a line of a response.
type piece struct {
	Model     string `json:"model"`
	CreatedAt string `json:"created_at"`
	Message   *said  `json:"message"`
	Logprobs  []any  `json:"logprobs"`

	Done               bool   `json:"done"`
	DoneReason         string `json:"done_reason"`
	TotalDuration      int64  `json:"total_duration"`
	LoadDuration       int64  `json:"load_duration"`
	PromptEvalCount    int    `json:"prompt_eval_count"`
	PromptEvalDuration int64  `json:"prompt_eval_duration"`
	EvalCount          int    `json:"eval_count"`
	EvalDuration       int64  `json:"eval_duration"`
}

// said is the part of a message in a line.
type said struct {
	Content   string `json:"content"`
	Thinking  string `json:"thinking"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// unknown returns the names of the fields of a line that is not part of a response, or "".
func (p *piece) unknown(line []byte) string {
	if p.Message != nil || p.Done {
		return ""
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(line, &fields) // it has been decoded before
	return strings.Join(slices.Sorted(maps.Keys(fields)), ",")
}

// answer converts the lines of a response to chunks.
type answer struct {
	calls    int
	thoughts int  // the number of reasoning blocks
	thinking bool // the last block is reasoning
	empty    bool // only the last line has arrived, and it has no content
}

// add returns the chunk for a line, and whether the chunk has any content.
func (a *answer) add(p *piece) (chunk llm.Chunk, ok bool) {
	msg := cmp.Or(p.Message, &said{})
	if msg.Thinking != "" {
		if !a.thinking {
			a.thoughts++
		}
		chunk.Blocks = []llm.Block{{Type: llm.BlockReasoning, Index: new(a.thoughts - 1), Reasoning: msg.Thinking}}
	}
	switch {
	case msg.Content == "":
	case len(chunk.Blocks) > 0: // Content would come before the blocks
		chunk.Blocks = append(chunk.Blocks, llm.Text(msg.Content))
	default:
		chunk.Content = msg.Content
	}
	a.thinking = msg.Content == "" && (a.thinking || msg.Thinking != "")
	for _, call := range msg.ToolCalls {
		chunk.ToolCalls = append(chunk.ToolCalls, llm.ToolCallChunk{Index: new(a.calls), ID: cmp.Or(call.ID, "call_"+rand.Text()),
			Name: call.Function.Name, Args: string(call.Function.Arguments)})
		a.calls++
	}
	if len(p.Logprobs) > 0 {
		chunk.Metadata = map[string]any{"logprobs": p.Logprobs}
	}
	ok = chunk.Content != "" || len(chunk.Blocks) > 0 || len(chunk.ToolCalls) > 0 || chunk.Metadata != nil
	if p.Done {
		a.end(p, &chunk)
		a.empty = !ok && p.DoneReason == "load"
	}
	return chunk, ok
}

// end adds the data of the last line.
func (a *answer) end(p *piece, chunk *llm.Chunk) {
	chunk.Usage = &llm.Usage{Input: p.PromptEvalCount, Output: p.EvalCount, Total: p.PromptEvalCount + p.EvalCount}
	switch p.DoneReason {
	case "", "stop":
		chunk.Stop = llm.StopEnd
		if a.calls > 0 {
			chunk.Stop = llm.StopTools
		}
	default:
		chunk.Stop = llm.StopReason(p.DoneReason) // length has the same name in package llm
	}
	if chunk.Metadata == nil {
		chunk.Metadata = map[string]any{}
	}
	chunk.Metadata["model_provider"] = provider
	chunk.Metadata["model_name"] = p.Model
	for name, text := range map[string]string{"created_at": p.CreatedAt, "done_reason": p.DoneReason} {
		if text != "" {
			chunk.Metadata[name] = text
		}
	}
	for name, n := range map[string]int64{"total_duration": p.TotalDuration, "load_duration": p.LoadDuration,
		"prompt_eval_duration": p.PromptEvalDuration, "eval_duration": p.EvalDuration} {
		if n != 0 {
			chunk.Metadata[name] = n
		}
	}
}

// unusable returns an error if the server has only loaded the model.
func (a *answer) unusable() error {
	if !a.empty {
		return nil
	}
	return &llm.Error{Provider: provider, Message: "model loaded, but no response generated: send the request again"}
}
