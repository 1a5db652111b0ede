package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/llm"
)

// read converts the value returned by a tool to a result.
func read(ctx context.Context, call llm.ToolCall, v any) (result, error) {
	c, ok := treadle.CommandOf(v)
	if !ok {
		if isCommands(v) {
			return result{}, fmt.Errorf("tool %s: returned a list of commands: return one command with all updates", call.Name)
		}
		m := llm.ToolResult(call, v)
		return result{Message: &m}, nil
	}
	out := &command{Goto: c.Goto, Parent: c.Parent}
	if c.Update != nil {
		update, err := treadle.UpdateOf(*c.Update)
		if err != nil {
			return result{}, fmt.Errorf("tool %s: %w", call.Name, err)
		}
		out.Update = make(written, len(update))
		for name, v := range update {
			if c.Parent || !ofField(ctx, name, v) {
				raw, err := json.Marshal(v)
				if err != nil {
					return result{}, fmt.Errorf("tool %s: encode update of %s as JSON: %w", call.Name, name, err)
				}
				v = json.RawMessage(raw)
			}
			out.Update[name] = v
		}
	}
	messages, err := out.messages()
	if err != nil {
		return result{}, fmt.Errorf("tool %s: update of the messages: %w", call.Name, err)
	}
	if !answers(messages, call.ID) {
		return result{}, fmt.Errorf("tool %s: command contains no result for call %s: add llm.ToolResult(call, …) to its messages (see llm.CallFrom)", call.Name, call.ID)
	}
	return result{Command: out}, nil
}

// written is an update by a tool. Like those of a [treadle.Update], its values are Go values
// of the type that the field takes, or JSON.
type written map[string]any

// UnmarshalJSON implements [json.Unmarshaler].
func (w *written) UnmarshalJSON(raw []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	*w = make(written, len(m))
	for name, v := range m {
		(*w)[name] = v
	}
	return nil
}

// encoded returns the update as JSON.
func (w written) encoded() (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(w))
	for name, v := range w {
		raw, ok := v.(json.RawMessage)
		if !ok {
			var err error
			if raw, err = json.Marshal(v); err != nil {
				return nil, fmt.Errorf("encode update of %s as JSON: %w", name, err)
			}
		}
		out[name] = raw
	}
	return out, nil
}

// ofField reports whether v has the type that a field of the agent's state takes, so that it
// does not have to be converted by way of JSON.
func ofField(ctx context.Context, name string, v any) bool {
	t := reflect.TypeOf(v)
	return t == pregel.FieldOf(ctx, name).Updates && t != nil && t != reflect.TypeFor[json.RawMessage]()
}

// isCommands reports whether v is a slice that contains a command. Such a value
// must not reach the model as JSON.
func isCommands(v any) bool {
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return false
	}
	for i := range list.Len() {
		if _, ok := treadle.CommandOf(list.Index(i).Interface()); ok {
			return true
		}
	}
	return false
}

// answers reports whether messages contain the result of a call, or clear the
// conversation and the call with it.
func answers(messages llm.Messages, id string) bool {
	return answered(messages, id) || slices.ContainsFunc(messages, clearsAll)
}

// messageKeys lists the names under which an update may contain messages.
var messageKeys = []string{"messages", "Messages"}

