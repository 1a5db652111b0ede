package langgraphimport

import (
	"crypto/sha1" //nolint:gosec // old task IDs are SHA-1 hashes
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/treadletype"
)

// A task is a LangGraph task that runs from a checkpoint, with its stored data.
type task struct {
	node  string
	sent  int    // index among the sends, or -1
	call  int    // index among the calls of its task, or -1
	by    string // for a call, the calling node
	lg    string // LangGraph's task ID, or "" if nothing is stored
	id    string // Treadle's task ID
	ns    string // Treadle's namespace for subgraphs that the task runs
	point *point

	output     []write
	done       bool // the task has written something, even if not to the state
	interrupts []*object
	resumes    []any
	failure    string
	failed     bool
	handled    bool // the output comes from its error handler

	pauses []treadletype.Pause
}

func (t *task) finished() bool { return t.done }

const (
	pullPath    = "~__pregel_pull, "
	pushPath    = "~__pregel_push, "
	editPath    = "~" + interruptChannel
	handlerPath = ", node_error_handler, 0000000000"
)

// assign groups a checkpoint's writes by task. names returns the node names that appear
// in the thread, and others the names in other threads. assign returns the IDs of tasks
// whose node is unknown.
func (p *point) assign(names, others func() []string) (unknown []string) {
	for _, n := range p.next.nodes {
		p.tasks = append(p.tasks, &task{node: n, sent: -1, call: -1, point: p})
	}
	for i, s := range p.next.sends {
		node, _ := s.field("node", 0).(string)
		p.tasks = append(p.tasks, &task{node: node, sent: i, call: -1, point: p})
	}
	groups := map[string][]write{}
	var order []string
	for _, w := range p.writes {
		switch {
		case w.task == nullTask:
			p.null = append(p.null, w)
		case strings.HasPrefix(w.path, editPath):
			p.edits = append(p.edits, w)
		default:
			if groups[w.task] == nil {
				order = append(order, w.task)
			}
			groups[w.task] = append(groups[w.task], w)
		}
	}
	for _, run := range p.runs {
		if p.byID(run.id) == nil {
			p.byName(run.id, []string{run.node})
		}
	}
	var left []string
	for _, id := range order {
		t := p.byPath(groups[id][0].path)
		if t == nil {
			t = p.byID(id)
		}
		if t == nil && p.format < edgeFormat && !p.next.start {
			t = p.byName(id, names())
			if t == nil && p.children == 0 {
				t = p.byName(id, others())
			}
		}
		if t == nil {
			left = append(left, id)
			continue
		}
		t.take(id, groups[id])
	}
	for _, w := range p.edits { // an edit as a scheduled node has that node's task ID
		if t := p.byID(w.task); t != nil && t.lg == "" {
			t.lg = w.task
		}
	}
	for _, id := range left {
		t := p.byElimination(len(left))
		if slices.ContainsFunc(groups[id], func(w write) bool { return w.channel == returnChannel }) && (t == nil || !p.flow) {
			t = nil // a function call, whose index only the path contains
		}
		if t == nil {
			if !p.stale(groups[id]) && (!p.next.start || slices.ContainsFunc(groups[id], ofFunction)) { // the task that applies the input may remain unknown
				unknown = append(unknown, id)
			}
			continue
		}
		t.take(id, groups[id])
	}
	return unknown
}

// ofFunction reports whether a write cannot come from a task that applies an input.
func ofFunction(w write) bool { return w.channel == returnChannel || isControl(w.channel) }

// stale reports whether writes belong to a task that ran before the checkpoint. In
// LangGraph 0.1, all checkpoints of a subgraph run had the same ID.
func (p *point) stale(ws []write) bool {
	return p.old && p.ns != "" && slices.ContainsFunc(ws, func(w write) bool {
		return w.value == startChannel || w.value == w.channel && p.ran(w.channel)
	})
}

