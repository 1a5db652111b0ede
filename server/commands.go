package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// command is a protocol v2 request.
type command struct {
	ID     *uint64         `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Error codes of protocol v2.
const (
	invalidArgument    = "invalid_argument"
	unknownCommand     = "unknown_command"
	unknownError       = "unknown_error"
	noSuchRun          = "no_such_run"
	noSuchSubscription = "no_such_subscription"
	noSuchNamespace    = "no_such_namespace"
	noSuchInterrupt    = "no_such_interrupt"
	permissionDenied   = "permission_denied"
	notSupported       = "not_supported"
)

// commandError is an error with a protocol v2 code.
type commandError struct{ code, message string }

func (e *commandError) Error() string { return e.code + ": " + e.message }

// meta contains the thread's position before a command was executed. A client that starts a run
// reads the thread's events from that position, so it must precede all events of the run.
type meta struct {
	Thread  uuid.UUID `json:"thread_id"`
	Through uint64    `json:"applied_through_seq"`
}

// reply is the response to a command.
type reply struct {
	Type    string  `json:"type"`
	ID      *uint64 `json:"id"`
	Result  any     `json:"result,omitempty"`
	Error   string  `json:"error,omitempty"`
	Message string  `json:"message,omitempty"`
	Meta    *meta   `json:"meta,omitempty"`
}

// refusal is the response to an invalid command, with the detail field of all error responses.
type refusal struct {
	*reply
	Detail string `json:"detail"`
}

var badCommand = &reply{Type: "error", Error: invalidArgument, Message: "Protocol commands must include an integer id and string method."}

// readCommand decodes a command, or returns the reply to an invalid one.
func readCommand(raw []byte) (*command, *reply) {
	var cmd command
	if json.Unmarshal(raw, &cmd) != nil || cmd.ID == nil || cmd.Method == nil {
		return nil, badCommand
	}
	return &cmd, nil
}

// commands executes one command. Every response has status 200, except the response to an
// invalid command.
func (s protocolAPI) commands(c *call) error {
	id, err := c.id("thread_id")
	if err != nil {
		return err
	}
	raw, err := c.body()
	if err != nil {
		return err
	}
	cmd, bad := readCommand(raw)
	if bad != nil {
		return c.json(http.StatusBadRequest, &refusal{bad, bad.Message})
	}
	before := &meta{id, s.runner.LastSeq(id)}
	result, err := s.execute(c, cmd, id)
	return c.json(http.StatusOK, s.reply(c, cmd, before, result, err))
}

// reply returns the reply to a command.
func (s protocolAPI) reply(c *call, cmd *command, before *meta, result any, err error) *reply {
	if err == nil {
		return &reply{Type: "success", ID: cmd.ID, Result: result, Meta: before}
	}
	r := &reply{Type: "error", ID: cmd.ID}
	if e, ok := errors.AsType[*commandError](err); ok {
		r.Error, r.Message = e.code, e.message
		return r
	}
	status, detail := statusOf(err)
	r.Error, r.Message = unknownError, strconv.Itoa(status)+": "+detail
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		r.Error, r.Message = invalidArgument, detail
	case http.StatusForbidden:
		r.Error = permissionDenied
	case http.StatusInternalServerError:
		if c.r.Context().Err() != nil {
			break // the client has disconnected
		}
		s.log.Error("command failed", "method", *cmd.Method, "thread", before.Thread, "error", err)
	}
	return r
}

// execute executes a command that does not concern subscriptions.
func (s protocolAPI) execute(c *call, cmd *command, thread uuid.UUID) (any, error) {
	switch *cmd.Method {
	case "run.start":
		return s.runStart(c, thread, cmd.Params)
	case "input.respond":
		return s.inputRespond(c, thread, cmd.Params)
	case "state.get":
		return s.stateGet(c, thread, cmd.Params)
	case "agent.getTree":
		return s.agentTree(c, thread)
	case "subscription.subscribe", "subscription.unsubscribe":
		return nil, &commandError{notSupported, *cmd.Method + ": here a stream is a subscription; open POST /threads/{thread_id}/stream/events, or a WebSocket"}
	case "subscription.reconnect":
		return nil, &commandError{notSupported, "subscription.reconnect: subscribe again; events that are kept are sent again"}
	}
	return nil, &commandError{unknownCommand, "Unknown protocol command: " + *cmd.Method}
}

// runParams are the parameters of run.start. They include all fields of other requests that
// create runs.
type runParams struct {
	runBody
	Strategy ledger.Strategy `json:"multitaskStrategy"`
}

// runStart creates a run, and the thread if it does not exist. On an interrupted thread, the
// input is the answer.
func (s protocolAPI) runStart(c *call, thread uuid.UUID, raw json.RawMessage) (any, error) {
	p, err := params[runParams](raw)
	if err != nil {
		return nil, err
	}
	b := &p.runBody
	if b.Assistant == "" {
		return nil, &commandError{invalidArgument, "run.start requires an assistant_id."}
	}
	if p.Strategy != "" {
		b.Strategy = p.Strategy
	}
	t, err := s.ledger.Thread(c.r.Context(), thread, nil)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		b.IfNotExists = "create"
	case err != nil:
		return nil, err
	default:
		b.IfNotExists = ""
		if answers(t, b) {
			if b.Command, err = json.Marshal(map[string]any{"resume": b.Input}); err != nil {
				return nil, err
			}
			b.Input = nil
		}
	}
	return s.start(c, b, thread)
}

// answers reports whether the input of a run answers a pending interrupt of the thread. A run
// that starts from an older checkpoint raises its interrupts again.
func answers(t *ledger.Thread, b *runBody) bool {
	conf, _ := b.Config["configurable"].(map[string]any)
	_, fork := conf["checkpoint_id"]
	fork = fork || b.CheckpointID != "" || b.Checkpoint != nil
	given := len(b.Input) > 0 && string(b.Input) != "null"
	return given && !fork && len(b.Command) == 0 && t.Status != ledger.Busy && len(openQuestions(t)) > 0
}

// start creates a run that records events for protocol v2.
func (s protocolAPI) start(c *call, b *runBody, thread uuid.UUID) (any, error) {
	b.v2 = true
	run, err := s.runs().createFrom(c, b, &thread)
	if err != nil {
		return nil, err
	}
	return map[string]any{"run_id": run.ID}, nil
}

// openQuestions returns the IDs of the thread's pending interrupts.
func openQuestions(t *ledger.Thread) (ids []string) {
	for _, q := range questions(t.Interrupts) {
		ids = append(ids, q.ID)
	}
	return ids
}

// answer is the answer to an interrupt.
type answer struct {
	ID       string          `json:"interrupt_id"`
	Response json.RawMessage `json:"response"`
}

// respondParams are the parameters of input.respond.
type respondParams struct {
	answer
	Responses []answer        `json:"responses"`
	Update    json.RawMessage `json:"update"`
	Goto      json.RawMessage `json:"goto"`
	Config    ledger.Object   `json:"config"`
	Metadata  ledger.Object   `json:"metadata"`
}

// inputRespond resumes a thread with answers to its interrupts.
func (s protocolAPI) inputRespond(c *call, thread uuid.UUID, raw json.RawMessage) (any, error) {
	p, err := params[respondParams](raw)
	if err != nil {
		return nil, err
	}
	if p.Responses == nil {
		p.Responses = []answer{p.answer}
	}
	t, _, err := s.known(c, thread, "create_run")
	if err != nil {
		return nil, err
	}
	open := openQuestions(t)
	resume := map[string]json.RawMessage{}
	for _, a := range p.Responses {
		switch {
		case a.ID == "":
			return nil, &commandError{invalidArgument, "input.respond requires an interrupt_id."}
		case !slices.Contains(open, a.ID):
			return nil, &commandError{noSuchInterrupt, "interrupt_id: the thread has no open question " + strconv.Quote(a.ID)}
		case len(a.Response) == 0:
			a.Response = json.RawMessage("null")
		}
		resume[a.ID] = a.Response
	}
	if len(resume) == 0 {
		return nil, &commandError{invalidArgument, "responses: want at least one"}
	}
	cmd := map[string]any{"resume": resume}
	if len(p.Update) > 0 {
		cmd["update"] = p.Update
	}
	if len(p.Goto) > 0 {
		cmd["goto"] = p.Goto
	}
	b := &runBody{Config: p.Config, Metadata: p.Metadata}
	if b.Command, err = json.Marshal(cmd); err != nil {
		return nil, err
	}
	b.Assistant, _ = t.Metadata["assistant_id"].(string)
	if b.Assistant == "" || b.Assistant == defaultAssistantID(t.Graph()).String() { // by name, in case it was deleted
		b.Assistant = t.Graph()
	}
	if _, err := s.start(c, b, thread); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

// known returns a thread that has a graph and on which the caller may perform action, with the
// caller's filter.
func (s protocolAPI) known(c *call, thread uuid.UUID, action string) (*ledger.Thread, *ledger.Filter, error) {
	f, err := c.may("threads", action, map[string]any{"thread_id": thread.String()})
	if err != nil {
		return nil, nil, err
	}
	t, err := s.ledger.Thread(c.r.Context(), thread, f)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && t.Graph() == "" {
		return nil, nil, &commandError{noSuchRun, "the thread has no run: begin one with run.start"}
	}
	return t, f, err
}

// stateGet returns the state of a thread or of a subgraph.
func (s protocolAPI) stateGet(c *call, thread uuid.UUID, raw json.RawMessage) (any, error) {
	p, err := params[struct {
		Namespace []string `json:"namespace"`
		Keys      []string `json:"keys"`
	}](raw)
	if err != nil {
		return nil, err
	}
	t, _, err := s.known(c, thread, "read")
	if err != nil {
		return nil, err
	}
	th, err := s.runner.Thread(t, nil)
	if err != nil {
		return nil, err
	}
	ns := strings.Join(p.Namespace, "|")
	if ns != "" {
		if th, err = th.Nested(p.Namespace...); err != nil {
			return nil, &commandError{noSuchNamespace, "namespace: " + err.Error()}
		}
	}
	snap, err := th.State(c.r.Context())
	if err != nil {
		return nil, err
	}
	if snap.ID.IsZero() && ns != "" {
		return nil, &commandError{noSuchNamespace, "namespace: the thread has no state of " + strconv.Quote(ns)}
	}
	values := map[string]any{}
	for _, name := range snap.State.Names() {
		if v, ok := snap.State.Get(name); ok && (p.Keys == nil || slices.Contains(p.Keys, name)) {
			values[name] = v
		}
	}
	out := map[string]any{"values": values}
	if !snap.ID.IsZero() {
		out["checkpoint"] = map[string]any{"id": snap.ID, "ns": ns}
	}
	return out, nil
}

// treeNode is a graph executed by a run.
type treeNode struct {
	Namespace []string    `json:"namespace"`
	Status    string      `json:"status"`
	Graph     string      `json:"graph_name"`
	Children  []*treeNode `json:"children,omitempty"`
}

// agentTree returns the tree of graphs executed by the thread's last run.
func (s protocolAPI) agentTree(c *call, thread uuid.UUID) (any, error) {
	_, f, err := s.known(c, thread, "read")
	if err != nil {
		return nil, err
	}
	o := &observed{c: c, id: thread, filter: f}
	var root *treeNode
	for e, err := range s.runner.Kept(c.r.Context(), thread, 0) {
		if err != nil {
			return nil, err
		}
		if e.Protocol == runs.V2 && e.Name == "lifecycle" {
			if shown, err := o.sees(e); err != nil || !shown {
				continue
			}
			var data struct {
				Event string `json:"event"`
				Graph string `json:"graph_name"`
			}
			if err := json.Unmarshal(e.Data(), &data); err != nil {
				return nil, err
			}
			root = root.put(e.NS, data.Event, data.Graph)
		}
	}
	if root == nil {
		return nil, &commandError{noSuchRun, "events of the thread's runs are no longer kept"}
	}
	return map[string]any{"tree": root}, nil
}

// put sets the status of a graph and returns the tree. A root that starts replaces the tree.
func (n *treeNode) put(ns []string, status, graph string) *treeNode {
	if n == nil && len(ns) > 0 {
		return nil // the first events of the run were discarded
	}
	if n == nil || len(ns) == 0 && status == "running" {
		return &treeNode{Namespace: []string{}, Status: status, Graph: graph}
	}
	at := n
	for i := range ns {
		j := slices.IndexFunc(at.Children, func(c *treeNode) bool { return slices.Equal(c.Namespace, ns[:i+1]) })
		if j < 0 {
			j = len(at.Children)
			at.Children = append(at.Children, &treeNode{Namespace: ns[:i+1]})
		}
		at = at.Children[j]
	}
	at.Status, at.Graph = status, graph
	return n
}
