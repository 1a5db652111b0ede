package treadle

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/bounded"
	"github.com/treadle-go/treadle/internal/pregel"
)

// Pause is a question that a run waits with: its ID, its Value as JSON, which
// [Pause.Decode] reads, the Node that asked it and the Namespace of its graph.
type Pause = pregel.Pause

// InterruptError is how a run says that it has stopped to be resumed: Pauses
// are the questions to be answered with [Thread.Resume]; Before and After are
// nodes with a breakpoint, passed with [Thread.Continue]. A node of a nested
// graph is named with the node that runs the graph: "research/search".
type InterruptError = pregel.InterruptError

// Interrupt asks a question and returns the answer, which may come days later
// and to another process. Until then it returns an error, which the node must
// return: the run stops, and when it is resumed the node runs again from its
// top and Interrupt returns the answer. Without a saver or thread nobody could
// answer: the run fails with [ErrNoSaver] or [ErrNoThread], whatever the node makes
// of the error.
//
// Questions of a node are told apart by their order, so a node must ask them
// in the same order each time, or give them names with [Key]. An answer that
// is not a T is refused before anything runs; Interrupt[any] takes every
// answer, so that a node can judge it itself and ask again.
func Interrupt[T any](ctx context.Context, question any, opts ...InterruptOption) (T, error) {
	var answer T
	var c interruptConfig
	for i, o := range opts {
		if o == nil {
			return answer, fmt.Errorf("interrupt: option %d of %d is nil", i+1, len(opts))
		}
		o(&c)
	}
	schema, err := c.answers(reflect.TypeFor[T]())
	if err != nil {
		return answer, fmt.Errorf("interrupt: answers of type %s: %w", reflect.TypeFor[T](), err)
	}
	raw, err := pregel.Ask(ctx, question, c.key, schema)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("interrupt: the stored answer %s is not a %s: %w", raw, reflect.TypeFor[T](), err)
	}
	return answer, nil
}

// An InterruptOption configures a question.
type InterruptOption func(*interruptConfig)

type interruptConfig struct {
	key    string
	accept *jsonschema.Schema
}

// answers is the schema that an answer must fit.
func (c *interruptConfig) answers(t reflect.Type) (json.RawMessage, error) {
	if c.accept == nil {
		return answerSchema(t)
	}
	if _, err := bounded.Resolve(c.accept, nil); err != nil {
		return nil, fmt.Errorf("the schema given with Accept: %w", err)
	}
	return json.Marshal(c.accept)
}

// Key names a question within its node, so that its answer finds it whatever
// is asked before it.
func Key(name string) InterruptOption { return func(c *interruptConfig) { c.key = name } }

// Accept says which answers fit, where that depends on the question: how many
// there are to be, or which of them are allowed. It takes the place of the schema
// of the answer's type, as which the answer is decoded all the same.
func Accept(schema *jsonschema.Schema) InterruptOption {
	return func(c *interruptConfig) { c.accept = schema }
}

// answerSchemas remembers the schemas of answer types.
var answerSchemas sync.Map // reflect.Type → json.RawMessage

// answerSchema is the schema of an answer; none for any, which takes all.
func answerSchema(t reflect.Type) (json.RawMessage, error) {
	if t.Kind() == reflect.Interface {
		return nil, nil
	}
	if raw, ok := answerSchemas.Load(t); ok {
		return raw.(json.RawMessage), nil
	}
	s, err := schemaOf(t)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	answerSchemas.Store(t, json.RawMessage(raw))
	return raw, nil
}

// Before stops a run before the named nodes; "*" is all of them. The run is an
// [*InterruptError]; Continue goes on.
func Before(nodes ...string) Option {
	return runOption(func(s *pregel.Settings) { s.Before = nodes })
}

// After stops a run after the named nodes; "*" is all of them.
func After(nodes ...string) Option {
	return runOption(func(s *pregel.Settings) { s.After = nodes })
}

// Answers are answers to several questions by their id.
type Answers map[string]any

// Resume answers the thread's open question, or several with [Answers], and
// goes on. Answers that do not fit, or are for no open question, are refused
// and the thread stays as it was. Questions that are left open are asked again.
// An answer that was given before and has not led anywhere, because the process
// died or the node failed, may be given again; another one in its place is
// [ErrNothingToResume], or [ErrUnknownPause] by id.
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

// ResumeStream is Resume as a stream; a [ContinueOption] is an option of it as
// well.
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

// Abandoned is a new input on a thread that had something left to do: a run
// that was interrupted, failed, was cancelled or reached its limit. Nobody will
// do it now, nor take an answer to the questions. It is an event of
// [ModeUpdates]. The metadata of the input's checkpoint has the same for good,
// under "__abandoned__": a list of objects with the id and name of a task and
// the ids of its questions, "interrupts". The checkpoint before it has the
// questions themselves.
type Abandoned struct {
	Origin
	Tasks []TaskState // with the questions that were open
}

// Interrupted is a run that has stopped to be resumed, or a task of it.
type Interrupted struct {
	Origin
	Pauses        []Pause
	Before, After []string // breakpoints
}
