package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// State is the state of an agent created by [New]: a conversation.
type State struct {
	llm.Chat
	// Response is the structured response if [Options].Response is set; see
	// [ResponseAs].
	Response json.RawMessage `json:"structured_response,omitempty"`
}

// Ask returns an input with one message from the user.
func Ask(text string) State {
	return State{Chat: llm.Chat{Messages: llm.Messages{llm.User(text)}}}
}

// Answer returns the text of the last message.
func Answer(s State) string {
	if len(s.Messages) == 0 {
		return ""
	}
	return s.Messages[len(s.Messages)-1].Text()
}

// ResponseAs decodes the structured response.
func ResponseAs[T any](s State) (T, error) {
	var out T
	if s.Response == nil {
		return out, errors.New("agent: no structured response: request one with Options.Response")
	}
	return out, json.Unmarshal(s.Response, &out)
}

// conversation contains the field that every agent reads.
type conversation struct{ Messages llm.Messages }

// said contains the field that the model and the tools write.
type said struct{ Messages llm.Messages }

// history finds the conversation in a state of type S.
type history[S any] struct{ index []int }

// historyOf finds the field Messages in S.
func historyOf[S any]() (history[S], error) {
	t := reflect.TypeFor[S]()
	if t.Kind() == reflect.Struct {
		if f, ok := t.FieldByName("Messages"); ok && f.Type == reflect.TypeFor[llm.Messages]() {
			return history[S]{f.Index}, nil
		}
	}
	return history[S]{}, fmt.Errorf("agent: state %s has no field Messages of type llm.Messages: embed llm.Chat", t)
}

func (h history[S]) of(s S) llm.Messages {
	return reflect.ValueOf(s).FieldByIndex(h.index).Interface().(llm.Messages)
}

// historyFrom returns the conversation in the state that tools can read, whatever
// its type.
func historyFrom(ctx context.Context) llm.Messages {
	s, _ := llm.StateFrom[any](ctx)
	if v := reflect.ValueOf(s); v.Kind() == reflect.Struct {
		if f := v.FieldByName("Messages"); f.IsValid() {
			ms, _ := reflect.TypeAssert[llm.Messages](f)
			return ms
		}
	}
	return nil
}

// lastAI returns the index of the last AI message, or -1.
func lastAI(ms llm.Messages) int {
	for i := range slices.Backward(ms) {
		if ms[i].Role == llm.RoleAI {
			return i
		}
	}
	return -1
}

// pending returns the calls of the last AI message that have no result yet.
func pending(ms llm.Messages) []llm.ToolCall {
	i := lastAI(ms)
	if i < 0 {
		return nil
	}
	var open []llm.ToolCall
	for k, call := range ms[i].ToolCalls {
		if answered(ms[i+1:], call.ID) {
			continue
		}
		if open == nil {
			open = make([]llm.ToolCall, 0, len(ms[i].ToolCalls)-k)
		}
		open = append(open, call)
	}
	return open
}

func answered(ms llm.Messages, id string) bool {
	for i := range ms {
		if ms[i].Role == llm.RoleTool && ms[i].ToolCallID == id {
			return true
		}
	}
	return false
}

// distinct assigns a unique ID to each call whose ID is missing or repeats an
// earlier one, because IDs identify results, decisions, and counted calls.
func distinct(answer string, calls []llm.ToolCall) []llm.ToolCall {
	seen := make(map[string]bool, len(calls))
	copied := false
	for i, call := range calls {
		if call.ID == "" || seen[call.ID] {
			if !copied {
				calls, copied = slices.Clone(calls), true
			}
			for n := i; call.ID == "" || seen[call.ID]; n++ {
				call.ID = fmt.Sprintf("%s_%d", cmp.Or(answer, "call"), n)
			}
			calls[i] = call
		}
		seen[call.ID] = true
	}
	return calls
}
