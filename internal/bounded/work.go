package bounded

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

var errWork = errors.New("validation would take too long: shorten or flatten the value")

// affordable returns an error unless a value can be validated in bounded time and stack.
// It considers each pair of schema and value once, no matter how often validation will
// visit it, so that the estimate itself is fast.
func (s *Schema) affordable(v any) error {
	// Without references, a schema is applied to a value at most once.
	if n, size := measure(v); !s.refs && s.count*n*(1+size/200) <= maxWork/100 {
		return nil
	}
	e := &estimate{Schema: s, known: map[visit]cost{}}
	root, err := e.tree(v, 0)
	if err != nil {
		return err
	}
	c, ok := e.of(s.Schema(), root)
	if !ok || c.work > maxWork || c.stack > maxStack {
		return errWork
	}
	return nil
}

// measure returns the number of values in v and its approximate length as text.
func measure(v any) (nodes, size int) {
	switch v := v.(type) {
	case string:
		return 1, len(v)
	case map[string]any:
		for name, in := range v {
			n, s := measure(in)
			nodes, size = nodes+n, size+s+len(name)
		}
	case []any:
		for _, in := range v {
			n, s := measure(in)
			nodes, size = nodes+n, size+s
		}
	}
	return nodes + 1, size + 4
}

type estimate struct {
	*Schema
	known map[visit]cost
	depth int // current depth of visits
}

type visit struct {
	schema *jsonschema.Schema
	value  *node
}

// cost is the total cost of a visit, including all nested visits.
type cost struct {
	work  float64
	stack int
}

// node is a value with its children.
type node struct {
	value  any
	kind   string // JSON schema's type
	size   int    // approximate length as text
	fields map[string]*node
	items  []*node
}

func (e *estimate) tree(v any, depth int) (*node, error) {
	if depth > MaxDepth {
		return nil, errDepth
	}
	n := &node{value: v, size: 4}
	switch v := v.(type) {
	case nil:
		n.kind = "null"
	case bool:
		n.kind = "boolean"
	case string:
		n.kind = "string"
		n.size += len(v)
	case map[string]any:
		n.kind = "object"
		n.fields = make(map[string]*node, len(v))
		for name, in := range v {
			sub, err := e.tree(in, depth+1)
			if err != nil {
				return nil, err
			}
			n.fields[name] = sub
			n.size += len(name) + sub.size
		}
	case []any:
		n.kind = "array"
		n.items = make([]*node, len(v))
		for i, in := range v {
			sub, err := e.tree(in, depth+1)
			if err != nil {
				return nil, err
			}
			n.items[i] = sub
			n.size += sub.size
		}
	default:
		n.kind = "number"
		n.size += 16
	}
	return n, nil
}

// maxKnown bounds the estimate itself.
const maxKnown = 1_000_000

// of returns the cost of a visit. It returns false if the estimate itself takes too long.
func (e *estimate) of(s *jsonschema.Schema, n *node) (cost, bool) {
	key := visit{s, n}
	if c, ok := e.known[key]; ok {
		return c, true
	}
	if len(e.known) > maxKnown || e.depth > maxStack {
		return cost{}, false
	}
	e.depth++
	defer func() { e.depth-- }()
	// A failure formats the value.
	c := cost{work: 1 + float64(n.size)/200, stack: 1}
	if n.kind == "string" {
		c.work += float64(e.patterns[s]) * float64(n.size) / 100
	}
	ok := true
	add := func(sub *jsonschema.Schema, to *node, share float64) {
		if sub == nil || !ok {
			return
		}
		var in cost
		in, ok = e.of(sub, to)
		c.work += share * in.work
		c.stack = max(c.stack, 1+in.stack)
		ok = ok && c.work <= maxWork && c.stack <= maxStack
	}
	switch {
	case mismatched(s, n): // validation follows references before checking the type
		for _, sub := range e.same[s] {
			add(sub, n, 1)
		}
	default:
		for sub := range e.alike(s) {
			add(sub, n, 1)
		}
		e.inside(s, n, add)
	}
	if ok {
		e.known[key] = c
	}
	return c, ok
}

// inside adds the visits to the value's children.
func (e *estimate) inside(s *jsonschema.Schema, n *node, add func(*jsonschema.Schema, *node, float64)) {
	for i, item := range n.items {
		for _, list := range [][]*jsonschema.Schema{s.PrefixItems, s.ItemsArray} {
			if i < len(list) {
				add(list[i], item, 1)
			}
		}
		for _, sub := range []*jsonschema.Schema{s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems} {
			add(sub, item, 1)
		}
	}
	if n.fields == nil {
		return
	}
	// Properties are visited in random order until one fails. If a property is bound to
	// fail, on average half of the others are visited.
	share := 1.0
	for name, sub := range s.Properties {
		if field := n.fields[name]; field != nil && mismatched(sub, field) {
			share = 0.5
			break
		}
	}
	for key, field := range n.fields {
		add(s.Properties[key], field, share)
		for _, sub := range s.PatternProperties {
			add(sub, field, share)
		}
		add(s.UnevaluatedProperties, field, share)
		if s.Properties[key] == nil {
			add(s.AdditionalProperties, field, share)
		}
		if s.PropertyNames != nil {
			add(s.PropertyNames, &node{value: key, kind: "string", size: len(key)}, 1)
		}
	}
}

// mismatched reports whether a value fails one of a schema's first keywords.
func mismatched(s *jsonschema.Schema, n *node) bool {
	fits := func(typ string) bool { return typ == n.kind || n.kind == "number" && typ == "integer" }
	switch {
	case s.Type != "":
		if !fits(s.Type) {
			return true
		}
	case s.Types != nil:
		if !slices.ContainsFunc(s.Types, fits) {
			return true
		}
	}
	switch {
	case n.fields != nil || n.items != nil || n.kind == "number":
		return false // too expensive to compare here
	case s.Const != nil:
		return !equal(*s.Const, n.value)
	case s.Enum != nil:
		return !slices.ContainsFunc(s.Enum, func(v any) bool { return equal(v, n.value) })
	}
	return false
}

func equal(a, b any) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && fmt.Sprint(a) == fmt.Sprint(b)
}
