package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
)

// Threads groups the methods for threads and their state.
type Threads struct{ c *Client }

// A Thread is a conversation on the server: a series of runs that share one state.
type Thread struct {
	ID           string                     `json:"thread_id"`
	Created      time.Time                  `json:"created_at"`
	Updated      time.Time                  `json:"updated_at"`
	StateUpdated time.Time                  `json:"state_updated_at"`
	Metadata     map[string]any             `json:"metadata"`
	Status       string                     `json:"status"` // "idle", "busy", "interrupted", or "error"
	Config       map[string]any             `json:"config"`
	Values       json.RawMessage            `json:"values"` // null before the first run
	Error        *Failure                   `json:"error"`
	Interrupts   map[string][]treadle.Pause `json:"interrupts"` // pending interrupts, sleeps, and signals, by task ID
	TTL          *TTL                       `json:"ttl"`
	Extracted    map[string]json.RawMessage `json:"extracted"` // see ThreadSearch.Extract
}

// TTL controls how long a thread is kept after its last change.
type TTL struct {
	Minutes  float64   `json:"ttl_minutes"`
	Strategy string    `json:"strategy"`   // "delete" or "keep_latest", which keeps the latest checkpoint; "" means "delete"
	Expires  time.Time `json:"expires_at"` // in responses
}

// ttlBody is a TTL in a request.
type ttlBody struct {
	TTL      float64 `json:"ttl"`
	Strategy string  `json:"strategy"`
}

func (t *TTL) body() *ttlBody {
	if t == nil {
		return nil
	}
	return &ttlBody{t.Minutes, cmp.Or(t.Strategy, "delete")}
}

// ThreadCreate configures [Threads.Create]. A nil *ThreadCreate, like the zero value,
// creates an empty thread.
type ThreadCreate struct {
	ID       string // a UUID; "" means a new one
	Metadata map[string]any
	// Graph is the graph that the thread belongs to. If it is empty, the first run
	// determines the graph.
	Graph string
	// IfExists is "raise", the default, or "do_nothing", which returns an existing
	// thread.
	IfExists string
	TTL      *TTL
	// Supersteps gives the thread an initial state, as a list of updates for each step.
	// It requires Graph.
	Supersteps [][]StateUpdate
}

// Create creates a thread.
func (t Threads) Create(ctx context.Context, opts *ThreadCreate) (*Thread, error) {
	if opts == nil {
		opts = &ThreadCreate{}
	}
	type superstep struct {
		Updates []StateUpdate `json:"updates"`
	}
	body := struct {
		ID         string         `json:"thread_id"`
		Metadata   map[string]any `json:"metadata,omitempty"`
		IfExists   string         `json:"if_exists,omitempty"`
		TTL        *ttlBody       `json:"ttl,omitempty"`
		Supersteps []superstep    `json:"supersteps,omitempty"`
	}{opts.ID, opts.Metadata, opts.IfExists, opts.TTL.body(), nil}
	if opts.Graph != "" {
		body.Metadata = with(opts.Metadata, "graph_id", opts.Graph)
	}
	for _, updates := range opts.Supersteps {
		body.Supersteps = append(body.Supersteps, superstep{updates})
	}
	r := write("/threads", &body)
	if body.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		// The ID is unique: if the thread exists, an earlier attempt created it.
		body.ID, body.IfExists = id.String(), "do_nothing"
	}
	r.repeatable = body.IfExists == "do_nothing"
	return object[Thread](ctx, t.c, r)
}

// with returns a copy of a map with one more key.
func with(m map[string]any, key string, value any) map[string]any {
	out := make(map[string]any, len(m)+1)
	maps.Copy(out, m)
	out[key] = value
	return out
}

// Get returns a thread.
func (t Threads) Get(ctx context.Context, id string) (*Thread, error) {
	return object[Thread](ctx, t.c, get(pathOf("threads", id), url.Values{"include": {"ttl"}}))
}

// ThreadUpdate describes a change to a thread.
type ThreadUpdate struct {
	Metadata map[string]any // merged into the thread's metadata
	TTL      *TTL           // nil leaves it unchanged
}

// Update changes a thread and returns it.
func (t Threads) Update(ctx context.Context, id string, opts *ThreadUpdate) (*Thread, error) {
	opts = orEmpty(opts)
	body := struct {
		Metadata map[string]any `json:"metadata"`
		TTL      *ttlBody       `json:"ttl,omitempty"`
	}{opts.Metadata, opts.TTL.body()}
	if body.Metadata == nil {
		body.Metadata = map[string]any{}
	}
	return object[Thread](ctx, t.c, &request{method: http.MethodPatch, path: pathOf("threads", id), body: &body, repeatable: true})
}

