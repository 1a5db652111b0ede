package a2a

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/llm"
)

// Reply is the answer of an agent.
type Reply struct {
	// Message contains the artifacts of the task, or else its last status message.
	Message llm.Message
	// Conversation continues the conversation: pass it to the next [Agent.Send].
	Conversation string
	Task         string // ID of the task; empty if the agent answered without one
}

// TaskError is returned if a task did not complete.
type TaskError struct {
	Agent, Task string
	State       string // "failed", "canceled", "rejected", or "auth-required"
	Message     string // the agent's reason, or empty
}

func (e *TaskError) Error() string {
	text := fmt.Sprintf("a2a: agent %q: task %s: state %s", shorten(e.Agent), shorten(e.Task), e.State)
	if e.Message != "" {
		text += ": " + shorten(e.Message)
	}
	return text
}

// Question is the interrupt value for input that a remote agent needs. The answer is a string, or any other
// JSON value, which the agent receives as data. To answer an interrupt of a Treadle server with something other
// than text, use {"resume": …}.
//
// Send returns an error instead if the question exceeds 64 KiB, or if the schema of an answer contains a field
// for a password or another secret. Message can still ask for a secret, so programs that show it must name the
// agent that asks.
type Question struct {
	Type    string `json:"type"` // "a2a_question"
	Agent   string `json:"agent"`
	Message string `json:"message"` // written by the agent
	// Data contains the data parts of the question, such as a Treadle server's interrupts.
	Data []json.RawMessage `json:"data,omitempty"`
}

// Delays between two looks at a task.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// maxOutage is the time after which Send gives up reading a task that it cannot read.
const maxOutage = 90 * time.Second

// maxQuestions limits the questions of a task.
const maxQuestions = 100

// Send sends a message and returns the agent's answer. The conversation is that of an earlier
// [Reply], or empty for a new one. Send returns a [*TaskError] if the task does not complete, and
// an [*Error] if the agent rejects the message. It returns another error if the agent does not
// respond to the message within 5 minutes, or does not report the task for 90 seconds.
//
// On a thread, the agent continues to work if ctx ends, because the run may continue later. Without
// one, Send cancels the task. A failed task is recorded like any other, so a node that is
// retried gets the same [*TaskError]. To try again, call Send again in the node.
func (a *Agent) Send(ctx context.Context, conversation string, m llm.Message) (*Reply, error) {
	if ctx == nil {
		return nil, errors.New("a2a: nil context")
	}
	parts, err := partsOf(m, a.v1)
	if err != nil {
		return nil, err
	}
	got, err := a.post(ctx, message{ContextID: conversation, Parts: parts})
	if err != nil {
		return nil, err
	}
	for range maxQuestions {
		if got.Task == nil {
			return a.reply(got.Message.Parts, got.Message.ContextID, ""), nil
		}
		t, err := record(ctx, "a2a follow "+a.name, func(ctx context.Context) (*task, error) { return a.follow(ctx, got.Task.ID) })
		if err != nil {
			return nil, err
		}
		switch t.Status.State {
		case completed:
			return a.result(t), nil
		case inputRequired:
		default:
			return nil, &TaskError{a.name, t.ID, string(t.Status.State), textOf(t.Status.Message)}
		}
		q := a.question(t)
		if err := q.check(); err != nil {
			return nil, fmt.Errorf("a2a: agent %q: question: %w", shorten(a.name), err)
		}
		answer, err := treadle.Interrupt[any](ctx, q)
		if err != nil {
			return nil, err
		}
		parts, err := answerOf(answer, a.v1)
		if err != nil {
			return nil, fmt.Errorf("a2a: answer for agent %q: %w", shorten(a.name), err)
		}
		got, err = a.post(ctx, message{ContextID: t.ContextID, TaskID: t.ID, Parts: parts})
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("a2a: agent %q asks more than %d questions", shorten(a.name), maxQuestions)
}

// record runs an effect once in a run on a thread. Everything that Send learns is recorded, so that
// a node that runs again asks the same questions in the same order.
func record[T any](ctx context.Context, name string, effect func(context.Context) (T, error)) (T, error) {
	if treadle.InfoFrom(ctx).Thread == "" {
		return effect(ctx)
	}
	return treadle.Do(ctx, name, effect)
}

// post sends a message and returns the task before it has ended.
func (a *Agent) post(ctx context.Context, m message) (response, error) {
	return record(ctx, "a2a send "+a.name, func(ctx context.Context) (got response, err error) {
		// A message that is sent again after a crash has the same ID.
		m.ID = treadle.InfoFrom(ctx).IdempotencyKey
		if m.ID == "" {
			m.ID = rand.Text()
		}
		m.Role = "ROLE_USER"
		settings := map[string]any{"returnImmediately": true}
		if !a.v1 {
			m.Kind, m.Role = "message", "user"
			settings = map[string]any{"blocking": false}
		}
		if err := ctx.Err(); err != nil {
			return got, err // the message is not sent
		}
		ctx, stop := outlive(ctx)
		defer stop()
		err = a.call(ctx, "message/send", "SendMessage", m.ID, map[string]any{"message": m, "configuration": settings}, &got)
		return got, err
	})
}

// outlive returns a context that ends a moment after ctx: the response to a message names the task,
// which could otherwise neither be followed nor canceled.
func outlive(ctx context.Context) (context.Context, func()) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(maxPause, cancel) })
	return out, func() { stop(); cancel() }
}

