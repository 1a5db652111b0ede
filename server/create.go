package server

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/a2awire"
	"github.com/treadle-go/treadle/server/internal/config"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// nodeList is a list of node names, or "*" for all.
type nodeList []string

// UnmarshalJSON also accepts a single name.
func (l *nodeList) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		if one != "" {
			*l = nodeList{one}
		}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(l))
}

// runBody is the body of every request that creates a run.
type runBody struct {
	Assistant    string          `json:"assistant_id"`
	Input        json.RawMessage `json:"input"`
	Command      json.RawMessage `json:"command"`
	Config       ledger.Object   `json:"config"`
	Context      ledger.Object   `json:"context"`
	Metadata     ledger.Object   `json:"metadata"`
	StreamMode   nodeList        `json:"stream_mode"`
	Subgraphs    bool            `json:"stream_subgraphs"`
	Resumable    bool            `json:"stream_resumable"`
	Before       nodeList        `json:"interrupt_before"`
	After        nodeList        `json:"interrupt_after"`
	Checkpoint   *checkpointBody `json:"checkpoint"`
	CheckpointID string          `json:"checkpoint_id"`
	Strategy     ledger.Strategy `json:"multitask_strategy"`
	IfNotExists  string          `json:"if_not_exists"`
	OnDisconnect string          `json:"on_disconnect"`
	OnCompletion string          `json:"on_completion"`
	AfterSeconds float64         `json:"after_seconds"`
	Webhook      *string         `json:"webhook"`
	FeedbackKeys []string        `json:"feedback_keys"`
	Durability   string          `json:"durability"`
	During       *bool           `json:"checkpoint_during"`
	Strict       bool            `json:"strict_resume"`

	id     uuid.UUID                                     // ID of the run, if the server has chosen it
	task   uuid.UUID                                     // the task that the run belongs to, if the client has named it
	v2     bool                                          // created through protocol v2
	key    string                                        // idempotency key of the run, if the server has chosen it
	pushes func(*ledger.Thread) (json.RawMessage, error) // changes ledger.Thread.Pushes as the run is created
	ttl    *ttlBody                                      // of a thread that the run creates; nil means the server's default
	waits  bool                                          // the client waits for the run to end and reads no stream
}

// idempotencyKey is the header of a request that may be sent again.
const idempotencyKey = "Idempotency-Key"

// authPrefix is the prefix of the configuration keys that contain the authenticated user. Only
// the server sets them.
const authPrefix = "langgraph_auth_"

// unforged returns o without the keys that only the server sets. In a configuration, it also
// removes them from the configurable values and the metadata. It does not modify o.
func unforged(o ledger.Object) ledger.Object {
	if o == nil {
		return nil
	}
	out := maps.Clone(o)
	maps.DeleteFunc(out, func(key string, _ any) bool { return strings.HasPrefix(key, authPrefix) })
	for _, key := range []string{"configurable", "metadata"} {
		if part, ok := out[key].(map[string]any); ok {
			part = maps.Clone(part)
			maps.DeleteFunc(part, func(key string, _ any) bool { return strings.HasPrefix(key, authPrefix) })
			out[key] = part
		}
	}
	return out
}

// check validates the fields.
func (b *runBody) check() error {
	if b.Assistant == "" {
		return invalid("assistant_id", "required")
	}
	return b.checkFields()
}

// checkFields is like check, but ignores the assistant.
func (b *runBody) checkFields() error {
	for _, mode := range b.StreamMode {
		if !slices.Contains(runs.StreamModes, mode) {
			return invalid("stream_mode", "want some of %s, not %q", strings.Join(runs.StreamModes, ", "), mode)
		}
	}
	if c := bytesTrim(b.Command); len(c) > 0 && c[0] != '{' && string(c) != "null" {
		return invalid("command", "want an object with resume, update or goto")
	}
	for _, f := range []struct {
		name, value string
		want        []string
	}{
		{"multitask_strategy", string(b.Strategy), []string{"reject", "enqueue", "interrupt", "rollback"}},
		{"if_not_exists", b.IfNotExists, []string{"reject", "create"}},
		{"on_disconnect", b.OnDisconnect, []string{"cancel", "continue"}},
		{"on_completion", b.OnCompletion, []string{"delete", "keep"}},
		{"durability", b.Durability, []string{"sync", "async", "exit"}},
	} {
		if f.value != "" && !slices.Contains(f.want, f.value) {
			return invalid(f.name, "want one of %s, not %q", strings.Join(f.want, ", "), f.value)
		}
	}
	at := b.CheckpointID
	if b.Checkpoint != nil && b.Checkpoint.ID != "" {
		at = b.Checkpoint.ID
	}
	if _, err := checkpoint.ParseID(at); err != nil && at != "" {
		return invalid("checkpoint_id", "%q is not a checkpoint ID", at)
	}
	if b.AfterSeconds < 0 || b.AfterSeconds > 10*365*24*3600 || math.IsNaN(b.AfterSeconds) {
		return invalid("after_seconds", "want seconds from now on, not %v", b.AfterSeconds)
	}
	return nil
}

