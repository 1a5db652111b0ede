package pregel

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// view is a struct filled from channels. Between steps, only the fields whose
// channels changed are set. Nodes are called with a copy.
type view struct {
	ptr  any           // *T
	elem reflect.Value // T, addressable
	gen  uint64        // shows all slots up to this version
	init bool
}

// sync updates v to version now and returns the pointer to call nodes with.
func (p *viewPlan) sync(v *view, slots []slot, now uint64, words *Vocabulary, public []*channel) any {
	if p.kind == viewMap {
		return words.FromMap(present(slots, public))
	}
	if v.init && v.gen == now {
		return v.ptr
	}
	all := !v.init
	if all {
		ptr := reflect.New(p.typ)
		v.ptr, v.elem, v.init = ptr.Interface(), ptr.Elem(), true
	}
	for i := range p.fields {
		f := &p.fields[i]
		if s := &slots[f.ch.id]; all || s.ver > v.gen {
			set(f.in(v.elem), s)
		}
	}
	v.gen = now
	return v.ptr
}

// wideView is the minimum number of fields for which a view is updated from a list
// of changed channels instead of by checking every field.
const wideView = 8

// index prepares a wide view for updates by channel.
func (p *viewPlan) index(channels int) {
	if len(p.fields) < wideView {
		return
	}
	p.fieldOf = make([]int32, channels)
	for i := range p.fieldOf {
		p.fieldOf[i] = -1
	}
	for i, f := range p.fields {
		p.fieldOf[f.ch.id] = int32(i)
	}
}

// in returns the field inside a struct, or the whole value for a root view.
func (f *viewField) in(elem reflect.Value) reflect.Value {
	switch len(f.index) {
	case 0:
		return elem
	case 1:
		return elem.Field(f.index[0])
	}
	return elem.FieldByIndex(f.index)
}

// fresh fills a new struct and returns a pointer to it.
func (p *viewPlan) fresh(slots []slot, words *Vocabulary, public []*channel) any {
	var v view
	return p.sync(&v, slots, 0, words, public)
}

// present returns the written fields, keyed by JSON name, for dynamic states.
func present(slots []slot, chans []*channel) map[string]any {
	m := make(map[string]any, len(chans))
	for _, c := range chans {
		if s := &slots[c.id]; s.has {
			m[c.wire] = s.val
		}
	}
	return m
}

// collect splits an update into writes and appends them to o.
func (u *updatePlan) collect(s *Schema, o *outcome, val any) error {
	switch u.kind {
	case updateMap:
		m, err := s.byWireName(s.words.AsMap(val))
		if err != nil {
			return err
		}
		return s.collectMap(o, m)
	case updateRoot:
		f := &u.fields[0]
		switch {
		case f.refused && reflect.ValueOf(val).IsZero():
			return nil
		case f.refused:
			return s.notAnUpdate(f)
		case f.converts:
			val = reflect.ValueOf(val).Convert(f.ch.upd).Interface()
		}
		o.add(write{ch: f.ch, val: clipAny(val)})
		return nil
	case updateRootOver:
		o.add(write{ch: s.channels[0], val: clipAny(s.words.Unwrap(val)), over: true})
		return nil
	}
	rv := reflect.ValueOf(val)
	for i := range u.fields {
		f := &u.fields[i]
		fv := rv.FieldByIndex(f.index)
		if u.nonZero && fv.IsZero() {
			continue
		}
		if f.optional {
			if fv.IsNil() {
				continue
			}
			fv = fv.Elem()
		}
		w := write{ch: f.ch}
		switch {
		case f.refused:
			return s.notAnUpdate(f)
		case f.converts:
			fv = fv.Convert(f.ch.upd)
		}
		if f.over {
			w.over, w.val = true, clipAny(s.words.Unwrap(fv.Interface()))
		} else {
			w.val = clipped(fv).Interface()
		}
		o.add(w)
	}
	if u.ctl != nil {
		o.targets = s.words.Targets(o.to(), rv.FieldByIndex(u.ctl).Interface())
	}
	return nil
}

// notAnUpdate returns the error for a state value in an input whose field takes
// updates of a different type. Using it as the new value would discard the
// accumulated value.
func (s *Schema) notAnUpdate(f *writeField) error {
	name := f.ch.name
	how := fmt.Sprintf("leave it zero, or compile the graph with an input type whose field %s is %s (treadle.Compile); Builder.Initial sets starting values", name, f.ch.upd)
	if s.root {
		how = fmt.Sprintf("compile the graph with the input type %s (treadle.Compile); Builder.Initial sets a starting value", f.ch.upd)
	}
	return &UpdateError{Graph: s.graph, Field: f.ch.wire, Msg: fmt.Sprintf("input contains a value of the state (%s), but updates of this field are %s: %s", f.ch.typ, f.ch.upd, how)}
}

