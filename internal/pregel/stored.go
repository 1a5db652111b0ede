package pregel

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/plainjson"
)

// controlJSON is the saved form of control. It uses names instead of IDs, because a
// later version of the graph may have different nodes.
type controlJSON struct {
	Start   json.RawMessage     `json:"start,omitempty"`
	Input   json.RawMessage     `json:"input,omitempty"` // start as a list of writes, if a codec encoded it
	Next    []string            `json:"next,omitempty"`
	Waiting []string            `json:"waiting,omitempty"`
	Sends   []sendJSON          `json:"sends,omitempty"`
	Joins   map[string][]string `json:"joins,omitempty"`
	After   []string            `json:"after,omitempty"` // in an imported thread: nodes whose edges must still be followed
	Last    []string            `json:"last,omitempty"`  // nodes of the previous step
	Seed    string              `json:"seed,omitempty"`  // of task IDs, if different from the checkpoint ID

	Of       checkpoint.ID            `json:"of,omitzero"`        // for a subgraph run: the parent graph's checkpoint
	Owner    string                   `json:"owner,omitempty"`    // for a per-thread subgraph run: the task that it ran for
	Children map[string]checkpoint.ID `json:"children,omitempty"` // heads of per-thread subgraph runs

	Graph string `json:"graph,omitempty"` // name of the graph

	Results json.RawMessage `json:"results,omitempty"` // writes of the previous step's tasks, unless they can be inferred; a list of ranJSON
}

type sendJSON struct {
	Node    string          `json:"node"`
	Input   json.RawMessage `json:"input"`
	Coded   []byte          `json:"coded,omitempty"` // the input, if it is not JSON
	Timeout *Timeout        `json:"timeout,omitempty"`
}

// hasPlainControl reports whether the control holds only armed nodes, or only an input that is
// JSON.
func (r *Run) hasPlainControl() bool {
	c := r.ctl
	if len(c.sends) > 0 || len(c.waiting) > 0 {
		return false
	}
	if c.start != nil && len(c.armed) > 0 {
		return false
	}
	if c.start != nil && (coded(c.start) || !json.Valid(c.start)) {
		return false
	}
	if c.seed != "" {
		return false
	}
	if r.owned() != "" || len(r.childHeads()) > 0 {
		return false
	}
	return !slices.ContainsFunc(c.joins, bits.any)
}

// encodeControl returns the saved form of r.ctl. It has a fast path for a control
// with only armed nodes or an input.
func (r *Run) encodeControl() ([]byte, error) {
	c, p := r.ctl, r.plan
	name := func(id int32) string { return p.nodes[id].savedName() }
	if r.hasPlainControl() {
		b := append(make([]byte, 0, 64+len(c.start)+len(p.quoted)), '{')
		if c.start != nil { // then nothing else is scheduled
			b = append(append(b, `"start":`...), c.start...)
		} else {
			b = append(b, `"next":[`...)
			for i, id := range c.armed {
				if i > 0 {
					b = append(b, ',')
				}
				b = append(b, p.nodes[id].quoted...)
			}
			b = append(b, ']')
		}
		if c.start == nil || len(r.last) > 0 {
			b = append(b, `,"last":[`...)
			for i, name := range r.last {
				if i > 0 {
					b = append(b, ',')
				}
				b = p.appendQuoted(b, name)
			}
			b = append(b, ']')
		}
		if of := r.of(); !of.IsZero() {
			b = append(append(append(b, `,"of":"`...), of.String()...), '"')
		}
		if p.name != "" {
			b = append(append(b, `,"graph":`...), p.quoted...)
		}
		if r.results != nil {
			b = append(append(b, `,"results":`...), r.results...)
		}
		return append(b, '}'), nil
	}
	out := controlJSON{
		Last:     r.last,
		Seed:     c.seed,
		Of:       r.of(),
		Owner:    r.owned(),
		Children: r.childHeads(),
		Graph:    p.name,
		Results:  r.results,
	}
	if coded(c.start) {
		out.Input = c.start[1:]
	} else {
		out.Start = c.start
	}
	for _, id := range c.armed {
		out.Next = append(out.Next, name(id))
	}
	for _, id := range c.waiting {
		out.Waiting = append(out.Waiting, name(id))
	}
	for i := range c.sends {
		s, err := r.encodeSend(&c.sends[i])
		if err != nil {
			return nil, err
		}
		out.Sends = append(out.Sends, s)
	}
	for i, b := range c.joins {
		if b.any() {
			if out.Joins == nil {
				out.Joins = map[string][]string{}
			}
			seen := []string{}
			for bit, src := range p.joins[i].sources {
				if b.has(bit) {
					seen = append(seen, name(src))
				}
			}
			out.Joins[p.joins[i].name] = seen
		}
	}
	return json.Marshal(out)
}

