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

// Interrupt asks a question and returns the answer, which may come days later
// and in another process. Until then it returns an error, which the node must
// return: the run stops, and when it is resumed the node runs again from its
// top and Interrupt returns the answer. After the error, tasks, [Do], subgraphs, and
// further waits of the node return the same error without running, so a node that
// compensates for any error does not compensate for an interrupt; see [IsPause]. Only a
// [Question] with a Key is asked in addition, so that a node can ask several together.
// Without a saver or a thread the question
// cannot be answered: the run fails with [ErrNoSaver] or [ErrNoThread], even if the
// node drops the error.
//
// question is any value that has JSON, or a [Question] to say more about it, such as
// a deadline. The questions of a node are told apart by their order, so a node must
// ask them in the same order each time or give them a Key. An answer that does not
// fit T is refused before anything runs. T has a schema as in llm.NewTool, with its enums,
// required fields and defaults. Interrupt[any] takes every answer, so that the node
// can check it and ask again.
func Interrupt[T any](ctx context.Context, question any) (T, error) {
	var got T
	q, ok := question.(Question)
	if !ok {
		q.Value = question
	}
	schema, err := q.answers(reflect.TypeFor[T]())
	if err != nil {
		return got, fmt.Errorf("interrupt: answers of type %s: %w", reflect.TypeFor[T](), err)
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
			return got, fmt.Errorf("interrupt: the stored answer %s: %w", raw, err)
		}
	}
	if plainjson.Unmarshal(raw, &got) {
		return got, nil
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return got, fmt.Errorf("interrupt: the stored answer %s is not a %s: %w", raw, reflect.TypeFor[T](), err)
	}
	return got, nil
}

// Question is a question for [Interrupt] with more than its value.
type Question struct {
	// Value is the question itself.
	Value any
	// Key names the question within its node. Its answer then does not depend on
	// the questions that are asked before it.
	Key string
	// Schema says which answers fit, where that depends on the question: how many
	// there must be, or which are allowed. It replaces the schema of the answer's
	// type. The answer is still decoded into that type.
	Schema *jsonschema.Schema
	// Deadline ends the wait for the answer. After it [Wake], or the server, continues the
	// thread, and Interrupt returns OnTimeout or, if that is nil, a
	// [*DeadlineError]. What was stored first counts: an answer that comes
	// after the deadline and before the thread has gone on is still taken. The time is
	// recorded once, so it may be computed from the present time. If it has passed
	// already, the node does not wait. Zero: for ever.
	Deadline  time.Time
	OnTimeout any
}

// answers returns the schema that an answer must fit.
func (q *Question) answers(t reflect.Type) (json.RawMessage, error) {
	if q.Schema == nil {
		return answer.Schema(t)
	}
	if _, err := bounded.Resolve(q.Schema, nil); err != nil {
		return nil, fmt.Errorf("the schema of the question: %w", err)
	}
	return schema.Marshal(q.Schema)
}

// A Pause is what a run waits for: the answer to a question, a point in time, or a signal.
type Pause = treadletype.Pause

// PauseKind tells what ends a [Pause].
type PauseKind = treadletype.PauseKind

// The kinds of pauses.
const (
	QuestionPause = treadletype.QuestionPause // an answer
	SleepPause    = treadletype.SleepPause    // the time Due
	SignalPause   = treadletype.SignalPause   // the signal Key
)

// Before stops a run before the named nodes; "*" means all nodes. The run ends with
// an [*InterruptError], and [Thread.Continue] goes on.
func Before(nodes ...string) RunOption {
	return runOption(func(s *pregel.Settings) { s.Before = nodes })
}

// After stops a run after the named nodes; "*" means all nodes.
func After(nodes ...string) RunOption {
	return runOption(func(s *pregel.Settings) { s.After = nodes })
}

// Answers are answers to several questions by their id.
type Answers map[string]any

// Resume answers the thread's open question, or several with [Answers], and goes
// on. An answer that does not fit, or that has no open question, is refused and the
// thread stays unchanged. Questions without an answer are asked again. If the
// process died or the node failed after an answer was stored, the same answer may be
// given again; a different one is [ErrNothingToResume], or [ErrUnknownPause] if it
// was given by id.
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

// ResumeStream is Resume as a stream. It also takes the options of Resume.
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
			return nil, fmt.Errorf("treadle: resume: the answer has no JSON: %w", err)
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

// Abandoned says that a new input ended an unfinished run of the thread: one that
// was interrupted, failed, was cancelled or reached its limit. Its tasks will not run
// and its questions can no longer be answered. It is an event of [ModeUpdates]. The
// metadata of the input's checkpoint has the same under "__abandoned__": a list of
// objects with the id and name of a task and, as "interrupts", the ids of its
// questions. The checkpoint before it has the questions themselves.
type Abandoned struct {
	Origin
	Tasks []TaskState // with the questions that were open
}

// Interrupted says that a run, or a task of it, has stopped and waits.
type Interrupted struct {
	Origin
	Pauses        []Pause
	Before, After []string // breakpoints
}
