package pregel

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/reduce"
)

// Reserved names.
const (
	Start = "__start__"
	End   = "__end__"
	// Root is the channel of a graph whose state is not a struct.
	Root = "__root__"
	// overwriteKey marks an overwrite in JSON: {"__overwrite__": value}.
	overwriteKey = "__overwrite__"
)

// policy controls the lifetime of a channel's value.
type policy uint8

const (
	tracked   policy = iota
	ephemeral        // cleared after the step that follows the write
	untracked        // never saved
)

// channel is one field of the state.
type channel struct {
	id      int
	name    string // Go name, used to match struct fields
	wire    string // JSON name
	typ     reflect.Type
	upd     reflect.Type   // type of updates; typ unless the reducer takes another type
	reducer reduce.Reducer // nil: the last value wins
	policy  policy
	private bool     // not a field of the state type
	was     []string // previous wire names, latest first
	tag     reflect.StructTag
	checks  bool // typ has Validate() error

	appender reduce.Appender // the reducer, if it is an Appender
	initial  any             // if hasInit, the value on a new thread
	hasInit  bool
	start    slot // the reducer's value before its first update
}

func (c *channel) accumulates() bool { return c.reducer != nil }

// reset returns the channel's slot on a new thread.
func (c *channel) reset() slot {
	if c.hasInit {
		return slot{val: c.initial, has: true}
	}
	return c.start
}

// reduceBy sets the channel's reducer, which may be user code.
func (c *channel) reduceBy(r reduce.Reducer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("reducer Start: ", p)
		}
	}()
	c.reducer = r
	c.appender, _ = r.(reduce.Appender)
	if r == nil {
		return nil
	}
	if v, ok := r.Start(); ok {
		if t := reflect.TypeOf(v); t != c.typ && c.typ.Kind() != reflect.Interface {
			return fmt.Errorf("reducer starts with a value of type %v, want %v", t, c.typ)
		}
		c.start = slot{val: v, has: true}
	}
	return nil
}

// Schema is the set of a graph's channels.
type Schema struct {
	graph    string
	words    *Vocabulary
	state    reflect.Type
	dynamic  bool // the state is a checked map
	root     bool // the state is one channel
	channels []*channel
	byName   map[string]*channel
	byWire   map[string]*channel
	errs     []error
	renamed  []renamedField
	former   map[string]*channel // by previous wire name
	rejected map[string]bool     // Go names of invalid fields, whose uses are not reported again
	workflow bool                // see Spec.Workflow
}

// A Vocabulary identifies the user types that carry control. They are defined in
// the public package.
type Vocabulary struct {
	Goto      reflect.Type                            // results and fields of this type are control
	Targets   func(to []Target, g any) []Target       // appends the targets of a Goto
	Update    reflect.Type                            // the map type of dynamic updates
	AsMap     func(any) map[string]any                // reads an Update
	FromMap   func(map[string]any) any                // creates an Update
	Overwrite func(reflect.Type) (reflect.Type, bool) // returns the element type if t is an Overwrite
	Unwrap    func(any) any                           // returns the value inside an Overwrite
	Command   func(reflect.Type) (upd reflect.Type, ok bool)
	Commands  func(any) []Command // reads a Command or a list of Commands
}

// Target is a destination of control: a node by name, optionally with an input.
type Target struct {
	Node    string
	Input   any
	IsSend  bool
	Timeout time.Duration
}

// Command combines an update and a goto.
type Command struct {
	Update any // nil means no update
	Goto   []Target
	Parent bool
}

// field is one exported field of a flattened struct.
type field struct {
	index []int
	name  string
	path  string // includes the embedded structs, for messages
	wire  string
	typ   reflect.Type
	tag   reflect.StructTag
}

// flat caches the results of fieldsOf.
var flat sync.Map // reflect.Type → flattened

type flattened struct {
	fields []field
	errs   []string
}

// fieldsOf flattens a struct: embedded structs contribute their fields.
func fieldsOf(t reflect.Type) (fields []field, errs []string) {
	f, ok := flat.Load(t)
	if !ok {
		fields, errs = flatten(t)
		f, _ = flat.LoadOrStore(t, flattened{slices.Clip(fields), slices.Clip(errs)})
	}
	known := f.(flattened)
	return known.fields, known.errs
}

func flatten(t reflect.Type) (fields []field, errs []string) {
	seen := map[string]string{}
	var walk func(t reflect.Type, index []int, path string)
	walk = func(t reflect.Type, index []int, path string) {
		for i := range t.NumField() {
			f := t.Field(i)
			at := append(slices.Clip(index), i)
			full := path + "." + f.Name
			if f.Anonymous {
				switch {
				case f.Type.Kind() == reflect.Struct && !reducesItself(f.Type):
					walk(f.Type, at, full)
					continue
				case f.Type.Kind() == reflect.Pointer:
					errs = append(errs, full+" is an embedded pointer: embed the struct itself")
					continue
				}
			}
			if !f.IsExported() {
				errs = append(errs, full+" is unexported, so the graph cannot pass it between nodes: export or remove it")
				continue
			}
			wire, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if wire == "-" && f.Tag.Get("json") == "-" {
				errs = append(errs, full+` has json:"-", but a field without a name cannot be saved: give it a name and tag it treadle:"untracked"`)
				continue
			}
			if wire == "" {
				wire = f.Name
			}
			if other, dup := seen[f.Name]; dup {
				errs = append(errs, full+" and "+other+" have the same name")
				continue
			}
			seen[f.Name] = full
			fields = append(fields, field{index: at, name: f.Name, path: full, wire: wire, typ: f.Type, tag: f.Tag})
		}
	}
	walk(t, nil, t.String())
	return fields, errs
}

