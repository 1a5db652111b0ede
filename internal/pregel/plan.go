package pregel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Plan is a compiled graph. It is immutable and safe for concurrent runs.
type Plan struct {
	name     string
	quoted   []byte // name as JSON
	spec     *Spec
	schema   *Schema
	nodes    []*node // sorted by name: a node's ID is its rank, so ID order is commit order
	defined  []*node // in the order added by the user
	byName   map[string]*node
	former   map[string]*node // by previous name; see addFormer
	views    []*viewPlan
	joins    []*join
	start    wiring // successors of the input
	in       *updatePlan
	out      *viewPlan
	state    *viewPlan // the whole state, for Validate
	validate bool
	inChecks bool // the input type has a Validate method
	ephem    []*channel
	output   []*channel // channels of the output
	public   []*channel // channels of the state type, without private channels; shown in streams
	warnings []*BuildError

	updates   sync.Map // reflect.Type → *updatePlan, for updates whose type is known only at run time
	heads     *Heads   // nil until headsOnce has run; see cachedHeads
	headsOnce sync.Once
	answers   answerSchemas
	sizes     sizes
}

// node is a compiled NodeSpec.
type node struct {
	*NodeSpec
	id       int32
	now      *node  // the node itself, or the renamed node that this is a copy of
	former   string // in a copy of a renamed node, the previous name
	view     int    // index into Plan.views; -1 if only Send supplies the input
	reads    []int  // indexes into Plan.views, of NodeSpec.Reads
	sendOnly string
	hides    bool // In has untracked fields
	renamed  []renamedField
	out      *outPlan
	handler  *outPlan
	// wholeState means that the handler is the graph's default and takes the state.
	wholeState bool
	nest       *nesting
	fn         *Func // set if results are cached
	triggers   []string
	quoted     []byte // name as JSON
	wiring
}

// wiring describes the successors of a node.
type wiring struct {
	edges    []int32
	joins    []joinEnd
	branches []*branch
}

type joinEnd struct{ join, bit int }

// join is a barrier: its target runs after all its sources have run.
type join struct {
	name    string
	sources []int32
	target  int32
	toEnd   bool
}

type branch struct {
	*BranchSpec
	view int
}

// viewPlan describes how to fill a struct from channels.
type viewPlan struct {
	typ    reflect.Type
	kind   viewKind
	fields []viewField

	fieldOf []int32 // in a wide view, maps each channel to its field; -1 means none
}

type viewKind uint8

const (
	viewStruct viewKind = iota
	viewRoot            // the value of the only channel
	viewMap             // in a dynamic state, a map of the written fields
)

type viewField struct {
	index []int
	ch    *channel
}

// updatePlan describes how to split an update into writes.
type updatePlan struct {
	typ    reflect.Type
	kind   updateKind
	fields []writeField
	ctl    []int // index of the field of type Goto, if any
	// nonZero means that zero fields are not written. It is set for inputs of the
	// state's type.
	nonZero bool
}

type updateKind uint8

const (
	updateStruct updateKind = iota
	updateMap
	updateRoot     // an update of the only channel
	updateRootOver // an Overwrite of the only channel
)

type writeField struct {
	index    []int
	ch       *channel
	optional bool // a pointer; nil means no write
	over     bool // an Overwrite
	converts bool // its type is assignable to the type of updates
	refused  bool // its type is not the type of updates: only the zero value is accepted, as no write
}

// outPlan describes how to decode a node's result.
type outPlan struct {
	kind    outKind
	pointer bool // the result is a *U; nil means no write
	update  *updatePlan
}

type outKind uint8

const (
	outUpdate outKind = iota
	outGoto
	outCommand
)

// Name returns the graph's name.
func (p *Plan) Name() string { return p.name }

// Warnings returns problems that do not prevent the graph from running.
func (p *Plan) Warnings() []string {
	var out []string
	for _, w := range p.warnings {
		out = append(out, w.Error())
	}
	return out
}

// savedName returns the name of the node in checkpoints and in task IDs.
func (n *node) savedName() string {
	if n.former != "" {
		return n.former
	}
	return n.Name
}

// saved returns the node for a name in a checkpoint, or nil. For a previous name, it
// is a copy of the renamed node, so that its task keeps its ID.
func (p *Plan) saved(name string) *node {
	if n := p.byName[name]; n != nil {
		return n
	}
	return p.former[name]
}

// named returns the node with a current or previous name, or nil.
func (p *Plan) named(name string) *node {
	if n := p.saved(name); n != nil {
		return n.now
	}
	return nil
}

// current returns the current name of a node. It returns unknown names unchanged.
func (p *Plan) current(name string) string {
	if n := p.named(name); n != nil {
		return n.Name
	}
	return name
}

// NodeNames returns the names of all nodes, sorted.
func (p *Plan) NodeNames() []string { return slices.Sorted(maps.Keys(p.byName)) }

