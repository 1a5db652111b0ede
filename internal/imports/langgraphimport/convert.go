package langgraphimport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/treadletype"
)

// A Problem describes data that was not converted, or only in part.
type Problem struct {
	Thread     string `json:"thread,omitempty"`
	Namespace  string `json:"namespace,omitempty"`  // LangGraph's namespace of a subgraph
	Checkpoint string `json:"checkpoint,omitempty"` // the checkpoint ID
	Field      string `json:"field,omitempty"`      // the channel or other part of the checkpoint
	Item       string `json:"item,omitempty"`       // the namespace and key of a store item
	Text       string `json:"text"`
}

// A conversion converts the checkpoints of one thread to Treadle's form.
type conversion struct {
	thread   string
	damaged  []damage
	known    map[valueKey]checkpoint.Value // state values by version
	shared   map[string][]byte             // JSON shared by checkpoints
	spaces   map[string]*space             // by LangGraph's namespace
	order    []*space                      // parent graphs first
	asked    map[string]treadletype.Pause
	answers  map[*task]map[string]pregel.StoredAnswer // by task of the root graph
	others   func() []string                          // returns the node names of all threads
	listed   map[Problem]int                          // index into problems; keys omit the checkpoint
	problems []Problem
}

// valueKey identifies a version of a channel.
type valueKey struct{ ns, channel, version string }

// A space is a namespace: the checkpoints of the root graph or of a subgraph.
type space struct {
	lg      string // the namespace in LangGraph
	ns      string // the namespace in Treadle
	points  []*point
	byID    map[string]*point
	around  *space // the parent graph; nil for the root graph
	flow    string // a workflow's only node, if its name is known
	isFlow  bool   // the graph is a workflow
	lasting bool   // the state lasts as long as the thread
}

// converted is a checkpoint in Treadle's form.
type converted struct {
	values   map[string]checkpoint.Value
	log      [][]byte
	last     []string
	children map[string]checkpoint.ID
	control  []byte
	pending  []checkpoint.Write
}

// problem records a problem with a checkpoint. It merges equal problems, which occur when
// checkpoints share a value, and keeps the lowest checkpoint ID.
func (c *conversion) problem(p *point, field, format string, args ...any) {
	found := Problem{Thread: c.thread, Namespace: p.ns, Field: field, Text: fmt.Sprintf(format, args...)}
	if i, ok := c.listed[found]; ok {
		if id := p.hashed.String(); id < c.problems[i].Checkpoint {
			c.problems[i].Checkpoint = id
		}
		return
	}
	c.listed[found] = len(c.problems)
	found.Checkpoint = p.hashed.String()
	c.problems = append(c.problems, found)
}

// damage describes an unreadable checkpoint.
type damage struct {
	ns, id, parent string
	err            error
}

func newConversion(thread string) *conversion {
	return &conversion{
		thread:  thread,
		spaces:  map[string]*space{},
		known:   map[valueKey]checkpoint.Value{},
		shared:  map[string][]byte{},
		asked:   map[string]treadletype.Pause{},
		answers: map[*task]map[string]pregel.StoredAnswer{},
		listed:  map[Problem]int{},
		others:  func() []string { return nil },
	}
}

// add decodes a checkpoint of the thread. It converts state values to JSON immediately,
// so that checkpoints can share them: LangGraph stores a whole list in every checkpoint,
// and all the copies would not fit into memory.
func (c *conversion) add(raw *rawPoint) {
	p, err := raw.read(c)
	if err != nil {
		c.damaged = append(c.damaged, damage{raw.ns, raw.id, raw.parent, err})
		return
	}
	s := c.spaces[raw.ns]
	if s == nil {
		s = &space{lg: raw.ns, byID: map[string]*point{}, lasting: raw.ns != "" && !strings.Contains(raw.ns, ":")}
		c.spaces[raw.ns] = s
	}
	s.points = append(s.points, p)
	s.byID[p.id] = p
}