// reducesItself reports whether t has a Reduce method that returns t. A method
// promoted from an embedded field returns the field's type instead.
func reducesItself(t reflect.Type) bool {
	m, ok := t.MethodByName("Reduce")
	return ok && m.Type.NumOut() > 0 && m.Type.Out(0) == t
}

func hasMethod(t reflect.Type, name string) bool {
	_, ok := t.MethodByName(name)
	return ok
}

func (s *Schema) fail(node, field, format string, args ...any) {
	s.errs = append(s.errs, &BuildError{Graph: s.graph, Node: node, Field: field, Msg: fmt.Sprintf(format, args...)})
}

var (
	errorType      = reflect.TypeFor[error]()
	validatorType  = reflect.TypeFor[interface{ Validate() error }]()
	fastReduceType = reflect.TypeFor[interface{ Reducer() reduce.Reducer }]()
)

// validates reports whether t has a method Validate() error, with a value or a
// pointer receiver.
func validates(t reflect.Type) bool {
	return t.Kind() != reflect.Interface && (t.Implements(validatorType) || reflect.PointerTo(t).Implements(validatorType))
}

// reducerOf returns the reducer for values of type t and the type of its updates.
// The reducer comes from t's method Reducer or its method Reduce; it is nil if t
// has neither.
func reducerOf(t reflect.Type) (upd reflect.Type, r reduce.Reducer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("method Reducer: ", p)
		}
	}()
	if t.Kind() == reflect.Interface {
		return t, nil, nil
	}
	m, ok := t.MethodByName("Reduce")
	if !ok {
		if t.Kind() != reflect.Pointer && hasMethod(reflect.PointerTo(t), "Reduce") {
			return nil, nil, errors.New("method Reduce has a pointer receiver: use a value receiver, so that it cannot modify shared state")
		}
		if t.Implements(fastReduceType) {
			return nil, nil, fmt.Errorf("method Reducer without a method Reduce: add Reduce(U) %s, where U is the type of updates", t)
		}
		return t, nil, nil
	}
	ft := m.Type // includes the receiver
	shape := ft.NumIn() == 2 && !ft.IsVariadic() && ft.NumOut() >= 1 && ft.Out(0) == t &&
		(ft.NumOut() == 1 || ft.NumOut() == 2 && ft.Out(1) == errorType)
	if !shape {
		return nil, nil, fmt.Errorf("method %s is not a reducer: want Reduce(U) %s or Reduce(U) (%s, error)",
			strings.Replace(ft.String(), "func(", "Reduce(", 1), t, t)
	}
	upd = ft.In(1)
	if t.Implements(fastReduceType) {
		r := reflect.Zero(t).Interface().(interface{ Reducer() reduce.Reducer }).Reducer()
		if r == nil {
			return nil, nil, errors.New("method Reducer returns nil: return a reducer, or remove the method")
		}
		return upd, r, nil
	}
	return upd, methodReducer{t: t, method: m.Index, upd: upd, fails: ft.NumOut() == 2}, nil
}

// methodReducer calls a user's Reduce method by reflection.
type methodReducer struct {
	t, upd reflect.Type
	method int
	fails  bool
}

// Start returns the zero value.
func (m methodReducer) Start() (any, bool) { return reflect.Zero(m.t).Interface(), true }

// Reduce calls the method. A nil update stands for the zero update.
func (m methodReducer) Reduce(val, _, update any, _ bool) (any, any, error) {
	u := reflect.ValueOf(update)
	if !u.IsValid() {
		u = reflect.Zero(m.upd)
	}
	old := reflect.ValueOf(val)
	if !old.IsValid() {
		old = reflect.Zero(m.t)
	}
	out := old.Method(m.method).Call([]reflect.Value{u})
	if m.fails && !out[1].IsNil() {
		return nil, nil, out[1].Interface().(error)
	}
	return clipped(out[0]).Interface(), nil, nil
}

// clipped drops a slice's spare capacity, so that two nodes that append to the
// same input never share memory.
func clipped(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Slice && v.Cap() > v.Len() {
		return v.Slice3(0, v.Len(), v.Len())
	}
	return v
}

