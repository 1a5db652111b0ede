package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/elicit"
	"github.com/treadle-go/treadle/ledger"
)

// canAnswer reports whether the client of a call can answer questions. With protocols before 2026-07-28,
// it needs a session.
func canAnswer(r *mcp.CallToolRequest) bool {
	caps := r.ClientCapabilities()
	return caps != nil && caps.Elicitation != nil && (asksInResults(r) || r.Session.ID() != "")
}

// asksInResults reports whether the client of a call gets questions as the result of the call.
func asksInResults(r *mcp.CallToolRequest) bool {
	p := r.Session.InitializeParams()
	return p == nil || p.ProtocolVersion >= elicit.Stateless
}

// maxAnswers limits the questions of a call that waits for its answers, one after the other.
const maxAnswers = 10

// forgetTime limits the time to delete or keep the thread of a call.
const forgetTime = 10 * time.Second

// errRequestState rejects a request state that was not issued to the caller, or whose questions
// have been answered.
var errRequestState = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState: unknown or already answered"}

// callTTL limits how long the thread of a call is kept after its last change. The thread outlives its call
// if the client does not answer a question, or if the process ends.
const callTTL = 7 * 24 * time.Hour

// converse runs an assistant. The run has a thread, which keeps it while a question is pending. The
// client's request state names the thread. The thread is deleted when the call ends, unless its run
// continues in the background.
func (s mcpAPI) converse(ctx context.Context, c *call, r *mcp.CallToolRequest, a *ledger.Assistant, input json.RawMessage) (*mcp.CallToolResult, error) {
	b := &runBody{Assistant: a.ID.String(), Input: input, IfNotExists: "create", Strategy: ledger.Reject, ttl: &ttlBody{TTL: callTTL.Minutes()}}
	thread := newCallThread()
	if r.Params.RequestState != "" {
		t, err := s.waiting(c, a, r.Params.RequestState)
		if err != nil {
			return nil, err
		}
		command, err := commandOf(t, r.Params.InputResponses)
		if errors.Is(err, elicit.ErrDeclined) {
			s.forget(t.ID)
			return toolFailed(err.Error()), nil
		}
		if err != nil {
			return asking(r, t)
		}
		b, thread = &runBody{Assistant: a.ID.String(), Command: command, Strict: true, Strategy: ledger.Reject}, t.ID
	}
	for range maxAnswers {
		out, asked, err := s.advance(ctx, c, r, b, thread)
		if asked == nil {
			return out, err
		}
		responses, err := ask(ctx, c, r, asked)
		if err != nil {
			s.forget(thread)
			return toolFailed(err.Error()), nil
		}
		b = &runBody{Assistant: a.ID.String(), Command: responses, Strict: true, Strategy: ledger.Reject}
	}
	s.forget(thread)
	return toolFailed(fmt.Sprintf("assistant asked more than %d questions", maxAnswers)), nil
}

// advance creates a run on the thread of a call and waits for its end. If the client is to be asked
// during the call, advance returns the thread with the questions.
func (s mcpAPI) advance(ctx context.Context, c *call, r *mcp.CallToolRequest, b *runBody, thread uuid.UUID) (*mcp.CallToolResult, *ledger.Thread, error) {
	run, err := s.runs().createFrom(c, b, &thread)
	if err != nil {
		out, err := s.notCreated(c, err)
		return out, nil, err
	}
	end, values, err := s.runs().outcome(ctx, c, run)
	if err != nil {
		// Otherwise, the run continues, and its thread has the result.
		if (ctx.Err() != nil || c.r.Context().Err() != nil) && !s.runner.Draining() {
			s.forget(thread)
		}
		return nil, nil, s.failure(c, err)
	}
	if end.Paused {
		// If the client leaves now, a run that waits for a time or a signal must still be kept.
		kept, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), forgetTime)
		defer cancel()
		t, err := s.ledger.Thread(kept, thread, nil)
		if err != nil {
			return nil, nil, s.failure(c, err)
		}
		if len(questions(t.Interrupts)) == 0 {
			out, err := s.detach(kept, c, t)
			return out, nil, err
		}
		if out, err := asking(r, t); err == nil {
			if asksInResults(r) {
				return out, nil, nil
			}
			return nil, t, nil
		}
	}
	if !end.Lost {
		s.forget(thread)
	}
	return toolResult(end, values), nil, nil
}

// detach leaves a run that waits for a time or a signal on its thread, where it continues in the
// background. It returns the result of the call.
func (s mcpAPI) detach(ctx context.Context, c *call, t *ledger.Thread) (*mcp.CallToolResult, error) {
	ttl, err := s.ttl(nil)
	if err != nil {
		return nil, s.failure(c, err)
	}
	_, err = s.ledger.PatchThread(ctx, t.ID, nil, false, func(t *ledger.Thread) error {
		t.TTL = ttl
		return nil
	})
	if err != nil {
		return nil, s.failure(c, err)
	}
	until := ""
	if len(t.Signals) > 0 {
		until = fmt.Sprintf(" when it receives the signal %s", strings.Join(t.Signals, " or "))
	}
	if !t.Wake.IsZero() {
		if until != "" {
			until += ", or"
		}
		until += " at " + t.Wake.UTC().Format(time.RFC3339)
	}
	return toolFailed(fmt.Sprintf("The assistant has not finished: its run continues in the background%s, on thread %s. Do not call the tool again.", until, t.ID)), nil
}