// convert returns the added checkpoints in the order in which they must be saved: parent
// graphs first, then by ID. It returns nil if the thread must not be imported.
func (c *conversion) convert() ([]*checkpoint.Put, []Problem) {
	if !c.link() {
		return nil, c.problems
	}
	c.locate()
	for _, s := range c.order {
		s.unfold(c)
	}
	c.identify()
	c.questions()
	var puts []*checkpoint.Put
	for _, s := range c.order {
		var head checkpoint.ID
		for _, p := range s.points {
			c.point(s, p)
			puts = append(puts, c.put(s, p, head))
			head = p.uuid
		}
	}
	return puts, c.problems
}

// link sorts the checkpoints of each graph and finds their parents. It omits unreadable
// checkpoints. If a graph's newest checkpoint is unreadable, link omits the whole graph,
// or, for the root graph, the thread.
func (c *conversion) link() bool {
	newest := map[string]string{}
	for _, s := range c.spaces {
		slices.SortFunc(s.points, func(a, b *point) int { return cmp.Compare(a.id, b.id) })
		newest[s.lg] = s.points[len(s.points)-1].id
	}
	parents := map[[2]string]string{}
	for _, d := range c.damaged {
		newest[d.ns] = max(newest[d.ns], d.id)
		parents[[2]string{d.ns, d.id}] = d.parent
	}
	whole := true
	for _, d := range c.damaged {
		text := "unreadable checkpoint omitted: "
		if newest[d.ns] == d.id {
			text = "subgraph omitted, which restarts it: unreadable latest checkpoint: "
			delete(c.spaces, d.ns)
			if d.ns == "" {
				text, whole = "thread not imported: unreadable latest checkpoint: ", false
			}
		}
		c.problems = append(c.problems, Problem{Thread: c.thread, Namespace: d.ns, Checkpoint: d.id, Text: text + d.err.Error()})
	}
	if c.spaces[""] == nil && whole {
		c.problems = append(c.problems, Problem{Thread: c.thread, Text: "thread not imported: it has checkpoints of subgraphs, but none of the root graph"})
		return false
	}
	for _, s := range c.spaces {
		for _, p := range s.points {
			if p.parent != "" && s.byID[p.parent] == nil {
				if _, damaged := parents[[2]string{s.lg, p.parent}]; !damaged {
					c.problem(p, "parent", "history starts here: parent %s is not in the database", p.parent)
				}
			}
			for p.parent != "" && s.byID[p.parent] == nil { // omitted or pruned
				up := parents[[2]string{s.lg, p.parent}]
				if up >= p.parent {
					up = ""
				}
				p.parent = up
			}
			if p.parent >= p.id && p.parent != "" {
				c.problem(p, "parent", "history starts here: parent %s is not older than the checkpoint", p.parent)
				p.parent = ""
			}
			if up := s.byID[p.parent]; up != nil {
				up.children++
			}
		}
		for _, p := range s.points {
			p.plan()
			s.legacySends(p)
		}
		s.legacyEdges()
	}
	return whole
}

var callNumber = regexp.MustCompile(`(\|[0-9]+)+$`)

// locate finds the parent graph of each subgraph and orders the graphs.
func (c *conversion) locate() {
	for _, lg := range slices.SortedFunc(maps.Keys(c.spaces), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "|"), strings.Count(b, "|")), cmp.Compare(a, b))
	}) {
		s := c.spaces[lg]
		if lg != "" {
			longest := ""
			for ns := range s.points[0].parents {
				if len(ns) > len(longest) && ns != lg {
					longest = ns
				}
			}
			if s.around = c.spaces[longest]; s.around == nil || s.around == s || !slices.Contains(c.order, s.around) {
				c.problem(s.points[len(s.points)-1], "", "subgraph omitted: missing parent graph")
				delete(c.spaces, lg)
				continue
			}
		}
		c.order = append(c.order, s)
	}
}

// runner returns the node and the task named by a subgraph's namespace.
func (s *space) runner() nestedRun {
	segments := strings.Split(callNumber.ReplaceAllString(s.lg, ""), "|")
	node, id, _ := strings.Cut(segments[len(segments)-1], ":")
	return nestedRun{node, id}
}