// Flatten splits a struct of writes without a graph. It returns the values keyed by
// JSON name, or by Go name for a field without a tag, and omits nil optional
// writes.
func Flatten(update any) (map[string]any, error) {
	rv := reflect.ValueOf(update)
	for rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	if rv.Kind() != reflect.Struct {
		return nil, fmt.Errorf("invalid update %T: want a struct of the fields to write", update)
	}
	fields, errs := fieldsOf(rv.Type())
	if len(errs) > 0 {
		return nil, fmt.Errorf("update: %s", errs[0])
	}
	m := make(map[string]any, len(fields))
	for _, f := range fields {
		fv := rv.FieldByIndex(f.index)
		if fv.Kind() == reflect.Pointer {
			if fv.IsNil() {
				continue
			}
			fv = fv.Elem()
		}
		m[f.wire] = fv.Interface()
	}
	return m, nil
}

func clipAny(v any) any {
	if v == nil {
		return nil
	}
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Slice {
		return clipped(rv).Interface()
	}
	return v
}

// collectMap splits a dynamic update into writes in channel order, so the map's
// order does not matter.
func (s *Schema) collectMap(o *outcome, m map[string]any) error {
	for k := range m {
		if s.byWire[k] == nil {
			return s.unknownKey(m)
		}
	}
	for _, c := range s.channels {
		val, ok := m[c.wire]
		if !ok {
			continue
		}
		w, err := s.toWrite(c, val)
		if err != nil {
			return err
		}
		o.add(w)
	}
	return nil
}

// byWireName converts the keys of an update from Go code, which may be Go names, to
// JSON names.
func (s *Schema) byWireName(m map[string]any) (map[string]any, error) {
	out, own := m, false
	for k, v := range m {
		c := s.byName[k]
		if s.byWire[k] != nil || c == nil || s.dynamic {
			continue
		}
		if _, twice := m[c.wire]; twice {
			return nil, &UpdateError{Graph: s.graph, Field: c.wire, Msg: "given twice, as " + c.wire + " and as " + k}
		}
		if !own {
			out, own = maps.Clone(m), true
		}
		delete(out, k)
		out[c.wire] = v
	}
	return out, nil
}

// unknownKey returns an error for the first key, in sorted order, that is not a
// field.
func (s *Schema) unknownKey(m map[string]any) error {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if s.byWire[k] == nil {
			return &UpdateError{Graph: s.graph, Field: k, Msg: "unknown field; the state has " + strings.Join(s.wireNames(), ", ")}
		}
	}
	return nil
}

// toWrite converts a value without a static type to a write, and checks its type.
func (s *Schema) toWrite(c *channel, val any) (write, error) {
	bad := func(format string, args ...any) (write, error) {
		return write{}, &UpdateError{Graph: s.graph, Field: c.wire, Msg: fmt.Sprintf(format, args...)}
	}
	if raw, ok := val.(json.RawMessage); ok {
		return s.decodeWrite(c, raw)
	}
	if val == nil {
		switch c.upd.Kind() {
		case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
			return write{ch: c, val: reflect.Zero(c.upd).Interface()}, nil
		}
		return bad("nil is not a %s", c.upd)
	}
	t := reflect.TypeOf(val)
	if elem, over := s.words.Overwrite(t); over {
		inner := s.words.Unwrap(val)
		if !elem.AssignableTo(c.typ) {
			return bad("overwrites with %s, but the field is %s", elem, c.typ)
		}
		return write{ch: c, val: clipAny(reflect.ValueOf(inner).Convert(c.typ).Interface()), over: true}, nil
	}
	switch {
	case t == c.upd || c.upd.Kind() == reflect.Interface && t.Implements(c.upd):
		return write{ch: c, val: clipAny(val)}, nil
	case t.AssignableTo(c.upd):
		return write{ch: c, val: clipAny(reflect.ValueOf(val).Convert(c.upd).Interface())}, nil
	}
	return bad("is %s, but updates of this field are %s", t, c.upd)
}

// decodeWrite decodes an update or overwrite from JSON.
func (s *Schema) decodeWrite(c *channel, raw json.RawMessage) (write, error) {
	t, over := c.upd, false
	var mark map[string]json.RawMessage
	if c.reducer != nil && json.Unmarshal(raw, &mark) == nil {
		if inner, ok := mark[overwriteKey]; ok && len(mark) == 1 {
			raw, t, over = inner, c.typ, true
		} else if string(mark["type"]) == `"`+overwriteKey+`"` && mark["value"] != nil {
			raw, t, over = mark["value"], c.typ, true
		}
	}
	val, err := decodeAs(t, raw)
	if err != nil {
		return write{}, &UpdateError{Graph: s.graph, Field: c.wire, Msg: fmt.Sprintf("want %s: %v", t, err)}
	}
	return write{ch: c, val: val, over: over}, nil
}

// decodeUpdate decodes a JSON object of updates, keyed by JSON name.
func (s *Schema) decodeUpdate(o *outcome, raw json.RawMessage) error {
	if s.root {
		w, err := s.decodeWrite(s.channels[0], raw)
		if err == nil {
			o.add(w)
		}
		return err
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return &UpdateError{Graph: s.graph, Msg: fmt.Sprintf("want a JSON object of fields: %v", err)}
	}
	conv := make(map[string]any, len(m))
	for k, v := range m {
		conv[k] = v
	}
	return s.collectMap(o, conv)
}
