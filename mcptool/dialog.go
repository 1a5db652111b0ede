package mcptool

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/elicit"
)

// maxRounds limits the questions of one call, one after the other.
const maxRounds = 10

// dialog is a call of a graph by a client that supports elicitation. The graph runs on a
// separate thread, so that its interrupts can be answered. The client keeps the
// dialog's state between its requests.
type dialog struct {
	request *mcp.CallToolRequest
	thread  string
	resume  bool           // an earlier request has started the run
	look    bool           // only load the pauses of the run
	known   bool           // the tool is a graph
	answers map[string]any // by interrupt ID
	pauses  []treadle.Pause
}

type dialogKey struct{}

// dialogOf returns the dialog of a call, or nil if the client cannot answer questions.
func dialogOf(ctx context.Context) *dialog {
	d, _ := ctx.Value(dialogKey{}).(*dialog)
	return d
}

// newDialog returns the dialog for a request, or nil if the client does not support
// elicitation. The thread's ID names the tool and the user, so that a client can neither use
// a state with another tool nor another user's state.
func newDialog(r *mcp.CallToolRequest) *dialog {
	if caps := r.ClientCapabilities(); caps == nil || caps.Elicitation == nil {
		return nil
	}
	if r.Params.RequestState == "" {
		return &dialog{request: r, thread: "mcp-" + rand.Text() + "-" + ownerOf(r)}
	}
	thread, _, _ := strings.Cut(r.Params.RequestState, ".")
	return &dialog{request: r, thread: thread, resume: true}
}

// ownerOf returns a digest of the tool and the user of a call.
func ownerOf(r *mcp.CallToolRequest) string {
	user := ""
	if r.Extra != nil && r.Extra.TokenInfo != nil {
		user = r.Extra.TokenInfo.UserID
	}
	sum := sha256.Sum256([]byte(r.Params.Name + "\x00" + user))
	return hex.EncodeToString(sum[:8])
}

// state returns the value that the client sends back with its answers.
func (d *dialog) state() string {
	var ids []string
	for _, p := range d.pauses {
		ids = append(ids, p.ID)
	}
	return elicit.State(d.thread, ids)
}

// errState rejects a request state that this server has not issued to the caller, or that has
// been answered.
var errState = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState: unknown or already answered"}

// run runs the graph, or resumes it with the answers.
func (d *dialog) run(ctx context.Context, g treadle.AnyGraph, args json.RawMessage) (json.RawMessage, error) {
	d.known = true
	thread := dynamic.Open(g, d.thread)
	if d.look {
		return nil, d.load(ctx, thread)
	}
	var out json.RawMessage
	var err error
	if d.resume {
		var command []byte
		if command, err = json.Marshal(map[string]any{"resume": d.answers}); err != nil {
			return nil, err
		}
		for ev, failed := range thread.CommandJSON(ctx, command) {
			err = failed
			if err != nil {
				break
			}
			if end, ok := ev.(treadle.Finished[json.RawMessage]); ok {
				out = end.Output
			}
		}
	} else {
		if out, err = thread.RunJSON(ctx, args); errors.Is(err, treadle.ErrNoSaver) {
			return dynamic.Open(g, "").RunJSON(ctx, args)
		}
	}
	d.pauses = nil
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		d.pauses = stop.Pauses
	}
	return out, err
}

// load loads the pending questions. It returns an error if the state is not the current state
// of a dialog of this tool and user.
func (d *dialog) load(ctx context.Context, thread *dynamic.Thread) error {
	if !strings.HasPrefix(d.thread, "mcp-") || !strings.HasSuffix(d.thread, "-"+ownerOf(d.request)) {
		return errState
	}
	now, err := thread.State(ctx)
	if err != nil {
		return errState
	}
	d.pauses = now.Pauses
	if len(d.pauses) == 0 || d.state() != d.request.Params.RequestState {
		d.pauses = nil
		return errState
	}
	return nil
}

// questions returns the pending questions as elicitations. It returns an error if the run
// waits for a time or a signal.
func (d *dialog) questions(caps *mcp.ClientCapabilities) (map[string]*form, error) {
	out := map[string]*form{}
	for _, p := range d.pauses {
		if p.Kind != treadle.QuestionPause {
			return nil, fmt.Errorf("run waits for a time or a signal on thread %s", d.thread)
		}
		f := &form{elicit.Of(p.Value, p.Schema), p.ID}
		if f.Mode == elicit.ModeURL && caps.Elicitation.URL == nil {
			return nil, errors.New("client does not support URL elicitation")
		}
		key := p.Key
		if _, taken := out[key]; key == "" || taken {
			key = p.ID
		}
		out[key] = f
	}
	if len(out) == 0 {
		return nil, errors.New("no pending interrupt")
	}
	return out, nil
}

// answer takes the client's responses. It reports whether all questions are answered.
func (d *dialog) answer(forms map[string]*form, responses map[string]*mcp.ElicitResult) (complete bool, err error) {
	d.answers, complete = map[string]any{}, true
	for key, f := range forms {
		response := responses[key]
		if response == nil {
			complete = false
			continue
		}
		value, err := f.Answer(response.Action, response.Content)
		if errors.Is(err, elicit.ErrDeclined) {
			return false, err
		}
		if err != nil {
			complete = false
			continue
		}
		d.answers[f.id] = value
	}
	return complete, nil
}

// form is a question to the client's user.
type form struct {
	*elicit.Form
	id string // of the interrupt
}

func (f *form) params() *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: f.Mode, Message: f.Message, URL: f.URL, RequestedSchema: f.Schema}
}

// converse calls a tool for a client that can answer the questions of a graph. Newer clients get
// the questions as a result and call again; older clients are asked during the call.
func (d *dialog) converse(ctx context.Context, call func(context.Context) (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error) {
	r := d.request
	ctx = context.WithValue(ctx, dialogKey{}, d)
	responses := map[string]*mcp.ElicitResult{}
	for key, response := range r.Params.InputResponses {
		if e, ok := response.(*mcp.ElicitResult); ok {
			responses[key] = e
		}
	}
	d.look = d.resume
	out, err := call(ctx)
	if d.look && d.known && len(d.pauses) == 0 {
		return nil, errState
	}
	d.look = false
	for range maxRounds {
		if err != nil || len(d.pauses) == 0 {
			return out, err
		}
		d.resume = true
		var forms map[string]*form
		forms, err = d.questions(r.ClientCapabilities())
		for _, key := range slices.Sorted(maps.Keys(forms)) {
			if err == nil && !newer(r) {
				responses[key], err = r.Session.Elicit(ctx, forms[key].params())
			}
		}
		complete := false
		if err == nil {
			complete, err = d.answer(forms, responses)
		}
		switch {
		case err == nil && !complete && newer(r):
			out := &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}, RequestState: d.state()}
			for key, f := range forms {
				out.InputRequests[key] = f.params()
			}
			return out, nil
		case err == nil && !complete:
			err = errors.New("answer does not match the schema of the elicitation")
		}
		if err != nil {
			return refused(r.Params.Name, err), nil
		}
		clear(responses)
		out, err = call(ctx)
	}
	return refused(r.Params.Name, fmt.Errorf("more than %d questions", maxRounds)), nil
}

// newer reports whether the client handles results that request input.
func newer(r *mcp.CallToolRequest) bool {
	p := r.Session.InitializeParams()
	return p == nil || p.ProtocolVersion >= elicit.Stateless
}

// refused returns the result of a call whose question could not be asked.
func refused(tool string, err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{
		&mcp.TextContent{Text: fmt.Sprintf("tool %s interrupted: %v", tool, err)},
	}}
}
