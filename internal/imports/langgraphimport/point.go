package langgraphimport

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// typed is a serialized value and its type.
type typed struct {
	kind string
	data []byte
}

// rawPoint is a stored checkpoint. In SQLite it is a single value; Postgres stores most
// channel values separately.
type rawPoint struct {
	ns, id, parent string
	body           typed
	meta           []byte                                      // JSON
	parents        map[string]string                           // see point.parents; nil if the metadata contains them
	blob           func(channel, version string) (typed, bool) // nil if body contains all values
	writes         []rawWrite
	old            bool       // written by LangGraph 0.1
	sent           []rawWrite // sends by the parent's tasks, in case the parent is missing
}

// rawWrite is a row of the writes table.
type rawWrite struct {
	task, path string
	idx        int
	channel    string
	value      typed
}

// A point is a LangGraph checkpoint.
type point struct {
	ns, id, parent string
	uuid           checkpoint.ID
	format         int  // the checkpoint format
	old            bool // written by LangGraph 0.1
	step           int
	source         checkpoint.Source
	values         map[string]any              // values of channels outside the state
	state          map[string]checkpoint.Value // values of channels in the state
	versions       map[string]any
	seen           map[string]map[string]any // node → channel → version
	parents        map[string]string         // namespace → checkpoint of an enclosing graph
	meta           *dict
	writes         []write
	sends          []any // pending_sends of the checkpoint
	inline         bool  // sends is complete
	sent           []write

	// The ID and step of LangGraph's checkpoint, from which task IDs are derived. In a
	// workflow, they differ from uuid and step; see unfold.
	hashed   checkpoint.ID
	hashStep int
	applied  *point // for a workflow's input, the checkpoint after it
	flow     bool   // the checkpoint contains a workflow's input

	children int
	runs     []nestedRun
	next     schedule
	tasks    []*task
	edits    []write // by update_state, which created the checkpoint's child
	null     []write // by a Command, outside any task
	calls    []*task // calls of functions in the functional API

	out *converted
}

// nestedRun identifies the node and the task that run a subgraph.
type nestedRun struct{ node, id string }

// A write is a value that a task wrote to a channel.
type write struct {
	task, path string
	idx        int
	channel    string
	value      any
}

const (
	startChannel = "__start__"
	tasksChannel = "__pregel_tasks"
	branchPrefix = "branch:to:"
	joinPrefix   = "join:"
	nullTask     = "00000000-0000-0000-0000-000000000000"

	interruptChannel = "__interrupt__"
	resumeChannel    = "__resume__"
	errorChannel     = "__error__"
	nothingChannel   = "__no_writes__"
	returnChannel    = "__return__"
)

// isControl reports whether writes to a channel record what happened to a task. Writes to
// all other channels are output.
func isControl(channel string) bool {
	switch channel {
	case interruptChannel, resumeChannel, errorChannel, "__error_source_node__", "__scheduled__":
		return true
	}
	return false
}

// isInternal reports whether a channel is not part of the state.
func isInternal(channel string) bool {
	return channel == startChannel || channel == tasksChannel || strings.HasPrefix(channel, branchPrefix) ||
		strings.HasPrefix(channel, joinPrefix) || isLegacy(channel)
}

// isLegacy reports whether a channel schedules a node in LangGraph before 0.3.
func isLegacy(channel string) bool {
	return strings.HasPrefix(channel, "start:") || strings.HasPrefix(channel, "branch:") && strings.Count(channel, ":") >= 3
}

// isThen reports whether a legacy channel counts the nodes that the "then" of a
// conditional edge waits for.
func isThen(channel string) bool { return isLegacy(channel) && strings.HasSuffix(channel, "::then") }

// edgeFormat is the first checkpoint format in which an edge's channel is named after its
// target. Before, a node wrote to a channel with its own name, and its successors
// listened to that channel.
const edgeFormat = 3

// ran reports whether a channel records that the node of the same name has just run.
func (p *point) ran(channel string) bool {
	if p.format >= edgeFormat || channel == startChannel {
		return false
	}
	_, ok := p.seen[channel]
	return ok
}

// read decodes a stored checkpoint, reusing values that c has already decoded.
func (raw *rawPoint) read(c *conversion) (*point, error) {
	p := &point{
		ns:       raw.ns,
		id:       raw.id,
		parent:   raw.parent,
		old:      raw.old,
		values:   map[string]any{},
		state:    map[string]checkpoint.Value{},
		versions: map[string]any{},
		seen:     map[string]map[string]any{},
		parents:  map[string]string{},
	}
	var err error
	if p.uuid, err = checkpoint.ParseID(raw.id); err != nil || raw.id == "" {
		return nil, fmt.Errorf("ID %q is not a UUID", raw.id)
	}
	body, err := loadDict(raw.body)
	if err != nil {
		return nil, err
	}
	v, _ := body.get("v")
	p.format = int(number(v))
	if err := p.readVersions(body); err != nil {
		return nil, err
	}
	p.hashed = p.uuid
	if err := p.readValues(c, raw, body); err != nil {
		return nil, err
	}
	if err := p.readMetadata(raw.meta); err != nil {
		return nil, err
	}
	maps.Copy(p.parents, raw.parents)
	p.hashStep = p.step
	if v, ok := body.get("pending_sends"); ok {
		p.sends, _ = v.([]any)
		p.inline = raw.blob == nil
	}
	if p.writes, err = loadWrites(raw.writes); err != nil {
		return nil, err
	}
	p.sent, err = loadWrites(raw.sent)
	return p, err
}

