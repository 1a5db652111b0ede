package llm

import (
	"context"
	"errors"

	"github.com/treadle-go/treadle/internal/observe"
)

// Retrieve runs a search and reports it to the run that ctx belongs to. The run's
// lifecycle events (treadle.ModeEvents) then show a retriever with this name:
// on_retriever_start with the query, and on_retriever_end with the result or
// on_retriever_error. Outside a run, Retrieve only runs the search.
func Retrieve[T any](ctx context.Context, name, query string, search func(ctx context.Context, query string) (T, error)) (found T, err error) {
	switch {
	case ctx == nil:
		return found, errors.New("llm: retrieve " + name + ": nil context")
	case search == nil:
		return found, errors.New("llm: retrieve " + name + ": the search is nil")
	}
	ctx, span := observe.Begin(ctx, observe.Call{Kind: observe.Retriever, Name: name, Input: map[string]any{"query": query}})
	err = errRetrieverLeft
	defer func() {
		if err != nil {
			span.End(nil, err)
		} else {
			span.End(found, nil)
		}
	}()
	found, err = search(ctx, query)
	return found, err
}

// errRetrieverLeft reports a search that did not return.
var errRetrieverLeft = errors.New("llm: search did not return")
