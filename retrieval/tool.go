package retrieval

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// ToolOptions configures [Tool]. A nil *ToolOptions means the defaults.
type ToolOptions struct {
	// Name and Description describe the tool to the model; empty means
	// "search_documents" and a generic description.
	Name, Description string
	// Search configures the searches; nil means the defaults.
	Search *SearchOptions
}

const defaultDescription = "Search the documents. Returns the passages that match the query best, with the numbers to cite them by."

// Tool returns a tool that searches an index. Its result contains the passages for the model
// (see [Prompt]), numbered throughout the conversation, and as an artifact, which
// [PassagesOf] returns. An agent with it need not cite; see [Middleware].
func Tool(x *Index, opts *ToolOptions) *llm.Tool {
	var o ToolOptions
	if opts != nil {
		o = *opts
	}
	type query struct {
		Query string `json:"query" jsonschema:"what to search for, as a question or keywords"`
	}
	return llm.NewTool(cmp.Or(o.Name, "search_documents"), cmp.Or(o.Description, defaultDescription),
		func(ctx context.Context, in query) (llm.ToolOutput, error) {
			hits, err := x.Search(ctx, in.Query, o.Search)
			if err != nil {
				return llm.ToolOutput{}, err
			}
			limit := defaultHits
			if o.Search != nil {
				limit = cmp.Or(o.Search.Limit, defaultHits)
			}
			passages := Passages(hits, firstNumber(ctx, limit))
			return llm.ToolOutput{Content: Prompt(passages), Artifact: artifact{passages}}, nil
		})
}

// firstNumber returns the number of the first passage of a call. It depends only on the
// conversation, so a call that runs again gets the same number, and concurrent calls get
// different ones.
func firstNumber(ctx context.Context, limit int) int {
	messages := conversation(ctx)
	first := 1
	for _, p := range PassagesOf(messages) {
		first = max(first, p.Citation+1)
	}
	call, ok := llm.CallFrom(ctx)
	if !ok {
		return first
	}
	for _, m := range slices.Backward(messages) {
		if m.Role == llm.RoleAI {
			i := slices.IndexFunc(m.ToolCalls, func(c llm.ToolCall) bool { return c.ID == call.ID })
			return first + max(0, i)*limit
		}
	}
	return first
}

// conversation returns the messages in the state of the agent, whatever its type.
func conversation(ctx context.Context) llm.Messages {
	s, _ := llm.StateFrom[any](ctx)
	if v := reflect.ValueOf(s); v.Kind() == reflect.Struct {
		if f := v.FieldByName("Messages"); f.IsValid() {
			messages, _ := reflect.TypeAssert[llm.Messages](f)
			return messages
		}
	}
	return nil
}
