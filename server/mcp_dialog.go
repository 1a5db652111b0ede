package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/elicit"
	"github.com/treadle-go/treadle/ledger"
)

// canAnswer reports whether the client of a call can answer questions.
func canAnswer(r *mcp.CallToolRequest) bool {
	caps, p := r.ClientCapabilities(), r.Session.InitializeParams()
	return caps != nil && caps.Elicitation != nil && (p == nil || p.ProtocolVersion >= elicit.Stateless)
}

// forgetTime limits the time to delete the thread of a call.
const forgetTime = 10 * time.Second

// errRequestState rejects a request state that the caller did not get, or whose questions have
// been answered.
var errRequestState = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState: unknown or already answered"}

// converse runs an assistant for a client that can answer its questions. The run has a thread,
// which keeps it while a question waits. The client's request state names the thread. The thread is
// deleted when the call ends.
func (s mcpAPI) converse(ctx context.Context, c *call, r *mcp.CallToolRequest, a *ledger.Assistant, input json.RawMessage) (*mcp.CallToolResult, error) {
	b := &runBody{Assistant: a.ID.String(), Input: input, IfNotExists: "create", Strategy: ledger.Reject}
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
	run, err := s.runs().createFrom(c, b, &thread)
	if err != nil {
		return s.notCreated(c, err)
	}
	end, values, err := s.runs().outcome(ctx, c, run)
	if err != nil {
		// Otherwise, the run goes on, and its thread has the result.
		if c.r.Context().Err() != nil && !s.runner.Draining() {
			s.forget(thread)
		}
		return nil, s.failure(c, err)
	}
	if end.Paused {
		t, err := s.ledger.Thread(c.r.Context(), thread, nil)
		if err != nil {
			return nil, s.failure(c, err)
		}
		if out, err := asking(r, t); err == nil {
			return out, nil
		}
	}
	if !end.Lost {
		s.forget(thread)
	}
	return toolResult(end, values), nil
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

// form returns the question as a form.
func (q question) form() *elicit.Form {
	schema, err := json.Marshal(q.Schema)
	if err != nil || q.Schema == nil {
		schema = nil
	}
	return elicit.Of(q.Value, schema)
}

// asking returns the questions that wait on a thread as the result of a call. It returns an error if
// the client cannot answer them.
func asking(r *mcp.CallToolRequest, t *ledger.Thread) (*mcp.CallToolResult, error) {
	out := &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}, RequestState: stateOfCall(t)}
	for _, q := range questions(t.Interrupts) {
		f := q.form()
		if f.Mode == elicit.ModeURL && r.ClientCapabilities().Elicitation.URL == nil {
			return nil, errors.New("the client does not open links")
		}
		out.InputRequests[q.ID] = &mcp.ElicitParams{Mode: f.Mode, Message: f.Message, URL: f.URL, RequestedSchema: f.Schema}
	}
	if len(out.InputRequests) == 0 {
		return nil, errors.New("the run waits for no answer")
	}
	return out, nil
}

// commandOf returns the command that resumes a thread with the client's responses. It returns an error
// unless they answer all questions.
func commandOf(t *ledger.Thread, responses mcp.InputResponseMap) (json.RawMessage, error) {
	byID := map[string]any{}
	for _, q := range questions(t.Interrupts) {
		given, ok := responses[q.ID].(*mcp.ElicitResult)
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

// forget deletes the thread of a call that has ended. If that fails, the thread remains, as if
// the client had not come back.
func (s mcpAPI) forget(thread uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	if err := s.runner.DeleteThread(ctx, thread, nil); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		s.log.Warn("failed to delete thread of MCP call", "thread", thread, "error", err)
	}
}
