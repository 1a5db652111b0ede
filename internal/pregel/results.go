package pregel

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/plainjson"
)

// ranJSON describes the writes of one task of a finished step, or of several tasks
// with equal writes.
//
// The values are in the checkpoint that the step created and are not saved again;
// ranJSON refers to them. In the usual case, a single task that sets values and
// adds one element to lists, nothing is saved: the written fields are those with
// the newest version.
type ranJSON struct {
	Node   string      `json:"node"`
	Times  int         `json:"times,omitempty"` // number of consecutive tasks; 0 means 1
	Writes []wroteJSON `json:"writes,omitempty"`
	Tried  *Tried      `json:"tried,omitempty"`
}

// wroteJSON is one write: the field's value, a number of elements of its list, or a
// value that is in no checkpoint.
type wroteJSON struct {
	Field string          `json:"field"`
	N     int             `json:"n,omitempty"`
	Over  bool            `json:"over,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	Coded []byte          `json:"coded,omitempty"` // the value, if it is not JSON
}

func (w wroteJSON) value() []byte { return enclosed(w.Value, w.Coded) }

func (a ranJSON) like(b ranJSON) bool {
	return a.Node == b.Node && a.Tried == nil && b.Tried == nil && slices.EqualFunc(a.Writes, b.Writes, func(x, y wroteJSON) bool {
		return x.value() == nil && y.value() == nil && x.Field == y.Field && x.N == y.N && x.Over == y.Over
	})
}

// attribute records the writes of a step's tasks for its checkpoint.
func (r *Run) attribute(tasks []*Task) error {
	r.results = nil
	if !r.saving() || len(tasks) == 1 && tasks[0].obvious() {
		return nil
	}
	var over map[*channel]bool
	for _, t := range tasks {
		for _, w := range t.out.writes {
			if w.over {
				if over == nil {
					over = map[*channel]bool{}
				}
				over[w.ch] = true
			}
		}
	}
	out := []ranJSON{}
	for _, t := range tasks {
		ran := ranJSON{Node: t.Name(), Tried: t.tried()}
		for _, w := range t.out.writes {
			if w.ch.policy == untracked {
				continue
			}
			it := wroteJSON{Field: w.ch.wire}
			switch {
			case !w.ch.accumulates():
			case w.ch.adds(w) && !over[w.ch]:
				it.N = w.ch.appender.Len(w.val)
			case w.over && len(tasks) == 1 && t.writesOnce(w.ch):
				it.Over = true
			default:
				data, err := r.set.Codecs.encode(w.ch.wire, w.val)
				if err != nil {
					return err
				}
				it.Value, it.Coded = enclose(data)
				it.Over = w.over
			}
			ran.Writes = append(ran.Writes, it)
		}
		if n := len(out); n > 0 && out[n-1].like(ran) {
			out[n-1].Times = max(out[n-1].Times, 1) + 1
			continue
		}
		out = append(out, ran)
	}
	b := []byte{'['}
	for i, ran := range out {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = ran.appendJSON(b); err != nil {
			return err
		}
	}
	r.results = append(b, ']')
	return nil
}

// appendJSON appends what encoding/json would write, without another copy of the values,
// which may be large.
func (a *ranJSON) appendJSON(b []byte) ([]byte, error) {
	b = plainjson.AppendString(append(b, `{"node":`...), a.Node)
	if a.Times != 0 {
		b = strconv.AppendInt(append(b, `,"times":`...), int64(a.Times), 10)
	}
	for i := range a.Writes {
		if i == 0 {
			b = append(b, `,"writes":[`...)
		} else {
			b = append(b, ',')
		}
		b = a.Writes[i].appendJSON(b)
	}
	if len(a.Writes) > 0 {
		b = append(b, ']')
	}
	if a.Tried != nil {
		raw, err := json.Marshal(a.Tried)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"tried":`...), raw...)
	}
	return append(b, '}'), nil
}

func (w *wroteJSON) appendJSON(b []byte) []byte {
	b = plainjson.AppendString(append(slices.Grow(b, len(w.Value)+64), `{"field":`...), w.Field)
	if w.N != 0 {
		b = strconv.AppendInt(append(b, `,"n":`...), int64(w.N), 10)
	}
	if w.Over {
		b = append(b, `,"over":true`...)
	}
	if len(w.Value) > 0 {
		b = append(append(b, `,"value":`...), w.Value...)
	}
	if len(w.Coded) > 0 {
		b = append(base64.StdEncoding.AppendEncode(append(b, `,"coded":"`...), w.Coded), '"')
	}
	return append(b, '}')
}

// adds reports whether a write adds elements to a list.
func (c *channel) adds(w write) bool { return c.appender != nil && c.upd == c.typ && !w.over }

func (t *Task) writesOnce(c *channel) bool {
	n := 0
	for _, w := range t.out.writes {
		if w.ch == c {
			n++
		}
	}
	return n == 1
}

// obvious reports whether the task's writes can be inferred from the step's
// checkpoint.
func (t *Task) obvious() bool {
	if t.node == startNode && t.run.source == checkpoint.Loop {
		return true // its input is in the previous checkpoint
	}
	if t.tried() != nil {
		return false
	}
	wrote := false
	for _, w := range t.out.writes {
		if w.ch.policy == untracked {
			continue
		}
		wrote = true
		if !t.writesOnce(w.ch) || w.ch.accumulates() && (!w.ch.adds(w) || w.ch.appender.Len(w.val) != 1) {
			return false
		}
	}
	return wrote
}