// byName finds a task's node by its ID among nodes that are not known to run next because
// their incoming edge is not stored.
func (p *point) byName(id string, names []string) *task {
	for _, name := range names {
		if slices.ContainsFunc(p.tasks, func(t *task) bool { return t.node == name && t.sent < 0 }) {
			continue
		}
		t := &task{node: name, sent: -1, call: -1, point: p}
		if p.hashes(t, id) {
			p.tasks = append(p.tasks, t)
			p.next.nodes = append(p.next.nodes, name)
			slices.Sort(p.next.nodes)
			return t
		}
	}
	return nil
}

// byPath returns the task with a stored path. It creates the task if the task has run
// unexpectedly.
func (p *point) byPath(path string) *task {
	find := func(node string, sent int) *task {
		i := slices.IndexFunc(p.tasks, func(t *task) bool { return t.sent == sent && (sent >= 0 || t.node == node) })
		if i >= 0 {
			return p.tasks[i]
		}
		if sent >= 0 {
			return nil
		}
		t := &task{node: node, sent: -1, call: -1, point: p}
		p.tasks = append(p.tasks, t)
		return t
	}
	handler := strings.HasSuffix(path, handlerPath)
	path = strings.TrimSuffix(path, handlerPath)
	if node, ok := strings.CutPrefix(path, pullPath); ok {
		t := find(node, -1)
		t.handled = t.handled || handler
		return t
	}
	rest, ok := strings.CutPrefix(path, pushPath)
	if !ok {
		return nil
	}
	if parts := strings.Split(rest, ", "); len(parts) <= 2 {
		n, err := strconv.Atoi(parts[0])
		if err != nil || n < 0 || n >= len(p.next.sends) {
			return nil
		}
		t := find("", n)
		t.handled = t.handled || handler
		return t
	}
	return p.byCall(rest)
}

// byCall creates the task of a call: "~__pregel_pull, node, 0000000002, 0000000001".
func (p *point) byCall(rest string) *task {
	caller, ok := strings.CutPrefix(rest, pullPath)
	parts := strings.Split(caller, ", ")
	if !ok || len(parts) < 3 {
		return nil
	}
	number, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		return nil
	}
	t := &task{sent: -1, call: number, by: strings.Join(parts[:len(parts)-2], ", "), point: p}
	p.calls = append(p.calls, t)
	return t
}

// byID returns the task whose LangGraph ID is id.
func (p *point) byID(id string) *task {
	for _, t := range p.tasks {
		if p.hashes(t, id) {
			return t
		}
	}
	return nil
}

// hashes reports whether id is LangGraph's ID of the task.
func (p *point) hashes(t *task, id string) bool {
	if p.old {
		return id == p.id && t.sent < 0 || p.hashesOld(t, id) // a subgraph's task has the checkpoint's ID
	}
	ns := t.node
	if p.ns != "" {
		ns = p.ns + "|" + t.node
	}
	text := string(p.hashed[:]) + ns + strconv.Itoa(p.hashStep+1) + t.node
	if t.sent >= 0 {
		return isHash(text+"__pregel_push"+strconv.Itoa(t.sent), id)
	}
	for _, triggers := range p.triggers(t.node) {
		if isHash(text+"__pregel_pull"+strings.Join(triggers, ""), id) {
			return true
		}
	}
	return false
}

// maxTasks is the maximum number of tasks per step that hashesOld checks.
const maxTasks = 64

// hashesOld is like hashes, but for LangGraph 0.1.
func (p *point) hashesOld(t *task, id string) bool {
	all := [][]string{{tasksChannel}}
	if t.sent < 0 {
		all = p.triggers(t.node)
	}
	for _, triggers := range all {
		var quoted []string
		for _, c := range append([]string{t.node}, triggers...) {
			quoted = append(quoted, strconv.QuoteToASCII(c))
		}
		for i := range maxTasks {
			text := fmt.Sprintf(`{"langgraph_step": %d, "langgraph_node": %s, "langgraph_triggers": [%s], "langgraph_task_idx": %d}`,
				p.hashStep+1, quoted[0], strings.Join(quoted[1:], ", "), i)
			if t.sent >= 0 && i != t.sent {
				continue
			}
			sum := sha1.Sum(append(p.hashed[:], text...)) //nolint:gosec // as above
			sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
			if uuidText(hex.EncodeToString(sum[:16])) == id {
				return true
			}
		}
	}
	return false
}

