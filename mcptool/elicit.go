package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/bounded"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/elicit"
	"github.com/treadle-go/treadle/llm"
)

// Elicitation is the interrupt value for a question that a server asks the user during a tool
// call; see [Server].Elicit. The answer is an [Answer]. Message, Schema, and URL come from the
// server, so show which server asks, and the whole URL. This package never opens it.
type Elicitation struct {
	Type    string          `json:"type"` // "mcp_elicitation"
	Server  string          `json:"server"`
	Tool    string          `json:"tool"` // the name shown to the model
	Mode    string          `json:"mode"` // "form", or "url" if the user answers on a web page
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitempty"` // of the form: an object of simple fields
	URL     string          `json:"url,omitempty"`
}

// Answer is the answer to an [Elicitation].
type Answer struct {
	Action string `json:"action"` // "accept", "decline", or "cancel"
	// Content contains the fields of an accepted form. Fields with a default may be omitted.
	Content map[string]any `json:"content,omitempty"`
}

// ask interrupts the run with a server's question and returns the answer.
func (s *session) ask(ctx context.Context, tool string, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	e := Elicitation{Type: elicit.Type, Server: s.Name, Tool: tool, Mode: p.Mode, Message: shorten(s.show(plain(p.Message)), 10_000)}
	if e.Mode == "" {
		e.Mode = elicit.ModeForm
	}
	content := &jsonschema.Schema{Type: "object"}
	switch e.Mode {
	case elicit.ModeForm:
		raw, wanted, err := fields(p.RequestedSchema)
		if err != nil {
			return nil, s.errorf("%w: question of tool %s: %w", errRefused, tool, err)
		}
		e.Schema, content = raw, wanted
	case elicit.ModeURL:
		u, err := url.Parse(p.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
			return nil, s.errorf("%w: question of tool %s: invalid URL: want https:// or http:// without a user", errRefused, tool)
		}
		e.URL = p.URL
	default:
		return nil, s.errorf("%w: question of tool %s: unknown mode %q", errRefused, tool, shorten(plain(e.Mode), 100))
	}
	schema := &jsonschema.Schema{Type: "object", Required: []string{"action"}, Properties: map[string]*jsonschema.Schema{
		"action":  {Type: "string", Enum: []any{elicit.ActionAccept, "decline", "cancel"}},
		"content": content,
	}}
	if len(content.Required) > 0 {
		accepted := any(elicit.ActionAccept)
		schema.If = &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"action": {Const: &accepted}}}
		schema.Then = &jsonschema.Schema{Required: []string{"content"}}
	}
	a, err := treadle.Interrupt[Answer](ctx, treadle.Question{Value: e, Schema: schema})
	if err != nil {
		return nil, err
	}
	out := &mcp.ElicitResult{Action: a.Action}
	if a.Action == elicit.ActionAccept && e.Mode == elicit.ModeForm {
		if out.Content, err = elicit.Complete(e.Schema, a.Content); err != nil {
			return nil, s.errorf("%w: answer to tool %s: %w", errRefused, tool, err)
		}
	}
	return out, nil
}

// secret matches the names of fields that a form must not have: the answers are saved, and the
// server sees them.
var secret = regexp.MustCompile(`(?i)passw|passphrase|secret|token|api[ _-]?key|private[ _-]?key|credential|credit[ _-]?card|card[ _-]?num|\bcvv|\bcvc|\bpin\b|\bssn\b|\biban\b`)

// fields returns the schema of a form as JSON, and the schema that an answer must match: fields
// with a default are optional.
func fields(from any) (json.RawMessage, *jsonschema.Schema, error) {
	raw, err := json.Marshal(from)
	if err != nil {
		return nil, nil, err
	}
	if from == nil || string(raw) == "null" {
		raw = []byte(`{"type":"object"}`)
	}
	wanted, err := bounded.Parse(raw)
	if err != nil {
		return nil, nil, err
	}
	if err := elicit.Flat(wanted); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(wanted.Properties)) {
		field := wanted.Properties[name]
		if field.Format == "password" || field.WriteOnly || secret.MatchString(name) || secret.MatchString(field.Title) {
			return nil, nil, fmt.Errorf("field %q asks for a secret", shorten(plain(name), 100))
		}
	}
	if _, err := bounded.Resolve(wanted, nil); err != nil {
		return nil, nil, err
	}
	relaxed := *wanted
	relaxed.Required = slices.DeleteFunc(slices.Clone(wanted.Required), func(name string) bool {
		p := wanted.Properties[name]
		return p != nil && p.Default != nil
	})
	return raw, &relaxed, nil
}

