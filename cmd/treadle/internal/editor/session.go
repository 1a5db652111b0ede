package editor

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/llm"
)

// session is a conversation. Its prompts run one after the other.
type session struct {
	*editor
	id     string
	folder string        // guarded by editor.mu
	turn   chan struct{} // holds a value while a prompt runs

	cancelMu sync.Mutex
	cancel   context.CancelCauseFunc // of the running prompt; nil if there is none
	declined bool                    // the user canceled while the thread waited for an answer
}

// Causes of a prompt's end.
var (
	errCanceled = errors.New("canceled by the user")
	errGone     = errors.New("editor disconnected")
)

// stop cancels the running prompt, if any.
func (s *session) stop() {
	s.cancelMu.Lock()
	defer s.cancelMu.Unlock()
	if s.cancel != nil {
		s.cancel(errCanceled)
	}
}

// Prompt implements acp.Agent.
func (e *editor) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	e.prompts.RLock()
	defer e.prompts.RUnlock()
	if e.closed {
		return acp.PromptResponse{}, errGone
	}
	s, err := e.session(p.SessionId)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	m, err := messageOf(p.Prompt)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	select {
	case s.turn <- struct{}{}: // the SDK cancels the prompt before
	case <-e.conn.Done():
		return acp.PromptResponse{}, errGone
	case <-e.ctx.Done():
		return acp.PromptResponse{}, errGone
	}
	defer func() { <-s.turn }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(errGone) })()
	s.cancelMu.Lock()
	s.cancel = cancel
	s.cancelMu.Unlock()
	defer func() {
		s.cancelMu.Lock()
		defer s.cancelMu.Unlock()
		s.cancel = nil
	}()
	t := &turn{session: s, ctx: ctx, message: &m, show: s.shower(ctx)}
	reason, err := t.run()
	if ctx.Err() != nil {
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
	}
	return acp.PromptResponse{StopReason: reason}, err
}

// turn is a prompt and everything that follows it.
type turn struct {
	*session
	ctx     context.Context
	message *llm.Message // nil once it is sent
	show    *shower
}

// run sends the prompt and resumes the thread until no question is left that the editor can
// answer.
func (t *turn) run() (acp.StopReason, error) {
	if err := t.join(); err != nil {
		return "", err
	}
	if t.declined { // the new message replaces the questions that the user has canceled
		t.declined = false
		if reason, err := t.follow(t.input()); reason != "" || err != nil {
			return reason, err
		}
	}
	for {
		asked, ms, err := t.questions()
		if err != nil {
			return "", err
		}
		answers, err := t.answer(asked, ms)
		if err != nil {
			return "", err
		}
		var next *client.RunCreate
		switch {
		case len(answers) > 0:
			next = &client.RunCreate{Command: &client.Command{Resume: answers}, StrictResume: true}
		case len(asked) > 0:
			return acp.StopReasonEndTurn, nil // the next prompt is the answer
		case t.message != nil:
			next = t.input()
		default:
			return acp.StopReasonEndTurn, t.show.err
		}
		if reason, err := t.follow(next); reason != "" || err != nil {
			return reason, err
		}
	}
}

// input returns a run with the prompt's message as its input.
func (t *turn) input() *client.RunCreate {
	m := *t.message
	t.message = nil
	return &client.RunCreate{Input: map[string]any{"messages": llm.Messages{m}}}
}

// join shows the rest of a run that an earlier connection has left.
func (t *turn) join() error {
	for _, status := range []string{"running", "pending"} {
		left, err := t.client.Runs.List(t.ctx, t.id, &client.RunList{Status: status})
		if err != nil {
			return failed(err)
		}
		for _, run := range slices.Backward(left) {
			if _, err := t.watch(run.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow creates a run and shows it until it ends. It returns a reason if the turn ends with it.
func (t *turn) follow(o *client.RunCreate) (acp.StopReason, error) {
	o.Assistant, o.Config = t.assistant, map[string]any{"configurable": t.offered()}
	o.StreamMode, o.Subgraphs, o.Resumable = []string{"messages-tuple"}, true, new(true)
	// A canceled request could still create a run, which would be unknown here.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Minute)
	defer cancel()
	run, err := t.client.Runs.Create(ctx, t.id, o)
	if err != nil {
		return "", failed(err)
	}
	return t.watch(run.ID)
}

// watch shows a run until it ends, and cancels it if the user cancels the prompt.
func (t *turn) watch(run string) (acp.StopReason, error) {
	t.show.stop = ""
	for ev, err := range t.client.Runs.JoinStream(t.ctx, t.id, run, &client.JoinOptions{LastEventID: "-1"}) {
		if failure, ok := errors.AsType[*client.RunError](err); ok {
			if failure.Class == "GraphRecursionError" {
				return acp.StopReasonMaxTurnRequests, nil
			}
			return "", failed(err)
		}
		if err != nil {
			t.abandon(run)
			return "", failed(err)
		}
		t.show.event(ev)
	}
	if t.ctx.Err() != nil {
		t.abandon(run)
		return "", context.Cause(t.ctx)
	}
	t.show.close()
	if t.show.stop == llm.StopLength {
		return acp.StopReasonMaxTokens, nil
	}
	return "", nil
}

// abandon cancels a run that is no longer watched, unless the editor disconnected: then the run
// continues, and its result can be loaded later.
func (t *turn) abandon(run string) {
	if t.ctx.Err() == nil || t.gone() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 30*time.Second)
	defer cancel()
	if err := t.client.Runs.Cancel(ctx, t.id, run, &client.CancelOptions{Wait: true}); err != nil && !errors.Is(err, client.ErrNotFound) {
		t.log.Warn("failed to cancel run", "run", run, "error", err)
	}
}

// questions returns the thread's pending questions, and its conversation.
func (t *turn) questions() ([]treadle.Pause, llm.Messages, error) {
	stored, err := t.client.Threads.Get(t.ctx, t.id)
	if err != nil {
		return nil, nil, failed(err)
	}
	var asked []treadle.Pause
	for _, task := range slices.Sorted(maps.Keys(stored.Interrupts)) {
		for _, q := range stored.Interrupts[task] {
			if q.Kind == treadle.QuestionPause {
				asked = append(asked, q)
			}
		}
	}
	return asked, messagesOf(stored.Values), nil
}

// offered returns the configurable values of the session's runs: the tools that the editor runs
// for the agent.
func (t *turn) offered() map[string]any {
	t.mu.Lock()
	can, folder := t.can, t.folder
	t.mu.Unlock()
	out := map[string]any{"client_context": []map[string]any{{"description": "folder that is open in the editor", "value": folder}}}
	var tools []json.RawMessage
	for _, tool := range editorTools {
		if tool.offered(can) {
			tools = append(tools, json.RawMessage(tool.definition))
		}
	}
	if tools != nil {
		out["client_tools"] = tools
	}
	return out
}