// appendQuoted appends a node name as a JSON string.
func (p *Plan) appendQuoted(b []byte, name string) []byte {
	if n := p.byName[name]; n != nil {
		return append(b, n.quoted...)
	}
	return appendText(b, name)
}

func (b bits) any() bool { return slices.ContainsFunc(b, func(w uint64) bool { return w != 0 }) }

func (r *Run) encodeSend(s *packet) (sendJSON, error) {
	n := r.plan.nodes[s.node]
	data, err := r.encodeInput(n, s.input)
	if err != nil {
		return sendJSON{}, fmt.Errorf("graph %q: input sent to %q: %w", r.plan.name, n.Name, err)
	}
	out := sendJSON{Node: n.savedName()}
	out.Input, out.Coded = enclose(data)
	if s.timeout != 0 {
		out.Timeout = &Timeout{Run: s.timeout}
	}
	return out, nil
}

func (r *Run) decodeSend(n *node, s sendJSON) (packet, error) {
	data := enclosed(s.Input, s.Coded)
	in, err := r.decodeInput(n, data)
	if err != nil {
		return packet{}, r.misfit(r.head, "input of "+n.Name, n.In, data, err)
	}
	out := packet{node: n.id, input: in}
	if s.Timeout != nil {
		out.timeout = s.Timeout.Run
	}
	return out, nil
}

// gone returns the error for a checkpoint that schedules a node missing from this
// version of the graph.
func (p *Plan) gone(name string) error {
	return fmt.Errorf("graph %q: %w", p.name, &GotoError{Graph: p.name, To: name, Msg: "scheduled by the checkpoint, but no longer in the graph: if it was renamed, list its old name with treadle.Was" + p.suggest()})
}

// encodeInput returns the saved form of an input sent to n, without untracked
// fields. A map is always saved as JSON: decoding its values requires the types of
// the fields, which a codec cannot see.
func (r *Run) encodeInput(n *node, input any) ([]byte, error) {
	p, v := r.plan, reflect.ValueOf(input)
	if n.In == p.schema.words.Update {
		return Codecs(nil).encode("", input)
	}
	if !n.hides || v.Kind() != reflect.Struct {
		return r.set.Codecs.encode("", input)
	}
	if !r.set.Codecs.plain() {
		bare := reflect.New(v.Type()).Elem()
		bare.Set(v)
		fields, _ := fieldsOf(v.Type())
		for _, f := range fields {
			if p.schema.hidden(f) {
				bare.FieldByIndex(f.index).SetZero()
			}
		}
		return r.set.Codecs.encode("", bare.Interface())
	}
	out := map[string]json.RawMessage{}
	fields, _ := fieldsOf(v.Type())
	for _, f := range fields {
		if p.schema.hidden(f) {
			continue
		}
		raw, err := r.set.Codecs.encode(f.path, v.FieldByIndex(f.index).Interface())
		if err != nil {
			return nil, err
		}
		out[f.wire] = raw
	}
	return json.Marshal(out)
}

