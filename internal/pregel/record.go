package pregel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Record is an immutable snapshot of a graph's fields: a list of names and values.
// It omits fields that were never written.
type Record struct {
	schema *Schema
	items  []write
	root   bool // a single value without a name
	list   bool // updates, possibly several per field
}

// record returns a record of the given channels.
func (s *Schema) record(slots []slot, chans []*channel) *Record {
	if s.workflow {
		return s.returned(slots, chans)
	}
	r := &Record{schema: s, root: s.root, items: make([]write, 0, len(chans))}
	for _, c := range chans {
		if sl := &slots[c.id]; sl.has {
			r.items = append(r.items, write{ch: c, val: sl.val})
		}
	}
	return r
}

// returned returns the bare value of a workflow: of the only requested channel, or
// of its output.
func (s *Schema) returned(slots []slot, chans []*channel) *Record {
	c := s.byWire[End]
	if len(chans) == 1 {
		c = chans[0]
	}
	r := &Record{schema: s, root: true}
	if sl := &slots[c.id]; sl.has {
		r.items = []write{{ch: &channel{name: Root, wire: Root, typ: c.typ, upd: c.upd}, val: sl.val}}
	}
	return r
}

// only returns the record restricted to the fields in keep.
func (r *Record) only(keep []string) *Record {
	if r == nil || keep == nil {
		return r
	}
	out := *r
	out.items = slices.DeleteFunc(slices.Clone(r.items), func(w write) bool { return !slices.Contains(keep, w.ch.wire) })
	return &out
}

// Names returns the JSON names of the fields in the record.
func (r *Record) Names() []string {
	var names []string
	for _, w := range r.items {
		if !slices.Contains(names, w.ch.wire) {
			names = append(names, w.ch.wire)
		}
	}
	return names
}

// Len returns the number of values.
func (r *Record) Len() int { return len(r.items) }

// Get returns the value of a field by its Go or JSON name. If the record contains
// several updates of the field, Get returns the last.
func (r *Record) Get(name string) (any, bool) {
	for _, w := range slices.Backward(r.items) {
		if w.ch.name == name || w.ch.wire == name {
			return w.val, true
		}
	}
	return nil, false
}

// Read fills the struct that dst points to. It sets the fields by Go name and
// zeroes those that the record lacks. If the state is a single value, dst must
// point to a value of its type.
func (r *Record) Read(dst any) error {
	p := reflect.ValueOf(dst)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("read: want a non-nil pointer, not %T", dst)
	}
	elem := p.Elem()
	if r == nil { // no field was ever written
		elem.SetZero()
		return nil
	}
	assign := func(to reflect.Value, val any, name string) error {
		if val == nil {
			to.SetZero()
			return nil
		}
		v := reflect.ValueOf(val)
		if raw, ok := val.(json.RawMessage); ok && !v.Type().AssignableTo(to.Type()) { // the recorded result of a task
			if err := json.Unmarshal(raw, to.Addr().Interface()); err != nil {
				return fmt.Errorf("read: field %s: %w", name, err)
			}
			return nil
		}
		if !v.Type().AssignableTo(to.Type()) {
			return fmt.Errorf("read: field %s is %s, want %s", name, v.Type(), to.Type())
		}
		to.Set(v)
		return nil
	}
	if r.root {
		val, _ := r.Get(Root)
		return assign(elem, val, Root)
	}
	if elem.Type() == r.schema.words.Update {
		m := make(map[string]any, len(r.items))
		for _, w := range r.items {
			m[w.ch.wire] = w.val
		}
		elem.Set(reflect.ValueOf(r.schema.words.FromMap(m)))
		return nil
	}
	if elem.Kind() != reflect.Struct {
		return fmt.Errorf("read: want a pointer to a struct, not %T", dst)
	}
	fields, errs := fieldsOf(elem.Type())
	if len(errs) > 0 {
		return fmt.Errorf("read: %s", errs[0])
	}
	for _, f := range fields {
		c := r.schema.lookup(f)
		if c == nil {
			return fmt.Errorf("read: %s: unknown field; the graph has %s", f.path, strings.Join(r.schema.wireNames(), ", "))
		}
		val, _ := r.Get(c.name)
		if err := assign(elem.FieldByIndex(f.index), val, c.wire); err != nil {
			return err
		}
	}
	return nil
}

// MarshalJSON encodes the record as an object keyed by JSON name. Updates that
// write a field more than once are encoded as a list of objects, in order.
func (r *Record) MarshalJSON() ([]byte, error) {
	if r.root {
		switch len(r.items) {
		case 0:
			return []byte("null"), nil
		case 1:
			return r.items[0].encode()
		}
		return r.join("[", "]", func(b *bytes.Buffer, w write) error { return appendJSON(b, w) })
	}
	if r.list && len(r.items) == 0 {
		return []byte("null"), nil
	}
	if r.list && len(r.Names()) < len(r.items) {
		return r.join("[", "]", func(b *bytes.Buffer, w write) error {
			b.WriteByte('{')
			if err := appendField(b, w); err != nil {
				return err
			}
			b.WriteByte('}')
			return nil
		})
	}
	return r.join("{", "}", appendField)
}

// Folded encodes the record in the form of task results: repeated writes of a field
// become one object {"$writes": [...]}.
func (r *Record) Folded() ([]byte, error) {
	out := &bytes.Buffer{}
	out.WriteByte('{')
	for i, name := range r.Names() {
		if i > 0 {
			out.WriteByte(',')
		}
		var same []write
		for _, w := range r.items {
			if w.ch.wire == name {
				same = append(same, w)
			}
		}
		if len(same) == 1 {
			if err := appendField(out, same[0]); err != nil {
				return nil, err
			}
			continue
		}
		one := &Record{schema: r.schema, root: true, items: same}
		raw, err := one.MarshalJSON()
		if err != nil {
			return nil, err
		}
		key, _ := json.Marshal(name)
		fmt.Fprintf(out, `%s:{"$writes":%s}`, key, raw)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func (r *Record) join(open, end string, each func(*bytes.Buffer, write) error) ([]byte, error) {
	b := &bytes.Buffer{}
	b.WriteString(open)
	for i, w := range r.items {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := each(b, w); err != nil {
			return nil, err
		}
	}
	b.WriteString(end)
	return b.Bytes(), nil
}

func appendField(b *bytes.Buffer, w write) error {
	key, _ := json.Marshal(w.ch.wire)
	b.Write(key)
	b.WriteByte(':')
	return appendJSON(b, w)
}

func appendJSON(b *bytes.Buffer, w write) error {
	raw, err := w.encode()
	b.Write(raw)
	return err
}

// encode returns the update's JSON. An overwrite of an accumulating field is
// marked.
func (w write) encode() ([]byte, error) {
	raw, err := w.ch.encode(w.val)
	if err == nil && w.over && w.ch.accumulates() {
		raw = slices.Concat([]byte(`{"`+overwriteKey+`":`), raw, []byte("}"))
	}
	return raw, err
}