// declare adds a channel, or reports why the field is invalid.
func (s *Schema) declare(node string, f field, private bool) (added *channel) {
	defer func() {
		if added == nil {
			s.rejected[f.name] = true
		}
	}()
	typ := f.typ
	if elem, ok := s.words.Overwrite(typ); ok {
		typ = elem
	}
	upd, red, err := typ, reduce.Reducer(nil), error(nil)
	if !s.workflow {
		upd, red, err = reducerOf(typ)
	}
	if err != nil {
		s.fail(node, f.path, "%v", err)
		return nil
	}
	c := &channel{id: len(s.channels), name: f.name, wire: f.wire, typ: typ, upd: upd, private: private, tag: f.tag}
	if err := c.reduceBy(red); err != nil {
		s.fail(node, f.path, "%v", err)
		return nil
	}
	if c.policy, c.was, err = readTag(f.tag); err != nil {
		s.fail(node, f.path, "%v", err)
		return nil
	}
	if c.reducer != nil && c.policy == ephemeral {
		s.fail(node, f.path, "ephemeral field cannot accumulate: it is cleared after every step")
	}
	if other := s.byWire[f.wire]; other != nil {
		s.fail(node, f.path, "fields %s and %s have the same JSON name %q", other.name, f.name, f.wire)
		return nil
	}
	s.add(c)
	return c
}

func (s *Schema) add(c *channel) {
	c.id = len(s.channels)
	c.checks = validates(c.typ)
	s.channels = append(s.channels, c)
	s.byName[c.name] = c
	s.byWire[c.wire] = c
}

// readTag parses the treadle tag of a field.
func readTag(tag reflect.StructTag) (life policy, was []string, err error) {
	for opt := range strings.SplitSeq(tag.Get("treadle"), ",") {
		switch key, val, _ := strings.Cut(opt, "="); {
		case opt == "":
		case opt == "ephemeral":
			life = ephemeral
		case opt == "untracked":
			life = untracked
		case key == "was" && val != "":
			was = append(was, val)
		default:
			return 0, nil, fmt.Errorf("unknown tag treadle:%q: want ephemeral, untracked, or was=old", opt)
		}
	}
	return life, was, nil
}

// lookup returns the channel for a struct field. Struct fields match by Go name,
// except in a dynamic state, which has only JSON names.
func (s *Schema) lookup(f field) *channel {
	if s.dynamic {
		return s.byWire[f.wire]
	}
	return s.byName[f.name]
}

// checkTag rejects a field whose JSON name differs from its JSON name in the state.
func (s *Schema) checkTag(node string, f field, c *channel) {
	if f.tag.Get("json") != "" && f.wire != c.wire {
		s.fail(node, f.path, "JSON name %q differs from the state's %q: remove the tag", f.wire, c.wire)
	}
}

// find returns the channel with the given Go name or JSON name.
func (s *Schema) find(name string) *channel {
	if c := s.byName[name]; c != nil {
		return c
	}
	return s.byWire[name]
}

// saved returns the channel of a field in a checkpoint, which may have a previous name.
func (s *Schema) saved(wire string) *channel {
	if c := s.byWire[wire]; c != nil {
		return c
	}
	return s.former[wire]
}

func (s *Schema) wireNames() []string {
	return slices.Sorted(maps.Keys(s.byWire))
}

var (
	jsonWriter = reflect.TypeFor[json.Marshaler]()
	textWriter = reflect.TypeFor[encoding.TextMarshaler]()
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// custom reports whether t has its own JSON or text methods.
func custom(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Implements(jsonWriter) || p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(textWriter) && p.Implements(textReader)
}

// storable returns an error if values of type t cannot be encoded as JSON and
// decoded again. The error includes the path to the field.
func storable(t reflect.Type, path string, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if custom(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128, reflect.Uintptr:
		return fmt.Errorf("%s is a %s, which cannot be saved", path, t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s is the interface %s, which cannot be decoded: use a concrete type", path, t)
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return storable(t.Elem(), path+"[]", seen)
	case reflect.Map:
		switch t.Key().Kind() {
		case reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		default:
			if !t.Key().Implements(textWriter) || !reflect.PointerTo(t.Key()).Implements(textReader) {
				return fmt.Errorf("%s is a %s, whose keys JSON cannot represent", path, t)
			}
		}
		if e := t.Elem(); e.Kind() != reflect.Pointer && !e.Implements(jsonWriter) && !e.Implements(textWriter) &&
			(reflect.PointerTo(e).Implements(jsonWriter) || reflect.PointerTo(e).Implements(textWriter)) {
			return fmt.Errorf("%s is a %s, but the JSON methods of %s have pointer receivers, which encoding/json does not call for map values: use map[%s]*%s", path, t, e, t.Key(), e)
		}
		return storable(t.Elem(), path+"[]", seen)
	case reflect.Struct:
		exported := 0
		for f := range t.Fields() {
			if !f.IsExported() && !f.Anonymous {
				continue
			}
			if f.Tag.Get("json") == "-" {
				continue
			}
			exported++
			if !f.IsExported() && f.Type.Kind() == reflect.Pointer {
				return fmt.Errorf("%s.%s is an embedded pointer to an unexported struct, which cannot be decoded: export it or embed the struct itself", path, f.Name)
			}
			if err := storable(f.Type, path+"."+f.Name, seen); err != nil {
				return err
			}
		}
		if exported == 0 && t.NumField() > 0 {
			return fmt.Errorf("%s is a %s, which has only unexported fields: nothing would be saved", path, t)
		}
	}
	return nil
}