func (s *Schema) hidden(f field) bool {
	c := s.lookup(f)
	return c != nil && c.policy == untracked
}

// decodeInput decodes a saved input. The values of a map get the types of the
// fields with the same names.
func (r *Run) decodeInput(n *node, raw []byte) (any, error) {
	p := r.plan
	if n.In != p.schema.words.Update {
		return r.set.Codecs.decodeAs(n.In, renameFields(raw, n.renamed))
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil || parts == nil {
		return p.schema.words.FromMap(nil), err
	}
	out := make(map[string]any, len(parts))
	for k, part := range parts {
		if c := p.schema.byWire[k]; c != nil {
			if val, err := decodeAs(c.typ, part); err == nil {
				out[k] = val
				continue
			}
		}
		var val any
		if err := json.Unmarshal(part, &val); err != nil {
			return nil, err
		}
		out[k] = val
	}
	return p.schema.words.FromMap(out), nil
}

// renamedField is a field with previous JSON names, latest first.
type renamedField struct {
	wire string
	was  []string
}

// renameFields replaces previous names in a saved input. It returns raw unchanged if
// the input was not saved as a JSON object.
func renameFields(raw []byte, fields []renamedField) []byte {
	var parts map[string]json.RawMessage
	if len(fields) == 0 || json.Unmarshal(raw, &parts) != nil || parts == nil {
		return raw
	}
	for _, f := range fields {
		for _, old := range f.was {
			if val, ok := parts[old]; ok && parts[f.wire] == nil {
				parts[f.wire] = val
			}
		}
	}
	for _, f := range fields {
		for _, old := range f.was {
			delete(parts, old) // encoding/json ignores case: an old name may match another field
		}
	}
	out, err := json.Marshal(parts)
	if err != nil {
		return raw
	}
	return out
}

func (r *Run) decodeControl(raw []byte) error {
	var c controlJSON
	if err := unmarshal(raw, &c); err != nil {
		return fmt.Errorf("graph %q: checkpoint: %w", r.plan.name, err)
	}
	ids := func(names []string) (out []int32) {
		for _, name := range names {
			if n := r.plan.saved(name); n != nil {
				out = append(out, n.id)
			} else {
				r.ctl.gone = append(r.ctl.gone, name)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	r.plan.renew(c.Waiting)
	r.plan.renew(c.Last)
	r.ctl.start, r.ctl.seed, r.last = startOf(c.Start, c.Input), c.Seed, c.Last
	r.children = c.Children
	r.ownerWas = c.Owner
	r.ofWas = c.Of
	r.madeBy = c.Graph
	r.ctl.armed, r.ctl.waiting = ids(append(c.Next, r.plan.successors(c.After, false)...)), ids(append(c.Waiting, r.plan.successors(c.After, true)...))
	for _, name := range c.After {
		if r.plan.named(name) == nil { // the successors of a removed node are unknown
			r.ctl.gone = append(r.ctl.gone, name)
		}
	}
	for _, s := range c.Sends {
		n := r.plan.saved(s.Node)
		if n == nil {
			r.ctl.gone = append(r.ctl.gone, s.Node)
			continue
		}
		p, err := r.decodeSend(n, s)
		if err != nil {
			return err
		}
		r.ctl.sends = append(r.ctl.sends, p)
	}
	for i, j := range r.plan.joins {
		ran := r.plan.ran(c.Joins, j.name)
		for bit, src := range j.sources {
			if slices.Contains(ran, r.plan.nodes[src].Name) {
				r.ctl.joins[i].set(bit)
			}
		}
	}
	return nil
}

// renew replaces previous names of nodes by their current names.
func (p *Plan) renew(names []string) {
	for i, name := range names {
		names[i] = p.current(name)
	}
}

// ran returns the sources of a join that have run. A newer version of the graph may
// list the sources in a different order or under different names.
func (p *Plan) ran(joins map[string][]string, join string) []string {
	if ran, ok := joins[join]; ok || len(joins) == 0 {
		return ran
	}
	for name, ran := range joins {
		if slices.Equal(p.joinParts(name), p.joinParts(join)) {
			p.renew(ran)
			return ran
		}
	}
	return nil
}

// joinParts extracts the sorted sources and the target of a join from its name.
func (p *Plan) joinParts(name string) []string {
	at := strings.LastIndex(name, ":")
	if at < 0 {
		return []string{name}
	}
	parts := strings.Split(strings.TrimPrefix(name[:at], "join:"), "+")
	p.renew(parts)
	slices.Sort(parts)
	return append(parts, p.current(name[at+1:]))
}

// successors returns the targets of the plain edges that leave the named nodes:
// either the deferred targets or the others.
func (p *Plan) successors(nodes []string, deferred bool) (out []string) {
	for _, name := range nodes {
		if n := p.named(name); n != nil {
			for _, id := range n.edges {
				if to := p.nodes[id]; to.Defer == deferred {
					out = append(out, to.Name)
				}
			}
		}
	}
	return out
}

// encodeStart returns the saved form of an input: JSON as sent by a caller, or a
// mark followed by a list of writes encoded by a codec.
func (r *Run) encodeStart(rec *Record) ([]byte, error) {
	if r.set.Codecs.plain() {
		raw, err := rec.MarshalJSON()
		if err != nil || len(raw) < shortInput && len(r.set.Codecs) == 0 {
			return raw, err
		}
		for _, w := range rec.items {
			if err := r.withinLimits(w); err != nil {
				return nil, err
			}
		}
		return raw, nil
	}
	list := make([]writeJSON, 0, len(rec.items))
	for _, w := range rec.items {
		stored, err := r.encodeWrite(w)
		if err != nil {
			return nil, err
		}
		list = append(list, stored)
	}
	raw, err := json.Marshal(list)
	return append([]byte{codecMark}, raw...), err
}

// startOf returns the input of a checkpoint, which is saved in one of two forms.
func startOf(raw, written json.RawMessage) []byte {
	if written != nil {
		return append([]byte{codecMark}, written...)
	}
	return raw
}

// withinLimits returns an error for a write that the first step could not save, so
// that the input is rejected before it is saved.
func (r *Run) withinLimits(w write) error {
	list := w.ch.appender
	if list == nil || reflect.TypeOf(w.val) != w.ch.typ {
		_, err := r.set.Codecs.encode(w.ch.wire, w.val)
		return err
	}
	for i := range list.Len(w.val) {
		if _, err := r.set.Codecs.encode(w.ch.wire, list.At(w.val, i)); err != nil {
			return err
		}
	}
	return nil
}

// shortInput is an input length that is within all default limits.
const shortInput = 8 << 10

// decodeStart decodes a saved input.
func (r *Run) decodeStart(o *outcome) error {
	s := r.plan.schema
	if !coded(r.ctl.start) {
		return s.decodeUpdate(o, renameFields(r.ctl.start, s.renamed))
	}
	var list []writeJSON
	if err := json.Unmarshal(r.ctl.start[1:], &list); err != nil {
		return fmt.Errorf("graph %q: saved input: %w", r.plan.name, err)
	}
	for _, w := range list {
		c := s.saved(w.Field)
		if c == nil {
			return &UpdateError{Graph: r.plan.name, Field: w.Field, Msg: "saved input contains a removed field"}
		}
		got, err := r.decodeWrite(c, w)
		if err != nil {
			return err
		}
		o.add(got)
	}
	return nil
}

// unmarshal decodes saved JSON into the zero value that v points to.
func unmarshal(raw []byte, v any) error {
	if plainjson.Unmarshal(raw, v) {
		return nil
	}
	return json.Unmarshal(raw, v)
}
