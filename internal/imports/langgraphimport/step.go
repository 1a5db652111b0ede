package langgraphimport

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
)

// follow fills in how the checkpoint resulted from its parent: the nodes of the step
// between them, their writes, and the heads of persistent subgraphs.
func (c *conversion) follow(s *space, p, up *point, was *converted, ctl *pregel.StoredControl) {
	out := p.out
	out.children, out.log = was.children, was.log
	switch {
	case p.source == checkpoint.Input:
		ctl.Last, out.log = []string{startChannel}, nil
	case up == nil && s.around != nil && !s.lasting:
		if around := s.around.at(p.parents[s.around.lg]); around != nil { // the start of the run is not saved
			out.log = regain(around.out.values, out.values)
		}
	case up == nil:
	case p.source == checkpoint.Loop && up.next.start:
		ctl.Last = []string{startChannel}
	case p.source == checkpoint.Loop:
		ran := []pregel.StoredRan{}
		for _, t := range up.tasks {
			if !t.finished() {
				continue
			}
			ctl.Last = append(ctl.Last, t.node)
			r := pregel.StoredRan{Node: t.node}
			for _, w := range t.output {
				if stored, ok := c.stored(up, w); ok {
					r.Writes = append(r.Writes, pregel.StoredWrote{Field: stored.Field, Value: stored.Value, Over: stored.Over})
					out.log = appendLog(out.log, stored)
				}
			}
			ran = append(ran, r)
		}
		if len(ran) == 0 {
			ran = c.updates(p)
			for _, r := range ran {
				ctl.Last = append(ctl.Last, r.Node)
				for _, w := range r.Writes {
					out.log = appendLog(out.log, pregel.StoredWrite{Field: w.Field, Value: w.Value})
				}
			}
			if len(ran) == 0 {
				out.log = append(slices.Clip(out.log), regain(was.values, out.values)...)
			}
		}
		shorten(ran, was, out)
		ctl.Results = encoded(ran)
		out.children = c.heads(s, up, was.children)
	case p.source == checkpoint.Update:
		c.edited(p, up, was, ctl)
	default:
		ctl.Last = was.last
	}
	ctl.Children = out.children
	if s.around != nil && len(out.log) > 0 {
		out.values[pregel.StoredLog] = checkpoint.Value{Version: newest(out.values), List: true, Items: out.log}
	}
}

// updates returns the updates by a step's nodes from the metadata, which contains them
// before 0.5. Some versions did not save the writes of a step with a single task.
func (c *conversion) updates(p *point) (ran []pregel.StoredRan) {
	v, _ := p.meta.get("writes")
	by, ok := v.(*dict)
	if !ok {
		return nil
	}
	for i, k := range by.keys {
		node, _ := k.(string)
		all, several := by.values[i].([]any) // from tasks of the same node
		if _, root := p.state[rootField]; root || !several {
			all = by.values[i:][:1]
		}
		for _, update := range all {
			r := pregel.StoredRan{Node: node}
			fields, isDict := update.(*dict)
			if update != nil && !isDict {
				fields = &dict{keys: []any{rootField}, values: []any{update}}
			}
			for k := range fieldCount(fields) {
				name, _ := fields.keys[k].(string)
				if stored, ok := c.stored(p, write{path: node, channel: name, value: fields.values[k]}); ok {
					r.Writes = append(r.Writes, pregel.StoredWrote{Field: stored.Field, Value: stored.Value})
				}
			}
			ran = append(ran, r)
		}
	}
	return ran
}

// rootField is the field name of a state that is not a dict.
const rootField = "__root__"

func fieldCount(d *dict) int {
	if d == nil {
		return 0
	}
	return len(d.keys)
}

// regain returns writes that turn one set of values into another. It is used for a step
// whose writes are not saved.
func regain(old, now map[string]checkpoint.Value) (log [][]byte) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		v, was := now[name], old[name]
		switch {
		case bytes.Equal(whole(v), whole(was)), was.Data == nil && !was.List && string(v.Data) == "null":
		case v.List && was.List && len(v.Items) > len(was.Items) && slices.EqualFunc(v.Items[:len(was.Items)], was.Items, bytes.Equal):
			more := checkpoint.Value{List: true, Items: v.Items[len(was.Items):]}
			log = appendLog(log, pregel.StoredWrite{Field: name, Value: whole(more)})
		default:
			log = appendLog(log, pregel.StoredWrite{Field: name, Value: whole(v), Over: true})
		}
	}
	return log
}

// encoded returns the JSON encoding of one of the engine's stored types.
func encoded(v any) []byte {
	raw, _ := json.Marshal(v) //nolint:errchkjson // consists of strings and JSON from toJSON
	return raw
}

func appendLog(log [][]byte, w pregel.StoredWrite) [][]byte {
	return append(slices.Clip(log), encoded(w))
}

func newest(values map[string]checkpoint.Value) uint64 {
	n := uint64(1)
	for _, v := range values {
		n = max(n, v.Version)
	}
	return n
}

