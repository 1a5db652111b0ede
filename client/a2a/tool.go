package a2a

import (
	"context"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

type question struct {
	Message string `json:"message" jsonschema:"the whole request; the agent does not see this conversation"`
}

// Tool returns the agent as a tool. Its name and description are those of the card, with _ for
// characters that are invalid in a tool name. Each call begins a new conversation.
func (a *Agent) Tool() *llm.Tool {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, a.name)
	return llm.NewTool(name[:min(len(name), 64)], a.description, func(ctx context.Context, q question) (llm.Message, error) {
		reply, err := a.Send(ctx, "", llm.User(q.Message))
		if err != nil {
			return llm.Message{}, err
		}
		return llm.Message{Content: reply.Message.Content, Blocks: reply.Message.Blocks}, nil
	})
}