// rounds limits the requests of a call, one after the other.
func (s *session) rounds() int { return maxRounds + s.budget().calls }

// listens reports whether the server may request input during a call.
func (s *session) listens() bool { return s.Elicit || s.Sampling != nil }

// talk sends a call and gives the server the input that it requests. On a thread, the server's
// responses are recorded, so that a call whose question has been answered continues
// instead of starting again.
func (s *session) talk(ctx context.Context, tool string, send func(context.Context, mcp.InputResponseMap, string) (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error) {
	if s.listens() {
		version := ""
		err := s.do(ctx, func(_ context.Context, server *mcp.ClientSession) error {
			version = server.InitializeResult().ProtocolVersion
			return nil
		})
		if err != nil {
			return nil, err
		}
		if version < elicit.Stateless {
			return s.attend(ctx, tool, func(ctx context.Context) (*mcp.CallToolResult, error) { return send(ctx, nil, "") })
		}
	}
	record := s.listens() && treadle.InfoFrom(ctx).Thread != ""
	var responses mcp.InputResponseMap
	state, busy, left := "", 0, s.budget()
	for range s.rounds() + 1 {
		once := func(ctx context.Context) (*mcp.CallToolResult, error) { return send(ctx, responses, state) }
		var got *mcp.CallToolResult
		var err error
		if !record {
			got, err = once(ctx)
		} else {
			got, err = treadle.Do(ctx, "mcp "+tool, once)
			if f, ok := errors.AsType[*failure](err); ok {
				return nil, f
			}
		}
		if err != nil || !got.NeedsInput() {
			return got, err
		}
		if len(got.InputRequests) == 0 { // the server is busy
			busy++
			if busy == maxBusy {
				return nil, s.errorf("%w: server is busy", ErrNoResponse)
			}
			if err := delay.For(ctx, listenPause); err != nil {
				return nil, s.errorf("%w", s.reason(ctx))
			}
		}
		if responses, err = s.fulfill(ctx, tool, got.InputRequests, left); err != nil {
			return nil, err
		}
		state = got.RequestState
	}
	return nil, s.errorf("%w: tool %s requests input more than %d times", errRefused, tool, s.rounds())
}

// maxBusy limits how often a call is sent to a busy server.
const maxBusy = 3

// fulfill returns the input that a server requests.
func (s *session) fulfill(ctx context.Context, tool string, requests mcp.InputRequestMap, left *allowance) (mcp.InputResponseMap, error) {
	if len(requests) > elicit.MaxFields {
		return nil, s.errorf("%w: tool %s requests %d inputs at once", errRefused, tool, len(requests))
	}
	out := mcp.InputResponseMap{}
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		var err error
		if out[key], err = s.input(ctx, tool, requests[key], left); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// input returns the input for one request of a server.
func (s *session) input(ctx context.Context, tool string, request mcp.InputRequest, left *allowance) (mcp.InputResponse, error) {
	switch p := request.(type) {
	case *mcp.ElicitParams:
		if !s.Elicit {
			return nil, s.errorf("%w: tool %s asks the user: set Elicit to allow it", errRefused, tool)
		}
		return s.ask(ctx, tool, p)
	case *mcp.CreateMessageWithToolsParams:
		return s.sample(ctx, tool, p, left)
	case *mcp.ListRootsParams:
		return &mcp.ListRootsResult{Roots: s.roots()}, nil
	}
	return nil, s.errorf("%w: tool %s requests %T", errRefused, tool, request)
}

// roots returns the directories that the server may use.
func (s *session) roots() []*mcp.Root {
	out := []*mcp.Root{}
	for _, uri := range s.Roots {
		out = append(out, &mcp.Root{URI: uri})
	}
	return out
}

// listener passes a server's requests, such as questions, to the call that causes them. A server
// with sessions makes them outside of the call, without naming it, so only one call runs at a
// time. A call that waits for an answer is parked.
type listener struct {
	life    context.Context // ends with the connection, which waits for the questions
	turn    chan struct{}   // held while a call runs
	current chan *exchange

	mu     sync.Mutex
	parked map[string]*held // by the task that made the call
}

// exchange is a request of a server during a call, and its answer.
type exchange struct {
	request mcp.InputRequest
	answer  chan mcp.InputResponse // closed without an answer if the call ends
}

// held is a call that a server with sessions has not answered.
type held struct {
	cancel context.CancelFunc
	end    chan response
	asked  []*exchange // the last may be unanswered
	open   bool        // the last is unanswered
	expiry *time.Timer // while it is parked
}

type response struct {
	got *mcp.CallToolResult
	err error
}

const (
	// maxParked limits the calls that wait for an answer.
	maxParked = 100
	// parkTime limits how long a call waits for an answer. After that, the call is canceled, and
	// sent again when the answer arrives.
	parkTime = time.Hour
)

// elicit is called by the SDK with a question.
func (l *listener) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return heard[*mcp.ElicitResult](ctx, l, r.Params)
}

// sample is called by the SDK with a request for a model.
func (l *listener) sample(ctx context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	return heard[*mcp.CreateMessageWithToolsResult](ctx, l, r.Params)
}

// heard passes a request to the call and returns when the call has the answer.
func heard[Out mcp.InputResponse](ctx context.Context, l *listener, request mcp.InputRequest) (none Out, _ error) {
	if len(l.turn) == 0 {
		return none, errors.New("no call is running")
	}
	e := &exchange{request, make(chan mcp.InputResponse, 1)}
	select {
	case l.current <- e:
	case <-l.life.Done():
		return none, ErrClosed
	case <-ctx.Done():
		return none, ctx.Err()
	}
	select {
	case out, ok := <-e.answer:
		if !ok {
			return none, errors.New("request refused")
		}
		return out.(Out), nil
	case <-l.life.Done():
		return none, ErrClosed
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// park keeps a call whose question has no answer yet. It reports whether it has room.
func (l *listener) park(key string, h *held) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key == "" || len(l.parked) == maxParked || l.parked[key] != nil {
		return false
	}
	if l.parked == nil {
		l.parked = map[string]*held{}
	}
	l.parked[key] = h
	h.expiry = time.AfterFunc(parkTime, func() {
		l.mu.Lock()
		expired := l.parked[key] == h
		if expired {
			delete(l.parked, key)
		}
		l.mu.Unlock()
		if expired {
			h.drop()
		}
	})
	return true
}

// take returns the parked call of a task, unless it has ended.
func (l *listener) take(key string) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.parked[key]
	delete(l.parked, key)
	if h == nil {
		return nil
	}
	h.expiry.Stop()
	if len(h.end) > 0 {
		h.drop()
		return nil
	}
	return h
}

// drop cancels a call and waits for its end.
func (h *held) drop() {
	h.cancel()
	<-h.end
	if h.open {
		close(h.asked[len(h.asked)-1].answer)
	}
}

// attend sends a call to a server with sessions and answers the server's questions. If a
// question has no answer yet, it parks the call, and the run stops with an interrupt. With the
// answer, the call continues. If it has ended in the meantime, or the process has, attend
// sends it again from the start.
func (s *session) attend(ctx context.Context, tool string, send func(context.Context) (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error) {
	select {
	case s.questions.turn <- struct{}{}:
		defer func() { <-s.questions.turn }()
	case <-ctx.Done():
		return nil, s.errorf("%w", s.reason(ctx))
	}
	key := ""
	if info := treadle.InfoFrom(ctx); info.Thread != "" {
		call, _ := llm.CallFrom(ctx)
		key = strings.Join([]string{info.Thread, info.IdempotencyKey, call.ID, tool}, "\x00")
	}
	h := s.questions.take(key)
	if h == nil {
		h = &held{end: make(chan response, 1)}
		var inner context.Context
		inner, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
		if !s.begin() {
			h.cancel()
			return nil, s.errorf("%w", ErrClosed)
		}
		go func() { // close waits for it
			defer s.busy.Done()
			got, err := send(inner)
			h.end <- response{got, err}
		}()
	}
	left := s.budget()
	for i := 0; ; i++ {
		if i == len(h.asked) {
			select {
			case r := <-h.end:
				h.cancel()
				return r.got, r.err
			case e := <-s.questions.current:
				h.asked, h.open = append(h.asked, e), true
			case <-ctx.Done():
				h.drop()
				return nil, s.errorf("%w", s.reason(ctx))
			}
		}
		out, err := s.input(ctx, tool, h.asked[i].request, left)
		if err == nil && i == s.rounds() {
			err = s.errorf("%w: tool %s makes more than %d requests", errRefused, tool, s.rounds())
		}
		if err != nil {
			if !treadle.IsPause(err) || !s.questions.park(key, h) {
				h.drop()
			}
			return nil, err
		}
		if i == len(h.asked)-1 && h.open {
			h.open = false
			h.asked[i].answer <- out
		}
	}
}