// whole returns the JSON of a value.
func whole(v checkpoint.Value) json.RawMessage {
	if !v.List {
		return v.Data
	}
	return slices.Concat([]byte("["), bytes.Join(v.Items, []byte(",")), []byte("]"))
}

// edited fills in the nodes that update_state was called for and their writes. LangGraph
// stores these only for some edits.
func (c *conversion) edited(p, up *point, was *converted, ctl *pregel.StoredControl) {
	out := p.out
	ran := []pregel.StoredRan{}
	of := map[string]int{}
	for _, w := range up.edits {
		i := slices.IndexFunc(up.tasks, func(t *task) bool { return t.lg == w.task })
		if i < 0 {
			continue
		}
		if _, ok := of[w.path]; !ok {
			of[w.path] = len(ran)
			ran = append(ran, pregel.StoredRan{Node: up.tasks[i].node})
		}
		r := &ran[of[w.path]]
		if stored, ok := c.stored(up, w); ok {
			r.Writes = append(r.Writes, pregel.StoredWrote{Field: stored.Field, Value: stored.Value, Over: stored.Over})
		}
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(out.values)) {
		v := out.values[name]
		if old, ok := was.values[name]; ok && old.Version == v.Version {
			continue
		}
		changed = true
		out.log = appendLog(out.log, pregel.StoredWrite{Field: name, Value: whole(v), Over: true})
	}
	for _, r := range ran {
		ctl.Last = append(ctl.Last, r.Node)
	}
	if len(ran) == 0 {
		for node := range p.seen { // a node that had not run before
			if _, ok := up.seen[node]; !ok && node != interruptChannel && node != "__input__" {
				ctl.Last = append(ctl.Last, node)
			}
		}
		slices.Sort(ctl.Last)
	}
	if len(ctl.Last) == 0 {
		ctl.Last = was.last
	}
	if len(ran) > 0 || !changed || len(ctl.Last) != 1 { // otherwise the engine infers the writes of the single node
		shorten(ran, was, out)
		ctl.Results = encoded(ran)
	}
}

// stored converts a task's write to a state field.
func (c *conversion) stored(p *point, w write) (pregel.StoredWrite, bool) {
	if isInternal(w.channel) || w.channel == nothingChannel || w.channel == returnChannel {
		return pregel.StoredWrite{}, false
	}
	out := pregel.StoredWrite{Field: w.channel}
	v := w.value
	switch o := v.(type) {
	case *object:
		if o.is("Overwrite") {
			v, out.Over = o.field("value", 0), true
		}
	case *dict:
		if inner, ok := o.get("__overwrite__"); ok && len(o.keys) == 1 {
			v, out.Over = inner, true
		}
	}
	var problems []string
	out.Value, problems = toJSON(v)
	for _, text := range problems {
		by := "task " + w.task
		if w.task == "" {
			by = "node " + w.path
		}
		c.problem(p, w.channel, "write of %s: %s", by, text)
	}
	return out, true
}

// shorten removes values from a step's results if the step's checkpoint contains them: a
// value that was set, or elements that were appended to a list.
func shorten(ran []pregel.StoredRan, was, now *converted) {
	type written struct {
		items  [][]byte
		writes int
		odd    bool
	}
	by := map[string]*written{}
	for _, r := range ran {
		for _, w := range r.Writes {
			of := by[w.Field]
			if of == nil {
				of = &written{}
				by[w.Field] = of
			}
			var list []json.RawMessage
			if w.Over || json.Unmarshal(w.Value, &list) != nil || list == nil {
				of.odd = true
			}
			for _, e := range list {
				of.items = append(of.items, e)
			}
			of.writes++
		}
	}
	for i := range ran {
		for k := range ran[i].Writes {
			w := &ran[i].Writes[k]
			v, of := now.values[w.Field], by[w.Field]
			switch {
			case v.List && !of.odd && appended(was.values[w.Field].Items, v.Items, of.items):
				var list []json.RawMessage
				_ = json.Unmarshal(w.Value, &list) // always a list
				w.N, w.Value = len(list), nil
				if w.N == 0 {
					w.Value = json.RawMessage("[]")
				}
			case !v.List && !w.Over && of.writes == 1 && bytes.Equal(v.Data, w.Value):
				w.Value = nil
			}
		}
	}
}

// appended reports whether now equals old followed by more.
func appended(old, now, more [][]byte) bool {
	return len(now) == len(old)+len(more) && slices.EqualFunc(now, slices.Concat(old, more), bytes.Equal)
}

// heads returns the heads of persistent subgraphs after the step that started at up.
func (c *conversion) heads(s *space, up *point, old map[string]checkpoint.ID) map[string]checkpoint.ID {
	out := maps.Clone(old)
	for _, o := range c.order {
		if !o.lasting {
			continue
		}
		for _, p := range o.points {
			if s.at(p.parents[s.lg]) == up {
				if out == nil {
					out = map[string]checkpoint.ID{}
				}
				out[o.ns] = p.uuid
			}
		}
	}
	return out
}