// ContextType returns the declared type of the run-scoped value, or nil.
func (p *Plan) ContextType() reflect.Type { return p.spec.Context }

// FieldSpecs returns the fields of the input, the state, and the output. For a
// workflow, these are bare values: its input and its result.
func (p *Plan) FieldSpecs() (in, state, out []FieldSpec) {
	if s := p.schema; s.workflow {
		taken, returned := []FieldSpec{{Name: Root, Type: s.byWire[Start].typ}}, []FieldSpec{{Name: Root, Type: s.byWire[End].typ}}
		return taken, returned, returned
	}
	specs := func(chans []*channel, of reflect.Type, update bool) (fs []FieldSpec) {
		tags := tagsOf(of)
		for _, c := range chans {
			f := FieldSpec{Name: c.wire, Type: c.typ, Tag: tags[c.name] + " " + c.tag} // the first occurrence of a key wins
			if update {
				f.Type = c.upd
			}
			fs = append(fs, f)
		}
		return fs
	}
	return specs(p.inputs(), p.spec.In, true), specs(p.public, p.spec.State, false), specs(p.output, p.spec.Out, false)
}

// tagsOf returns the tags of a struct's fields, keyed by Go name.
func tagsOf(t reflect.Type) map[string]reflect.StructTag {
	if t == nil || t.Kind() != reflect.Struct || reducesItself(t) {
		return nil
	}
	fields, _ := fieldsOf(t)
	tags := make(map[string]reflect.StructTag, len(fields))
	for _, f := range fields {
		tags[f.name] = f.tag
	}
	return tags
}

// Keys converts field names to JSON names.
func (p *Plan) Keys(names []string) ([]string, error) {
	var keys []string
	for _, n := range names {
		c := p.schema.find(n)
		if c == nil {
			return nil, fmt.Errorf("graph %q: output key %q: unknown field; the graph has %s", p.name, n, strings.Join(p.schema.wireNames(), ", "))
		}
		keys = append(keys, c.wire)
	}
	return keys, nil
}

// Subgraphs yields all subgraphs with their paths, depth first, including the
// graphs that nodes declare with Uses.
func (p *Plan) Subgraphs() iter.Seq2[string, *Plan] {
	return func(yield func(string, *Plan) bool) { p.subgraphs("", yield) }
}

func (p *Plan) subgraphs(prefix string, yield func(string, *Plan) bool) bool {
	for _, n := range p.defined {
		for _, g := range n.graphs() {
			if !yield(prefix+n.Name, g) || !g.subgraphs(prefix+n.Name+"/", yield) {
				return false
			}
		}
	}
	return true
}

// graphs returns the graphs that run inside the node.
func (n *node) graphs() []*Plan {
	if n.Graph != nil {
		return []*Plan{n.Graph}
	}
	return n.Uses
}

// readContext checks the run-scoped value against its declared type and decodes it
// if it is JSON.
func (p *Plan) readContext(set *Settings) error {
	raw, isJSON := set.Context.(json.RawMessage)
	want := p.spec.Context
	switch {
	case set.Context == nil || want == nil && !isJSON:
		return nil
	case want == nil:
		return fmt.Errorf("graph %q: context: JSON value without a declared type: use treadle.ContextType", p.name)
	case isJSON && string(bytes.TrimSpace(raw)) == "null": // null means no context
		set.Context = nil
		return nil
	case isJSON:
		val, err := decodeAs(want, raw)
		if err == nil {
			err = onlyKnown(want, raw)
		}
		if err != nil {
			return fmt.Errorf("graph %q: context: want %s: %w", p.name, want, err)
		}
		set.Context = val
	case !reflect.TypeOf(set.Context).AssignableTo(want):
		return fmt.Errorf("graph %q: context: got %T, want %s", p.name, set.Context, want)
	}
	if err := validate(set.Context); err != nil {
		return &ValidationError{Graph: p.name, What: "context", Err: err}
	}
	return nil
}

// onlyKnown returns an error if raw, the JSON of a t, contains keys that t lacks.
// Otherwise, a misspelled key would be dropped silently.
func onlyKnown(t reflect.Type, raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(reflect.New(t).Interface())
	if err == nil {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return err
	}
	var names []string
	fields, _ := fieldsOf(t)
	for _, f := range fields {
		names = append(names, f.wire)
	}
	return fmt.Errorf("%w; the type has %s", err, strings.Join(names, ", "))
}

// updateFor returns the plan for an update whose type is known only at run time. It
// rejects unknown fields.
func (p *Plan) updateFor(t reflect.Type) (*updatePlan, error) {
	if u, ok := p.updates.Load(t); ok {
		return u.(*updatePlan), nil
	}
	u, errs := p.schema.planUpdate(t, func(field) *channel { return nil })
	if len(errs) > 0 {
		return nil, &UpdateError{Graph: p.name, Field: errs[0].field, Msg: errs[0].msg}
	}
	p.updates.Store(t, u)
	return u, nil
}
