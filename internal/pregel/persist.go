package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/grow"
)

// controlJSON is the stored form of control. Names, not ids: a later version
// of the graph may have other nodes.
type controlJSON struct {
	Start   json.RawMessage     `json:"start,omitempty"`
	Input   json.RawMessage     `json:"input,omitempty"` // start as a list of writes, if a codec wrote it
	Next    []string            `json:"next,omitempty"`
	Waiting []string            `json:"waiting,omitempty"`
	Sends   []sendJSON          `json:"sends,omitempty"`
	Joins   map[string][]string `json:"joins,omitempty"`
	Last    []string            `json:"last,omitempty"` // nodes of the step before
	Seed    string              `json:"seed,omitempty"` // of task ids, if it is not the checkpoint's id

	Of       checkpoint.ID            `json:"of,omitzero"`        // of a nested run: the checkpoint around it
	Owner    string                   `json:"owner,omitempty"`    // of a nested run that lasts: the task it ran for
	Children map[string]checkpoint.ID `json:"children,omitempty"` // heads of the nested runs that last

	Results json.RawMessage `json:"results,omitempty"` // what the tasks of the step before wrote, where it is not obvious; a list of ranJSON
}

type sendJSON struct {
	Node    string          `json:"node"`
	Input   json.RawMessage `json:"input"`
	Coded   []byte          `json:"coded,omitempty"` // the input, if it is not JSON
	Timeout *Timeout        `json:"timeout,omitempty"`
}

// encodeControl writes r.ctl. The usual case, nodes and nothing else, takes a
// short way.
func (r *Run) encodeControl() ([]byte, error) {
	c, p := &r.ctl, r.plan
	name := func(id int32) string { return p.nodes[id].Name }
	plain := len(c.sends) == 0 && len(c.waiting) == 0 && c.start == nil && c.seed == "" && r.owned() == "" && len(r.heads()) == 0 && !slices.ContainsFunc(c.joins, bits.any)
	if plain {
		b := append(make([]byte, 0, 64), `{"next":[`...)
		for i, id := range c.armed {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, p.nodes[id].quoted...)
		}
		b = append(b, `],"last":[`...)
		for i, name := range r.last {
			if i > 0 {
				b = append(b, ',')
			}
			b = p.appendQuoted(b, name)
		}
		b = append(b, ']')
		if of := r.of(); !of.IsZero() {
			b = append(append(append(b, `,"of":"`...), of.String()...), '"')
		}
		if r.results != nil {
			b = append(append(b, `,"results":`...), r.results...)
		}
		return append(b, '}'), nil
	}
	out := controlJSON{Last: r.last, Seed: c.seed, Of: r.of(), Owner: r.owned(), Children: r.heads(), Results: r.results}
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

// appendQuoted appends the name of a node as a JSON string.
func (p *Plan) appendQuoted(b []byte, name string) []byte {
	if n := p.byName[name]; n != nil {
		return append(b, n.quoted...)
	}
	raw, _ := json.Marshal(name) // a string always has JSON
	return append(b, raw...)
}

func (b bits) any() bool { return slices.ContainsFunc(b, func(w uint64) bool { return w != 0 }) }

func (r *Run) encodeSend(s *packet) (sendJSON, error) {
	n := r.plan.nodes[s.node]
	data, err := r.encodeInput(n, s.input)
	if err != nil {
		return sendJSON{}, fmt.Errorf("graph %q: input sent to %q: %w", r.plan.name, n.Name, err)
	}
	out := sendJSON{Node: n.Name}
	out.Input, out.Coded = enclose(data)
	if !s.timeout.isZero() {
		out.Timeout = &s.timeout
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
		out.timeout = *s.Timeout
	}
	return out, nil
}

// gone is the error of a checkpoint that is to run a node which this version of
// the graph does not have.
func (p *Plan) gone(name string) error {
	return fmt.Errorf("graph %q: %w", p.name, &GotoError{Graph: p.name, To: name, Msg: "the checkpoint is to run it, but there is no such node any more" + p.suggest()})
}

// encodeInput is the stored form of an input sent to n, without what belongs
// to untracked fields. A map is JSON in any case: only with the fields' types
// can its values be read back, and a codec is not told these.
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

