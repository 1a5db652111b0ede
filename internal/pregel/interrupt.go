package pregel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/bounded"
)

// answer is a stored answer with the question it was given to.
type answer struct {
	Question json.RawMessage `json:"question"`
	Answer   json.RawMessage `json:"answer"`
}

// Ask returns the answer to a question, or pauses the task: it notes the
// question and returns an error for the node to return. Questions are told
// apart by their order within the task, or by key.
func Ask(ctx context.Context, question any, key string, schema json.RawMessage) (json.RawMessage, error) {
	sc := scopeOf(ctx)
	if sc == nil {
		return nil, ErrOutsideRun
	}
	if sc.late() { // another attempt may be at work, and it asks for itself
		return nil, context.Cause(sc)
	}
	t := sc.task
	r := t.run
	if err := t.broken(); err != nil {
		return nil, err
	}
	switch {
	case r.set.Saver == nil:
		return nil, t.fails(fmt.Errorf("interrupt: %w", ErrNoSaver))
	case r.set.Thread == "":
		return nil, t.fails(fmt.Errorf("interrupt: %w", ErrNoThread))
	}
	raw, err := toJSON(question)
	if err != nil {
		return nil, fmt.Errorf("interrupt: the question has no JSON: %w", err)
	}
	place := "key " + key
	if key == "" {
		place = "#" + strconv.Itoa(int(sc.asks.Add(1)-1))
	}
	sum := sha256.Sum256([]byte(t.namespace() + "|" + place))
	p := Pause{ID: hex.EncodeToString(sum[:16]), Value: raw, Node: t.Name(), Namespace: r.path(), Key: key, Schema: schema}
	if a, ok := r.root().answers[p.ID]; ok {
		if string(a.Question) != string(raw) {
			if err := r.changedQuestion(t, a.Question, raw); err != nil {
				return nil, err
			}
		}
		return a.Answer, nil
	}
	t.pause(2*sc.calls.Load(), p)
	return nil, &InterruptError{Graph: r.plan.name, Pauses: []Pause{p}}
}

func (r *Run) changedQuestion(t *Task, answered, asked json.RawMessage) error {
	err := &InterruptChangedError{Node: t.Name(), Answered: answered, Asked: asked}
	if r.plan.spec.Strict {
		return err
	}
	if r.set.Logger != nil {
		r.set.Logger.Warn("treadle: a question has changed since it was answered", "graph", r.plan.name, "node", t.Name(), "error", err)
	}
	return nil
}

// pause notes questions on the task and on those that it runs for. Calls run
// side by side, so their questions are put in the order of the calls: at is
// twice the number of calls that the task had started when it asked itself, and
// one more for a question of the next call.
func (t *Task) pause(at int32, ps ...Pause) {
	for ; t != nil; t = t.caller {
		side := t.aside()
		side.mu.Lock()
		for _, p := range ps {
			if slices.ContainsFunc(side.pauses, func(o Pause) bool { return o.ID == p.ID }) {
				continue
			}
			i, _ := slices.BinarySearch(side.places, at+1)
			side.places = slices.Insert(side.places, i, at)
			side.pauses = slices.Insert(side.pauses, i, p)
		}
		side.mu.Unlock()
		at = 2*t.index + 1
	}
}

// paused are the questions the task has asked.
func (t *Task) paused() []Pause {
	side := t.side.Load()
	if side == nil {
		return nil
	}
	side.mu.Lock()
	defer side.mu.Unlock()
	return slices.Clone(side.pauses)
}

// interrupted ends a step some of whose tasks have asked something. What
// finished is kept; nothing is committed.
func (r *Run) interrupted(tasks []*Task) error {
	if err := r.keep(tasks); err != nil {
		return err
	}
	e := &InterruptError{Graph: r.plan.name}
	for _, t := range tasks {
		inner, asked := errors.AsType[*InterruptError](t.err)
		if !asked {
			continue
		}
		// A graph that the task runs may have stopped at a breakpoint of its own.
		stop := &Interrupted{Pauses: t.paused(), Before: within(t.Name(), inner.Before), After: within(t.Name(), inner.After)}
		e.Pauses = append(e.Pauses, stop.Pauses...)
		e.Before, e.After = append(e.Before, stop.Before...), append(e.After, stop.After...)
		r.emit(ModeUpdates, t.event(stop))
	}
	if r.parent != nil {
		if r.modes&ModeValues != 0 && len(e.Pauses) > 0 {
			ev := r.event(&Values{Record: r.plan.schema.record(r.slots, r.shown()), Pauses: e.Pauses})
			r.emit(ModeValues, ev)
		}
		r.parent.pause(2*r.within.calls.Load(), e.Pauses...)
		return e
	}
	r.showFinished(tasks, e.Pauses)
	return e
}