// made returns the tasks whose step created the checkpoint, with their writes as
// far as known.
func (p *Plan) made(set *Settings, cp *checkpoint.Checkpoint) []TaskInfo {
	if cp.Source == checkpoint.Fork {
		return nil
	}
	var c struct {
		Start   json.RawMessage
		Input   json.RawMessage
		Last    []string
		Results []ranJSON
	}
	if json.Unmarshal(cp.Control, &c) != nil {
		return nil
	}
	switch {
	case cp.Source == checkpoint.Input:
		return []TaskInfo{{Name: Start, Done: p.input(set, startOf(c.Start, c.Input))}}
	case c.Results != nil || len(c.Last) != 1:
	case c.Last[0] == Start && cp.Source == checkpoint.Loop:
		return []TaskInfo{{Name: Start}} // its writes are the input
	default:
		c.Results = []ranJSON{p.newest(c.Last[0], cp)}
	}
	ends := map[string]int{} // per list, the index of the first element from the tasks
	for _, ran := range c.Results {
		for _, w := range ran.Writes {
			ends[w.Field] += w.N * max(ran.Times, 1)
		}
	}
	for field, n := range ends {
		ends[field] = len(cp.Values[field].Items) - n
	}
	var out []TaskInfo
	for _, ran := range c.Results {
		for range max(ran.Times, 1) {
			out = append(out, TaskInfo{Name: ran.Node, Done: p.wrote(p.writesOf(set, ran, cp, ends)), Tried: ran.Tried})
		}
	}
	return out
}

// input returns a saved input, or nil if it cannot be decoded.
func (p *Plan) input(set *Settings, start []byte) *Record {
	var o outcome
	r := newRun(context.Background(), p, set, nil)
	r.ctl.start = start
	if r.decodeStart(&o) != nil {
		return nil
	}
	if p.schema.workflow {
		return nil
	}
	return p.wrote(o.writes)
}

// newest infers the writes of a single task when none were recorded.
func (p *Plan) newest(node string, cp *checkpoint.Checkpoint) ranJSON {
	out := ranJSON{Node: node}
	var ver uint64
	for _, c := range p.schema.channels {
		ver = max(ver, cp.Values[c.wire].Version)
	}
	for _, c := range p.schema.channels {
		v, ok := cp.Values[c.wire]
		if !ok || v.Version != ver {
			continue
		}
		w := wroteJSON{Field: c.wire}
		if v.List {
			w.N = min(1, len(v.Items))
		}
		out.Writes = append(out.Writes, w)
	}
	return out
}

// writesOf returns a task's writes, without writes to fields that the graph no
// longer has.
func (p *Plan) writesOf(set *Settings, ran ranJSON, cp *checkpoint.Checkpoint, from map[string]int) []write {
	out := []write{}
	for _, w := range ran.Writes {
		c := p.schema.saved(w.Field)
		v := cp.Values[w.Field]
		if c == nil {
			continue
		}
		var val any
		var err error
		switch {
		case w.value() != nil && w.Over:
			val, err = set.Codecs.decodeAs(c.typ, w.value())
		case w.value() != nil:
			val, err = set.Codecs.decodeAs(c.upd, w.value())
		case v.List && !w.Over:
			first := from[w.Field]
			from[w.Field] += w.N
			if first < 0 || first+w.N > len(v.Items) {
				continue
			}
			v.Items = v.Items[first : first+w.N]
			val, err = set.Codecs.decodeValue(c, v)
		default:
			val, err = set.Codecs.decodeValue(c, v)
		}
		if err == nil {
			out = append(out, write{ch: c, val: val, over: w.Over})
		}
	}
	return out
}

// wrote returns a record of a task's writes.
func (p *Plan) wrote(ws []write) *Record {
	if p.schema.workflow {
		r := &Record{schema: p.schema, root: true}
		for _, w := range ws {
			if w.ch.wire == End {
				r.items = []write{{ch: &channel{name: Root, wire: Root, typ: w.ch.typ, upd: w.ch.upd}, val: w.val}}
			}
		}
		return r
	}
	return &Record{schema: p.schema, root: p.schema.root, list: true, items: ws}
}

// steps maps checkpoints to the results of the steps that started from them. If
// several steps started from the same checkpoint, it holds the first.
type steps map[checkpoint.ID]stepMade

type stepMade struct {
	step  int
	tasks []TaskInfo
}

// note adds the step that created a checkpoint. It must be called for newer
// checkpoints first.
func (s steps) note(cp *checkpoint.Checkpoint, made []TaskInfo) {
	if len(made) > 0 && cp.Source != checkpoint.Input {
		s[cp.Parent] = stepMade{cp.Step, made}
	}
}

// of returns the results of the step that started from a checkpoint. It returns nil
// for a step that was saved together with others when its run ended.
func (s steps) of(cp *checkpoint.Checkpoint) []TaskInfo {
	m := s[cp.ID]
	delete(s, cp.ID)
	if m.step != cp.Step+1 {
		return nil
	}
	return m.tasks
}

// showMade adds the tasks that created a checkpoint to its snapshot. For an input,
// this is the input, not the step that applied it.
func (c *Checkpoint) showMade(made []TaskInfo) {
	if len(made) > 0 && made[0].Done != nil {
		c.Made = made
	}
}

// addResults adds the results of the following step to the tasks of a checkpoint.
func (c *Checkpoint) addResults(p *Plan, next []TaskInfo) {
	next = slices.Clone(next)
	for i := range c.Tasks {
		t := &c.Tasks[i]
		k := slices.IndexFunc(next, func(m TaskInfo) bool { return p.current(m.Name) == p.current(t.Name) })
		if k < 0 {
			continue
		}
		if t.Done == nil {
			t.Done = next[k].Done
		}
		if t.Tried == nil {
			t.Tried = next[k].Tried
		}
		if t.Name == Start {
			t.Done = c.input
		}
		next = slices.Delete(next, k, k+1)
	}
}
