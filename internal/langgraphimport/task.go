package langgraphimport

import (
	"crypto/sha1" //nolint:gosec // ids of old tasks are made of it
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/treadletype"
)

// A task is a task of LangGraph that runs from a checkpoint, with what is stored of
// it.
type task struct {
	node  string
	sent  int    // its number among the sends, or -1
	call  int    // its number among the calls of its task, or -1
	by    string // of a call: the node that called it
	lg    string // its id in LangGraph, "" if nothing is stored of it
	id    string // its id in Treadle
	ns    string // the namespace of graphs that it runs, in Treadle
	point *point

	output     []write
	done       bool // it has written something, even if not to the state
	interrupts []*object
	resumes    []any
	failure    string
	failed     bool
	handled    bool // the output is of its error handler

	pauses []treadletype.Pause
}

func (t *task) finished() bool { return t.done }

const (
	pullPath    = "~__pregel_pull, "
	pushPath    = "~__pregel_push, "
	editPath    = "~" + interruptChannel
	handlerPath = ", node_error_handler, 0000000000"
)

// assign groups the writes of a checkpoint by task. names returns the names of nodes
// that the thread shows, others those that other threads show. It returns the ids of
// tasks whose node is not known.
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
	for _, w := range p.edits { // an edit as a node that was to run has the id of its task
		if t := p.byID(w.task); t != nil && t.lg == "" {
			t.lg = w.task
		}
	}
	for _, id := range left {
		t := p.byElimination(len(left))
		if slices.ContainsFunc(groups[id], func(w write) bool { return w.channel == returnChannel }) && (t == nil || !p.flow) {
			t = nil // a call of a function, whose number only the path has
		}
		if t == nil {
			if !p.stale(groups[id]) && (!p.next.start || slices.ContainsFunc(groups[id], ofFunction)) { // nothing needs to be known of the task that applies the input
				unknown = append(unknown, id)
			}
			continue
		}
		t.take(id, groups[id])
	}
	return unknown
}

// ofFunction reports whether a write cannot be of a task that applies an input.
func ofFunction(w write) bool { return w.channel == returnChannel || isControl(w.channel) }

// stale reports whether writes are of a task that ran before the checkpoint: in
// LangGraph 0.1 all checkpoints of a subgraph's run had the same id.
func (p *point) stale(ws []write) bool {
	return p.old && p.ns != "" && slices.ContainsFunc(ws, func(w write) bool {
		return w.value == startChannel || w.value == w.channel && p.ran(w.channel)
	})
}

// byName finds the node of a task by its id among nodes that are not known to run
// next, because they follow an edge that is not stored.
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

// byPath returns the task with a stored path, which it makes if it has run although
// it was not expected to.
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

// byCall makes the task of a call: "~__pregel_pull, node, 0000000002, 0000000001".
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

// byID returns the task whose id LangGraph would make equal to id.
func (p *point) byID(id string) *task {
	for _, t := range p.tasks {
		if p.hashes(t, id) {
			return t
		}
	}
	return nil
}

// hashes reports whether LangGraph would give a task the id.
func (p *point) hashes(t *task, id string) bool {
	if p.old {
		return id == p.id && t.sent < 0 || p.hashesOld(t, id) // a subgraph has the id of the checkpoint
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

// maxTasks is the maximum number of tasks of a step among which hashesOld finds one.
const maxTasks = 64

// hashesOld is like hashes, for LangGraph 0.1.
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

// maxTriggers is the maximum number of channels of which triggers tries all subsets.
const maxTriggers = 8

// triggers returns the possible lists of channels that run a node. Which edges with
// several sources lead to the node is known only of those that were used. Before
// edgeFormat, the edges from other nodes are not known either.
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

// isHash reports whether an id is made of a text. Before 0.3 ids were made with SHA-1,
// whatever the format of the checkpoint is.
func isHash(text, id string) bool {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return uuidText(hash128([]byte(text))) == id || uuidText(hex.EncodeToString(sum[:16])) == id
}

func uuidText(digits string) string {
	if len(digits) < 32 {
		return "" // of a text that is too short for hash128
	}
	return fmt.Sprintf("%s-%s-%s-%s-%s", digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
}

// byElimination returns the only task of which nothing is stored, if one group of
// writes is left.
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

// take adds the stored writes to the task.
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

// interruptsOf returns the interrupts of a write: a list, or before 0.3 a single one
// if there is no more.
func interruptsOf(w write) (out []*object) {
	list, ok := items(w.value)
	if !ok {
		list = []any{w.value}
	}
	for _, e := range list {
		o, ok := e.(*object)
		if !ok || !o.is("Interrupt") {
			o = &object{args: []any{e}} // of a class that LangGraph does not have
		}
		out = append(out, o)
	}
	return out
}

// interruptID returns the id that LangGraph gives the interrupt of a task after a
// number of answers.
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

// ordinal returns which question of the task an interrupt is, counted from 0. Since
// 1.1 the id says it. Before, all interrupts of a task had one id.
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
