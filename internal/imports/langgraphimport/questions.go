package langgraphimport

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/treadletype"
)

// outermost returns the root graph's task that t runs in.
func (c *conversion) outermost(s *space, t *task) *task {
	for s.around != nil && t != nil {
		t, s = c.taskOf(s, t.point), s.around
	}
	return t
}

// questions finds the interrupts and answers of all tasks. It processes subgraphs first,
// because their parent graphs record the same interrupts.
func (c *conversion) questions() {
	for _, s := range slices.Backward(c.order) {
		for _, p := range s.points {
			for _, t := range p.calls {
				for _, i := range t.interrupts {
					id := interruptKey(i)
					c.asked[id] = treadletype.Pause{} // Treadle's ID requires the name of the called function
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

// interruptKey returns the key that identifies an interrupt in a thread: its ID or,
// before 0.6, the namespace of its task. It returns "" for interrupts from before 0.2.24,
// which stored neither.
func interruptKey(i *object) string {
	if id, ok := i.fields.get("id"); ok {
		text, _ := id.(string)
		return text
	}
	ns, _ := i.fields.get("ns")
	segments, _ := ns.([]any)
	var b strings.Builder
	for _, s := range segments {
		text, _ := s.(string)
		b.WriteString("|" + text)
	}
	return b.String()
}

// askedInside returns the interrupt with the same value in a subgraph of t.
func (c *conversion) askedInside(t *task, i *object) (treadletype.Pause, bool) {
	value, _ := toJSON(i.field("value", 0)) // problems are reported with the subgraph
	for _, s := range c.order {
		if s.around == nil {
			continue
		}
		if p := s.points[len(s.points)-1]; c.taskOf(s, p) == t {
			for _, inner := range p.tasks {
				for _, q := range inner.pauses {
					if bytes.Equal(q.Value, value) {
						return q, true
					}
				}
			}
		}
	}
	return treadletype.Pause{}, false
}

func (c *conversion) questionsOf(s *space, t *task) {
	known := map[int]json.RawMessage{}
	for k, i := range t.interrupts {
		id := interruptKey(i)
		old, ok := c.asked[id]
		if id == "" {
			old, ok = c.askedInside(t, i)
		}
		if ok {
			if old.ID == "" {
				c.problem(t.point, interruptChannel, "interrupt of a function call omitted, because the function's name is not stored: continue the thread to repeat the interrupt")
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
		if schema, ok := i.fields.get("response_schema"); ok && schema != nil {
			pause.Schema, problems = toJSON(schema)
			for _, text := range problems {
				c.problem(t.point, interruptChannel, "response_schema: %s", text)
			}
		}
		known[n] = value
		if id != "" {
			c.asked[id] = pause
		}
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

// pendingAnswer finds an answer that was sent to the thread but that no task has used
// because the process ended.
func (c *conversion) pendingAnswer(p *point) {
	i := slices.IndexFunc(p.null, func(w write) bool { return w.channel == resumeChannel })
	if i < 0 || p.children > 0 {
		return
	}
	raw, problems := toJSON(p.null[i].value)
	for _, text := range problems {
		c.problem(p, resumeChannel, "%s", text)
	}
	var open []treadletype.Pause
	var of *task
	for _, t := range p.tasks {
		for _, a := range c.answers[t] {
			if bytes.Equal(a.Answer, raw) {
				return // used by a task
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
