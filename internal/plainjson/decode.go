package plainjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// Unmarshal decodes data into the zero value that v points to. If it returns true, the
// result equals that of [json.Unmarshal]. If it returns false, the value is still zero,
// and the caller must use json.Unmarshal.
//
// It supports structs, strings, numbers, bools, raw JSON, and slices and maps of and
// pointers to them. It returns false for null, for unknown, duplicate, or differently
// capitalized fields, and for types with their own JSON methods, except in absent
// optional fields.
func Unmarshal(data []byte, v any) bool {
	p := reflect.ValueOf(v)
	return p.Kind() == reflect.Pointer && unmarshal(&Reader{data: data}, readerOf(p.Type().Elem()), p)
}

// A ListDecoder decodes many values, such as the elements of a list, using less memory
// than separate calls of Unmarshal.
type ListDecoder struct {
	reader Reader
	short  shortStrings
	last   reflect.Type // pointer type of the previous value
	read   readFunc     // reader for last
}

// Unmarshal is like [Unmarshal], except that the values' short strings share memory.
func (d *ListDecoder) Unmarshal(data []byte, v any) bool {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer {
		return false
	}
	if t := p.Type(); t != d.last {
		d.last, d.read = t, readerOf(t.Elem())
	}
	d.reader = Reader{data: data, short: &d.short}
	return unmarshal(&d.reader, d.read, p)
}

// unmarshal decodes into the value that p points to.
func unmarshal(r *Reader, read readFunc, p reflect.Value) bool {
	if read == nil || p.IsNil() {
		return false
	}
	v := p.Elem()
	if !v.IsZero() {
		return false
	}
	read(r, v)
	if !r.Done() {
		v.SetZero()
		return false
	}
	return true
}

// A Decoder decodes most elements of a list faster than encoding/json. An appender (see
// package reduce) may implement it.
type Decoder interface {
	// DecodePlain returns a function that decodes the elements of one list. The function
	// decodes data into the zero value that elem points to. If it returns false, the
	// value is still zero, and encoding/json decodes it; otherwise the value equals the
	// result of encoding/json. The function must not panic, and it gives up on deeply
	// nested values. Only one goroutine calls it.
	DecodePlain() func(data []byte, elem any) bool
	decoder()
}

// A DecoderMark is embedded in every [Decoder]. Only this module can import it, so no
// user type is a Decoder by accident.
type DecoderMark struct{}

func (DecoderMark) decoder() {} //nolint:unused // it makes Decoder an interface that only this module implements

// shortStrings copies short strings into blocks, so that a list of messages does not need
// an allocation for each name, ID, and text. A string keeps its block alive, so blocks
// are small, and names and IDs use different blocks than texts.
type shortStrings struct {
	names, texts stringBlock
}

// stringBlock is a block being filled.
type stringBlock struct {
	strings.Builder
	size int
}

const (
	firstBlock   = 128
	maxName      = 48
	maxNameBlock = 1024
	maxText      = 512
	maxTextBlock = 4096
)

// copy returns b as a string; b must have at most maxText bytes.
func (s *shortStrings) copy(b []byte) string {
	if len(b) <= maxName {
		return s.names.copy(b, maxNameBlock)
	}
	return s.texts.copy(b, maxTextBlock)
}

// copy adds b to the block, or to a new block of at most most bytes.
func (s *stringBlock) copy(b []byte, most int) string {
	if s.Cap()-s.Len() < len(b) {
		s.size = min(most, max(firstBlock, 2*s.size, 2*len(b)))
		s.Builder = strings.Builder{} // the strings keep the old block alive
		s.Grow(s.size)
	}
	from := s.Len()
	s.Write(b)
	return s.String()[from:]
}

// readFunc decodes a value of one type into v, which must be zero.
type readFunc func(r *Reader, v reflect.Value)

// readers caches the functions by type; nil means that the type is not supported.
var readers sync.Map // reflect.Type → readFunc

func readerOf(t reflect.Type) readFunc {
	if f, ok := readers.Load(t); ok {
		return f.(readFunc)
	}
	f := makeReader(t, map[reflect.Type]bool{})
	readers.Store(t, f)
	return f
}

