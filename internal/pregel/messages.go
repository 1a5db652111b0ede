package pregel

import (
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/treadle-go/treadle/internal/observe"
)

// messages records the messages that a stream has shown or that nodes received, so
// that each message is streamed once.
type messages struct {
	mu  sync.Mutex
	ids map[string]bool
}

// seen records an ID and reports whether it was already recorded. A message without
// an ID is always new.
func (s *messages) seen(id string) bool {
	if id == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.ids[id]
	if !known {
		if s.ids == nil {
			s.ids = map[string]bool{}
		}
		s.ids[id] = true
	}
	return known
}

// nameMessages assigns IDs to returned messages that have none, so that streams,
// saved results, and the state show the same IDs.
func (t *Task) nameMessages() {
	for i, w := range t.out.writes {
		namer, ok := w.ch.reducer.(observe.Namer)
		if !ok {
			continue
		}
		var s slot // an overwrite starts from an empty slot
		if !w.over {
			s = t.run.slots[w.ch.id]
			for _, earlier := range t.out.writes[:i] {
				if earlier.ch == w.ch && s.fold(earlier, t.run.ver+1, 0, false) != nil {
					return // the commit will fail with the same error
				}
			}
		}
		if named := namer.Named(s.val, s.acc, w.val, t.sibling()); named != nil {
			t.out.writes[i].val = named
		}
	}
}

// sibling returns a name that distinguishes the task from others of its step, or ""
// if there are no others.
func (t *Task) sibling() string {
	switch {
	case !t.together:
		return ""
	case t.packet != nil:
		return t.node.savedName() + "#" + strconv.Itoa(int(t.index))
	}
	return t.node.savedName()
}

// noteInputMessages records the messages in a node's input.
func (r *Run) noteInputMessages(t *Task) {
	known := &r.shared.messages
	eachMessage(t.input(), func(m observe.Message) { known.seen(m.MessageID()) })
}

// emitOutputMessages streams the messages in a node's result that have not been
// streamed yet.
func (r *Run) emitOutputMessages(t *Task) {
	known := &r.shared.messages
	show := func(m observe.Message) {
		if !known.seen(m.MessageID()) {
			r.emit(ModeMessages, Event{At: t.origin(), Value: m, Data: &Token{Tags: slices.Concat(r.set.Tags, t.node.Tags), Metadata: t.metadata(), Whole: true}})
		}
	}
	for i, w := range t.out.writes {
		switch {
		case r.plan.schema.workflow && w.ch.wire != End: // the saved value is not output
		case !hasUnnamed(w.val):
			eachMessage(w.val, show)
		case w.ch.reducer != nil:
			t.eachMerged(i, show)
		default:
			t.eachReturned(w.val, show)
		}
	}
}

// hasUnnamed reports whether a value contains a message without an ID.
func hasUnnamed(v any) (yes bool) {
	eachMessage(v, func(m observe.Message) { yes = yes || m.MessageID() == "" })
	return yes
}

// eachMerged calls fn for the messages of the task's i-th write, with the IDs that
// they get when the write is merged into its field. These are their IDs in the
// state, unless other tasks of the step write the field too. A subgraph and its
// parent graph assign the same IDs, so a message is streamed once.
func (t *Task) eachMerged(i int, fn func(observe.Message)) {
	ch := t.out.writes[i].ch
	s := t.run.slots[ch.id]
	ver := s.ver + 1
	known := map[string]bool{}
	for k, w := range t.out.writes[:i+1] {
		if w.ch != ch {
			continue
		}
		if k == i {
			eachMessage(s.val, func(m observe.Message) { known[m.MessageID()] = true })
		}
		if s.fold(w, ver, 0, false) != nil {
			return // the commit will fail with the same error
		}
	}
	eachMessage(s.val, func(m observe.Message) {
		if !known[m.MessageID()] {
			fn(m)
		}
	})
}

// eachReturned calls fn for the messages of a value that is not merged, except
// messages without an ID that were in the node's input.
func (t *Task) eachReturned(v any, fn func(observe.Message)) {
	var given []observe.Message
	note := func(m observe.Message) {
		if m.MessageID() == "" {
			given = append(given, m)
		}
	}
	in := t.input()
	if v := reflect.ValueOf(in); t.run.plan.schema.workflow && v.Kind() == reflect.Struct && v.NumField() > 0 {
		in = v.Field(0).Interface() // the input of a workflow is the first field of its state
	}
	eachMessage(in, note)
	eachMessage(v, func(m observe.Message) {
		if m.MessageID() != "" || !slices.ContainsFunc(given, func(g observe.Message) bool { return reflect.DeepEqual(g, m) }) {
			fn(m)
		}
	})
}

// eachMessage calls fn for the messages in a value: the value itself, the
// elements of a slice, or the fields of a struct, one level deep.
func eachMessage(v any, fn func(observe.Message)) {
	if m, ok := v.(observe.Message); ok {
		fn(m)
		return
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Slice:
		for i := range rv.Len() {
			m, ok := reflect.TypeAssert[observe.Message](rv.Index(i))
			if !ok {
				return
			}
			fn(m)
		}
	case reflect.Struct:
		fields, _ := fieldsOf(rv.Type())
		for _, f := range fields {
			if fv := rv.FieldByIndex(f.index); fv.Kind() != reflect.Struct {
				eachMessage(fv.Interface(), fn)
			} else if m, ok := reflect.TypeAssert[observe.Message](fv); ok {
				fn(m)
			}
		}
	}
}
