package pregel

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/bounded"
)

// Resume holds the answers to pending interrupts: a single answer, or answers by
// ID.
type Resume struct {
	One  json.RawMessage            // the answer to the only pending interrupt
	ByID map[string]json.RawMessage // or answers by interrupt ID
}

// openPauses returns the interrupts of the loaded checkpoint: those without an
// answer, and those with an answer whose tasks have not finished.
func openPauses(cp *checkpoint.Checkpoint) *questions {
	if len(cp.Pending) == 0 {
		return noQuestions
	}
	done := map[string]bool{}
	q := &questions{owner: map[string]string{}, answers: map[string]answer{}}
	for _, w := range cp.Pending {
		switch w.Kind {
		case checkpoint.Done:
			done[w.Task] = true
		case checkpoint.Answers:
			var given map[string]answer
			if unmarshal(w.Data, &given) == nil {
				maps.Copy(q.answers, given)
			}
		}
	}
	for _, w := range cp.Pending {
		if w.Kind != checkpoint.Paused || done[w.Task] {
			continue
		}
		var ps []Pause
		if unmarshal(w.Data, &ps) != nil {
			continue
		}
		for _, p := range ps {
			if _, ok := q.answers[p.ID]; ok {
				q.answered = append(q.answered, p)
				continue
			}
			q.open = append(q.open, p)
			q.owner[p.ID] = w.Task
		}
	}
	return q
}

// applyResume saves the answers and the update of a continuation in a single write.
func (r *Run) applyResume(in Input) error {
	var answers []checkpoint.Write
	if in.Resume != nil {
		var err error
		if answers, err = r.resume(in.Resume); err != nil {
			return err
		}
	}
	if in.Resume != nil && len(answers) == 0 && in.Also != nil {
		return fmt.Errorf("graph %q: thread %q: resume: answers already saved: continue the thread, with the update if it has not been applied", r.plan.name, r.set.Thread)
	}
	late, err := r.expire(time.Now())
	if err != nil {
		return fmt.Errorf("graph %q: thread %q: deadlines: %w", r.plan.name, r.set.Thread, err)
	}
	answers = replaceWrites(answers, late)
	if in.Also == nil && len(answers) == 0 {
		return nil // already saved
	}
	if in.Also == nil {
		if err := r.set.Saver.PutWrites(r.ctx, r.key(), r.set.Fence, answers); err != nil {
			return fmt.Errorf("graph %q: thread %q: resume: %w", r.plan.name, r.set.Thread, err)
		}
		return nil
	}
	if r.head.IsZero() || r.ctl.start != nil {
		return fmt.Errorf("graph %q: %w", r.plan.name, ErrNothingToContinue)
	}
	t := &Task{run: r, node: startNode, step: r.step, index: -1, out: &outcome{}}
	t.enter(r.ctx)
	if err := t.edit(in.Also); err != nil {
		return err
	}
	if err := r.commit([]*Task{t}); err != nil {
		r.rollback()
		return err
	}
	// The pending tasks keep their IDs, and therefore their results and answers. On
	// a fork, they get new IDs.
	if !r.forked {
		r.ctl.seed = r.seed()
	}
	r.forked = false
	for i := range t.out.targets {
		if err := r.follow(r.ctl, t, &t.out.targets[i]); err != nil {
			r.rollback()
			return err
		}
	}
	slices.Sort(r.ctl.armed)
	r.pending = replaceWrites(r.pending, answers)
	r.step--
	r.results = json.RawMessage("[]") // no task wrote it
	err = r.put(checkpoint.Update)
	r.step++
	r.undo, r.pending = r.undo[:0], nil
	return err
}

// replaceWrites returns old plus newer, without the old writes that have the same
// task and kind as a newer one.
func replaceWrites(old, newer []checkpoint.Write) []checkpoint.Write {
	out := slices.DeleteFunc(slices.Clone(old), func(w checkpoint.Write) bool {
		return slices.ContainsFunc(newer, func(n checkpoint.Write) bool { return n.Task == w.Task && n.Kind == w.Kind })
	})
	return append(out, newer...)
}

// resume checks the answers and returns them in saved form. If one is invalid, none
// is saved.
func (r *Run) resume(in *Resume) ([]checkpoint.Write, error) {
	fail := func(err error) ([]checkpoint.Write, error) {
		return nil, fmt.Errorf("graph %q: thread %q: resume: %w", r.plan.name, r.set.Thread, err)
	}
	open, err := r.plan.withoutStale(r.ctx, r.set, r.ns(), r.open)
	if err != nil {
		return nil, err
	}
	if len(r.open) > 0 {
		r.open = open
	}
	all, given := open, in.ByID
	if open = askedOnly(open); len(open) == 0 && given == nil {
		return r.repeated(in.One, all, fail)
	}
	if len(open) == 0 && !slices.ContainsFunc(r.answered, func(p Pause) bool { return given[p.ID] != nil }) {
		return fail(r.nothingToResume(all))
	}
	if given == nil {
		if len(open) > 1 {
			ids := make([]string, len(open))
			for i, p := range open {
				ids[i] = fmt.Sprintf("%s (%q asks %s)", p.ID, p.Node, p.Value)
			}
			return fail(fmt.Errorf("%w: %s", ErrAmbiguousResume, strings.Join(ids, ", ")))
		}
		given = map[string]json.RawMessage{open[0].ID: in.One}
	}
	perTask := taskAnswers{}
	for _, id := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(open, func(p Pause) bool { return p.ID == id })
		if i < 0 && slices.ContainsFunc(r.answered, func(p Pause) bool { return p.ID == id }) {
			if had := r.answers[id].Answer; !sameJSON(had, given[id]) {
				return fail(fmt.Errorf("%w: %s was answered with %s: continue the thread", ErrUnknownInterrupt, id, had))
			}
			continue
		}
		if i < 0 {
			return fail(fmt.Errorf("%w: %s", ErrUnknownInterrupt, id))
		}
		if err := r.plan.fits(open[i], given[id]); err != nil {
			return nil, &AnswerError{Pause: open[i], Answer: given[id], Err: err}
		}
		perTask.add(r, id, answer{Question: open[i].Value, Answer: given[id]})
	}
	ws, err := r.storeAnswers(perTask)
	if err != nil {
		return fail(err)
	}
	return ws, nil
}