// messages returns the messages in the command's update.
func (c *command) messages() (llm.Messages, error) {
	for _, key := range messageKeys {
		v, ok := c.Update[key]
		if !ok {
			continue
		}
		if ms, ok := v.(llm.Messages); ok {
			return ms, nil
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		var ms llm.Messages
		if err := json.Unmarshal(raw, &ms); err != nil {
			var one llm.Message
			if json.Unmarshal(raw, &one) != nil {
				return nil, err
			}
			ms = llm.Messages{one}
		}
		return ms, nil
	}
	return nil, nil
}

// update returns the command's update for the graph.
func (c *command) update() *any {
	if len(c.Update) == 0 {
		return nil
	}
	var v any = treadle.Update(c.Update)
	return &v
}

// combine merges the results of several calls into commands. If a call hands off to
// another agent, the results of the other calls go with the handoff.
func combine(history llm.Messages, calls []llm.ToolCall, results []result) ([]treadle.Command[any], error) {
	calls, results = clearingLast(calls, results)
	if slices.ContainsFunc(results, func(r result) bool { return r.Command != nil && r.Command.Parent }) {
		return handOff(history, calls, results)
	}
	var out []treadle.Command[any]
	var plain llm.Messages
	flush := func() {
		if len(plain) > 0 {
			var v any = said{plain}
			out, plain = append(out, treadle.Command[any]{Update: &v}), nil
		}
	}
	for i, r := range results {
		if r.Message != nil {
			if plain == nil {
				plain = make(llm.Messages, 0, len(results)-i)
			}
			plain = append(plain, *r.Message)
		} else {
			flush()
			out = append(out, treadle.Command[any]{Update: r.Command.update(), Goto: r.Command.Goto})
		}
		if len(r.Nested) > 0 {
			flush()
			out = append(out, r.nested()...)
		}
	}
	flush()
	return out, nil
}

// nested returns the updates of nested calls as commands.
func (r result) nested() []treadle.Command[any] {
	out := make([]treadle.Command[any], len(r.Nested))
	for i, u := range r.Nested {
		update := make(treadle.Update, len(u))
		for name, raw := range u {
			update[name] = raw
		}
		var v any = update
		out[i].Update = &v
	}
	return out
}

// clearingLast moves calls that clear the conversation after the others. The calls
// of a message run concurrently, so their order must not determine whether a result
// is left whose call was cleared, which no model accepts.
func clearingLast(calls []llm.ToolCall, results []result) ([]llm.ToolCall, []result) {
	var otherCalls, clearing []llm.ToolCall
	var others, cleared []result
	for i, r := range results {
		if r.Command != nil && r.Command.clears() {
			clearing, cleared = append(clearing, calls[i]), append(cleared, r)
		} else {
			otherCalls, others = append(otherCalls, calls[i]), append(others, r)
		}
	}
	if cleared == nil {
		return calls, results
	}
	return append(otherCalls, clearing...), append(others, cleared...)
}

func (c *command) clears() bool {
	ms, err := c.messages()
	return err == nil && slices.ContainsFunc(ms, clearsAll)
}

func clearsAll(m llm.Message) bool { return m.ID == llm.RemoveAll().ID }

// handOff merges the results of several calls, at least one of which is a command
// to the parent graph, into one such command. The parent gets the whole
// conversation, with a result for every call. If handoffs set the same field to
// different values, the first wins and the others get an error as their result:
// several agents can run at the same time, but a field holds one value.
func handOff(history llm.Messages, calls []llm.ToolCall, results []result) ([]treadle.Command[any], error) {
	said := slices.Clone(history)
	merged := map[string]json.RawMessage{}
	var next treadle.Goto
	var here []treadle.Command[any] // updates of this graph, which it passes to its parent
	for i, r := range results {
		here = append(here, r.nested()...)
		if r.Message != nil {
			said = append(said, *r.Message)
			continue
		}
		ms, err := r.Command.messages()
		if err != nil {
			return nil, err
		}
		if !r.Command.Parent {
			if len(r.Command.Goto) > 0 {
				return nil, fmt.Errorf("tool %s: command goes to a node of this graph, but %s hands off to another agent: a message can do only one of them",
					calls[i].Name, handingOff(calls, results))
			}
			said = append(said, withoutKnown(history, ms)...)
			here = append(here, treadle.Command[any]{Update: r.Command.update()})
			continue
		}
		update, err := r.Command.Update.encoded()
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", calls[i].Name, err)
		}
		if field := clash(merged, update); field != "" {
			refusal := fmt.Errorf("only one handoff at a time can set %s; this one was not made", field)
			said = append(said, llm.ToolResult(calls[i], refusal))
			continue
		}
		said = append(said, withoutKnown(history, ms)...)
		for name, raw := range update {
			if !slices.Contains(messageKeys, name) {
				merged[name] = raw
			}
		}
		next = append(next, r.Command.Goto...)
	}
	update := treadle.Update{"messages": withoutHidden(said)}
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		update[name] = merged[name]
	}
	var v any = update
	return append(here, treadle.Command[any]{Update: &v, Goto: next, Parent: true}), nil
}

// withoutKnown returns the messages of ms that are not in history.
func withoutKnown(history, ms llm.Messages) llm.Messages {
	return slices.DeleteFunc(slices.Clone(ms), func(m llm.Message) bool {
		return m.ID != "" && slices.ContainsFunc(history, func(h llm.Message) bool { return h.ID == m.ID })
	})
}

// handingOff returns the name of the tool that hands off.
func handingOff(calls []llm.ToolCall, results []result) string {
	i := slices.IndexFunc(results, func(r result) bool { return r.Command != nil && r.Command.Parent })
	return calls[i].Name
}

// clash returns a field that both maps set to different values, or "".
func clash(merged, update map[string]json.RawMessage) string {
	for _, name := range slices.Sorted(maps.Keys(update)) {
		if have, ok := merged[name]; ok && string(have) != string(update[name]) {
			return name
		}
	}
	return ""
}
