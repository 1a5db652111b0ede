package pregel

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/internal/plainjson"
)

// Codecs encodes and decodes saved values. The first codec encodes; all of them
// decode. JSON can always be decoded, and is the encoding if there are no codecs.
//
// JSON is saved without a header. A value of any other codec starts with a header:
// a mark, the length of the codec's name, and the name. Each value thus names its
// codec, and a list may contain elements of several codecs.
type Codecs []checkpoint.Codec

// codecMark starts a value that is not JSON. No JSON text starts with it.
const codecMark = 0

// jsonName is the name of the codec whose values have no header.
const jsonName = "json"

// Check returns a description of the first problem with the codecs, or "".
func (cs Codecs) Check() string {
	var seen []string
	for i, c := range cs {
		if c == nil {
			return fmt.Sprintf("codec %d is nil", i)
		}
		name := c.Name()
		if name == "" || len(name) > 64 {
			return fmt.Sprintf("codec %d: invalid name %q: want 1 to 64 bytes", i, name)
		}
		if slices.Contains(seen, name) {
			return fmt.Sprintf("duplicate codec name %q", name)
		}
		seen = append(seen, name)
	}
	return ""
}

// plain reports whether values are encoded as JSON.
func (cs Codecs) plain() bool { return len(cs) == 0 || cs[0].Name() == jsonName }

// named returns the codec with the given name, or nil.
func (cs Codecs) named(name string) checkpoint.Codec {
	for _, c := range cs {
		if c.Name() == name {
			return c
		}
	}
	if name == jsonName {
		return checkpoint.JSON{}
	}
	return nil
}

func (cs Codecs) names() []string {
	var names []string
	for _, c := range cs {
		names = append(names, c.Name())
	}
	if !slices.Contains(names, jsonName) {
		names = append(names, jsonName)
	}
	return names
}

// encode returns the saved form of a value. Its errors name the field.
func (cs Codecs) encode(field string, val any) ([]byte, error) {
	if len(cs) == 0 {
		switch v := val.(type) { // a fast path for the most common types
		case int:
			return strconv.AppendInt(nil, int64(v), 10), nil
		case bool:
			return strconv.AppendBool(nil, v), nil
		}
		raw, err := marshalJSON(checkpoint.JSON{}, val)
		return raw, inField(field, err)
	}
	if val == nil {
		return []byte("null"), nil
	}
	c := cs[0]
	raw, err := guarded(c, func() ([]byte, error) { return c.Marshal(val) })
	if err != nil {
		return nil, inField(field, err)
	}
	if c.Name() == jsonName {
		return raw, nil
	}
	name := c.Name()
	out := make([]byte, 0, 2+len(name)+len(raw))
	out = append(append(out, codecMark, byte(len(name))), name...)
	return append(out, raw...), nil
}

// inField adds the field to a codec error.
func inField(field string, err error) error {
	if err == nil || field == "" {
		return err
	}
	if e := named(field, err); e != nil {
		return e
	}
	return fmt.Errorf("field %s: %w", field, err)
}

// named returns a copy of an error that has a field, with the field set. It returns
// nil for other errors.
func named(field string, err error) error {
	if limit, ok := errors.AsType[*checkpoint.LimitError](err); ok {
		e := *limit // a copy: the error belongs to the codec
		e.Field = field
		return &e
	}
	if unknown, ok := errors.AsType[*checkpoint.CodecError](err); ok {
		e := *unknown
		e.Field = field
		return &e
	}
	return nil
}

// marshalJSON and unmarshalJSON are the built-in codec. They return a panic of one
// of the value's methods as an error.
func marshalJSON(c checkpoint.JSON, val any) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("MarshalJSON: ", p)
		}
	}()
	return c.Marshal(val)
}

func unmarshalJSON(data []byte, ptr any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("UnmarshalJSON: ", p)
		}
	}()
	return checkpoint.JSON{}.Unmarshal(data, ptr)
}

// guarded converts a codec's panic to an error.
func guarded(c checkpoint.Codec, do func() ([]byte, error)) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New(fmt.Sprintf("codec %q: ", c.Name()), p)
		}
	}()
	return do()
}

// decode decodes a saved value into ptr.
func (cs Codecs) decode(data []byte, ptr any) error {
	name := jsonName
	if len(data) > 0 && data[0] == codecMark {
		if len(data) < 2 || len(data) < 2+int(data[1]) {
			return errors.New("saved value truncated in its codec name")
		}
		name, data = string(data[2:2+int(data[1])]), data[2+int(data[1]):]
	} else if len(cs) == 0 {
		return unmarshalJSON(data, ptr)
	}
	c := cs.named(name)
	if c == nil {
		return &checkpoint.CodecError{Codec: name, Known: cs.names()}
	}
	_, err := guarded(c, func() ([]byte, error) { return nil, c.Unmarshal(data, ptr) })
	return err
}

