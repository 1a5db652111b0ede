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

// A Codec encodes and decodes the values that savers save: a field value, a list element,
// or an input sent to a node. The encoded bytes are plain data: Unmarshal receives the type to
// decode and must not construct values of types that the bytes name.
//
// A Codec must be safe for concurrent use. It never receives a nil value.
type Codec interface {
	// Name returns the name and version of the codec's format, such as "gzip/1". The
	// name is stored with every value, is 1 to 64 bytes long, and must never be reused
	// for another format. The name "json" means plain JSON, which is stored without a
	// name.
	Name() string
	// Marshal encodes v. The caller may modify the result.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into v, a pointer to the type of the encoded value. It
	// must not retain or modify data. The data may come from any source, so Unmarshal
	// must return an error if it cannot decode it.
	Unmarshal(data []byte, v any) error
}

// JSON is the default codec: encoding/json with limits. The zero value uses the default
// limits.
type JSON struct {
	// MaxDepth limits the nesting depth of arrays and objects; 0 means 9,900, and a
	// negative number means no limit. Beyond 10,000 levels, encoding/json writes values
	// that it cannot read.
	MaxDepth int
	// MaxBytes limits the JSON size of one value or list element; 0 means 256 MiB, and
	// a negative number means no limit.
	MaxBytes int
}

// The default limits of JSON. A hundred levels are reserved for the structures that an
// engine wraps around a value.
const (
	maxJSONDepth = 10_000 - 100
	maxJSONBytes = 256 << 20
)

// Name implements [Codec].
func (JSON) Name() string { return "json" }

// Marshal implements [Codec]. It returns a [*LimitError] if the value exceeds the
// limits.
func (j JSON) Marshal(v any) ([]byte, error) {
	raw, err := json.Marshal(reachable(v))
	if err != nil {
		return nil, err
	}
	return raw, j.check(raw)
}

// reachable returns v in a form that lets encoding/json call methods with pointer
// receivers. Otherwise, it would write a big.Int value as {} and lose it.
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

var pointerMethods sync.Map // reflect.Type → bool; see hasPointerMethods

// hasPointerMethods reports whether t, or a type contained in its memory, is marshaled
// by a method with a pointer receiver. Values behind pointers and in slices and maps
// are excluded, because passing a pointer to t does not affect them.
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

// Unmarshal implements [Codec]. It returns a [*LimitError] if the data exceeds the
// limits.
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
	if limit < 0 || len(raw) <= limit { // a level takes at least one byte, so most values need no count
		return nil
	}
	if got := depth(raw); got > limit {
		return &LimitError{Depth: true, Limit: limit, Got: got}
	}
	return nil
}

// depth returns the nesting depth of arrays and objects in JSON. For invalid JSON, the
// result is irrelevant, because decoding fails anyway.
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

// LimitError reports a value that is larger, or nests deeper, than its codec allows. If
// it occurs while a step is saved, nothing of the step is saved.
type LimitError struct {
	Field string // the field that contains the value, if known
	Depth bool   // the depth exceeds the limit, not the size in bytes
	Limit int
	Got   int
}

func (e *LimitError) Error() string {
	if e.Depth {
		return fmt.Sprintf("%svalue nests %d levels deep, over the limit of %d: flatten it, or raise checkpoint.JSON.MaxDepth", prefix(e.Field), e.Got, e.Limit)
	}
	return fmt.Sprintf("%svalue has %d bytes, over the limit of %d: store large data elsewhere and refer to it here, or raise checkpoint.JSON.MaxBytes", prefix(e.Field), e.Got, e.Limit)
}

// CodecError reports a value encoded with a codec that the graph does not list.
type CodecError struct {
	Field string   // the field that contains the value, if known
	Codec string   // the name of the codec that wrote it
	Known []string // the names of the graph's codecs
}

func (e *CodecError) Error() string {
	return fmt.Sprintf("%svalue encoded with codec %q, but the graph lists only %s: add the codec to Options.Codecs", prefix(e.Field), e.Codec, strings.Join(e.Known, ", "))
}

func prefix(field string) string {
	if field == "" {
		return ""
	}
	return "field " + field + ": "
}
