package treadle

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/answer"
	"github.com/treadle-go/treadle/internal/bounded"
	"github.com/treadle-go/treadle/internal/plainjson"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/treadletype"
)

// Interrupt asks a question and returns the answer, which may arrive days later
// and in another process. Until then, it returns an error, which the node must
// return: the run stops. When the run is resumed, the node runs again from the
// top, and Interrupt returns the answer.
//
// After the error, tasks, [Do], subgraphs, and further waits of the node return the same
// error without running, so a node that compensates for any error does not compensate for
// an interrupt; see [IsPause]. Only a [Question] with a Key is still asked, so that a node
// can ask several questions together. Without a saver or a thread, the question cannot be
// answered: the run fails with [ErrNoSaver] or [ErrNoThread], even if the node ignores the
// error.
//
// question is any value that can be encoded as JSON, or a [Question] with more details, such
// as a deadline. Questions are identified by their order within the node, so a node must
// ask them in the same order each time or give them a Key. [Thread.Resume] rejects an answer
// that does not match the JSON schema of T, which is derived as in llm.NewTool, with enums,
// required fields, and defaults. Interrupt[any] accepts every answer, so that the node can
// check it and ask again. If T has changed since the answer was saved, and the answer no
// longer matches, Interrupt asks again.
func Interrupt[T any](ctx context.Context, question any) (T, error) {
	var got T
	q, ok := question.(Question)
	if !ok {
		q.Value = question
	}
	schema, err := q.answers(reflect.TypeFor[T]())
	if err != nil {
		return got, fmt.Errorf("interrupt: answer type %s: %w", reflect.TypeFor[T](), err)
	}
	deadline, err := answer.Deadline(schema, q.Deadline, q.OnTimeout)
	if err != nil {
		return got, fmt.Errorf("interrupt: %w", err)
	}
	raw, err := pregel.Ask(ctx, pregel.Asked{Value: q.Value, Key: q.Key, Schema: schema, Deadline: deadline})
	if err != nil {
		return got, err
	}
	if q.Schema == nil {
		if raw, err = answer.Fill(reflect.TypeFor[T](), raw); err != nil {
			return got, fmt.Errorf("interrupt: saved answer %s: %w", raw, err)
		}
	}
	if plainjson.Unmarshal(raw, &got) {
		return got, nil
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return got, fmt.Errorf("interrupt: saved answer %s is not a %s: %w", raw, reflect.TypeFor[T](), err)
	}
	return got, nil
}

// A Question adds a key, schema, or deadline to the value passed to [Interrupt].
type Question struct {
	// Value is the question itself.
	Value any
	// Key names the question within its node, so that its answer does not depend on
	// the order of questions.
	Key string
	// Schema restricts the answers where that depends on the question: their number,
	// or the permitted values. It replaces the schema of the answer's
	// type. The answer is still decoded into that type.
	Schema *jsonschema.Schema
	// Deadline ends the wait for the answer. [Wake], or the server, then continues the
	// thread, and Interrupt returns OnTimeout or, if that is nil, a
	// [*DeadlineError]. An answer that arrives after the deadline and before the
	// thread continues is still accepted. The time is recorded once, so it may be computed
	// from the current time. If it has already passed, the node does not wait. The zero
	// time means no deadline.
	Deadline time.Time
	// OnTimeout is the answer if none arrives before the Deadline.
	OnTimeout any
}

// answers returns the JSON schema for answers.
func (q *Question) answers(t reflect.Type) (json.RawMessage, error) {
	if q.Schema == nil {
		return answer.Schema(t)
	}
	if _, err := bounded.Resolve(q.Schema, nil); err != nil {
		return nil, fmt.Errorf("question schema: %w", err)
	}
	return schema.Marshal(q.Schema)
}