// taskOf returns the task that runs the graph of a checkpoint, or nil if it is unknown.
func (c *conversion) taskOf(s *space, p *point) *task {
	if s.around == nil {
		return nil
	}
	up := s.around.at(p.parents[s.around.lg])
	if up == nil {
		return nil
	}
	run := s.runner()
	node, lg := run.node, run.id
	for _, t := range up.tasks {
		if t.node == node && (lg == "" || t.lg == lg || up.old && t.sent < 0) {
			return t
		}
	}
	for _, t := range up.tasks { // the task has no stored writes
		if t.node == node && t.lg == "" && (t.sent < 0 || up.byID(lg) == t) {
			t.lg = lg
			return t
		}
	}
	return nil
}

// identify finds the tasks of all checkpoints and assigns Treadle's IDs to the tasks and
// namespaces. An ID is derived from the IDs of the parent graphs.
func (c *conversion) identify() {
	for _, s := range slices.Clone(c.order) {
		for _, o := range c.order {
			if o.around != s || o.lasting {
				continue
			}
			for _, p := range o.points {
				if up := s.at(p.parents[s.lg]); up != nil && up.format < edgeFormat {
					up.runs = append(up.runs, o.runner())
				}
			}
		}
		names := sync.OnceValue(func() []string { return c.names(s) })
		for _, p := range s.points {
			for _, id := range p.assign(names, c.others) {
				if p.children == 0 {
					c.problem(p, "task "+id, "writes and interrupts of the task omitted, so that it runs again: unknown node")
				}
			}
		}
		switch {
		case s.around == nil:
		case s.lasting:
			s.ns = s.lg
		default:
			t := c.taskOf(s, s.points[len(s.points)-1])
			if t == nil || t.ns == "" {
				c.problem(s.points[len(s.points)-1], "", "subgraph omitted, which restarts it: unknown task")
				c.order = slices.DeleteFunc(c.order, func(o *space) bool { return o == s })
				delete(c.spaces, s.lg)
				continue
			}
			s.ns = t.ns + callNumber.FindString(s.lg)
		}
		for _, p := range s.points {
			for _, t := range p.tasks {
				t.id = pregel.TaskID(p.uuid, s.ns, p.step+1, t.node, t.sent)
				t.ns = t.node + ":" + t.id
				if s.ns != "" {
					t.ns = s.ns + "|" + t.ns
				}
			}
			slices.SortStableFunc(p.tasks, func(a, b *task) int {
				return cmp.Or(cmp.Compare(a.sent, b.sent), cmp.Compare(a.node, b.node))
			})
		}
	}
}

// point converts a checkpoint. The checkpoint's parent must be converted already.
func (c *conversion) point(s *space, p *point) {
	out := &converted{values: map[string]checkpoint.Value{}}
	p.out = out
	up := s.byID[p.parent]
	was := &converted{}
	if up != nil {
		was = up.out
	}
	maps.Copy(out.values, p.state)
	if p.flow {
		out.values[startChannel] = c.value(p, startChannel, p.values[startChannel])
	}
	c.missing(p)
	for _, name := range slices.Sorted(maps.Keys(p.next.lost)) {
		c.problem(p, name, "%s", p.next.lost[name])
	}
	ctl := &pregel.StoredControl{Next: p.next.nodes, Waiting: p.next.waiting, Joins: p.next.joins, After: p.next.after}
	c.control(s, p, ctl)
	c.follow(s, p, up, was, ctl)
	out.last = ctl.Last
	out.control = encoded(ctl)
	c.pending(s, p)
}

// missing reports channels whose values exist only as writes of earlier checkpoints, so
// that computing them requires the Python reducer.
func (c *conversion) missing(p *point) {
	counters, _ := p.meta.get("counters_since_delta_snapshot")
	d, _ := counters.(*dict)
	if d == nil || p.children > 0 {
		return
	}
	for _, k := range d.keys {
		name, _ := k.(string)
		if _, ok := p.state[name]; !ok && p.versions[name] != nil {
			c.problem(p, name, "DeltaChannel omitted, because only its Python reducer can compute the value: run a step in Python with snapshot_frequency=1, which stores the whole value")
		}
	}
}