// follow reads a task until the agent no longer works on it.
func (a *Agent) follow(ctx context.Context, id string) (*task, error) {
	var since time.Time // start of the outage
	for pause := firstPause; ; pause = min(pause*3/2, maxPause) {
		got, began := &task{}, time.Now()
		err := a.call(ctx, "tasks/get", "GetTask", "", map[string]any{"id": id}, got)
		switch {
		case err == nil && got.ID != id:
			return nil, fmt.Errorf("a2a: agent %q: asked for task %s, got %s", shorten(a.name), shorten(id), shorten(got.ID))
		case err == nil && !got.Status.State.open():
			return got, nil
		case err == nil:
			since = time.Time{}
		case ctx.Err() != nil:
		case !temporary(err):
			return nil, err
		case since.IsZero():
			since = began
		case time.Since(since) >= maxOutage:
			return nil, fmt.Errorf("a2a: agent %q did not report task %s for %s: send the message again when it is back: %w", shorten(a.name), shorten(id), maxOutage, err)
		}
		if err := delay.For(ctx, pause); err != nil {
			a.abandon(ctx, id)
			return nil, err
		}
	}
}

// abandon cancels a task that nobody will follow again.
func (a *Agent) abandon(ctx context.Context, id string) {
	if treadle.InfoFrom(ctx).Thread != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxPause)
	defer cancel()
	var got task
	_ = a.call(ctx, "tasks/cancel", "CancelTask", "", map[string]any{"id": id}, &got) // it may have ended
}

// result returns the answer of a completed task.
func (a *Agent) result(t *task) *Reply {
	var parts []part
	for _, one := range t.Artifacts {
		parts = append(parts, one.Parts...)
	}
	if len(parts) == 0 && t.Status.Message != nil {
		parts = t.Status.Message.Parts
	}
	return a.reply(parts, t.ContextID, t.ID)
}

func (a *Agent) reply(parts []part, conversation, task string) *Reply {
	m := llm.Assistant("")
	m.Name, m.Blocks = a.name, blocks(parts)
	if len(m.Blocks) == 1 && m.Blocks[0].Type == llm.BlockText {
		m.Content, m.Blocks = m.Blocks[0].Text, nil
	}
	return &Reply{m, conversation, task}
}

// question describes what the agent needs.
func (a *Agent) question(t *task) Question {
	q := Question{Type: "a2a_question", Agent: a.name, Message: textOf(t.Status.Message)}
	if t.Status.Message != nil {
		for _, p := range t.Status.Message.Parts {
			if p.Data != nil {
				q.Data = append(q.Data, p.Data)
			}
		}
	}
	return q
}

// maxQuestion limits the size of a question, in bytes.
const maxQuestion = 64 << 10

// secret matches the names of fields that a question must not have: the answers are saved.
var secret = regexp.MustCompile(`(?i)passw|passphrase|secret|token|api[ _-]?key|private[ _-]?key|credential|credit[ _-]?card|card[ _-]?num|\bcvv|\bcvc|\bpin\b|\bssn\b|\biban\b`)

// check returns an error if the question is too large or asks for a secret.
func (q *Question) check() error {
	size := len(q.Message)
	for _, data := range q.Data {
		size += len(data)
	}
	if size > maxQuestion {
		return fmt.Errorf("%d bytes, limit %d", size, maxQuestion)
	}
	for _, data := range q.Data {
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		if field := secretField(v); field != "" {
			return fmt.Errorf("field %q asks for a secret", shorten(field))
		}
	}
	return nil
}

// secretField returns the name of a field for a secret in the schemas that a JSON value contains, or "".
func secretField(v any) string {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if found := secretField(item); found != "" {
				return found
			}
		}
	case map[string]any:
		fields, _ := v["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			field, _ := fields[name].(map[string]any)
			title, _ := field["title"].(string)
			if field["format"] == "password" || field["writeOnly"] == true || secret.MatchString(name) || secret.MatchString(title) {
				return name
			}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if found := secretField(v[key]); found != "" {
				return found
			}
		}
	}
	return ""
}

// textOf returns the texts of a message.
func textOf(m *message) string {
	if m == nil {
		return ""
	}
	var texts []string
	for _, p := range m.Parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