// decodeAs decodes a saved value of type t.
func (cs Codecs) decodeAs(t reflect.Type, data []byte) (any, error) {
	p := reflect.New(t)
	if err := cs.decode(data, p.Interface()); err != nil {
		return nil, err
	}
	return clipped(p.Elem()).Interface(), nil
}

// decodeValue decodes the saved value of a channel. It returns a panic of the
// reducer, which may be user code, as an error.
func (cs Codecs) decodeValue(c *channel, v checkpoint.Value) (val any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("reducer Build: ", p)
		}
	}()
	if !v.List {
		return cs.decodeAs(c.typ, v.Data)
	}
	if c.appender != nil {
		r := &elementReader{codecs: cs, items: v.Items}
		if d, ok := c.appender.(plainjson.Decoder); ok && len(v.Items) > 0 {
			r.short = d.DecodePlain()
		}
		return c.appender.Build(len(v.Items), r.read)
	}
	// The field was a list when it was saved, and now has another type.
	if c.typ.Kind() == reflect.Slice && slices.ContainsFunc(v.Items, coded) {
		out := reflect.MakeSlice(c.typ, len(v.Items), len(v.Items))
		for i, item := range v.Items {
			if err := cs.decode(item, out.Index(i).Addr().Interface()); err != nil {
				return nil, err
			}
		}
		return out.Interface(), nil
	}
	raw := []byte{'['}
	for i, item := range v.Items {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, item...)
	}
	return cs.decodeAs(c.typ, append(raw, ']'))
}

// elementReader decodes the elements of a saved list.
type elementReader struct {
	codecs Codecs
	items  [][]byte

	mu    sync.Mutex                       // guards the following
	short func(data []byte, elem any) bool // from an appender that is a plainjson.Decoder
	plain plainjson.ListDecoder
}

// read decodes element i into elem.
func (r *elementReader) read(i int, elem any) error {
	data := r.items[i]
	if len(r.codecs) == 0 && len(data) < maxShort && r.readPlain(data, elem) {
		return nil
	}
	return r.codecs.decode(data, elem)
}

// readPlain decodes an element without encoding/json. It returns false if it
// cannot, or if another goroutine is in readPlain: the calling Build method may be
// user code.
func (r *elementReader) readPlain(data []byte, elem any) bool {
	if !r.mu.TryLock() {
		return false
	}
	defer r.mu.Unlock()
	if r.short != nil {
		return r.short(data, elem)
	}
	return r.plain.Unmarshal(data, elem)
}

// maxShort is the size at which package plainjson is no longer used. It is below
// all limits of the built-in codec.
const maxShort = 1 << 20

func coded(data []byte) bool { return len(data) > 0 && data[0] == codecMark }

// enclose returns a saved value in the form used inside the engine's JSON: as JSON,
// or as bytes.
func enclose(data []byte) (raw json.RawMessage, bytes []byte) {
	if coded(data) {
		return nil, data
	}
	return data, nil
}

// enclosed reverses enclose.
func enclosed(raw json.RawMessage, bytes []byte) []byte {
	if bytes != nil {
		return bytes
	}
	return raw
}

// misfit returns the error for a saved value that could not be decoded.
func (r *Run) misfit(at checkpoint.ID, field string, want reflect.Type, data []byte, err error) error {
	if e := named(field, err); e != nil {
		return fmt.Errorf("graph %q: thread %q: checkpoint %s: %w", r.plan.name, r.set.Thread, at, e)
	}
	e := &StoredValueError{Graph: r.plan.name, Thread: r.set.Thread, Namespace: r.ns(), Checkpoint: at, Field: field,
		Stored: kindOf(data), Want: want.String(), Err: err}
	if inner, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && inner.Field != "" {
		e.Field, e.Stored, e.Want = field+"."+inner.Field, "a JSON "+inner.Value, inner.Type.String()
	}
	return e
}

// kindOf describes a saved value in a few words.
func kindOf(data []byte) string {
	if coded(data) {
		if len(data) > 1 && len(data) >= 2+int(data[1]) {
			return fmt.Sprintf("a value of codec %q", data[2:2+int(data[1])])
		}
		return "a truncated value"
	}
	if len(data) == 0 {
		return "nothing"
	}
	switch data[0] {
	case '"':
		return "a JSON string"
	case '{':
		return "a JSON object"
	case '[':
		return "a JSON array"
	case 't', 'f':
		return "a JSON bool"
	case 'n':
		return "a JSON null"
	}
	return "a JSON number"
}