// within are the names of nodes as the graph around theirs sees them.
func within(node string, names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, node+"/"+name)
	}
	return out
}

// Interrupted is the event of a run that has stopped to be resumed.
type Interrupted struct {
	Pauses        []Pause
	Before, After []string
}

// showFinished lets the caller see what the finished tasks of an interrupted
// step wrote. It is not committed: the step runs again.
func (r *Run) showFinished(tasks []*Task, pauses []Pause) {
	var done []*Task
	for _, t := range tasks {
		if t.err == nil {
			done = append(done, t)
		}
	}
	if len(done) > 0 && r.commit(done) != nil {
		r.rollback()
	}
	if r.modes&ModeValues != 0 {
		ev := r.event(&Values{Record: r.plan.schema.record(r.slots, r.plan.schema.channels), Pauses: pauses})
		r.emit(ModeValues, ev)
	}
}

// Resume is what answers open questions: one answer, or answers by id, and an
// update to make first.
type Resume struct {
	One  json.RawMessage            // the answer to the one open question
	ByID map[string]json.RawMessage // or answers by id
}

// openPauses are the questions of the loaded checkpoint without an answer, and
// those with one whose tasks have not finished.
func openPauses(cp *checkpoint.Checkpoint) (open, answered []Pause, owner map[string]string, answers map[string]answer) {
	done := map[string]bool{}
	owner, answers = map[string]string{}, map[string]answer{}
	for _, w := range cp.Pending {
		switch w.Kind {
		case checkpoint.Done:
			done[w.Task] = true
		case checkpoint.Answers:
			var given map[string]answer
			if json.Unmarshal(w.Data, &given) == nil {
				maps.Copy(answers, given)
			}
		}
	}
	for _, w := range cp.Pending {
		if w.Kind != checkpoint.Paused || done[w.Task] {
			continue
		}
		var ps []Pause
		if json.Unmarshal(w.Data, &ps) != nil {
			continue
		}
		for _, p := range ps {
			if _, ok := answers[p.ID]; ok {
				answered = append(answered, p)
				continue
			}
			open = append(open, p)
			owner[p.ID] = w.Task
		}
	}
	return open, answered, owner, answers
}

// amend stores what a continuation brings: answers, an update, or both in one.
func (r *Run) amend(in Input) error {
	var answers []checkpoint.Write
	if in.Resume != nil {
		var err error
		if answers, err = r.resume(in.Resume); err != nil {
			return err
		}
	}
	if in.Resume != nil && len(answers) == 0 && in.Also != nil {
		return fmt.Errorf("graph %q: thread %q: resume: these answers are stored already: continue the thread, with the update if that is not made yet", r.plan.name, r.set.Thread)
	}
	if in.Also == nil && len(answers) == 0 {
		return nil // they are stored already
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
	t := &Task{run: r, node: startNode, step: r.step, index: -1}
	t.enter(r.ctx)
	if err := t.edit(in.Also); err != nil {
		return err
	}
	if err := r.commit([]*Task{t}); err != nil {
		r.rollback()
		return err
	}
	// The tasks that are to run stay the same ones, with what is known of them;
	// on a new branch they are new.
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
	r.results = json.RawMessage("[]") // it is nobody's result
	err := r.put(checkpoint.Update)
	r.step++
	r.undo, r.pending = r.undo[:0], nil
	return err
}

// replaceWrites is the list with newer writes in place of older ones.
func replaceWrites(old, newer []checkpoint.Write) []checkpoint.Write {
	out := slices.DeleteFunc(slices.Clone(old), func(w checkpoint.Write) bool {
		return slices.ContainsFunc(newer, func(n checkpoint.Write) bool { return n.Task == w.Task && n.Kind == w.Kind })
	})
	return append(out, newer...)
}

// resume checks the answers and returns how they are stored. Nothing is stored
// unless all of them fit.
func (r *Run) resume(in *Resume) ([]checkpoint.Write, error) {
	fail := func(err error) ([]checkpoint.Write, error) {
		return nil, fmt.Errorf("graph %q: thread %q: resume: %w", r.plan.name, r.set.Thread, err)
	}
	var err error
	if r.open, err = r.plan.withoutStale(r.ctx, r.set, r.ns(), r.open); err != nil {
		return nil, err
	}
	given := in.ByID
	if len(r.open) == 0 && given == nil {
		return r.repeated(in.One, fail)
	}
	if len(r.open) == 0 && !slices.ContainsFunc(r.answered, func(p Pause) bool { return given[p.ID] != nil }) {
		return fail(ErrNothingToResume)
	}
	if given == nil {
		if len(r.open) > 1 {
			ids := make([]string, len(r.open))
			for i, p := range r.open {
				ids[i] = fmt.Sprintf("%s (%q asks %s)", p.ID, p.Node, p.Value)
			}
			return fail(fmt.Errorf("%w: %s", ErrAmbiguousResume, strings.Join(ids, ", ")))
		}
		given = map[string]json.RawMessage{r.open[0].ID: in.One}
	}
	perTask := map[string]map[string]answer{}
	for _, id := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(r.open, func(p Pause) bool { return p.ID == id })
		if i < 0 && slices.ContainsFunc(r.answered, func(p Pause) bool { return p.ID == id }) {
			if had := r.answers[id].Answer; !sameJSON(had, given[id]) {
				return fail(fmt.Errorf("%w: %s was answered with %s: continue the thread", ErrUnknownPause, id, had))
			}
			continue
		}
		if i < 0 {
			return fail(fmt.Errorf("%w: %s", ErrUnknownPause, id))
		}
		if err := fits(r.open[i], given[id]); err != nil {
			return nil, &AnswerError{Pause: r.open[i], Answer: given[id], Err: err}
		}
		task := r.owner[id]
		if perTask[task] == nil {
			perTask[task] = map[string]answer{}
			maps.Copy(perTask[task], r.answersOf[task])
		}
		perTask[task][id] = answer{Question: r.open[i].Value, Answer: given[id]}
	}
	var ws []checkpoint.Write
	for _, task := range slices.Sorted(maps.Keys(perTask)) {
		raw, err := json.Marshal(perTask[task])
		if err != nil {
			return fail(err)
		}
		ws = append(ws, checkpoint.Write{Task: task, Kind: checkpoint.Answers, Data: raw, RunID: r.set.RunID})
		maps.Copy(r.answers, perTask[task])
	}
	return ws, nil
}

