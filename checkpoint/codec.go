package checkpoint

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/internal/plainjson"
)

// A Codec turns the values of a graph into the bytes that savers keep, and
// back. It is given one value at a time: what a field holds, one element of a
// list, an input sent to a node. It holds data only: Unmarshal is told what
// type is wanted and must construct nothing that the bytes name.
//
// All methods may be called concurrently. A nil value is never given to it.
type Codec interface {
	// Name says which format the codec writes, with its version: "gzip/1". It
	// is stored in front of every value, so it is short, 1 to 64 bytes, and
	// never means another format later. The name "json" is that of plain
	// JSON, which has nothing in front.
	Name() string
	// Marshal returns v as bytes that are the caller's own.
	Marshal(v any) ([]byte, error)
	// Unmarshal reads what Marshal wrote for a value of the same type into v,
	// a pointer. It keeps no part of data and does not change it. The bytes
	// may come from anywhere: whatever they are, an error is the worst that
	// they lead to.
	Unmarshal(data []byte, v any) error
}

// JSON is the codec of a graph that sets none: encoding/json, within limits.
// The zero value has the default limits.
type JSON struct {
	// MaxDepth bounds how deep arrays and objects nest; 0 means 9,900, and a
	// negative one no bound. Beyond 10,000 encoding/json writes what it does
	// not read.
	MaxDepth int
	// MaxBytes bounds the JSON of one value, or of one element of a list; 0
	// means 256 MiB, and a negative one no bound.
	MaxBytes int
}

// The default limits of JSON. A hundred levels are left for what an engine
// puts around a value.
const (
	maxJSONDepth = 10_000 - 100
	maxJSONBytes = 256 << 20
)

// Name implements [Codec].
func (JSON) Name() string { return "json" }

// Marshal implements [Codec]. What it could not read back is a *[LimitError].
func (j JSON) Marshal(v any) ([]byte, error) {
	raw, err := json.Marshal(reachable(v))
	if err != nil {
		return nil, err
	}
	return raw, j.check(raw)
}

// reachable is v in a form in which encoding/json calls methods with pointer
// receivers too. A big.Int, as a value, would be written as {} and be lost.
func reachable(v any) any {
	switch v.(type) {
	case nil, string, int, int64, float64, bool, []string, map[string]any, json.RawMessage, json.Number:
		return v
	}
	t := reflect.TypeOf(v)
	has, ok := pointerMethods.Load(t)
	if !ok {
		has = hasPointerMethods(t, map[reflect.Type]bool{})
		pointerMethods.Store(t, has)
	}
	if !has.(bool) {
		return v
	}
	p := reflect.New(t)
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}

var pointerMethods sync.Map // reflect.Type → bool: see hasPointerMethods

// hasPointerMethods reports a type that is written, itself or a part that lies
// within it, by a method with a pointer receiver. What is behind a pointer, in
// a slice or in a map does not change with the way to reach it.
func hasPointerMethods(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	if writesItself(t) {
		return false
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && writesItself(reflect.PointerTo(t)) {
		return true
	}
	switch t.Kind() {
	case reflect.Array:
		return hasPointerMethods(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if (f.IsExported() || f.Anonymous) && hasPointerMethods(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

func writesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// Unmarshal implements [Codec]. Data beyond the limits is a *[LimitError] and
// not looked at any further.
func (j JSON) Unmarshal(data []byte, v any) error {
	if err := j.check(data); err != nil {
		return err
	}
	if plainjson.Unmarshal(data, v) {
		return nil
	}
	return json.Unmarshal(data, v)
}

func (j JSON) check(raw []byte) error {
	limit := cmp.Or(j.MaxBytes, maxJSONBytes)
	if limit > 0 && len(raw) > limit {
		return &LimitError{Limit: limit, Got: len(raw)}
	}
	limit = cmp.Or(j.MaxDepth, maxJSONDepth)
	if limit < 0 || len(raw) <= limit { // a level takes a byte: most values need no count
		return nil
	}
	if got := depth(raw); got > limit {
		return &LimitError{Depth: true, Limit: limit, Got: got}
	}
	return nil
}

// depth is how deep arrays and objects nest in JSON. Of something else it is a
// number that does not matter, as it will not be read.
func depth(raw []byte) (deepest int) {
	level, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '[' || b == '{':
			level++
			deepest = max(deepest, level)
		case b == ']' || b == '}':
			level--
		}
	}
	return deepest
}

// LimitError: a value is longer, or nests deeper, than its codec allows. A
// value that is to be stored is refused, and nothing of its step is stored.
type LimitError struct {
	Field string // where the value belongs, if it is known
	Depth bool   // it is its depth that is too much, not its length in bytes
	Limit int
	Got   int
}

func (e *LimitError) Error() string {
	if e.Depth {
		return fmt.Sprintf("%sthe value nests %d levels deep, the limit is %d: store a flatter one, or raise checkpoint.JSON.MaxDepth", prefix(e.Field), e.Got, e.Limit)
	}
	return fmt.Sprintf("%sthe value takes %d bytes, the limit is %d: keep big things elsewhere and their names here, or raise checkpoint.JSON.MaxBytes", prefix(e.Field), e.Got, e.Limit)
}

// CodecError: a value was stored with a codec that the graph does not have.
type CodecError struct {
	Field string   // where the value belongs, if it is known
	Codec string   // the name of the codec that wrote it
	Known []string // the names of those that the graph has
}

func (e *CodecError) Error() string {
	return fmt.Sprintf("%sthe value was stored with codec %q and the graph has %s: add the codec to Options.Codecs", prefix(e.Field), e.Codec, strings.Join(e.Known, ", "))
}

func prefix(field string) string {
	if field == "" {
		return ""
	}
	return "field " + field + ": "
}
