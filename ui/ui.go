// Package ui lets nodes and tools show components in the user interface of a graph: LangGraph's
// generative UI. A [Message] names a component of the page and its props. Add a field of type
// [Messages] to the state, for example
//
//	UI ui.Messages `json:"ui"`
//
// [Push] streams a component immediately, as a custom event, and returns its message, which the node
// returns as an update of that field:
//
//	card, err := ui.Push(ctx, "weather", weather, nil)
//	…
//	return update{UI: ui.Messages{card}}, err
//
// A later message with the same ID replaces the component, or changes some of its props. In
// React, useStream and LoadExternalComponent of npm @langchain/langgraph-sdk show the messages
// of streams and states.
package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
)

// Message is a component that a page shows, or the removal of one. Its JSON is LangGraph's.
type Message struct {
	ID    string
	Name  string         // of the component
	Props map[string]any // of the component; their JSON is an object
	// Metadata contains what [Push] sets: merge, run_id, tags, name (of the node), and message_id.
	Metadata map[string]any
	// Remove removes the message with this ID. The other fields are then unused.
	Remove bool
}

// Types in the JSON of messages.
const (
	typeShow   = "ui"
	typeRemove = "remove-ui"
)

type shownJSON struct {
	Type     string         `json:"type"`
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Props    map[string]any `json:"props"`
	Metadata map[string]any `json:"metadata"`
}

type removedJSON struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// MarshalJSON writes LangGraph's format.
func (m Message) MarshalJSON() ([]byte, error) {
	if m.Remove {
		return json.Marshal(removedJSON{typeRemove, m.ID})
	}
	props, about := m.Props, m.Metadata
	if props == nil {
		props = map[string]any{}
	}
	if about == nil {
		about = map[string]any{}
	}
	return json.Marshal(shownJSON{typeShow, m.ID, m.Name, props, about})
}

// UnmarshalJSON reads LangGraph's format.
func (m *Message) UnmarshalJSON(raw []byte) error {
	var in shownJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return fmt.Errorf("ui: message: %w", err)
	}
	if in.Type != typeShow && in.Type != typeRemove {
		return fmt.Errorf("ui: message: unknown type %q: want %q or %q", in.Type, typeShow, typeRemove)
	}
	*m = Message{in.ID, in.Name, in.Props, in.Metadata, in.Type == typeRemove}
	return nil
}

// Messages are the components that a page shows, in order.
type Messages []Message

// Reduce merges an update into the messages. A message with the ID of an existing one replaces
// it, in the same position; if [PushOptions.Merge] was set, only its props replace those of the same
// name. A removal removes the message with its ID, and fails if the message does not exist. Any other
// message is appended.
func (ms Messages) Reduce(update Messages) (Messages, error) {
	out := slices.Clone(ms)
	for _, m := range update {
		if m.ID == "" {
			return nil, errors.New("ui: message without an ID: create it with Push")
		}
		i := slices.IndexFunc(out, func(old Message) bool { return old.ID == m.ID })
		switch {
		case m.Remove && i < 0:
			return nil, fmt.Errorf("ui: remove message %q: unknown ID", m.ID)
		case m.Remove:
			out = slices.Delete(out, i, i+1)
		case i < 0:
			out = append(out, m)
		default:
			if merge, _ := m.Metadata["merge"].(bool); merge {
				props := maps.Clone(out[i].Props)
				if props == nil {
					props = map[string]any{}
				}
				maps.Copy(props, m.Props)
				m.Props = props
			}
			out[i] = m
		}
	}
	return out, nil
}

// PushOptions configures [Push]. A nil *PushOptions means the defaults.
type PushOptions struct {
	// ID identifies the component; "" means a new one. The ID of an earlier message changes its
	// component. If a node runs again after a crash, a new ID is the same for the same props.
	ID string
	// Merge keeps the props of the earlier message that the new one does not have.
	Merge bool
	// Message is the ID of the conversation's message that the component belongs to, if any.
	Message  string
	Metadata map[string]any // added to the message's metadata
}

// ids is the namespace of new IDs.
var ids = uuid.MustParse("7a3f3a0e-54f4-4a0c-9d55-6b1f0c6f2f11")

// Push shows a component: it sends the message to the streams of the run and returns it for the
// node's update. Props is a value whose JSON is an object.
func Push(ctx context.Context, name string, props any, opts *PushOptions) (Message, error) {
	if opts == nil {
		opts = &PushOptions{}
	}
	if name == "" {
		return Message{}, errors.New("ui: push: empty component name")
	}
	raw, err := json.Marshal(props)
	if err != nil {
		return Message{}, fmt.Errorf("ui: push %s: props: %w", name, err)
	}
	m := Message{ID: opts.ID, Name: name}
	if err := json.Unmarshal(raw, &m.Props); err != nil || m.Props == nil {
		return Message{}, fmt.Errorf("ui: push %s: props of type %T are not a JSON object", name, props)
	}
	info := treadle.InfoFrom(ctx)
	if m.ID == "" && info.TaskID == "" {
		m.ID = uuid.NewString()
	} else if m.ID == "" {
		m.ID = uuid.NewSHA1(ids, fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s", info.IdempotencyKey, info.TaskID, name, raw)).String()
	}
	tags := info.Tags
	if tags == nil {
		tags = []string{}
	}
	m.Metadata = map[string]any{"merge": opts.Merge, "run_id": info.RunID, "tags": tags, "name": info.Node}
	maps.Copy(m.Metadata, opts.Metadata)
	if opts.Message != "" {
		m.Metadata["message_id"] = opts.Message
	}
	treadle.Emit(ctx, m)
	return m, nil
}

// Delete removes a component: it sends the removal to the streams of the run and returns it for
// the node's update.
func Delete(ctx context.Context, id string) Message {
	m := Message{ID: id, Remove: true}
	treadle.Emit(ctx, m)
	return m
}
