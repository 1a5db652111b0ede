package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

const searchInstructions = "Say what to look up in long-term memory to answer this conversation, several searches at once if need be."

// foundItem is an item in the result of search_memory.
type foundItem struct {
	Namespace store.Namespace `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Created   time.Time       `json:"created_at"`
	Updated   time.Time       `json:"updated_at"`
	Score     *float64        `json:"score"`
	// From and Until are the memory's validity, so that the model does not treat an
	// outdated memory as true.
	From  string `json:"valid_from,omitempty"`
	Until string `json:"valid_until,omitempty"`
}

func foundItems(items []*store.Item, scored bool) []foundItem {
	out := make([]foundItem, len(items))
	for i, item := range items {
		out[i] = foundItem{Namespace: item.Namespace, Key: item.Key, Value: item.Value, Created: item.Created, Updated: item.Updated}
		v := validityOf(item)
		if !v.From.IsZero() {
			out[i].From = dateText(v.From)
		}
		if !v.Until.IsZero() {
			out[i].Until = dateText(v.Until)
		}
		if scored {
			out[i].Score = &item.Score
		}
	}
	return out
}

// SearchFor requests search queries for a conversation from the model and returns the items
// found, without duplicates, best first. It uses the options Instructions, Kinds,
// Namespace, and Store.
func SearchFor(ctx context.Context, model llm.Model, messages []llm.Message, opts *ToolOptions) ([]*store.Item, error) {
	if model == nil {
		return nil, errors.New("memory: SearchFor: nil model")
	}
	m, err := newManaged(opts, searchName)
	if err != nil {
		return nil, err
	}
	n, err := m.ns.resolve(ctx)
	if err != nil {
		return nil, err
	}
	asked, err := askQueries(ctx, model, cmp.Or(m.o.Instructions, searchInstructions), messages)
	if err != nil {
		return nil, err
	}
	var ops []store.Op
	for _, a := range asked {
		op, err := a.op(n)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		return nil, nil
	}
	s, err := storeFor(ctx, m.o.Store)
	if err != nil {
		return nil, err
	}
	results, err := s.Batch(ctx, ops...)
	if err != nil {
		return nil, err
	}
	items := best(ranked(results), 0)
	return items, migrateItems(m.o.Kinds, "", items...)
}

// ThreadSummary is the title and summary of a conversation, for [ExtractThread].
type ThreadSummary struct {
	Title   string `json:"title" jsonschema:"a few words"`
	Summary string `json:"summary" jsonschema:"what matters later"`
}

// ExtractThread lets the model read a conversation and fill in a T, such as a
// [ThreadSummary]. Empty instructions request a summary. It returns an [*llm.ObjectError]
// if the model's response is not a valid T; see [llm.Object].
func ExtractThread[T any](ctx context.Context, model llm.Model, messages []llm.Message, instructions string) (T, error) {
	if model == nil {
		return *new(T), errors.New("memory: ExtractThread: nil model")
	}
	return llm.Object[T](ctx, model, llm.System(cmp.Or(instructions, "Summarize the conversation: what the user wanted, what was decided, and what is still open.")),
		llm.User(session(messages)))
}
