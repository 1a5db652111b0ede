package langgraphimport

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/treadletype"
)

// outermost returns the task of the root graph that a task runs in.
func (c *conversion) outermost(s *space, t *task) *task {
	for s.around != nil && t != nil {
		t, s = c.taskOf(s, t.point), s.around
	}
	return t
}

// questions finds the interrupts and answers of all tasks, those of nested graphs
// first: the graphs around them have noted the same interrupts.
func (c *conversion) questions() {
	for _, s := range slices.Backward(c.order) {
		for _, p := range s.points {
			for _, t := range p.calls {
				for _, i := range t.interrupts {
					id, _ := i.field("id", 1).(string)
					c.asked[id] = treadletype.Pause{} // Treadle's id needs the name of the called function
				}
			}
			for _, t := range p.tasks {
				c.questionsOf(s, t)
			}
			if s.around == nil {
				c.pendingAnswer(p)
			}
		}
	}
}

func (c *conversion) questionsOf(s *space, t *task) {
	known := map[int]json.RawMessage{}
	for k, i := range t.interrupts {
		id, _ := i.field("id", 1).(string)
		if old, ok := c.asked[id]; ok {
			if old.ID == "" {
				c.problem(t.point, interruptChannel, "the question was asked in a call of a function, whose name is not stored: continue the thread to be asked again")
				continue
			}
			t.pauses = append(t.pauses, old)
			continue
		}
		n := t.ordinal(id) + k
		value, problems := toJSON(i.field("value", 0))
		for _, text := range problems {
			c.problem(t.point, interruptChannel, "%s", text)
		}
		pause := treadletype.Pause{ID: pregel.QuestionID(t.ns, n), Value: value, Node: t.node}
		if s.ns != "" {
			pause.Namespace = strings.Split(s.ns, "|")
		}
		if schema, ok := i.field("response_schema", 2).(*dict); ok {
			pause.Schema, _ = toJSON(schema)
		}
		known[n] = value
		c.asked[id] = pause
		t.pauses = append(t.pauses, pause)
	}
	if len(t.resumes) == 0 {
		return
	}
	top := c.outermost(s, t)
	if top == nil {
		return
	}
	for n, v := range t.resumes {
		raw, problems := toJSON(v)
		for _, text := range problems {
			c.problem(t.point, resumeChannel, "%s", text)
		}
		c.answer(top, pregel.QuestionID(t.ns, n), pregel.StoredAnswer{Question: known[n], Answer: raw})
	}
}

func (c *conversion) answer(top *task, id string, a pregel.StoredAnswer) {
	if c.answers[top] == nil {
		c.answers[top] = map[string]pregel.StoredAnswer{}
	}
	c.answers[top][id] = a
}

// pendingAnswer finds an answer that was given to the thread and that no task has
// used, because the process ended.
func (c *conversion) pendingAnswer(p *point) {
	i := slices.IndexFunc(p.null, func(w write) bool { return w.channel == resumeChannel })
	if i < 0 || p.children > 0 {
		return
	}
	raw, _ := toJSON(p.null[i].value)
	var open []treadletype.Pause
	var of *task
	for _, t := range p.tasks {
		for _, a := range c.answers[t] {
			if bytes.Equal(a.Answer, raw) {
				return // a task has used it
			}
		}
		if t.finished() {
			continue
		}
		for _, q := range t.pauses {
			if _, ok := c.answers[t][q.ID]; !ok {
				open, of = append(open, q), t
			}
		}
	}
	if len(open) == 1 {
		c.answer(of, open[0].ID, pregel.StoredAnswer{Question: open[0].Value, Answer: raw})
	}
}
