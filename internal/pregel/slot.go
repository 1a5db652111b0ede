package pregel

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
)

// slot is the current value of a channel. Values are boxed and immutable: a new
// value is a new box.
type slot struct {
	val any
	acc any    // private state of the reducer
	ver uint64 // of the step that wrote it; 0 on a new thread
	by  int32  // the node that wrote it in step ver
	has bool
	// over means that step ver overwrote the value; the step's later updates are
	// dropped.
	over bool
	// moved means that the value was loaded, but not from a list under its name.
	// The whole list must be saved before elements can be appended.
	moved bool
}

// write is one update of one channel.
type write struct {
	ch   *channel
	val  any
	over bool // replaces the value, bypassing the reducer
}

var (
	errTwoWriters    = errors.New("two writers")
	errTwoOverwrites = errors.New("two overwrites")
)

// fold applies w to s as part of step ver. If claim is false, it does not modify
// memory that s shares.
func (s *slot) fold(w write, ver uint64, by int32, claim bool) error {
	again := s.ver == ver
	switch {
	case w.ch.reducer == nil:
		if again && s.has {
			return errTwoWriters
		}
		s.write(w.val, nil, ver, by)
	case w.over:
		if again && s.over {
			return errTwoOverwrites
		}
		s.write(w.val, nil, ver, by)
		s.over = true
	case again && s.over:
		// The overwrite takes precedence over other updates of its step.
	default:
		val, acc, err := w.ch.reducer.Reduce(s.val, s.acc, w.val, claim)
		if err != nil {
			return fmt.Errorf("field %s: reduce: %w", w.ch.wire, err)
		}
		s.write(val, acc, ver, by)
	}
	return nil
}

// write sets the whole slot, field by field, which is faster than creating and
// copying a slot.
func (s *slot) write(val, acc any, ver uint64, by int32) {
	s.val = val
	if acc != nil || s.acc != nil {
		s.acc = acc
	}
	s.ver = ver
	s.by = by
	s.has = true
	s.over = false
	s.moved = false
}

// set assigns a slot's value to an addressable struct field.
func set(dst reflect.Value, s *slot) {
	if !s.has || s.val == nil {
		dst.SetZero()
		return
	}
	dst.Set(reflect.ValueOf(s.val))
}

// encode returns the JSON of a channel's value for display.
func (c *channel) encode(val any) ([]byte, error) {
	switch v := val.(type) { // a fast path for common types
	case int:
		return strconv.AppendInt(nil, int64(v), 10), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	}
	raw, err := marshalJSON(checkpoint.JSON{MaxDepth: -1, MaxBytes: -1}, val)
	if c.accumulates() && val != nil && string(raw) == "null" {
		// Encode an empty accumulated value as an empty list or map, because
		// clients iterate over it.
		switch t := reflect.TypeOf(val); {
		case t.Kind() == reflect.Map:
			raw = []byte("{}")
		case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
			raw = []byte("[]")
		}
	}
	return raw, inField(c.wire, err)
}

// decodeAs decodes JSON into a value of type t.
func decodeAs(t reflect.Type, raw []byte) (val any, err error) {
	defer func() {
		if p := recover(); p != nil {
			val, err = nil, caught.New("UnmarshalJSON: ", p)
		}
	}()
	p := reflect.New(t)
	if err := json.Unmarshal(raw, p.Interface()); err != nil {
		return nil, err
	}
	return clipped(p.Elem()).Interface(), nil
}
