package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// FallbackRefused calls the next of the models when the agent's model, or the
// previous model, refuses to answer, when its provider withholds the response, or
// when the response is empty. If all models refuse, the last response is used. A
// stream already contains the tokens of the discarded responses; each response has
// its own message ID. For calls that fail, see [Fallback].
func FallbackRefused(models ...llm.Model) *Middleware {
	err := noModel(models...)
	if len(models) == 0 {
		err = errors.New("no fallback models")
	}
	return &Middleware{Name: "fallback_refused", Check: invalid(err), WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		answer, err := next(ctx, call)
		var lost llm.Messages
		for _, model := range models {
			if !refused(answer, err) || treadle.Propagate(ctx, err) != nil {
				break
			}
			lost = append(lost, usageOf(answer)...)
			call.Model = model
			answer, err = next(ctx, call)
		}
		if err == nil && len(lost) > 0 {
			answer = noted(answer, discardedKey, append(lost, discarded(answer)...))
		}
		return answer, err
	}}
}

// refused reports whether a response contains nothing of use.
func refused(m llm.Message, err error) bool {
	if err != nil {
		return errors.Is(err, llm.ErrEmpty)
	}
	empty := m.Content == "" && len(m.Blocks)+len(m.ToolCalls)+len(m.InvalidToolCalls) == 0
	return empty || m.Stop == llm.StopRefusal || m.Stop == llm.StopFilter
}

// discardedKey is the metadata of a response that lists the usage of the responses
// discarded for it.
const discardedKey = "discarded"

// usageOf returns the usage of a response and of the responses discarded for it.
func usageOf(m llm.Message) llm.Messages {
	if m.Usage == nil {
		return discarded(m)
	}
	return append(slices.Clone(discarded(m)), llm.Message{Role: llm.RoleAI, Usage: m.Usage, Metadata: map[string]any{
		"model_provider": m.Metadata["model_provider"], "model_name": m.Metadata["model_name"]}})
}

// discarded returns the responses that were discarded for m.
func discarded(m llm.Message) llm.Messages { return listed(m.Metadata[discardedKey]) }

// listed returns the messages in metadata. After a restart, they are decoded JSON.
func listed(v any) llm.Messages {
	switch v := v.(type) {
	case nil:
		return nil
	case llm.Messages:
		return v
	default:
		var out llm.Messages
		if raw, err := json.Marshal(v); err == nil {
			_ = json.Unmarshal(raw, &out) // written by another program: nothing to count
		}
		return out
	}
}

// delegatedKey is the metadata of a tool result that lists the usage of the model calls
// that were made for it.
const delegatedKey = "delegated"

// Delegated returns the metadata of a tool result for which another agent worked. It lists
// the usage in that agent's messages, so that a [Budget] counts it.
func Delegated(ms llm.Messages) map[string]any {
	var used llm.Messages
	for _, m := range ms {
		if m.Role == llm.RoleAI {
			used = append(used, usageOf(m)...)
		}
		used = append(used, listed(m.Metadata[delegatedKey])...)
	}
	if used == nil {
		return nil
	}
	return map[string]any{delegatedKey: used}
}