// loadWrites decodes and sorts writes.
func loadWrites(raws []rawWrite) (out []write, err error) {
	for _, w := range raws {
		v, err := load(w.value.kind, w.value.data)
		if err != nil {
			return nil, fmt.Errorf("write of task %s to %s: %w", w.task, w.channel, err)
		}
		out = append(out, write{task: w.task, path: w.path, idx: w.idx, channel: w.channel, value: v})
	}
	slices.SortStableFunc(out, func(a, b write) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.task, b.task), cmp.Compare(a.idx, b.idx))
	})
	return out, nil
}

func (p *point) readValues(c *conversion, raw *rawPoint, body *dict) error {
	inline, err := dictAt(body, "channel_values")
	if err != nil {
		return err
	}
	for i, k := range inline.keys {
		name, ok := k.(string)
		if !ok {
			return errors.New("channel name is not a string")
		}
		p.set(c, name, inline.values[i])
	}
	if raw.blob == nil {
		return nil
	}
	for name, version := range p.versions {
		key := valueKey{p.ns, name, versionText(version)}
		if v, ok := c.known[key]; ok {
			p.state[name] = v
			continue
		}
		blob, ok := raw.blob(name, key.version)
		if !ok {
			continue // channel without a value
		}
		if blob.kind == "empty" {
			delete(p.values, name)
			delete(p.state, name)
			continue
		}
		v, err := load(blob.kind, blob.data)
		if err != nil {
			return fmt.Errorf("channel %s: %w", name, err)
		}
		p.set(c, name, v)
	}
	return nil
}

// set sets a channel's value.
func (p *point) set(c *conversion, name string, value any) {
	if isInternal(name) || p.ran(name) {
		p.values[name] = value
		return
	}
	key := valueKey{p.ns, name, versionText(p.versions[name])}
	v, ok := c.known[key]
	if !ok {
		v = c.value(p, name, value)
		if strings.Contains(key.version, ".") { // a version without a random part may occur in two forks
			c.known[key] = v
		}
	}
	p.state[name] = v
}

func loadDict(t typed) (*dict, error) {
	v, err := load(t.kind, t.data)
	if err != nil {
		return nil, err
	}
	d, ok := v.(*dict)
	if !ok {
		return nil, fmt.Errorf("value is a %s, not a LangGraph checkpoint", kindOf(v))
	}
	return d, nil
}

// dictAt returns the dict at key, or an empty dict if the key is missing.
func dictAt(d *dict, key string) (*dict, error) {
	v, _ := d.get(key)
	if v == nil {
		return &dict{}, nil
	}
	inner, ok := v.(*dict)
	if !ok {
		return nil, fmt.Errorf("%s is a %s, not a dict", key, kindOf(v))
	}
	return inner, nil
}

func (p *point) readVersions(body *dict) error {
	versions, err := dictAt(body, "channel_versions")
	if err != nil {
		return err
	}
	fill := func(to map[string]any, from *dict) error {
		for i, k := range from.keys {
			name, ok := k.(string)
			if !ok {
				return errors.New("channel name is not a string")
			}
			to[name] = from.values[i]
		}
		return nil
	}
	if err := fill(p.versions, versions); err != nil {
		return err
	}
	seen, err := dictAt(body, "versions_seen")
	if err != nil {
		return err
	}
	for i, k := range seen.keys {
		node, ok := k.(string)
		of, isDict := seen.values[i].(*dict)
		if !ok || !isDict {
			continue // not a node
		}
		p.seen[node] = map[string]any{}
		if err := fill(p.seen[node], of); err != nil {
			return err
		}
	}
	return nil
}

func (p *point) readMetadata(raw []byte) error {
	v, err := parseJSON(raw)
	if len(raw) == 0 {
		v, err = &dict{}, nil
	}
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	meta, ok := v.(*dict)
	if !ok {
		return errors.New("metadata is not an object")
	}
	p.meta = meta
	step, ok := meta.get("step")
	if !ok {
		return errors.New("metadata: missing step")
	}
	if p.step = int(number(step)); p.step < -2 || p.step > 1<<30 {
		return fmt.Errorf("metadata: invalid step %v", step)
	}
	source, _ := meta.get("source")
	switch s, _ := source.(string); checkpoint.Source(s) {
	case checkpoint.Input, checkpoint.Loop, checkpoint.Update, checkpoint.Fork:
		p.source = checkpoint.Source(s)
	default:
		return fmt.Errorf("metadata: unknown source %q", s)
	}
	around, err := dictAt(meta, "parents")
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	for i, k := range around.keys {
		ns, isText := k.(string)
		id, isID := around.values[i].(string)
		if isText && isID {
			p.parents[ns] = id
		}
	}
	return nil
}