func bytesTrim(raw json.RawMessage) json.RawMessage {
	return json.RawMessage(strings.TrimSpace(string(raw)))
}

// kwargs returns the settings of the run's execution.
func (s runAPI) kwargs(c *call, b *runBody, a *ledger.Assistant, thread, run uuid.UUID, metadata ledger.Object) *runs.Kwargs {
	k := &runs.Kwargs{Input: b.Input, Command: b.Command, StreamMode: b.StreamMode, Before: b.Before, After: b.After, Webhook: b.Webhook,
		FeedbackKeys: b.FeedbackKeys, Subgraphs: b.Subgraphs, Resumable: b.Resumable, Durability: b.Durability, Strict: b.Strict, V2: b.v2}
	if len(k.StreamMode) == 0 {
		k.StreamMode = []string{"values"}
	}
	if k.Durability == "" {
		k.Durability = "sync"
		if b.During != nil && !*b.During {
			k.Durability = "exit"
		}
	}
	k.During = k.Durability != "exit"
	k.Config, k.Context = s.config(c, b, a, thread, run, metadata)
	return k
}

// config returns a run's configuration: the assistant's configuration overlaid by the
// request's, with IDs, headers, and the user among the configurable values. The user is always
// the authenticated caller, regardless of the request and the stored assistant.
func (s runAPI) config(c *call, b *runBody, a *ledger.Assistant, thread, run uuid.UUID, metadata ledger.Object) (config, context ledger.Object) {
	config = ledger.Object{}
	asked, given := unforged(b.Config), unforged(a.Config)
	maps.Copy(config, given)
	maps.Copy(config, asked)
	own, _ := asked["configurable"].(map[string]any)
	theirs, _ := given["configurable"].(map[string]any)
	conf := map[string]any{}
	maps.Copy(conf, theirs)
	maps.Copy(conf, own)
	context = ledger.Object{}
	maps.Copy(context, unforged(a.Context))
	if b.Context != nil {
		maps.Copy(context, unforged(b.Context))
	} else {
		maps.Copy(context, own)
	}
	if own == nil {
		maps.Copy(conf, unforged(b.Context))
	}
	s.addHeaders(c, conf)
	conf["run_id"] = run.String()
	conf["thread_id"] = thread.String()
	conf["graph_id"] = a.Graph
	conf["assistant_id"] = a.ID.String()
	if b.Checkpoint != nil && b.Checkpoint.ID != "" {
		conf["checkpoint_id"], conf["checkpoint_ns"] = b.Checkpoint.ID, b.Checkpoint.NS
	} else if b.CheckpointID != "" {
		conf["checkpoint_id"] = b.CheckpointID
	}
	if c.user != nil {
		conf["langgraph_auth_user"], conf["langgraph_auth_user_id"], conf["langgraph_auth_permissions"] = userMap(c.user), c.user.Identity, c.user.Permissions
	}
	config["configurable"] = conf
	md := map[string]any{}
	if given, ok := config["metadata"].(map[string]any); ok {
		maps.Copy(md, given)
	}
	maps.Copy(md, metadata)
	config["metadata"] = md
	return config, context
}

func (s runAPI) addHeaders(c *call, conf map[string]any) {
	if c.r == nil {
		return // a cron
	}
	for name, values := range c.r.Header {
		name = strings.ToLower(name)
		usual := strings.HasPrefix(name, "x-") && !config.IsSecret(name) || name == "user-agent"
		if s.o.extras.Configurable.Selects(name, usual) && !strings.HasPrefix(name, authPrefix) {
			conf[name] = values[0]
		}
	}
}

func userMap(u *User) map[string]any {
	out := maps.Clone(u.Claims)
	if out == nil {
		out = map[string]any{}
	}
	out["identity"] = u.Identity
	out["display_name"] = u.DisplayName
	out["permissions"] = u.Permissions
	out["is_authenticated"] = true
	return out
}

// checkHook checks that runs may send results to a webhook address.
func (s runAPI) checkHook(address *string) error {
	if address == nil {
		return nil
	}
	if err := s.hooks.Check(*address); err != nil {
		return invalid("webhook", "%v", err)
	}
	return nil
}

