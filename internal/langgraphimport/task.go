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
	interrupts []*object
	resumes    []any
	failure    string
	failed     bool
	handled    bool // the output is of its error handler

	pauses []treadletype.Pause
}

func (t *task) finished() bool { return len(t.output) > 0 }

const (
	pullPath    = "~__pregel_pull, "
	pushPath    = "~__pregel_push, "
	editPath    = "~" + interruptChannel
	handlerPath = ", node_error_handler, 0000000000"
)

// assign groups the writes of a checkpoint by task. It returns the ids of tasks
// whose node is not known.
func (p *point) assign() (unknown []string) {
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
	var left []string
	for _, id := range order {
		t := p.byPath(groups[id][0].path)
		if t == nil {
			t = p.byID(id)
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
		if t == nil {
			if !p.next.start { // nothing needs to be known of the task that applies the input
				unknown = append(unknown, id)
			}
			continue
		}
		t.take(id, groups[id])
	}
	return unknown
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
		ns := t.node
		if p.ns != "" {
			ns = p.ns + "|" + t.node
		}
		text := string(p.hashed[:]) + ns + strconv.Itoa(p.hashStep+1) + t.node
		if t.sent >= 0 {
			if p.idOf(text+"__pregel_push"+strconv.Itoa(t.sent)) == id {
				return t
			}
			continue
		}
		for _, triggers := range p.triggers(t.node) {
			if p.idOf(text+"__pregel_pull"+triggers) == id {
				return t
			}
		}
	}
	return nil
}

// triggers returns the possible channels that run a node, as a text. Which edges
// with several sources lead to the node is known only of those that were used.
func (p *point) triggers(node string) []string {
	if p.flow {
		return []string{startChannel}
	}
	all := []string{branchPrefix + node}
	var joins []string
	for channel := range p.versions {
		if strings.HasPrefix(channel, joinPrefix) && strings.HasSuffix(channel, ":"+node) {
			joins = append(joins, channel)
		}
	}
	slices.Sort(joins)
	if len(joins) > 6 {
		joins = joins[:6]
	}
	for set := 1; set < 1<<len(joins); set++ {
		used := []string{branchPrefix + node}
		for i, j := range joins {
			if set&(1<<i) != 0 {
				used = append(used, j)
			}
		}
		all = append(all, strings.Join(used, ""))
	}
	return all
}

// idOf returns the id of a text, as the version of the checkpoint makes it.
func (p *point) idOf(text string) string {
	digits := hash128([]byte(text))
	if p.format < 2 {
		sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
		digits = hex.EncodeToString(sum[:16])
	}
	if len(digits) < 32 {
		return ""
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
			list, _ := items(w.value)
			for _, e := range list {
				if o, ok := e.(*object); ok && o.is("Interrupt") {
					t.interrupts = append(t.interrupts, o)
				}
			}
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
			if !isControl(w.channel) {
				t.output = append(t.output, w)
			}
		}
	}
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
