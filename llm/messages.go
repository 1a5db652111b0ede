package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
)

// Messages is a conversation. As a field of a graph's state, it merges updates by
// message ID: see [Messages.Reduce].
type Messages []Message

// Chat is a state that consists of a conversation. Embed it in a struct to add
// fields; it has no methods, so embedding adds none.
type Chat struct {
	Messages Messages `json:"messages"`
}

// Reduce merges an update into the conversation, message by message:
//
//   - A message with the ID of an existing one replaces it, in the same position.
//   - [Remove] removes the message with its ID, unless a later message of the
//     update has the same ID. It fails if the message does not exist.
//   - [RemoveAll] removes everything before it.
//   - Any other message is appended.
//
// A message without an ID gets one that is unique within the conversation. The ID
// depends only on the message and on the conversation before it, so a run that is
// repeated after a crash assigns the same IDs. Graphs assign IDs to the messages
// that a node returns before they stream or save them. If several nodes run in a
// step, the IDs also depend on the node.
func (ms Messages) Reduce(update Messages) (Messages, error) {
	out, _, err := merge(ms, nil, update, false)
	return out, err
}

// rewrite merges an update that does more than append.
func rewrite(ms, update Messages) (Messages, error) {
	if i := lastRemoveAll(update); i >= 0 {
		ms, update = nil, update[i+1:]
	}
	r := rewriter{out: make(Messages, 0, len(ms)+len(update)), at: make(map[string]int, len(ms)+len(update))}
	for _, m := range ms {
		r.put(m)
	}
	for _, m := range update {
		if m.Role != RoleRemove {
			r.put(m)
			continue
		}
		if err := r.remove(m.ID); err != nil {
			return nil, err
		}
	}
	if len(r.gone) > 0 {
		kept := make(Messages, 0, len(r.out))
		for _, m := range r.out {
			if !r.gone[m.ID] {
				kept = append(kept, m)
			}
		}
		r.out = kept
	}
	return slices.Clip(r.out), nil
}

func lastRemoveAll(update Messages) int {
	for i, m := range slices.Backward(update) {
		if m.Role == RoleRemove && m.ID == removeAll {
			return i
		}
	}
	return -1
}

type rewriter struct {
	out  Messages
	at   map[string]int
	gone map[string]bool
}

// put replaces or appends a message.
func (r *rewriter) put(m Message) {
	if m.ID == "" {
		prev := ""
		if n := len(r.out); n > 0 {
			prev = r.out[n-1].ID
		}
		m.ID = newID(len(r.out), prev, &m, "", func(id string) bool { _, ok := r.at[id]; return ok })
	}
	delete(r.gone, m.ID)
	if i, ok := r.at[m.ID]; ok {
		r.out[i] = m
		return
	}
	r.at[m.ID] = len(r.out)
	r.out = append(r.out, m)
}

func (r *rewriter) remove(id string) error {
	if _, ok := r.at[id]; !ok {
		return fmt.Errorf("llm: message %q cannot be removed: conversation has no message with this ID", id)
	}
	if r.gone == nil {
		r.gone = map[string]bool{}
	}
	r.gone[id] = true
	return nil
}

// newID returns the ID of a message at a position after the message with the ID
// prev. by names the task that returned the message if other tasks of its step may
// return the same message, and is otherwise empty. The ID depends on neither time
// nor randomness: see [Messages.Reduce].
func newID(place int, prev string, m *Message, by string, taken func(string) bool) string {
	var room [512]byte
	b := room[:0]
	part := func(s string) {
		b = strconv.AppendInt(b, int64(len(s)), 10) // so that parts cannot run together
		b = append(append(b, ':'), s...)
	}
	part(strconv.Itoa(place))
	part(prev)
	part(string(m.Role))
	part(m.Name)
	part(m.Content)
	part(m.ToolCallID)
	for i := range m.Blocks {
		part(m.Blocks[i].Type)
		part(m.Blocks[i].Text)
		part(m.Blocks[i].URL)
	}
	for i := range m.ToolCalls {
		part(m.ToolCalls[i].ID)
		part(m.ToolCalls[i].Name)
		part(string(m.ToolCalls[i].Args))
	}
	if by != "" {
		part(by)
	}
	for n := 0; ; n++ {
		sum := sha256.Sum256(b)
		if id := hex.EncodeToString(sum[:16]); !taken(id) {
			return id
		}
		part(strconv.Itoa(n)) // the position was occupied before and is free again
	}
}