// decodeInput reads it back. The values of a map have the types of the fields
// they are named after.
func (r *Run) decodeInput(n *node, raw []byte) (any, error) {
	p := r.plan
	if n.In != p.schema.words.Update {
		return r.set.Codecs.decodeAs(n.In, raw)
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

func (r *Run) decodeControl(raw []byte) error {
	var c controlJSON
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("graph %q: checkpoint: %w", r.plan.name, err)
	}
	ids := func(names []string) (out []int32) {
		for _, name := range names {
			if n := r.plan.byName[name]; n != nil {
				out = append(out, n.id)
			} else {
				r.ctl.gone = append(r.ctl.gone, name)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	r.ctl.start, r.ctl.seed, r.last = startOf(c.Start, c.Input), c.Seed, c.Last
	r.children, r.ownerWas, r.ofWas = c.Children, c.Owner, c.Of
	r.ctl.armed, r.ctl.waiting = ids(c.Next), ids(c.Waiting)
	for _, s := range c.Sends {
		n := r.plan.byName[s.Node]
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
		for bit, src := range j.sources {
			if slices.Contains(c.Joins[j.name], r.plan.nodes[src].Name) {
				r.ctl.joins[i].set(bit)
			}
		}
	}
	return nil
}

func (r *Run) saving() bool { return r.set.Saver != nil && r.set.Thread != "" }

func (r *Run) key() checkpoint.Key {
	return checkpoint.Key{Thread: r.set.Thread, Namespace: r.ns, ID: r.head}
}

// restoreFrom makes cp the state of the run.
func (r *Run) restoreFrom(cp *checkpoint.Checkpoint) error {
	r.head, r.before, r.tip = cp.ID, cp.Parent, cp.ID
	r.loadedSize(cp)
	for _, c := range r.plan.schema.channels {
		v, ok := cp.Values[c.wire]
		moved := !v.List
		if !ok && c.was != "" {
			v, ok = cp.Values[c.was]
			moved = true
		}
		if !ok {
			continue
		}
		val, err := r.set.Codecs.decodeValue(c, v)
		if err != nil {
			data := v.Data
			if v.List {
				data = []byte("[")
			}
			return r.misfit(cp.ID, c.wire, c.typ, data, err)
		}
		r.slots[c.id] = slot{val: val, ver: v.Version, has: true, moved: moved}
		r.ver = max(r.ver, v.Version)
	}
	r.ver = max(r.ver, 1)
	r.step = cp.Step + 1
	cp.Pending = slices.DeleteFunc(cp.Pending, isWithdrawn)
	r.open, r.owner, r.answers = openPauses(cp)
	r.pending = cp.Pending
	for _, w := range cp.Pending {
		switch w.Kind {
		case checkpoint.Done:
			if r.saved == nil {
				r.saved = map[string][]byte{}
			}
			r.saved[w.Task] = w.Data
		case checkpoint.Answers:
			var given map[string]answer
			if err := json.Unmarshal(w.Data, &given); err != nil {
				return fmt.Errorf("graph %q: thread %q: stored answers: %w", r.plan.name, r.set.Thread, err)
			}
			if r.answersOf == nil {
				r.answersOf = map[string]map[string]answer{}
			}
			r.answersOf[w.Task] = given
		case checkpoint.Failed:
			var f failedJSON
			if json.Unmarshal(w.Data, &f) == nil && f.Handle != "" {
				if r.failures == nil {
					r.failures = map[string]error{}
				}
				r.failures[w.Task] = errors.New(f.Handle)
			}
		}
	}
	r.restoreCalls()
	if err := r.decodeLog(cp.Values[logChannel]); err != nil {
		return err
	}
	return r.decodeControl(cp.Control)
}

// logChannel holds what a nested graph's nodes wrote, for handing it up when
// the graph ends, perhaps in another process.
const logChannel = "__log__"

func (r *Run) decodeLog(v checkpoint.Value) error {
	r.logDrop, r.logItems = 0, len(v.Items)
	for _, item := range v.Items {
		var w writeJSON
		if err := json.Unmarshal(item, &w); err != nil {
			return fmt.Errorf("graph %q: stored log: %w", r.plan.name, err)
		}
		c := r.plan.schema.byWire[w.Field]
		if c == nil {
			continue // a field that is gone cannot be handed up
		}
		got, err := r.decodeWrite(c, w)
		if err != nil {
			return err
		}
		r.wrote[c.id] = true
		r.log = append(r.log, got)
	}
	r.logged = len(r.log)
	return nil
}

// newLog begins the log anew, for a nested graph that lasts: what it wrote for
// an earlier task has been handed up.
func (r *Run) newLog() {
	r.log, r.logged, r.logDrop = nil, 0, r.logItems
	clear(r.wrote)
}

// logChange is the part of the log that is not stored yet.
func (r *Run) logChange() (checkpoint.Change, error) {
	out := checkpoint.Change{Channel: logChannel, Version: r.ver, List: true, Drop: r.logDrop}
	for _, w := range r.log[r.logged:] {
		stored, err := r.encodeWrite(w)
		if err != nil {
			return out, err
		}
		raw, err := json.Marshal(stored)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, raw)
	}
	return out, nil
}

// change is how the step changed a channel, as stored.
func (r *Run) change(u *undoEntry) (checkpoint.Change, error) {
	c, now := u.ch, &r.slots[u.ch.id]
	out := checkpoint.Change{Channel: c.wire, Version: now.ver}
	if !now.has {
		out.Clear = true
		return out, nil
	}
	if c.appender == nil {
		raw, err := r.set.Codecs.encode(c.wire, now.val)
		out.Data = raw
		return out, err
	}
	// Before the first write nothing of the list is stored.
	out.List = true
	from, n := 0, c.appender.Len(now.val)
	switch {
	case u.was.ver == 0 || !u.was.has || u.was.moved:
	case now.over || u.whole:
		out.Drop = c.appender.Len(u.was.val)
	default:
		from = c.appender.Len(u.was.val)
		if r, ok := c.appender.(grow.Rewriter); ok {
			kept := r.Kept(u.was.val, now.val)
			from, out.Drop = kept, from-kept
		}
	}
	out.Items = make([][]byte, 0, n-from)
	for i := from; i < n; i++ {
		raw, err := r.set.Codecs.encode(c.wire, c.appender.At(now.val, i))
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, raw)
	}
	return out, nil
}

// put stores what the step changed and what is next.
func (r *Run) put(source checkpoint.Source) error {
	if !r.saving() {
		return nil
	}
	if r.meta == nil && len(r.set.Metadata) > 0 {
		raw, err := encodeMetadata(r.plan, r.set)
		if err != nil {
			return err
		}
		r.meta = raw
	}
	meta := r.meta
	if source == checkpoint.Input && len(r.abandoned) > 0 {
		raw, err := json.Marshal(r.metadataOfInput())
		if err != nil {
			return fmt.Errorf("graph %q: metadata: %w", r.plan.name, err)
		}
		meta = raw
	}
	p := &checkpoint.Put{Parent: r.head, Head: r.tip, Fence: r.set.Fence, Step: r.step, Source: source, RunID: r.set.RunID, Metadata: meta}
	p.Changes = make([]checkpoint.Change, 0, len(r.undo))
	for i := range r.undo {
		u := &r.undo[i]
		if u.ch.policy == untracked {
			continue
		}
		change, err := r.change(u)
		if err != nil {
			return fmt.Errorf("graph %q: store: %w", r.plan.name, err)
		}
		p.Changes = append(p.Changes, change)
	}
	if len(r.log) > r.logged || r.logDrop > 0 {
		change, err := r.logChange()
		if err != nil {
			return fmt.Errorf("graph %q: store: %w", r.plan.name, err)
		}
		p.Changes = append(p.Changes, change)
	}
	ctl, err := r.encodeControl()
	if err != nil {
		return err
	}
	p.Control = ctl
	if source == checkpoint.Update && r.ctl.seed != "" {
		p.Pending = r.pending // the same tasks, so what is known of them stays
	}
	p.Key = checkpoint.Key{Thread: r.set.Thread, Namespace: r.ns, ID: checkpoint.NewID(r.step, r.tip)}
	// What a step has done is stored even if the run is cancelled meanwhile.
	if err := r.set.Saver.Put(context.WithoutCancel(r.ctx), p); err != nil {
		return fmt.Errorf("graph %q: store thread %q: %w", r.plan.name, r.set.Thread, err)
	}
	r.before, r.head, r.tip, r.logged, r.logDrop, r.results = r.head, p.ID, p.ID, len(r.log), 0, nil
	r.grewBy(p)
	return nil
}

func encodeMetadata(p *Plan, set *Settings) (json.RawMessage, error) {
	if len(set.Metadata) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(set.Metadata)
	if err != nil {
		return nil, fmt.Errorf("graph %q: metadata: %w", p.name, err)
	}
	return raw, nil
}

// putInput stores an input before it is applied.
func (r *Run) putInput(o *outcome) error {
	if !r.saving() {
		r.step++
		return nil
	}
	rec := &Record{schema: r.plan.schema, root: r.plan.schema.root}
	for _, w := range o.writes {
		if w.ch.policy != untracked {
			rec.items = append(rec.items, w)
		}
	}
	raw, err := r.encodeStart(rec)
	if err != nil {
		return fmt.Errorf("graph %q: store the input: %w", r.plan.name, err)
	}
	r.ctl.start = raw
	r.undo = r.undo[:0]
	if err := r.put(checkpoint.Input); err != nil {
		return err
	}
	r.saved = nil
	r.step++
	return nil
}

// encodeStart is the stored form of an input: the JSON that a caller could have
// sent, or, behind a mark, a list of writes by a codec.
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

// startOf is the input that a checkpoint holds in one of two forms.
func startOf(raw, written json.RawMessage) []byte {
	if written != nil {
		return append([]byte{codecMark}, written...)
	}
	return raw
}

// withinLimits reports a write that the first step could not store: an input
// that is refused is refused before the thread knows of it.
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

// shortInput is the length of an input that no default limit can refuse.
const shortInput = 8 << 10

// decodeStart reads it back.
func (r *Run) decodeStart(o *outcome) error {
	s := r.plan.schema
	if !coded(r.ctl.start) {
		return s.decodeUpdate(o, r.ctl.start)
	}
	var list []writeJSON
	if err := json.Unmarshal(r.ctl.start[1:], &list); err != nil {
		return fmt.Errorf("graph %q: stored input: %w", r.plan.name, err)
	}
	for _, w := range list {
		c := s.byWire[w.Field]
		if c == nil {
			return &UpdateError{Graph: r.plan.name, Field: w.Field, Msg: "the stored input has a field that is gone"}
		}
		got, err := r.decodeWrite(c, w)
		if err != nil {
			return err
		}
		o.add(got)
	}
	return nil
}

// resultJSON is the stored result of a task.
type resultJSON struct {
	Writes  []writeJSON  `json:"writes,omitempty"`
	Goto    []targetJSON `json:"goto,omitempty"`
	Handled bool         `json:"handled,omitempty"`

	Children map[string]checkpoint.ID `json:"children,omitempty"` // heads of the lasting nested runs it made
}

type writeJSON struct {
	Field string          `json:"field"`
	Value json.RawMessage `json:"value"`
	Coded []byte          `json:"coded,omitempty"` // the value, if it is not JSON
	Over  bool            `json:"over,omitempty"`
}

func (r *Run) encodeWrite(w write) (writeJSON, error) {
	out := writeJSON{Field: w.ch.wire, Over: w.over}
	data, err := r.set.Codecs.encode(w.ch.wire, w.val)
	out.Value, out.Coded = enclose(data)
	return out, err
}

func (r *Run) decodeWrite(c *channel, w writeJSON) (write, error) {
	typ := c.upd
	if w.Over {
		typ = c.typ
	}
	data := enclosed(w.Value, w.Coded)
	val, err := r.set.Codecs.decodeAs(typ, data)
	if err != nil {
		return write{}, r.misfit(r.head, c.wire, typ, data, err)
	}
	return write{ch: c, val: val, over: w.Over}, nil
}

type targetJSON struct {
	Node    string          `json:"node"`
	Send    bool            `json:"send,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Coded   []byte          `json:"coded,omitempty"` // the input, if it is not JSON
	Timeout *Timeout        `json:"timeout,omitempty"`
}

// encodeResult writes what a task has to say. With forget, untracked fields
// are left out: a checkpoint does not hold them, a cache does.
func (t *Task) encodeResult(forget bool) ([]byte, error) {
	out := resultJSON{Handled: t.out.handled}
	if forget {
		out.Children = t.adopted()
	}
	for _, w := range t.out.writes {
		if forget && w.ch.policy == untracked {
			continue
		}
		stored, err := t.run.encodeWrite(w)
		if err != nil {
			return nil, err
		}
		out.Writes = append(out.Writes, stored)
	}
	for _, to := range t.out.targets {
		g := targetJSON{Node: to.Node, Send: to.IsSend}
		if to.IsSend {
			data, err := t.encodeTarget(to, forget)
			if err != nil {
				return nil, err
			}
			g.Input, g.Coded = enclose(data)
			if !to.Timeout.isZero() {
				g.Timeout = &to.Timeout
			}
		}
		out.Goto = append(out.Goto, g)
	}
	return json.Marshal(out)
}

func (t *Task) encodeTarget(to Target, forget bool) ([]byte, error) {
	n := t.run.plan.byName[to.Node]
	if n == nil || !forget && n.hides {
		return Codecs(nil).encode("", to.Input)
	}
	return t.run.encodeInput(n, to.Input)
}

// decodeResult reads it back. A field that is gone is left out, as it is of the
// state.
func (t *Task) decodeResult(raw []byte) error {
	_, err := t.readResult(raw)
	return err
}

// readResult is decodeResult; whole is false if a field was left out.
func (t *Task) readResult(raw []byte) (whole bool, err error) {
	p := t.run.plan
	var in resultJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return false, err
	}
	t.out.clear()
	whole = true
	for _, w := range in.Writes {
		c := p.schema.byWire[w.Field]
		if c == nil {
			whole = false
			continue
		}
		got, err := t.run.decodeWrite(c, w)
		if err != nil {
			return false, err
		}
		t.out.add(got)
	}
	for _, g := range in.Goto {
		to := Target{Node: g.Node, IsSend: g.Send}
		if n := p.byName[g.Node]; g.Send && n != nil {
			data := enclosed(g.Input, g.Coded)
			val, err := t.run.decodeInput(n, data)
			if err != nil {
				return false, t.run.misfit(t.run.head, "input of "+n.Name, n.In, data, err)
			}
			to.Input = val
			if g.Timeout != nil {
				to.Timeout = *g.Timeout
			}
		}
		t.out.targets = append(t.out.targets, to)
	}
	t.out.handled = in.Handled
	t.adopt(in.Children)
	return whole, nil
}

// keep stores the results of the tasks that finished in a step that failed, so
// that a continuation runs only the others. An error of the saver is joined to
// the failure that is on its way already.
func (r *Run) keep(tasks []*Task) error {
	if !r.saving() {
		return nil
	}
	var ws []checkpoint.Write
	var errs []error
	for _, t := range tasks {
		_, asked := errors.AsType[*InterruptError](t.err)
		switch {
		case t.kept || t.stored:
		case asked:
			raw, _ := json.Marshal(t.paused()) // made of JSON
			ws = append(ws, checkpoint.Write{Task: t.ID(), Kind: checkpoint.Paused, Data: raw})
		case t.err == nil:
			raw, err := t.encodeResult(true)
			if err != nil {
				errs = append(errs, fmt.Errorf("graph %q: store the result of %q: %w", r.plan.name, t.Name(), err))
				continue
			}
			ws = append(ws, checkpoint.Write{Task: t.ID(), Kind: checkpoint.Done, Data: raw})
		case !bubbles(t.err):
			var handling error
			if h, ok := errors.AsType[*handlerError](t.err); ok {
				handling = h.failure
			}
			ws = append(ws, t.failed(t.err, handling))
		}
	}
	if err := r.putWrites(ws); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// failedJSON is the stored failure of a task.
type failedJSON struct {
	Node    string `json:"node"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Handle  string `json:"handle,omitempty"` // what its error handler has yet to answer for
}

func (t *Task) failed(err, handling error) checkpoint.Write {
	out := failedJSON{Node: t.Name(), Type: reflect.TypeOf(err).String(), Message: err.Error()}
	if handling != nil {
		out.Handle = handling.Error()
	}
	raw, _ := json.Marshal(out) // strings always have JSON
	return checkpoint.Write{Task: t.ID(), Kind: checkpoint.Failed, Data: raw}
}

// keepFailure stores that the node has failed for good, before its error
// handler begins: whatever becomes of the handler, the node does not run again.
func (t *Task) keepFailure(err error) error {
	r := t.run
	if !r.saving() {
		return nil
	}
	return r.putWrites([]checkpoint.Write{t.failed(err, err)})
}

// restore fills in the tasks whose results were kept. One that cannot be read
// is an error: to run its task a second time would break a promise.
func (r *Run) restore(tasks []*Task) error {
	if len(r.saved) == 0 {
		return nil
	}
	for _, t := range tasks {
		if raw, ok := r.saved[t.ID()]; ok {
			if err := t.decodeResult(raw); err != nil {
				return fmt.Errorf("graph %q: the kept result of %q: %w", r.plan.name, t.Name(), err)
			}
			t.cached, t.kept = true, true
		}
	}
	r.saved = nil
	return nil
}

// fromCache looks for an earlier result of the same input.
func (t *Task) fromCache(sc *scope) (hit bool, key string, err error) {
	c := t.node.Cache
	if c == nil || t.run.set.Cache == nil {
		return false, "", nil
	}
	in := t.input()
	if c.Key != nil {
		key = c.Key(in)
	} else {
		if t.node.nest != nil && t.packet == nil {
			in = t.inputRecord() // all that the graph inherits, also what its input type holds otherwise
		}
		raw, err := json.Marshal(in)
		if err != nil {
			return false, "", fmt.Errorf("cache: the input has no JSON to make a key of: %w", err)
		}
		key = string(raw)
	}
	raw, ok, err := t.run.set.Cache.Get(sc, t.cacheSpace(), key)
	if err != nil || !ok {
		return false, key, err
	}
	if whole, err := t.readResult(raw); err != nil || !whole {
		t.out.clear()
		return false, key, nil // written by another version of the graph
	}
	return true, key, nil
}

func (t *Task) cacheSpace() string { return CacheSpace(t.run.plan.name, t.node.Name) }

// CacheSpace is where the cached results of a node are.
func CacheSpace(graph, node string) string { return "node/" + graph + "/" + node }

// toCache stores a result; only a success is ever stored.
func (t *Task) toCache(sc *scope, key string) error {
	c := t.node.Cache
	if c == nil || t.run.set.Cache == nil {
		return nil
	}
	raw, err := t.encodeResult(false)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return t.run.set.Cache.Set(sc, t.cacheSpace(), key, raw, c.TTL)
}

// Checkpoint is a checkpoint as streams and snapshots show it.
type Checkpoint struct {
	ID, Parent checkpoint.ID
	Thread     string
	Namespace  string // of a nested graph
	Step       int
	Source     checkpoint.Source
	RunID      string
	Metadata   map[string]any
	Values     *Record
	Next       []string
	Tasks      []TaskInfo
	Made       []TaskInfo // the tasks whose step made it, with what they wrote
	Time       time.Time
	input      *Record                  // that is to be taken from it
	Around     map[string]checkpoint.ID // in events: the checkpoints of the enclosing graphs, by namespace
}

// TaskInfo is a task that is to run from a checkpoint.
type TaskInfo struct {
	ID, Name string
	Nested   string      // the namespace of the graph that it runs, if any
	Graph    *Checkpoint // the state of that graph, if it has begun
	Err      string      // of its last try
	Done     *Record
	Pauses   []Pause // questions it waits with
}

// emitCheckpoint reports the checkpoint that the next step runs from.
func (r *Run) emitCheckpoint(next []string) {
	if r.modes&ModeCheckpoints == 0 || !r.saving() {
		return
	}
	cp := &Checkpoint{ID: r.head, Thread: r.set.Thread, Step: r.step - 1, Source: checkpoint.Loop, RunID: r.set.RunID,
		Namespace: r.ns, Metadata: r.set.Metadata, Values: r.plan.schema.record(r.slots, r.plan.schema.channels), Next: next, Time: r.head.Time()}
	cp.Parent = r.before
	for up := r.parent; up != nil; up = up.run.parent {
		if cp.Around == nil {
			cp.Around = map[string]checkpoint.ID{}
		}
		cp.Around[up.run.ns] = up.run.head
	}
	if len(next) == 1 && next[0] == Start {
		cp.Source, cp.Metadata = checkpoint.Input, r.metadataOfInput()
		cp.Tasks = []TaskInfo{{ID: (&Task{run: r, node: startNode, step: r.step, index: -1}).ID(), Name: Start}}
	} else if tasks, err := r.prepare(); err == nil {
		cp.Tasks = r.infos(tasks)
	}
	ev := r.event(cp)
	ev.At.Step = cp.Step
	r.emit(ModeCheckpoints, ev)
}

// infos describes tasks, sends first.
func (r *Run) infos(tasks []*Task) []TaskInfo {
	var out []TaskInfo
	for _, push := range []bool{true, false} {
		for _, t := range tasks {
			if (t.packet != nil) == push {
				info := TaskInfo{ID: t.ID(), Name: t.Name()}
				if len(t.node.graphs()) > 0 {
					info.Nested = t.namespace()
				}
				out = append(out, info)
			}
		}
	}
	return out
}