// A Pause describes what a run waits for: the answer to a question, a time, or a
// signal. An [*InterruptError], an [Interrupted] event, and a [Snapshot] contain pauses. Its
// method Decode unmarshals the question. See [treadletype.Pause].
//
//	ID        string
//	Value     json.RawMessage
//	Node      string
//	Namespace []string
//	Key       string
//	Schema    json.RawMessage
//	Kind      PauseKind
//	Due       time.Time
//	Default   json.RawMessage
//	func (p Pause) Decode(v any) error
//
// Fields:
//   - ID identifies the pause in [Answers].
//   - Value is the question as JSON.
//   - Node is the node that waits, and Namespace the namespace of its graph, which is empty
//     for the root graph.
//   - Key is the key of the question, if it has one, or the name of the signal.
//   - Schema is the JSON schema of the answer or signal; if empty, any value is valid.
//   - Kind is [QuestionPause], [SleepPause], or [SignalPause].
//   - Due is the end of a sleep, or the deadline; zero means none.
//   - Default is used as the answer or signal after the deadline.
type Pause = treadletype.Pause

// PauseKind identifies what ends a pause. See [treadletype.PauseKind].
type PauseKind = treadletype.PauseKind

// Kinds of pauses.
const (
	QuestionPause = treadletype.QuestionPause // an answer
	SleepPause    = treadletype.SleepPause    // the time Due
	SignalPause   = treadletype.SignalPause   // the signal Key
)

// Before stops a run before the given nodes, in place of [Options].Before; "*" means all
// nodes. The run ends with an [*InterruptError], and [Thread.Continue] continues it.
func Before(nodes ...NodeRef) RunOption {
	names := namesOf(nodes)
	return runOption(func(s *pregel.Settings) { s.Before = names })
}

// After stops a run after the given nodes, in place of [Options].After; "*" means all nodes.
func After(nodes ...NodeRef) RunOption {
	names := namesOf(nodes)
	return runOption(func(s *pregel.Settings) { s.After = names })
}

// Answers maps the IDs of pending interrupts, from [Pause].ID, to answers.
type Answers map[string]any

// Resume answers the thread's pending interrupt, or several with [Answers], and
// continues the thread. It returns an error and leaves the thread unchanged if an answer is
// invalid or no interrupt is pending. Unanswered questions are asked again. If the
// process died or the node failed after an answer was saved, the same answer may be
// given again; for a different answer, Resume returns [ErrNothingToResume], or
// [ErrUnknownInterrupt] if the answer names an ID.
func (t *Thread[In, Out]) Resume(ctx context.Context, answer any, opts ...ContinueOption) (Out, error) {
	in, err := resumeInput(answer)
	if err != nil {
		var zero Out
		return zero, err
	}
	if in, err = t.continueInput(in, opts); err != nil {
		var zero Out
		return zero, err
	}
	return t.invoke(ctx, in)
}

// ResumeStream is like Resume, but yields events. It also accepts the options of Resume.
func (t *Thread[In, Out]) ResumeStream(ctx context.Context, answer any, opts ...StreamOption) iter.Seq2[Event, error] {
	in, err := resumeInput(answer)
	if err != nil {
		return func(yield func(Event, error) bool) { yield(nil, err) }
	}
	return t.stream(ctx, in, opts, t.g.finish)
}

func resumeInput(answer any) (pregel.Input, error) {
	r := &pregel.Resume{}
	encode := func(v any) (json.RawMessage, error) {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("treadle: resume: cannot encode answer as JSON: %w", err)
		}
		return raw, nil
	}
	var err error
	if byID, ok := answer.(Answers); ok {
		r.ByID = make(map[string]json.RawMessage, len(byID))
		for id, v := range byID {
			if r.ByID[id], err = encode(v); err != nil {
				return pregel.Input{}, err
			}
		}
	} else if r.One, err = encode(answer); err != nil {
		return pregel.Input{}, err
	}
	return pregel.Input{Resume: r}, nil
}

// Abandoned reports that a new input ended an unfinished run of the thread: a run that
// was interrupted or canceled, failed, or reached its step limit. Its tasks will not run,
// and its questions can no longer be answered. Abandoned is an event of [ModeUpdates]. The
// metadata of the input's checkpoint lists the tasks under "__abandoned__":
// objects with the ID and name of a task and, under "interrupts", the IDs of its
// questions. The previous checkpoint contains the questions.
type Abandoned struct {
	Origin
	Tasks []TaskState // with their pending interrupts
}

// Interrupted reports that a run, or one of its tasks, has stopped to wait. It is an event
// of [ModeUpdates].
type Interrupted struct {
	Origin
	Pauses        []Pause  // what the run or task waits for
	Before, After []string // breakpoints
}