var (
	jsonReader = reflect.TypeFor[json.Unmarshaler]()
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// makeReader returns a readFunc for t, or nil if encoding/json must decode t. It returns
// nil for recursive types; open holds the types being processed.
func makeReader(t reflect.Type, open map[reflect.Type]bool) readFunc {
	if open[t] {
		return nil
	}
	open[t] = true
	defer delete(open, t)
	if t == reflect.TypeFor[json.RawMessage]() {
		return func(r *Reader, v reflect.Value) { v.SetBytes(bytes.Clone(r.Raw())) }
	}
	if p := reflect.PointerTo(t); t == reflect.TypeFor[json.Number]() || p.Implements(jsonReader) || p.Implements(textReader) {
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		return func(r *Reader, v reflect.Value) { v.SetString(r.String()) }
	case reflect.Bool:
		return func(r *Reader, v reflect.Value) { v.SetBool(r.Bool()) }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := t.Bits()
		return func(r *Reader, v reflect.Value) { v.SetInt(r.Int(bits)) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		bits := t.Bits()
		return func(r *Reader, v reflect.Value) { v.SetUint(r.Uint(bits)) }
	case reflect.Float32, reflect.Float64:
		bits := t.Bits()
		return func(r *Reader, v reflect.Value) { v.SetFloat(r.Float(bits)) }
	case reflect.Pointer:
		return makePointerReader(t, open)
	case reflect.Slice:
		return makeSliceReader(t, open)
	case reflect.Map:
		return makeMapReader(t, open)
	case reflect.Struct:
		return makeStructReader(t, open)
	}
	return nil
}

func makePointerReader(t reflect.Type, open map[reflect.Type]bool) readFunc {
	elem := makeReader(t.Elem(), open)
	if elem == nil {
		return nil
	}
	return func(r *Reader, v reflect.Value) {
		if r.Next() == 'n' { // null is not a pointer, even where raw JSON could hold it
			r.Fail()
			return
		}
		p := reflect.New(t.Elem())
		elem(r, p.Elem())
		v.Set(p)
	}
}

func makeSliceReader(t reflect.Type, open map[reflect.Type]bool) readFunc {
	elem := makeReader(t.Elem(), open)
	if elem == nil || t.Elem().Kind() == reflect.Uint8 { // bytes are base64-encoded
		return nil
	}
	first := 4 // initial capacity
	if t.Elem().Size() > 64 {
		first = 1
	}
	return func(r *Reader, v reflect.Value) {
		n := 0
		r.Begin('[')
		for r.More(']') {
			if n == v.Cap() {
				v.Grow(max(first, n))
			}
			v.SetLen(n + 1)
			elem(r, v.Index(n))
			n++
		}
		if n == 0 {
			v.Set(reflect.MakeSlice(t, 0, 0))
		}
	}
}

func makeMapReader(t reflect.Type, open map[reflect.Type]bool) readFunc {
	elem := makeReader(t.Elem(), open)
	if elem == nil || t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(textReader) {
		return nil
	}
	return func(r *Reader, v reflect.Value) {
		v.Set(reflect.MakeMap(t))
		r.Begin('{')
		for r.More('}') {
			key := reflect.ValueOf(string(r.Key())).Convert(t.Key())
			value := reflect.New(t.Elem()).Elem()
			elem(r, value)
			v.SetMapIndex(key, value)
		}
	}
}

type structField struct {
	name  string
	label string // the name as encoding/json writes it, with quotes and colon
	index int
	read  readFunc
}

func makeStructReader(t reflect.Type, open map[reflect.Type]bool) readFunc {
	fields, ok := fieldsOf(t, open)
	if !ok {
		return nil
	}
	return func(r *Reader, v reflect.Value) {
		var seen uint64
		next := 0 // fields are usually in struct order
		r.Begin('{')
		for r.More('}') {
			if next == len(fields) || !r.label(fields[next].label) {
				next = indexField(fields, r.Key())
			}
			if next < 0 || seen&(1<<next) != 0 {
				r.Fail()
				return
			}
			seen |= 1 << next
			fields[next].read(r, v.Field(fields[next].index))
			next++
		}
	}
}

func indexField(fields []structField, name []byte) int {
	for i := range fields {
		if fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// fieldsOf returns the fields of a struct that encoding/json reads. It returns false if
// the rules are not simple: for embedded structs, duplicate names, and tag options that
// change the value.
func fieldsOf(t reflect.Type, open map[reflect.Type]bool) (fields []structField, ok bool) {
	names := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous:
			return nil, false
		case !f.IsExported() || tag == "-":
			continue
		case name == "":
			name = f.Name
		}
		read := makeReader(f.Type, open)
		if read == nil && (options == "omitempty" || options == "omitzero") {
			read = func(r *Reader, _ reflect.Value) { r.Fail() } // usually absent
		}
		if read == nil || names[name] || !simpleName(name) || options != "" && options != "omitempty" && options != "omitzero" {
			return nil, false
		}
		names[name] = true
		fields = append(fields, structField{name, `"` + name + `":`, i, read})
	}
	return fields, len(fields) <= 64
}

func simpleName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