// Signal sends a signal to a thread, where a node receives it with treadle.WaitFor. The
// signal is stored when Signal returns. If the thread waits for it, the server
// continues the thread. The value can be any value that marshals to JSON. Signal is not
// part of LangGraph's API.
func (t Threads) Signal(ctx context.Context, id, name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("client: signal %q: encode value: %w", name, err)
	}
	return t.c.call(ctx, write(pathOf("threads", id, "signals", name), map[string]json.RawMessage{"value": raw}), nil)
}

// Delete deletes a thread with its runs and state.
func (t Threads) Delete(ctx context.Context, id string) error {
	return t.c.call(ctx, remove(pathOf("threads", id), nil), nil)
}

// Page selects a part of a list and its order.
type Page struct {
	Limit  int    `json:"limit,omitempty"` // at most 1,000; 0 means 10
	Offset int    `json:"offset,omitempty"`
	SortBy string `json:"sort_by,omitempty"`    // a field of the object, such as "created_at"
	Order  string `json:"sort_order,omitempty"` // "asc" or "desc", the default
	// Select lists the fields to return; the others are zero. Empty means all.
	Select []string `json:"select,omitempty"`
}

// ThreadSearch selects threads. A nil *ThreadSearch, like the zero value, selects all.
type ThreadSearch struct {
	IDs      []string       `json:"ids,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"` // must be contained in the thread's metadata
	Values   map[string]any `json:"values,omitempty"`   // must be contained in the thread's state
	Status   string         `json:"status,omitempty"`
	// Extract maps names to paths into a thread, such as "values.messages[-1]".
	// Thread.Extracted contains the values at these paths.
	Extract map[string]string `json:"extract,omitempty"`
	Page
}

// Search returns matching threads, newest first by default.
func (t Threads) Search(ctx context.Context, opts *ThreadSearch) ([]Thread, error) {
	return list[Thread](ctx, t.c, read("/threads/search", orEmpty(opts)))
}

// Count returns the number of threads that Search would find without a limit.
func (t Threads) Count(ctx context.Context, opts *ThreadSearch) (int, error) {
	opts = orEmpty(opts)
	return number(ctx, t.c, read("/threads/count", &ThreadSearch{Metadata: opts.Metadata, Values: opts.Values, Status: opts.Status}))
}

// orEmpty returns o, or an empty T if o is nil.
func orEmpty[T any](o *T) *T {
	if o == nil {
		return new(T)
	}
	return o
}

// number sends a request whose response is a number.
func number(ctx context.Context, c *Client, r *request) (int, error) {
	var n int
	err := c.call(ctx, r, &n)
	return n, err
}

// Copy creates a thread with the metadata and state of an existing one.
func (t Threads) Copy(ctx context.Context, id string) (*Thread, error) {
	return object[Thread](ctx, t.c, write(pathOf("threads", id, "copy"), nil))
}

// Prune deletes threads or, with keepLatest, all of their checkpoints except the
// latest. It returns the number of threads that existed; unknown IDs are ignored.
func (t Threads) Prune(ctx context.Context, ids []string, keepLatest bool) (int, error) {
	body := map[string]any{"thread_ids": append([]string{}, ids...), "strategy": "delete"}
	if keepLatest {
		body["strategy"] = "keep_latest"
	}
	var answer struct {
		Pruned int `json:"pruned_count"`
	}
	err := t.c.call(ctx, read("/threads/prune", body), &answer)
	return answer.Pruned, err
}

// Storage is the space that a thread takes in the server's database.
type Storage struct {
	Bytes       int64 `json:"total_bytes"`
	Checkpoints struct {
		Count int   `json:"count"`
		Bytes int64 `json:"bytes"`
	} `json:"checkpoints"`
}

// Storage returns the space that a thread takes in the server's database.
func (t Threads) Storage(ctx context.Context, id string) (*Storage, error) {
	return object[Storage](ctx, t.c, get(pathOf("threads", id, "storage"), nil))
}

// A State is the state of a thread at a checkpoint.
type State struct {
	Values     json.RawMessage `json:"values"`
	Next       []string        `json:"next"` // the nodes that run next
	Tasks      []Task          `json:"tasks"`
	Metadata   map[string]any  `json:"metadata"`
	Created    time.Time       `json:"created_at"`
	Checkpoint *Checkpoint     `json:"checkpoint"` // nil before the first run
	Parent     *Checkpoint     `json:"parent_checkpoint"`
	Interrupts []treadle.Pause `json:"interrupts"` // pending interrupts of all tasks
}