// repeated accepts an answer when no interrupt is pending, if the same answer was
// given before and its task has not finished, because the process died or the task
// failed. A caller that does not know whether an answer arrived can therefore
// resend it.
func (r *Run) repeated(one json.RawMessage, open []Pause, fail func(error) ([]checkpoint.Write, error)) ([]checkpoint.Write, error) {
	for _, p := range r.answered {
		if sameJSON(r.answers[p.ID].Answer, one) {
			return nil, nil
		}
	}
	if len(r.answered) == 0 {
		return fail(r.nothingToResume(open))
	}
	p := r.answered[0]
	return fail(fmt.Errorf("%w: %s (node %q) was answered with %s: continue the thread", ErrNothingToResume, p.Value, p.Node, r.answers[p.ID].Answer))
}

// nothingToResume returns ErrNothingToResume with the state of the thread, and what to
// do instead.
func (r *Run) nothingToResume(open []Pause) error {
	switch {
	case r.head.IsZero():
		return fmt.Errorf("%w: thread is empty: check its ID and its saver", ErrNothingToResume)
	case len(open) > 0: // sleeps and signals
		return fmt.Errorf("%w: %v", ErrNothingToResume, open[0])
	case r.ctl.idle() && r.ctl.start == nil:
		return fmt.Errorf("%w: run has ended: start another with an input", ErrNothingToResume)
	}
	return fmt.Errorf("%w: run failed, was cut short, or stopped at a breakpoint: continue the thread", ErrNothingToResume)
}

// taskAnswers maps task IDs and interrupt IDs to answers.
type taskAnswers map[string]map[string]answer

// add adds an answer to the existing answers of the interrupt's task.
func (a taskAnswers) add(r *Run, question string, with answer) {
	task := r.owner[question]
	if a[task] == nil {
		a[task] = map[string]answer{}
		maps.Copy(a[task], r.answersOf[task])
	}
	a[task][question] = with
}

// storeAnswers records answers by task and returns them in saved form.
func (r *Run) storeAnswers(perTask taskAnswers) ([]checkpoint.Write, error) {
	var ws []checkpoint.Write
	for _, task := range slices.Sorted(maps.Keys(perTask)) {
		raw, err := encodeAnswers(perTask[task])
		if err != nil {
			return nil, err
		}
		ws = append(ws, checkpoint.Write{Task: task, Kind: checkpoint.Answers, Data: raw, RunID: r.set.RunID})
		maps.Copy(r.answers, perTask[task])
		if r.answersOf == nil {
			r.answersOf = map[string]map[string]answer{}
		}
		r.answersOf[task] = perTask[task]
	}
	return ws, nil
}

// sameJSON reports whether two JSON texts represent the same value, ignoring key
// order and number formatting.
func sameJSON(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// fits checks an answer against the schema of its interrupt.
func (p *Plan) fits(q Pause, raw json.RawMessage) error {
	if err := bounded.JSON(raw); err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if len(q.Schema) == 0 {
		return nil
	}
	s, err := p.answers.of(q.Schema)
	if err != nil {
		return fmt.Errorf("question schema: %w", err)
	}
	return s.Validate(v)
}

// Fits checks a value against a schema. Without a schema, every value is valid.
func Fits(schema, raw json.RawMessage) error { return new(Plan).fits(Pause{Schema: schema}, raw) }

// answerSchemas caches the resolved schemas of answered interrupts. A graph uses
// few different schemas, and resolving one takes longer than validating an answer.
type answerSchemas struct {
	mu   sync.Mutex
	text map[string]*bounded.Schema
}

// Limits of answerSchemas. Larger schemas are resolved for each answer.
const (
	maxAnswerSchemas = 64
	maxAnswerSchema  = 16 << 10
)

func (a *answerSchemas) of(raw json.RawMessage) (*bounded.Schema, error) {
	a.mu.Lock()
	s := a.text[string(raw)]
	a.mu.Unlock()
	if s != nil {
		return s, nil
	}
	parsed, err := bounded.Parse(raw)
	if err != nil {
		return nil, err
	}
	if s, err = bounded.Resolve(parsed, nil); err != nil || len(raw) > maxAnswerSchema {
		return s, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.text == nil || len(a.text) == maxAnswerSchemas {
		a.text = map[string]*bounded.Schema{}
	}
	a.text[string(raw)] = s
	return s, nil
}