// prepare validates a request for a run and returns the rows that the ledger stores for it.
// Without a thread, the run gets a temporary one, which is kept if the request says so.
//
// If recall is set, the assistant may be out of date; the ledger then detects that.
func (s runAPI) prepare(c *call, b *runBody, thread *uuid.UUID, recall bool) (*ledger.NewRun, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := s.checkHook(b.Webhook); err != nil {
		return nil, err
	}
	a, err := s.assistants().usable(c, b.Assistant, recall)
	if err != nil {
		return nil, err
	}
	id := b.id
	if id == uuid.Nil {
		id = uuid.Must(uuid.NewV7())
	}
	run := &ledger.Run{
		ID:        id,
		Assistant: a.ID,
		Graph:     a.Graph,
		Strategy:  b.Strategy,
		Status:    ledger.Pending,
		Resumable: b.Resumable || b.v2,
		Task:      b.task,
	}
	if run.Strategy == "" {
		run.Strategy = ledger.Enqueue
	}
	n := &ledger.NewRun{Run: run, Pushes: b.pushes, ThreadMetadata: ledger.Object{"graph_id": a.Graph, "assistant_id": a.ID.String()}}
	if recall {
		n.As = a
	}
	if input := bytesTrim(b.Input); len(input) == 0 || string(input) == "null" {
		n.Continues, n.Inherit = true, []string{a2awire.ContextKey}
	}
	switch {
	case thread != nil:
		run.Thread = *thread
	case b.OnCompletion == "keep":
		run.Thread = uuid.Must(uuid.NewV7())
		b.IfNotExists = "create"
	default:
		run.Temporary = true
		if run.Thread, err = ledger.NewTemporaryThread(); err != nil {
			return nil, err
		}
	}
	value := map[string]any{"thread_id": run.Thread.String(), "assistant_id": a.ID.String(), "run_id": run.ID.String(), "metadata": map[string]any(orObject(unforged(b.Metadata)))}
	if n.Filter, err = c.may("threads", "create_run", value); err != nil {
		return nil, err
	}
	own := metadataOf(value, unforged(b.Metadata))
	if b.IfNotExists == "create" {
		n.Create = &ledger.Thread{ID: run.Thread, Metadata: ledger.Object{}, Config: ledger.Object{}, V2: b.v2}
		if n.Create.TTL, err = s.ttl(b.ttl); err != nil {
			return nil, err
		}
		if s.o.Auth != nil && !c.own {
			made := map[string]any{"thread_id": run.Thread.String(), "metadata": map[string]any{}}
			if _, err := c.may("threads", "create", made); err != nil {
				return nil, err
			}
			n.Create.Metadata = metadataOf(made, n.Create.Metadata)
		}
	}
	run.Metadata = ledger.Object{}
	maps.Copy(run.Metadata, unforged(a.Metadata))
	run.Metadata["graph_id"], run.Metadata["assistant_id"] = a.Graph, a.ID.String()
	maps.Copy(run.Metadata, own)
	if n.Priority, err = s.priority(c, n, a); err != nil {
		return nil, err
	}
	k := s.kwargs(c, b, a, run.Thread, run.ID, run.Metadata)
	k.Temporary = run.Temporary
	k.Trace = c.trace()
	if run.Kwargs, err = json.Marshal(k); err != nil {
		return nil, err
	}
	if b.AfterSeconds > 0 {
		run.Due = time.Now().Add(time.Duration(b.AfterSeconds * float64(time.Second)))
	}
	if b.Webhook != nil {
		run.Webhook = *b.Webhook
	}
	run.Key = b.key
	if run.Key == "" && c.r != nil {
		run.Key = c.r.Header.Get(idempotencyKey)
	}
	return n, nil
}

// usable returns an assistant that the caller may read, and therefore run. If recall is set,
// the result may be out of date.
func (s assistantAPI) usable(c *call, name string, recall bool) (*ledger.Assistant, error) {
	f, err := c.may("assistants", "read", map[string]any{"assistant_id": name})
	if err != nil {
		return nil, err
	}
	if recall {
		return s.findWith(c, name, f, s.ledger.Recall)
	}
	return s.find(c, name, f)
}

// createFromBody creates a run from the request body. waits means that the client waits for the run to
// end and reads no stream.
func (s runAPI) createFromBody(c *call, waits bool) (*ledger.Run, *runBody, error) {
	b := runBody{waits: waits}
	if err := c.decode(&b); err != nil {
		return nil, nil, err
	}
	var thread *uuid.UUID
	if c.r.PathValue("thread_id") != "" {
		id, err := c.id("thread_id")
		if err != nil {
			return nil, nil, err
		}
		thread = &id
	}
	run, err := s.createFrom(c, &b, thread)
	return run, &b, err
}

func (s runAPI) createFrom(c *call, b *runBody, thread *uuid.UUID) (*ledger.Run, error) {
	n, err := s.prepare(c, b, thread, true)
	if err != nil {
		return nil, err
	}
	made, err := s.runner.Create(c.r.Context(), n, b.waits)
	if errors.Is(err, ledger.ErrStale) {
		if n, err = s.prepare(c, b, thread, false); err != nil {
			return nil, err
		}
		made, err = s.runner.Create(c.r.Context(), n, b.waits)
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, fail(http.StatusNotFound, "Thread or assistant not found.")
	case errors.Is(err, ledger.ErrBusy):
		return nil, fail(http.StatusConflict, "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.")
	case errors.Is(err, ledger.ErrExists):
		return nil, fail(http.StatusConflict, "Thread %s already exists", n.Run.Thread)
	case err != nil:
		return nil, err
	}
	return made.Run, nil
}

// runPath returns the URL path of a run.
func runPath(run *ledger.Run) string {
	if run.Temporary {
		return "/runs/" + run.ID.String()
	}
	return "/threads/" + run.Thread.String() + "/runs/" + run.ID.String()
}