// number returns v as an integer, or 0 if it is not a number.
func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case uint64:
		return int64(min(v, 1<<62))
	case float64:
		if v > -1e15 && v < 1e15 {
			return int64(v)
		}
	case json.Number:
		f, _ := v.Float64()
		return number(f)
	case string: // a version: the digits before the dot
		digits, _, _ := strings.Cut(v, ".")
		n, _ := strconv.ParseInt(digits, 10, 64)
		return n
	}
	return 0
}

// versionText returns a version as Postgres stores it.
func versionText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return strconv.FormatInt(number(v), 10)
}

// newer reports whether version a is newer than b, which may be nil.
func newer(a, b any) bool {
	if b == nil {
		return true
	}
	x, isText := a.(string)
	y, both := b.(string)
	if isText && both {
		return x > y
	}
	return number(a) > number(b)
}

// schedule describes what LangGraph runs next from a checkpoint.
type schedule struct {
	start   bool     // the input is not applied yet
	nodes   []string // node names
	waiting []string // deferred nodes
	after   []string // nodes that have run, with unknown edges
	sends   []*object
	joins   map[string][]string
	lost    map[string]string // problems by channel
}

// plan determines what runs next. The names of LangGraph's channels identify their nodes.
func (p *point) plan() {
	s := &p.next
	fresh := func(node, channel string) bool {
		return p.versions[channel] != nil && newer(p.versions[channel], p.seen[node][channel])
	}
	for channel, v := range p.values {
		switch {
		case channel == startChannel:
			s.start = fresh(startChannel, startChannel)
		case channel == tasksChannel:
			list, _ := items(v)
			s.send(list)
		case strings.HasPrefix(channel, branchPrefix):
			node := strings.TrimPrefix(channel, branchPrefix)
			if fresh(node, channel) {
				s.arm(node, deferred(v))
			}
		case strings.HasPrefix(channel, joinPrefix):
			p.join(channel, v, fresh)
		case isThen(channel):
			if pair, ok := v.([]any); !ok || len(pair) == 0 || pair[0] == nil || p.children > 0 {
				continue
			}
			s.lose(channel, "then of a conditional edge omitted, because its node is not stored: update the thread with treadle.AsNode to run that node")
		case isLegacy(channel):
			parts := strings.Split(channel, ":")
			if node := parts[len(parts)-1]; fresh(node, channel) {
				s.arm(node, false)
			}
		case p.ran(channel):
			s.after = append(s.after, channel)
		}
	}
	s.send(p.sends)
	slices.Sort(s.after)
	slices.Sort(s.nodes)
	slices.Sort(s.waiting)
	s.nodes, s.waiting = slices.Compact(s.nodes), slices.Compact(s.waiting)
	s.waiting = slices.DeleteFunc(s.waiting, func(n string) bool { return slices.Contains(s.nodes, n) })
}

func (s *schedule) arm(node string, waits bool) {
	if waits {
		s.waiting = append(s.waiting, node)
	} else {
		s.nodes = append(s.nodes, node)
	}
}

// send adds the sends in a list.
func (s *schedule) send(list []any) {
	for _, e := range list {
		if o, ok := e.(*object); ok && o.is("Send") {
			s.sends = append(s.sends, o)
		} else {
			s.lose(tasksChannel, "%s among the sends omitted", kindOf(e))
		}
	}
}

func (s *schedule) lose(channel, format string, args ...any) {
	if s.lost == nil {
		s.lost = map[string]string{}
	}
	s.lost[channel] = fmt.Sprintf(format, args...)
}

// deferred reports whether a channel's value belongs to a deferred node that must wait: a
// pair of a value and whether the run is about to end.
func deferred(v any) bool {
	pair, ok := v.([]any)
	return ok && len(pair) == 2 && pair[1] == false
}

// join reads the channel of an edge with several sources. Its value is the set of sources
// that have run, or a pair as in deferred.
func (p *point) join(channel string, v any, fresh func(node, channel string) bool) {
	name := strings.TrimPrefix(channel, joinPrefix)
	i := strings.LastIndexByte(name, ':')
	if i < 0 {
		return
	}
	sources, node := strings.Split(name[:i], "+"), name[i+1:]
	waits := deferred(v)
	if pair, ok := v.([]any); ok && len(pair) == 2 {
		if _, isBool := pair[1].(bool); isBool {
			v = pair[0]
		}
	}
	list, _ := items(v)
	var seen []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			seen = append(seen, s)
		}
	}
	full := true
	for _, s := range sources {
		full = full && slices.Contains(seen, s)
	}
	if full && fresh(node, channel) {
		p.next.arm(node, waits)
	}
	if len(seen) > 0 && (!full || waits) {
		if p.next.joins == nil {
			p.next.joins = map[string][]string{}
		}
		slices.Sort(seen)
		p.next.joins[channel] = seen
	}
}
