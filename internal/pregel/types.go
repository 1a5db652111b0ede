package pregel

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// viewOf returns the index of the view for t. If n reads a field without a writer,
// viewOf marks n as runnable only by Send.
func (c *compiler) viewOf(who string, t reflect.Type, n *node) int {
	if i, ok := c.views[t]; ok {
		if n != nil {
			n.sendOnly = c.orphans[t]
		}
		return i
	}
	v := c.newView(who, t, n)
	if v == nil {
		return -1
	}
	c.views[t] = len(c.Plan.views)
	c.Plan.views = append(c.Plan.views, v)
	return c.views[t]
}

// newView returns a plan for filling a t, or nil if only Send can supply it.
func (c *compiler) newView(who string, t reflect.Type, n *node) *viewPlan {
	s := c.schema
	v := &viewPlan{typ: t}
	switch {
	case t == s.words.Update:
		v.kind = viewMap
		return v
	case s.root && t == s.channels[0].typ:
		v.kind = viewRoot
		v.fields = []viewField{{ch: s.channels[0]}}
		return v
	case t.Kind() != reflect.Struct || s.root && t.NumField() > 0:
		if n != nil {
			n.sendOnly = t.String()
			return nil
		}
		s.fail(who, "", "%s cannot be read from a state of type %s", t, s.state)
		return nil
	}
	fields, errs := fieldsOf(t)
	if t == s.state {
		errs = nil // reported by stateChannels
	}
	for _, e := range errs {
		s.fail(who, "", "%s", e)
	}
	for _, f := range fields {
		ch := s.lookup(f)
		if ch == nil && (t == s.state || s.rejected[f.name]) {
			continue
		}
		if ch == nil && n != nil && !c.written[f.name] && !c.anyKey {
			if n.sendOnly == "" {
				n.sendOnly, c.orphans[t] = f.path, f.path
			}
			continue
		}
		if ch == nil {
			if ch = s.declare(who, f, true); ch == nil {
				continue
			}
		}
		if ch.typ != f.typ {
			s.fail(who, f.path, "is %s here and %s in the state", f.typ, ch.typ)
			continue
		}
		s.checkTag(who, f, ch)
		c.reads[ch] = true
		v.fields = append(v.fields, viewField{index: f.index, ch: ch})
	}
	return v
}

// stateInput plans an input of the state's type.
func (c *compiler) stateInput() *updatePlan {
	s := c.schema
	u := &updatePlan{typ: s.state, nonZero: true}
	switch {
	case s.dynamic:
		u.kind = updateMap
	case s.root:
		u.kind = updateRoot
		ch := s.channels[0]
		u.fields = []writeField{stateField(ch, nil)}
	default:
		fields, _ := fieldsOf(s.state)
		for _, f := range fields {
			if ch := s.byName[f.name]; ch != nil {
				u.fields = append(u.fields, stateField(ch, f.index))
			}
		}
	}
	return u
}

// stateField plans a field of an input of the state's type. An input is an update,
// so a field whose updates have a different type rejects state values.
func stateField(ch *channel, index []int) writeField {
	w := writeField{index: index, ch: ch}
	if ch.upd != ch.typ {
		w.converts = ch.typ.AssignableTo(ch.upd)
		w.refused = !w.converts
	}
	return w
}

// updateOf returns a plan for updates of type t. If declare is set, unknown fields
// become private channels; otherwise they are errors.
func (c *compiler) updateOf(who string, t reflect.Type, declare bool) *updatePlan {
	u, errs := c.schema.planUpdate(t, func(f field) *channel {
		if !declare {
			return nil
		}
		return c.schema.declare(who, stripUpdate(c.schema, f), true)
	})
	for _, e := range errs {
		c.schema.fail(who, e.field, "%s", e.msg)
	}
	return u
}

// stripUpdate converts a field of an update to the field of its channel.
func stripUpdate(s *Schema, f field) field {
	if f.typ.Kind() == reflect.Pointer {
		f.typ = f.typ.Elem()
	}
	if e, ok := s.words.Overwrite(f.typ); ok {
		f.typ = e
	}
	return f
}

type planError struct{ field, msg string }