// A Task is a task of a state: one that runs next or, in a history, one that has run.
type Task struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"` // node name
	Error      *Failure        `json:"error"`
	Interrupts []treadle.Pause `json:"interrupts"`
	Checkpoint *Checkpoint     `json:"checkpoint"` // of the subgraph that the task runs, if it has started
	State      *State          `json:"state"`      // of that subgraph, with StateOptions.Subgraphs
	Result     json.RawMessage `json:"result"`
}

// Checkpoint identifies a checkpoint of a thread, or of a subgraph in it.
type Checkpoint struct {
	Thread    string            `json:"thread_id,omitempty"`
	Namespace string            `json:"checkpoint_ns"` // of a subgraph; "" for the root graph
	ID        string            `json:"checkpoint_id,omitempty"`
	Map       map[string]string `json:"checkpoint_map,omitempty"` // checkpoints of the parent graphs, by namespace
}

// StateOptions selects a state. A nil *StateOptions, like the zero value, selects the
// latest.
type StateOptions struct {
	Checkpoint *Checkpoint
	Subgraphs  bool // include the states of subgraphs
}

// State returns the state of a thread.
func (t Threads) State(ctx context.Context, id string, opts *StateOptions) (*State, error) {
	opts = orEmpty(opts)
	query := url.Values{}
	if opts.Subgraphs {
		query.Set("subgraphs", "true")
	}
	r := get(pathOf("threads", id, "state"), query)
	switch at := opts.Checkpoint; {
	case at == nil:
	case at.Namespace == "" && at.ID != "":
		r.path = pathOf("threads", id, "state", at.ID)
	default:
		r = read(pathOf("threads", id, "state", "checkpoint"), map[string]any{"checkpoint": at, "subgraphs": opts.Subgraphs})
	}
	out, err := object[State](ctx, t.c, r)
	if err == nil && out.Interrupts == nil { // LangGraph's JavaScript server sends them only in the tasks
		for _, task := range out.Tasks {
			out.Interrupts = append(out.Interrupts, task.Interrupts...)
		}
	}
	return out, err
}

// StateUpdate is an edit of a state, applied as if a node had written it.
type StateUpdate struct {
	Values any    `json:"values"`            // nil writes nothing
	AsNode string `json:"as_node,omitempty"` // "" means the last node that wrote
	// Checkpoint is the checkpoint to edit; nil means the latest. Editing an earlier
	// checkpoint creates a fork. Checkpoint has no effect in ThreadCreate.Supersteps.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
}

// UpdateState edits the state of a thread and returns the new checkpoint.
func (t Threads) UpdateState(ctx context.Context, id string, opts *StateUpdate) (*Checkpoint, error) {
	var answer struct {
		Checkpoint *Checkpoint `json:"checkpoint"`
	}
	err := t.c.call(ctx, write(pathOf("threads", id, "state"), orEmpty(opts)), &answer)
	return answer.Checkpoint, err
}

// HistoryOptions selects states of a history. A nil *HistoryOptions, like the zero
// value, selects the last 10.
type HistoryOptions struct {
	Limit     int            // at most 1,000; 0 means 10
	Before    string         // checkpoint ID; only earlier checkpoints are returned
	Metadata  map[string]any // must be contained in the checkpoint's metadata
	Namespace string         // of a subgraph; "" means the root graph
}

// History returns the states of a thread, newest first.
func (t Threads) History(ctx context.Context, id string, opts *HistoryOptions) ([]State, error) {
	opts = orEmpty(opts)
	limit := cmp.Or(opts.Limit, 10)
	path := pathOf("threads", id, "history")
	if opts.Metadata == nil && opts.Namespace == "" {
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if opts.Before != "" {
			query.Set("before", opts.Before)
		}
		return list[State](ctx, t.c, get(path, query))
	}
	body := map[string]any{"limit": limit}
	if opts.Before != "" { // the format that LangGraph's Python server expects
		body["before"] = map[string]any{"configurable": map[string]any{"checkpoint_id": opts.Before}}
	}
	if opts.Metadata != nil {
		body["metadata"] = opts.Metadata
	}
	if opts.Namespace != "" {
		body["checkpoint"] = &Checkpoint{Namespace: opts.Namespace}
	}
	return list[State](ctx, t.c, read(path, body))
}
