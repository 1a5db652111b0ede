package mcptool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// Sampling lets a server use a model during its tool calls. The server writes the prompts,
// and no person reviews them. A request with tools is refused. Preferences for other models and
// requests for the context of the conversation are ignored.
type Sampling struct {
	Model llm.Model
	// MaxCalls limits the calls of the model during a tool call; 0 means 10.
	MaxCalls int
	// MaxTokens limits the tokens that these calls use, prompts and responses together; 0 means
	// 50,000. A response whose usage is unknown counts as long as it could have been.
	MaxTokens int
}

// errModel is returned if the model fails during a sampling request.
var errModel = errors.New("model failed")

// allowance is the remaining budget of a tool call.
type allowance struct{ calls, tokens int }

// budget returns the allowance of a new tool call.
func (s *session) budget() *allowance {
	if s.Sampling == nil {
		return &allowance{}
	}
	return &allowance{cmp.Or(s.Sampling.MaxCalls, 10), cmp.Or(s.Sampling.MaxTokens, 50_000)}
}

// sample calls the model for a server. On a thread, the response is recorded.
func (s *session) sample(ctx context.Context, tool string, p *mcp.CreateMessageWithToolsParams, left *allowance) (*mcp.CreateMessageWithToolsResult, error) {
	switch {
	case s.Sampling == nil:
		return nil, s.errorf("%w: tool %s requests sampling: set Sampling to allow it", errRefused, tool)
	case len(p.Tools) > 0:
		return nil, s.errorf("%w: tool %s requests sampling with tools", errRefused, tool)
	}
	history, err := prompt(p)
	if err != nil {
		return nil, s.errorf("%w: sampling request of tool %s: %w", errRefused, tool, err)
	}
	most := left.tokens - llm.CountTokens(history, nil)
	if left.calls == 0 || most <= 0 {
		return nil, s.errorf("%w: tool %s exceeds its sampling budget of %d calls and %d tokens", errRefused, tool, s.budget().calls, s.budget().tokens)
	}
	if p.MaxTokens > 0 && p.MaxTokens < int64(most) {
		most = int(p.MaxTokens)
	}
	opts := []llm.Option{llm.MaxTokens(most), llm.Tags(treadle.TagNoStream), llm.Metadata(map[string]any{"mcp_server": s.Name, "mcp_tool": tool})}
	if p.Temperature != 0 {
		opts = append(opts, llm.Temperature(p.Temperature))
	}
	if len(p.StopSequences) > 0 {
		opts = append(opts, llm.StopWords(p.StopSequences...))
	}
	once := func(ctx context.Context) (llm.Message, error) {
		return llm.Generate(ctx, llm.With(s.Sampling.Model, opts...), history...)
	}
	var m llm.Message
	if treadle.InfoFrom(ctx).Thread == "" {
		m, err = once(ctx)
	} else {
		// A server that asks in another order after a restart gets no response to another prompt.
		var asked []byte
		if asked, err = json.Marshal(p); err != nil {
			return nil, s.errorf("%w: sampling request of tool %s: %w", errRefused, tool, err)
		}
		sum := sha256.Sum256(asked)
		m, err = treadle.Do(ctx, "mcp sampling "+tool+" "+hex.EncodeToString(sum[:8]), once)
	}
	switch {
	case ctx.Err() != nil:
		return nil, s.errorf("%w", s.reason(ctx))
	case treadle.IsPause(err):
		return nil, err
	case err != nil:
		return nil, s.errorf("%w for tool %s: %w", errModel, tool, err)
	}
	left.calls--
	if m.Usage != nil {
		left.tokens -= m.Usage.Total
	} else {
		left.tokens -= llm.CountTokens(history, nil) + most
	}
	out := &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "unknown", StopReason: "endTurn", Content: []mcp.Content{&mcp.TextContent{Text: m.Text()}}}
	if name, ok := m.Metadata["model_name"].(string); ok && name != "" {
		out.Model = name
	}
	if m.Stop == llm.StopLength {
		out.StopReason = "maxTokens"
	}
	return out, nil
}

// prompt converts the messages of a server's request.
func prompt(p *mcp.CreateMessageWithToolsParams) ([]llm.Message, error) {
	var out []llm.Message
	if p.SystemPrompt != "" {
		out = append(out, llm.System(p.SystemPrompt))
	}
	if len(p.Messages) == 0 {
		return nil, errors.New("no messages")
	}
	for i, m := range p.Messages {
		if m == nil {
			return nil, fmt.Errorf("message %d is null", i)
		}
		to := llm.User("")
		if m.Role == "assistant" {
			to = llm.Assistant("")
		}
		for _, c := range m.Content {
			b, err := block(c)
			if err != nil {
				return nil, fmt.Errorf("message %d: unsupported content %T", i, c)
			}
			to.Blocks = append(to.Blocks, b)
		}
		out = append(out, to)
	}
	return out, nil
}
