package llm

import (
	"reflect"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/internal/plainjson"
	"github.com/treadle-go/treadle/reduce"
)

// Reducer returns the reducer that graphs use for fields of this type. It is
// equivalent to Reduce, but appends without copying the conversation.
func (Messages) Reducer() reduce.Reducer { return messageReducer{} }

// messageReducer is the reducer of conversations. Like lists, they are saved as the
// appended messages; a step that replaced or removed messages records how many
// messages of the list it kept.
type messageReducer struct {
	reduce.Appending[Messages, Message]
	plainjson.DecoderMark
}

var (
	_ plainjson.Decoder = messageReducer{}
	_ observe.Namer     = messageReducer{}
)

// Reduce implements [reduce.Reducer].
func (messageReducer) Reduce(val, acc, update any, claim bool) (any, any, error) {
	old, _ := val.(Messages)
	next, acc, err := merge(old, acc, update.(Messages), claim)
	if err != nil {
		return nil, nil, err
	}
	return next, acc, nil
}

// Named implements [observe.Namer]. For an update that appends and an empty place,
// it assigns the same IDs as Reduce.
func (messageReducer) Named(val, acc, update any, place string) any {
	ms, _ := val.(Messages)
	news, _ := update.(Messages)
	if !slices.ContainsFunc(news, unnamed) {
		return update
	}
	var ids *idIndex
	if g, ok := acc.(*grown); ok && len(ms) > 0 && g.first == &ms[0] {
		ids = g.ids
	} else if len(news) > few {
		ids = newIndex(ms)
	}
	known := knownIDs(ms, ids)
	batch := make(map[string]bool, len(news))
	for i := range news {
		batch[news[i].ID] = true
	}
	taken := func(id string) bool { return batch[id] || known(id) }
	prev := ""
	if len(ms) > 0 {
		prev = ms[len(ms)-1].ID
	}
	out := slices.Clone(news)
	for i := range out {
		if unnamed(out[i]) {
			out[i].ID = newID(len(ms)+i, prev, &out[i], place, taken)
			batch[out[i].ID] = true
		}
		prev = out[i].ID
	}
	return out
}

func unnamed(m Message) bool { return m.ID == "" && m.Role != RoleRemove }

// Kept implements [reduce.Rewriter].
func (messageReducer) Kept(was, now any) int {
	a, b := was.(Messages), now.(Messages)
	n := min(len(a), len(b))
	if n > 0 && &a[0] == &b[0] {
		return n
	}
	for i := range n {
		if !same(&a[i], &b[i]) {
			return i
		}
	}
	return n
}

// DecodePlain implements [plainjson.Decoder].
func (messageReducer) DecodePlain() func(data []byte, elem any) bool {
	var d plainjson.ListDecoder
	var in plainMessage
	return func(data []byte, elem any) bool {
		m := elem.(*Message)
		in = plainMessage{}
		if d.Unmarshal(data, &in) && m.setPlain(&in) {
			return true
		}
		*m = Message{}
		return false
	}
}

// same reports whether two messages are copies of one message. Messages may be
// equal and not the same; such a message is saved again, which is harmless.
func same(a, b *Message) bool {
	return a.ID == b.ID && a.Role == b.Role && a.Name == b.Name && a.Content == b.Content && a.Stop == b.Stop &&
		a.ToolCallID == b.ToolCallID && a.Status == b.Status && a.Usage == b.Usage &&
		sameSlice(a.Blocks, b.Blocks) && sameSlice(a.ToolCalls, b.ToolCalls) && sameSlice(a.InvalidToolCalls, b.InvalidToolCalls) &&
		sameMap(a.Metadata, b.Metadata) && sameMap(a.Extra, b.Extra) && a.Artifact == nil && b.Artifact == nil
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func sameMap(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// grown is private data about a conversation that the engine keeps: the memory that
// its versions share ([reduce.Append]), and the position of each ID in it.
type grown struct {
	tail  any
	first *Message // the start of the memory
	ids   *idIndex
}

// idIndex records the positions of the IDs of all messages in one shared memory.
// The versions of a conversation are prefixes of it, so an ID at a position after a
// version's end is not in that version.
type idIndex struct {
	blank bool // some messages have no ID

	mu sync.Mutex
	at map[string]int
}

func newIndex(ms Messages) *idIndex {
	x := &idIndex{at: make(map[string]int, 2*len(ms)+1)}
	x.add(ms, 0)
	return x
}

// add records the messages starting at position from.
func (x *idIndex) add(ms Messages, from int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := from; i < len(ms); i++ {
		x.at[ms[i].ID] = i
		if ms[i].ID == "" {
			x.blank = true
		}
	}
}

// has reports whether an ID is among the first n messages.
func (x *idIndex) has(n int, id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, ok := x.at[id]
	return ok && i < n
}

// few is the largest number of IDs for which a linear search beats building an
// index.
const few = 4

// merge merges an update into ms. acc and claim are as in [reduce.Reducer].
func merge(ms Messages, acc any, update Messages, claim bool) (Messages, any, error) {
	if len(update) == 0 {
		return ms, acc, nil
	}
	var tail any
	var ids *idIndex
	if g, ok := acc.(*grown); ok && len(ms) > 0 && g.first == &ms[0] {
		tail, ids = g.tail, g.ids
	} else if claim || len(update) > few {
		ids = newIndex(ms)
	}
	given, ok := appended(ms, ids, update)
	if !ok {
		out, err := rewrite(ms, update)
		return out, nil, err
	}
	next, newTail := reduce.Append(ms, tail, update, claim)
	for i, id := range given {
		if id != "" {
			next[len(ms)+i].ID = id // not shared yet
		}
	}
	switch {
	case !claim:
		return next, nil, nil
	case tail != nil && newTail == tail:
		ids.add(next, len(ms))
		return next, acc, nil
	case tail != nil: // the index stays with the memory it describes
		ids = newIndex(ms)
	}
	ids.add(next, len(ms))
	return next, &grown{newTail, &next[0], ids}, nil
}

// knownIDs returns a function that reports whether ms contains an ID. Without an
// index, the function searches ms linearly.
func knownIDs(ms Messages, ids *idIndex) func(id string) bool {
	if ids == nil {
		return func(id string) bool { return slices.ContainsFunc(ms, func(m Message) bool { return m.ID == id }) }
	}
	return func(id string) bool { return ids.has(len(ms), id) }
}

// appended returns new IDs for the messages of an update that have none, by their
// position in the update. given is nil if all messages have IDs. ok is false if the
// update does more than append to ms. Without an index, ms is searched linearly.
func appended(ms Messages, ids *idIndex, update Messages) (given []string, ok bool) {
	known := knownIDs(ms, ids)
	if ids != nil && ids.blank || ids == nil && known("") {
		return nil, false
	}
	prev := ""
	if len(ms) > 0 {
		prev = ms[len(ms)-1].ID
	}
	batch := make(map[string]bool, len(update))
	taken := func(id string) bool { return batch[id] || known(id) }
	for i := range update {
		m := &update[i]
		id := m.ID
		switch {
		case m.Role == RoleRemove || id != "" && taken(id):
			return nil, false
		case id == "":
			id = newID(len(ms)+i, prev, m, "", taken)
			if given == nil {
				given = make([]string, len(update))
			}
			given[i] = id
		}
		batch[id] = true
		prev = id
	}
	return given, true
}
