package ledger

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// The objects below have the JSON of LangGraph Platform's API. Fields without a JSON
// name are the server's own; they are stored, and clients do not see them.

// Assistant is a graph with a configuration.
type Assistant struct {
	ID          uuid.UUID `json:"assistant_id"`
	Graph       string    `json:"graph_id"`
	Version     int       `json:"version"` // of the configuration, from 1
	Name        string    `json:"name"`
	Description *string   `json:"description"`
	Config      Object    `json:"config"`
	Context     Object    `json:"context"`
	Metadata    Object    `json:"metadata"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at,omitzero"` // absent in a list of versions

	doc []byte // the row's, if it was read
}

// Thread is a conversation: the series of runs that share one state.
type Thread struct {
	ID           uuid.UUID       `json:"thread_id"`
	Created      time.Time       `json:"created_at"`
	Updated      time.Time       `json:"updated_at"`
	StateUpdated time.Time       `json:"state_updated_at"` // when a run or an edit last changed the state; at first Created
	Metadata     Object          `json:"metadata"`
	Status       ThreadStatus    `json:"status"`
	Config       Object          `json:"config"`
	Error        *Failure        `json:"error"`
	Interrupts   json.RawMessage `json:"interrupts"` // by the task's id; {} if there are none
	TTL          *TTL            `json:"ttl,omitempty"`

	Epoch uint64 `json:"-"` // the lease of the thread's runs, for checkpoint.Fencer; it grows with each take-over
	Seq   uint64 `json:"-"` // the last sequence number that events of the thread have
	V2    bool   `json:"-"` // somebody has subscribed to all of its events
	Small Object `json:"-"` // the short values of the state, to search by
	// Revision is the greatest of those of the processes that have changed the thread or
	// begun a run of it. A process with an earlier one may not know what is in its state.
	Revision int `json:"-"`
	// Wake is when the thread goes on by itself, because something that it waits for is
	// due; zero for never. Signals are the names of the signals that it waits for.
	Wake    time.Time `json:"-"`
	Signals []string  `json:"-"`
	// Priority is that of its runs among those that wait; nil if it was never set, which
	// means 0.
	Priority *int `json:"-"`
}

// The range of priorities. Runs of threads with a lower number start first.
const (
	MinPriority = -5
	MaxPriority = 5
)

// Graph is the name of the graph that the thread belongs to, or "".
func (t *Thread) Graph() string {
	g, _ := t.Metadata["graph_id"].(string)
	return g
}

// ThreadStatus is what a thread does.
type ThreadStatus string

// The statuses of a thread.
const (
	Idle        ThreadStatus = "idle"
	Busy        ThreadStatus = "busy"        // a run is pending or running
	Interrupted ThreadStatus = "interrupted" // it waits for an answer or for the next run
	Failed      ThreadStatus = "error"
)

// Failure is the error of a run.
type Failure struct {
	Class   string `json:"error"`
	Message string `json:"message"`
}

// TTL says how long a thread is kept after its last change.
type TTL struct {
	Strategy string    `json:"strategy"` // "delete" or "keep_latest"
	Minutes  float64   `json:"ttl_minutes"`
	Expires  time.Time `json:"expires_at"`
}

// Run is one execution of a graph.
type Run struct {
	ID        uuid.UUID       `json:"run_id"`
	Thread    uuid.UUID       `json:"thread_id"` // of a temporary run: an ID from NewTemporaryThread
	Assistant uuid.UUID       `json:"assistant_id"`
	Created   time.Time       `json:"created_at"`
	Updated   time.Time       `json:"updated_at"`
	Status    RunStatus       `json:"status"`
	Metadata  Object          `json:"metadata"`
	Kwargs    json.RawMessage `json:"kwargs"` // stored as the row's body; nil in what transactions read
	Strategy  Strategy        `json:"multitask_strategy"`

	Graph     string    `json:"-"`
	Temporary bool      `json:"-"` // it has no thread, and its row goes when it ends
	Resumable bool      `json:"-"` // its events are stored
	Due       time.Time `json:"-"` // it does not start before
	Started   time.Time `json:"-"`
	Ended     time.Time `json:"-"`
	Worker    uuid.UUID `json:"-"` // the process that executes it
	Attempt   int       `json:"-"` // how often it was begun
	Order     Action    `json:"-"` // what its worker has been told to do
	Head      string    `json:"-"` // the checkpoint that it ended with
	Failure   *Failure  `json:"-"`
	Key       string    `json:"-"` // the client's idempotency key
	Webhook   string    `json:"-"`
	Epoch     uint64    `json:"-"` // that of its thread when it was claimed; not stored
	Seq       uint64    `json:"-"` // that of its thread when it was claimed; not stored
	V2        bool      `json:"-"` // that of its thread when it was claimed; not stored

	revision int    // of a temporary run; see Thread
	priority int    // of a temporary run
	doc      []byte // the row's, if the ledger has put this run
}

// RunStatus is how far a run is.
type RunStatus string

// The statuses of a run. The last four are its end.
const (
	Pending     RunStatus = "pending"
	Running     RunStatus = "running"
	Success     RunStatus = "success" // also if it stopped at an interrupt
	Error       RunStatus = "error"
	TimedOut    RunStatus = "timeout"
	RunCanceled RunStatus = "interrupted"
)

// Strategy is what happens to a run if its thread has another one.
type Strategy string

// The strategies.
const (
	Reject    Strategy = "reject"    // the new run is refused
	Enqueue   Strategy = "enqueue"   // it waits
	Interrupt Strategy = "interrupt" // the others are cancelled
	Rollback  Strategy = "rollback"  // the others are undone
)

// Cron is a schedule of runs.
type Cron struct {
	ID          uuid.UUID       `json:"cron_id"`
	Assistant   uuid.UUID       `json:"assistant_id"`
	Thread      *uuid.UUID      `json:"thread_id"`        // nil: each run has a new one
	OnCompleted string          `json:"on_run_completed"` // "delete" or "keep", of runs without a thread
	Schedule    string          `json:"schedule"`         // five fields
	Timezone    *string         `json:"timezone"`         // of the IANA database; nil means UTC
	End         *time.Time      `json:"end_time"`
	Next        *time.Time      `json:"next_run_date"` // nil if it is over; due if it is enabled
	Enabled     bool            `json:"enabled"`
	Payload     json.RawMessage `json:"payload"` // the body of the runs' create request
	Metadata    Object          `json:"metadata"`
	UserID      *string         `json:"user_id"`
	Created     time.Time       `json:"created_at"`
	Updated     time.Time       `json:"updated_at"`

	Creator json.RawMessage `json:"-"` // the user who created it, as the server encodes users; its runs act as this user
}

// Hook is a webhook that has to be sent.
type Hook struct {
	Run     uuid.UUID
	URL     string
	Body    []byte
	Attempt int
	Due     time.Time
}

// Action is an order to end a run.
type Action string

// The actions.
const (
	NoAction    Action = ""
	CancelRun   Action = "interrupt" // stop it; what it has stored stays
	RollbackRun Action = "rollback"  // stop it, undo what it has stored and delete it
)