// maxTriggers is the maximum number of channels whose subsets triggers enumerates.
const maxTriggers = 8

// triggers returns the possible lists of channels that trigger a node. An edge with
// several sources is known only if it has been used. Before edgeFormat, the edges from
// other nodes are unknown too.
func (p *point) triggers(node string) (all [][]string) {
	if p.flow {
		return [][]string{{startChannel}}
	}
	var always, some []string
	if p.format >= edgeFormat {
		always = []string{branchPrefix + node}
		for channel := range p.versions {
			if strings.HasPrefix(channel, joinPrefix) && strings.HasSuffix(channel, ":"+node) {
				some = append(some, channel)
			}
		}
	} else {
		for channel := range p.values {
			if p.ran(channel) || isThen(channel) || isInternal(channel) && strings.HasSuffix(channel, ":"+node) {
				some = append(some, channel)
			}
		}
	}
	slices.Sort(some)
	some = some[:min(len(some), maxTriggers)]
	for set := range 1 << len(some) {
		used := slices.Clone(always)
		for i, c := range some {
			if set&(1<<i) != 0 {
				used = append(used, c)
			}
		}
		all = append(all, used)
	}
	return all
}

// isHash reports whether id is derived from text. Before 0.3, IDs were derived with
// SHA-1, regardless of the checkpoint format.
func isHash(text, id string) bool {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return uuidText(hash128([]byte(text))) == id || uuidText(hex.EncodeToString(sum[:16])) == id
}

func uuidText(digits string) string {
	if len(digits) < 32 {
		return "" // the text was too short for hash128
	}
	return fmt.Sprintf("%s-%s-%s-%s-%s", digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
}

// byElimination returns the only task without stored data, if exactly one group of writes
// is left.
func (p *point) byElimination(left int) *task {
	var found *task
	for _, t := range p.tasks {
		if t.lg != "" {
			continue
		}
		if found != nil {
			return nil
		}
		found = t
	}
	if left != 1 {
		return nil
	}
	return found
}

// take adds stored writes to the task.
func (t *task) take(id string, ws []write) {
	if t.lg == "" || !t.handled {
		t.lg = id
	}
	for _, w := range ws {
		switch w.channel {
		case interruptChannel:
			t.interrupts = append(t.interrupts, interruptsOf(w)...)
		case resumeChannel:
			t.resumes, _ = w.value.([]any)
			if t.resumes == nil {
				t.resumes = []any{w.value}
			}
		case errorChannel:
			t.failed = true
			raw, _ := toJSON(w.value)
			t.failure = string(raw)
			if s, ok := w.value.(string); ok {
				t.failure = s
			}
		default:
			if isControl(w.channel) {
				continue
			}
			t.done = true
			if t.point.format >= edgeFormat || w.channel != t.node {
				t.output = append(t.output, w)
			}
		}
	}
}

// interruptsOf returns the interrupts in a write: a list or, before 0.3, possibly a
// single interrupt.
func interruptsOf(w write) (out []*object) {
	list, ok := items(w.value)
	if !ok {
		list = []any{w.value}
	}
	for _, e := range list {
		o, ok := e.(*object)
		if !ok || !o.is("Interrupt") {
			o = &object{args: []any{e}} // not LangGraph's class
		}
		out = append(out, o)
	}
	return out
}

// interruptID returns the ID that LangGraph assigns to the task's interrupt after the
// given number of answers.
func (t *task) interruptID(answered int) string {
	ns := t.node + ":" + t.lg
	if t.point.ns != "" {
		ns = t.point.ns + "|" + ns
	}
	if answered > 0 {
		ns += "|" + strconv.Itoa(answered)
	}
	return hash128([]byte(ns))
}

// ordinal returns the zero-based index of an interrupt within its task. Since 1.1, the ID
// encodes it. Before, all interrupts of a task had the same ID.
func (t *task) ordinal(id string) int {
	answered := len(t.resumes)
	for n := answered; n > 0; n-- {
		if t.interruptID(n) == id {
			return n
		}
	}
	if answered > 0 && (t.finished() || t.failed) {
		return answered - 1
	}
	return answered
}