// value converts a channel's value. It splits a list into elements, so that checkpoints
// can share them.
func (c *conversion) value(p *point, name string, v any) checkpoint.Value {
	version := uint64(max(number(p.versions[name]), 1))
	note := func(problems []string) {
		for _, text := range problems {
			c.problem(p, name, "%s", text)
		}
	}
	list, ok := items(v)
	if !ok {
		raw, problems := toJSON(v)
		note(problems)
		return checkpoint.Value{Version: version, Data: c.share(raw)}
	}
	out := checkpoint.Value{Version: version, List: true, Items: make([][]byte, len(list))}
	for i, e := range list {
		raw, problems := toJSON(e)
		for k := range problems {
			problems[k] = fmt.Sprintf("[%d]: %s", i, problems[k])
		}
		note(problems)
		out.Items[i] = c.share(raw)
	}
	return out
}

// share returns the canonical copy of raw: equal inputs return the same slice.
func (c *conversion) share(raw []byte) []byte {
	if old, ok := c.shared[string(raw)]; ok {
		return old
	}
	raw = slices.Clip(raw)
	c.shared[string(raw)] = raw
	return raw
}

// control fills in the nodes and sends that run next.
func (c *conversion) control(s *space, p *point, ctl *pregel.StoredControl) {
	convert := func(field string, v any) json.RawMessage {
		raw, problems := toJSON(v)
		for _, text := range problems {
			c.problem(p, field, "%s", text)
		}
		return raw
	}
	if p.next.start {
		ctl.Start = convert(startChannel, p.values[startChannel])
		if s.flow != "" || s.isFlow {
			ctl.Start = slices.Concat([]byte(`{"`+startChannel+`":`), ctl.Start, []byte("}"))
		}
		ctl.Next, ctl.Waiting, ctl.After = nil, nil, nil
	}
	for _, o := range p.next.sends {
		node, ok := o.field("node", 0).(string)
		if !ok {
			c.problem(p, tasksChannel, "Send without a node omitted")
			continue
		}
		ctl.Sends = append(ctl.Sends, pregel.StoredSend{Node: node, Input: convert("input of "+node, o.field("arg", 1)), Timeout: c.timeout(p, node, o)})
	}
	if p.children == 0 {
		for _, w := range p.null {
			switch {
			case w.channel == resumeChannel || w.channel == nothingChannel:
			case strings.HasPrefix(w.channel, branchPrefix):
				ctl.Next = append(ctl.Next, strings.TrimPrefix(w.channel, branchPrefix))
			default:
				c.problem(p, w.channel, "update by a Command in an unfinished step omitted, because no checkpoint contains it: repeat it with Thread.Update")
			}
		}
		slices.Sort(ctl.Next)
		ctl.Next = slices.Compact(ctl.Next)
	}
	if s.around != nil {
		if up := s.around.at(p.parents[s.around.lg]); up != nil {
			ctl.Of = up.uuid
		}
		if t := c.taskOf(s, p); t != nil && s.lasting {
			ctl.Owner = t.ns
		}
	}
}

// timeout returns the run timeout of a Send, or nil.
func (c *conversion) timeout(p *point, node string, send *object) *pregel.Timeout {
	policy, ok := send.field("timeout", 2).(*object)
	if !ok {
		return nil
	}
	if policy.field("idle_timeout", 1) != nil {
		c.problem(p, "input of "+node, "idle timeout of the Send omitted")
	}
	limit := policy.field("run_timeout", 0)
	if limit == nil {
		return nil
	}
	seconds, _ := limit.(float64)
	if n, ok := limit.(json.Number); ok {
		seconds, _ = n.Float64()
	}
	if !(seconds > 0 && seconds < math.MaxInt64/float64(time.Second)) {
		c.problem(p, "input of "+node, "timeout %v of the Send omitted", limit)
		return nil
	}
	return &pregel.Timeout{Run: time.Duration(seconds * float64(time.Second))}
}