// planUpdate returns a plan for updates of type t. It calls unknown for each field
// without a channel.
func (s *Schema) planUpdate(t reflect.Type, unknown func(field) *channel) (*updatePlan, []planError) {
	u := &updatePlan{typ: t}
	if t == s.words.Update {
		u.kind = updateMap
		return u, nil
	}
	if s.root {
		ch := s.channels[0]
		if elem, over := s.words.Overwrite(t); over && elem == ch.typ {
			u.kind = updateRootOver
			return u, nil
		}
		if t == ch.upd {
			u.kind = updateRoot
			u.fields = []writeField{{ch: ch}}
			return u, nil
		}
		if t.Kind() == reflect.Struct && t.NumField() == 0 {
			return u, nil
		}
		msg := fmt.Sprintf("%s is not an update of the state %s: want %s", t, ch.typ, ch.upd)
		if t == ch.typ {
			msg += ", or a treadle.Overwrite to replace it"
		}
		return nil, []planError{{"", msg}}
	}
	if t.Kind() != reflect.Struct {
		return nil, []planError{{"", fmt.Sprintf("%s is not an update: want a struct of the fields to write, or treadle.Update", t)}}
	}
	fields, msgs := fieldsOf(t)
	if t == s.state {
		msgs = nil // reported by stateChannels
	}
	var errs []planError
	for _, m := range msgs {
		errs = append(errs, planError{"", m})
	}
	for _, f := range fields {
		if f.typ == s.words.Goto {
			if u.ctl != nil {
				errs = append(errs, planError{f.path, "a second field of type Goto"})
			}
			u.ctl = f.index
			continue
		}
		ch := s.lookup(f)
		if ch == nil && (t == s.state || s.rejected[f.name]) {
			continue
		}
		if ch == nil {
			if ch = unknown(f); ch == nil {
				errs = append(errs, planError{f.path, fmt.Sprintf("unknown field; the state has %s", strings.Join(s.wireNames(), ", "))})
				continue
			}
		}
		w := writeField{index: f.index, ch: ch}
		got := f.typ
		if got != ch.upd && got.Kind() == reflect.Pointer {
			w.optional, got = true, got.Elem()
		}
		if elem, over := s.words.Overwrite(got); over {
			w.over = true
			if elem != ch.typ {
				errs = append(errs, planError{f.path, fmt.Sprintf("overwrites with %s, but the field is %s", elem, ch.typ)})
			}
		} else if got != ch.upd {
			errs = append(errs, planError{f.path, fmt.Sprintf("is %s, but updates of this field are %s", f.typ, ch.upd)})
		}
		if f.tag.Get("json") != "" && f.wire != ch.wire {
			errs = append(errs, planError{f.path, fmt.Sprintf("JSON name %q differs from the state's %q: remove the tag", f.wire, ch.wire)})
		}
		u.fields = append(u.fields, w)
	}
	return u, errs
}

func (c *compiler) outputs() {
	s := c.schema
	for _, n := range c.defined {
		if n.Call != nil {
			n.out = c.outOf(n, n.Out)
		}
		if n.Handler != nil {
			n.handler = c.outOf(n, n.Handler.Out)
		}
	}
	c.out = c.newView("", c.spec.Out, nil)
	if c.out != nil {
		switch c.out.kind {
		case viewMap:
			c.output = slices.DeleteFunc(slices.Clone(s.channels), func(ch *channel) bool { return ch.private })
		default:
			for _, f := range c.out.fields {
				c.output = append(c.output, f.ch)
				if f.ch.private && !c.written[f.ch.name] && !c.anyKey {
					s.fail("", c.spec.Out.String()+"."+f.ch.name, "output field is never written")
				}
			}
		}
	}
	for _, b := range c.spec.Branches {
		if b.Call == nil {
			s.fail(b.From, "", "nil branch function")
		}
	}
}

func (c *compiler) outOf(n *node, t reflect.Type) *outPlan {
	s := c.schema
	o := &outPlan{}
	if t == s.words.Goto {
		o.kind = outGoto
		return o
	}
	if u, ok := s.words.Command(t); ok {
		o.kind, t = outCommand, u
		if n.Handoff != nil {
			return o // checked against the parent graph later
		}
		if t.Kind() == reflect.Interface { // known only at run time, like the writes of an Update
			t = s.words.Update
		}
	}
	if t.Kind() == reflect.Pointer && (!s.root || t != s.channels[0].upd && t != s.channels[0].typ) {
		o.pointer, t = true, t.Elem()
	}
	if t.Kind() == reflect.Interface {
		s.fail(n.Name, "", "returns the interface %s: return a struct of the fields it writes, so that they can be checked", t)
		return nil
	}
	if t == s.state && !s.root && !s.dynamic {
		for _, ch := range s.channels {
			if ch.accumulates() && !ch.private {
				s.fail(n.Name, "", "returns the whole state, but %s accumulates and would be added to itself: return a struct of just the fields it writes", ch.wire)
				return nil
			}
		}
	}
	o.update = c.updateOf(n.Name, t, true)
	if o.update == nil {
		return nil
	}
	return o
}

// hasGoto reports whether results can contain targets.
func (o *outPlan) hasGoto() bool {
	return o != nil && (o.kind != outUpdate || o.update.ctl != nil)
}