// ask asks the user of a client with a session the questions that wait on a thread, and returns the
// command that resumes the thread with the answers.
func ask(ctx context.Context, c *call, r *mcp.CallToolRequest, t *ledger.Thread) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.r.Context(), cancel)() // the result of the call could not be sent
	responses := mcp.InputResponseMap{}
	for key, q := range keyed(t) {
		response, err := r.Session.Elicit(ctx, q.elicitation())
		if err != nil {
			return nil, err
		}
		responses[key] = response
	}
	return commandOf(t, responses)
}

// callMark is the prefix of the IDs of threads of calls.
var callMark = []byte{0x6d, 0x63, 0x70, 0x00}

// newCallThread returns an ID for the thread of a call. It is recognizable, because the thread is
// deleted with the call: a request state must not name any other thread.
func newCallThread() uuid.UUID {
	id := uuid.New()
	copy(id[:], callMark)
	id[6] = id[6]&0x0f | 0x80 // version 8: custom
	return id
}

// waiting returns the thread of a request state. The state must be current, and belong to the
// assistant.
func (s mcpAPI) waiting(c *call, a *ledger.Assistant, state string) (*ledger.Thread, error) {
	name, _, _ := strings.Cut(state, ".")
	id, err := uuid.Parse(name)
	if err != nil || id.Version() != 8 || !bytes.HasPrefix(id[:], callMark) {
		return nil, errRequestState
	}
	f, err := c.may("threads", "read", map[string]any{"thread_id": id.String()})
	if err != nil {
		return nil, s.failure(c, err)
	}
	t, err := s.ledger.Thread(c.r.Context(), id, f)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, errRequestState
	case err != nil:
		return nil, s.failure(c, err)
	case t.Status != ledger.Interrupted, t.Metadata["assistant_id"] != a.ID.String(), stateOfCall(t) != state:
		return nil, errRequestState
	}
	return t, nil
}

// stateOfCall returns the request state of a call whose questions wait on a thread.
func stateOfCall(t *ledger.Thread) string {
	var ids []string
	for _, q := range questions(t.Interrupts) {
		ids = append(ids, q.ID)
	}
	return elicit.State(t.ID.String(), ids)
}

// keyed yields the questions that wait on a thread, with their keys in the client's responses: the
// program's names of the questions, or else their IDs.
func keyed(t *ledger.Thread) iter.Seq2[string, question] {
	return func(yield func(string, question) bool) {
		taken := map[string]bool{}
		for _, q := range questions(t.Interrupts) {
			key := q.Key
			if key == "" || taken[key] {
				key = q.ID
			}
			taken[key] = true
			if !yield(key, q) {
				return
			}
		}
	}
}

// form returns the question as a form.
func (q question) form() *elicit.Form {
	schema, err := json.Marshal(q.Schema)
	if err != nil || q.Schema == nil {
		schema = nil
	}
	return elicit.Of(q.Value, schema)
}

// elicitation returns the question as a request to the user of an MCP client.
func (q question) elicitation() *mcp.ElicitParams {
	f := q.form()
	return &mcp.ElicitParams{Mode: f.Mode, Message: f.Message, URL: f.URL, RequestedSchema: f.Schema}
}

// asking returns the questions that wait on a thread as the result of a call. It returns an error if
// the client cannot answer them.
func asking(r *mcp.CallToolRequest, t *ledger.Thread) (*mcp.CallToolResult, error) {
	if !canAnswer(r) {
		return nil, errors.New("client does not support elicitation")
	}
	out := &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}, RequestState: stateOfCall(t)}
	for key, q := range keyed(t) {
		f := q.form()
		if f.Mode == elicit.ModeURL && r.ClientCapabilities().Elicitation.URL == nil {
			return nil, errors.New("client does not support URL elicitation")
		}
		out.InputRequests[key] = q.elicitation()
	}
	if len(out.InputRequests) == 0 {
		return nil, errors.New("no pending interrupt")
	}
	return out, nil
}

// commandOf returns the command that resumes a thread with the client's responses. It returns an error
// unless they answer all questions.
func commandOf(t *ledger.Thread, responses mcp.InputResponseMap) (json.RawMessage, error) {
	byID := map[string]any{}
	for key, q := range keyed(t) {
		given, ok := responses[key].(*mcp.ElicitResult)
		if !ok {
			return nil, errors.New("question without a response")
		}
		value, err := q.form().Answer(given.Action, given.Content)
		if err != nil {
			return nil, err
		}
		byID[q.ID] = value
	}
	return json.Marshal(map[string]any{"resume": byID})
}

// forget deletes the thread of a call that has ended. If that fails, the thread remains until its TTL
// expires.
func (s mcpAPI) forget(thread uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	if err := s.runner.DeleteThread(ctx, thread, nil); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		s.log.Warn("failed to delete thread of MCP call", "thread", thread, "error", err)
	}
}