// pending converts the stored writes of a step's tasks.
func (c *conversion) pending(s *space, p *point) {
	add := func(t *task, kind checkpoint.WriteKind, v any) {
		p.out.pending = append(p.out.pending, checkpoint.Write{Task: t.id, Kind: kind, Data: encoded(v), RunID: p.runID()})
	}
	for _, t := range p.tasks {
		pauses := t.pauses
		if t.finished() { // LangGraph does not store the last answer given by ID
			answers := c.answers[c.outermost(s, t)]
			pauses = slices.DeleteFunc(slices.Clone(pauses), func(q treadletype.Pause) bool { _, ok := answers[q.ID]; return !ok })
		}
		if len(pauses) > 0 {
			add(t, checkpoint.Paused, pauses)
		}
		if a := c.answers[t]; len(a) > 0 {
			add(t, checkpoint.Answers, a)
		}
		switch {
		case t.finished() && p.children == 0 && t.node != startChannel:
			add(t, checkpoint.Done, c.result(s, t))
		case t.failed && !t.finished():
			kind, message := exception(t.failure)
			add(t, checkpoint.Failed, pregel.StoredFailure{Node: t.node, Type: kind, Message: message})
		}
	}
	if p.children > 0 {
		return
	}
	for _, call := range p.calls {
		i := slices.IndexFunc(call.output, func(w write) bool { return w.channel == returnChannel })
		k := slices.IndexFunc(p.tasks, func(t *task) bool { return t.node == call.by && t.sent < 0 })
		if i < 0 || k < 0 {
			continue // not finished
		}
		raw, problems := toJSON(call.output[i].value)
		for _, text := range problems {
			c.problem(p, fmt.Sprintf("call %d of %s", call.call, call.by), "%s", text)
		}
		add(&task{id: pregel.CallID(p.tasks[k].ns, call.call)}, checkpoint.Done, pregel.StoredCall{Value: raw})
	}
}

