package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

const (
	searchName        = "search_memory"
	searchDescription = "Search your long-term memories for information relevant to your current context."
	queryInstructions = "Say what to look up in long-term memory so that it can be brought up to date with this conversation. " +
		"Search for every person, thing and topic in it, several searches at once."
)

// searchArgs are the arguments of the search_memory tool.
type searchArgs struct {
	Query  string         `json:"query" jsonschema:"what to look for"`
	Limit  int            `json:"limit" default:"10"`
	Offset int            `json:"offset" default:"0"`
	Filter map[string]any `json:"filter,omitempty" jsonschema:"what the memories' values must be like"`
}

// op returns the search that the arguments describe.
func (a searchArgs) op(n store.Namespace) (store.SearchOp, error) {
	op := store.SearchOp{Prefix: n, SearchOptions: store.SearchOptions{Query: a.Query, Limit: a.Limit, Offset: a.Offset}}
	if len(a.Filter) > 0 {
		raw, err := json.Marshal(a.Filter)
		if err != nil {
			return op, err
		}
		if op.Filter, err = store.ParseFilter(raw); err != nil {
			return op, fmt.Errorf("filter of search %q: %w", a.Query, err)
		}
	}
	return op, nil
}

// askQueries requests search queries from a model. The result may be empty.
func askQueries(ctx context.Context, model llm.Model, instructions string, messages []llm.Message) ([]searchArgs, error) {
	var out []searchArgs
	tool := llm.NewTool(searchName, searchDescription, func(_ context.Context, a searchArgs) (string, error) {
		out = append(out, a)
		return "", nil
	})
	// Some servers reject a tool choice by name, so require any tool and offer only this
	// one.
	answer, err := llm.Generate(ctx, llm.With(model, llm.OnlyTools(tool), llm.ToolChoice(llm.ToolChoiceAny)), llm.System(instructions), llm.User(session(messages)))
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, call := range answer.ToolCalls {
		if call.Name != searchName {
			problems = append(problems, fmt.Errorf("memory: unknown search tool %q", call.Name))
		} else if _, err := tool.Call(context.Background(), call); err != nil { // only validates the arguments and emits no events
			problems = append(problems, err)
		}
	}
	if len(out) == 0 {
		return nil, errors.Join(problems...)
	}
	return out, nil // use the valid queries
}