// repeated takes an answer where no question is open: one that was given before
// and whose task has not come to its end, because the process died or the task
// failed, so that whoever does not know whether an answer arrived may send it
// again.
func (r *Run) repeated(one json.RawMessage, fail func(error) ([]checkpoint.Write, error)) ([]checkpoint.Write, error) {
	for _, p := range r.answered {
		if sameJSON(r.answers[p.ID].Answer, one) {
			return nil, nil
		}
	}
	if len(r.answered) == 0 {
		return fail(ErrNothingToResume)
	}
	p := r.answered[0]
	return fail(fmt.Errorf("%w: %s (node %q) was answered with %s: continue the thread", ErrNothingToResume, p.Value, p.Node, r.answers[p.ID].Answer))
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// fits checks an answer against the schema of its question.
func fits(p Pause, raw json.RawMessage) error {
	if err := bounded.JSON(raw); err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if len(p.Schema) == 0 {
		return nil
	}
	s, err := bounded.Parse(p.Schema)
	if err != nil {
		return fmt.Errorf("the question's schema: %w", err)
	}
	resolved, err := bounded.Resolve(s, nil)
	if err != nil {
		return fmt.Errorf("the question's schema: %w", err)
	}
	return resolved.Validate(v)
}

// breakpoint stops before or after nodes that were named for it.
func (r *Run) breakpoint(names []string, tasks []*Task) []string {
	if len(names) == 0 {
		return nil
	}
	var hit []string
	for _, t := range tasks {
		if (slices.Contains(names, "*") || slices.Contains(names, t.Name())) && !slices.Contains(hit, t.Name()) && t.node != startNode {
			hit = append(hit, t.Name())
		}
	}
	return hit
}

// stopAt ends the run at a breakpoint. Of a nested one the enclosing run tells.
func (r *Run) stopAt(before, after []string) error {
	if r.parent == nil {
		r.emit(ModeUpdates, r.event(&Interrupted{Before: before, After: after}))
	}
	return &InterruptError{Graph: r.plan.name, Before: before, After: after}
}

// checkBreakpoints rejects breakpoints at nodes that are not there, and those
// of a run that could not be continued.
func (r *Run) checkBreakpoints() error {
	for _, name := range slices.Concat(r.set.Before, r.set.After) {
		if name != "*" && r.plan.byName[name] == nil {
			return fmt.Errorf("graph %q: breakpoint: there is no node %q%s", r.plan.name, name, r.plan.suggest())
		}
		switch {
		case r.set.Saver == nil:
			return fmt.Errorf("graph %q: breakpoint at %q: %w", r.plan.name, name, ErrNoSaver)
		case r.set.Thread == "":
			return fmt.Errorf("graph %q: breakpoint at %q: %w", r.plan.name, name, ErrNoThread)
		}
	}
	return nil
}