var pythonError = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_.]*)\((.*)\)$`)

// exception parses the text of an exception, such as "ValueError('no')".
func exception(text string) (kind, message string) {
	m := pythonError.FindStringSubmatch(text)
	if m == nil {
		return "Exception", text
	}
	inner := strings.TrimSuffix(m[2], ",")
	if len(inner) >= 2 && (inner[0] == '\'' || inner[0] == '"') && inner[len(inner)-1] == inner[0] && !strings.Contains(inner[1:len(inner)-1], inner[:1]) && !strings.Contains(inner, `\`) {
		inner = inner[1 : len(inner)-1]
	}
	return m[1], inner
}

// result returns the stored result of a finished task in an unfinished step.
func (c *conversion) result(s *space, t *task) pregel.StoredResult {
	out := pregel.StoredResult{Handled: t.handled}
	for _, w := range t.output {
		if stored, ok := c.stored(t.point, w); ok {
			out.Writes = append(out.Writes, stored)
			continue
		}
		if node, ok := strings.CutPrefix(w.channel, branchPrefix); ok {
			out.Goto = append(out.Goto, pregel.StoredTarget{Node: node})
		} else if isLegacy(w.channel) && !isThen(w.channel) {
			out.Goto = append(out.Goto, pregel.StoredTarget{Node: w.channel[strings.LastIndexByte(w.channel, ':')+1:]})
		}
		if o, ok := w.value.(*object); ok && w.channel == tasksChannel && o.is("Send") {
			node, _ := o.field("node", 0).(string)
			raw, problems := toJSON(o.field("arg", 1))
			for _, text := range problems {
				c.problem(t.point, "input of "+node, "%s", text)
			}
			out.Goto = append(out.Goto, pregel.StoredTarget{Node: node, Send: true, Input: raw, Timeout: c.timeout(t.point, node, o)})
		}
	}
	for ns, id := range c.heads(s, t.point, nil) {
		if ns == t.node || strings.HasSuffix(ns, "|"+t.node) || strings.HasPrefix(ns, t.node+"|") {
			if out.Children == nil {
				out.Children = map[string]checkpoint.ID{}
			}
			out.Children[ns] = id
		}
	}
	return out
}

func (p *point) runID() string {
	v, _ := p.meta.get("run_id")
	id, _ := v.(string)
	return id
}

// put returns the checkpoint in the form that a Saver accepts.
func (c *conversion) put(s *space, p *point, head checkpoint.ID) *checkpoint.Put {
	out := &checkpoint.Put{
		Key:     checkpoint.Key{Thread: c.thread, Namespace: s.ns, ID: p.uuid},
		Head:    head,
		Step:    p.step,
		Source:  p.source,
		RunID:   p.runID(),
		Control: p.out.control,
		Pending: p.out.pending,
	}
	was := map[string]checkpoint.Value{}
	if up := s.byID[p.parent]; up != nil {
		out.Parent, was = up.uuid, up.out.values
	}
	out.Changes = changes(was, p.out.values)
	meta := &dict{}
	for i, k := range p.meta.keys {
		switch k {
		case "source", "step", "parents", "run_id", "writes", "thread_id", "counters_since_delta_snapshot":
		default:
			meta.keys, meta.values = append(meta.keys, k), append(meta.values, p.meta.values[i])
		}
	}
	if len(meta.keys) > 0 {
		var problems []string
		out.Metadata, problems = toJSON(meta)
		for _, text := range problems {
			c.problem(p, "metadata", "%s", text)
		}
	}
	return out
}

// changes returns the changes that turn one set of values into another.
func changes(old, now map[string]checkpoint.Value) []checkpoint.Change {
	var out []checkpoint.Change
	for _, name := range slices.Sorted(maps.Keys(now)) {
		v, was := now[name], old[name]
		if _, had := old[name]; had && was.Version == v.Version && was.List == v.List && len(was.Items) == len(v.Items) && bytes.Equal(was.Data, v.Data) {
			continue
		}
		ch := checkpoint.Change{Channel: name, Version: v.Version, Data: v.Data, Items: v.Items, List: v.List}
		if v.List && was.List {
			same := 0
			for same < len(was.Items) && same < len(v.Items) && bytes.Equal(was.Items[same], v.Items[same]) {
				same++
			}
			ch.Drop, ch.Items = len(was.Items)-same, v.Items[same:]
		}
		out = append(out, ch)
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, ok := now[name]; !ok {
			out = append(out, checkpoint.Change{Channel: name, Version: old[name].Version + 1, Clear: true})
		}
	}
	return out
}

// at returns the checkpoint that tasks run from: the checkpoint with the given ID or, for
// a workflow's input, the checkpoint after it.
func (s *space) at(id string) *point {
	p := s.byID[id]
	if p != nil && p.applied != nil {
		return p.applied
	}
	return p
}

// unfold adds a checkpoint after each input of a workflow. In LangGraph, the workflow
// function runs from the input's checkpoint. In Treadle, as in every graph, the input is
// applied first.
func (s *space) unfold(c *conversion) {
	s.findFlow(c)
	if s.flow == "" {
		return
	}
	var points []*point
	for _, p := range s.points {
		if up := s.at(p.parent); up != nil {
			p.parent, p.step = up.id, up.step+1
		}
		points = append(points, p)
		if _, ok := p.values[startChannel]; !ok {
			continue
		}
		if p.source != checkpoint.Input { // a fork from an applied input
			p.flow, p.next = true, schedule{nodes: []string{s.flow}}
			continue
		}
		q := *p
		for i := len(q.uuid) - 1; i >= 10; i-- { // the next ID
			q.uuid[i]++
			if q.uuid[i] != 0 {
				break
			}
		}
		q.id = q.uuid.String()
		q.parent = p.id
		q.step = p.step + 1
		q.source = checkpoint.Loop
		q.flow = true
		q.next = schedule{nodes: []string{s.flow}}
		p.next.start, p.next.nodes = true, nil
		p.writes, p.children, p.applied = nil, 1, &q
		s.byID[q.id] = &q
		points = append(points, &q)
	}
	s.points = points
}
