package ledger

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// The objects below use the JSON format of the LangGraph Platform API. Fields tagged json:"-"
// are internal to the server: clients do not see them.

// An Assistant is a graph with a configuration.
type Assistant struct {
	ID          uuid.UUID `json:"assistant_id"`
	Graph       string    `json:"graph_id"`
	Version     int       `json:"version"` // of the configuration, starting at 1
	Name        string    `json:"name"`
	Description *string   `json:"description"`
	Config      Object    `json:"config"`
	Context     Object    `json:"context"`
	Metadata    Object    `json:"metadata"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at,omitzero"` // omitted in a list of versions

	doc []byte // the row's document, if the assistant was read
}

// A Thread is a conversation: a sequence of runs that share a state.
type Thread struct {
	ID           uuid.UUID       `json:"thread_id"`
	Created      time.Time       `json:"created_at"`
	Updated      time.Time       `json:"updated_at"`
	StateUpdated time.Time       `json:"state_updated_at"` // when a run or an edit last changed the state; initially Created
	Metadata     Object          `json:"metadata"`
	Status       ThreadStatus    `json:"status"`
	Config       Object          `json:"config"`
	Error        *Failure        `json:"error"`
	Interrupts   json.RawMessage `json:"interrupts"` // by task ID; {} if there are none
	TTL          *TTL            `json:"ttl,omitempty"`

	Epoch uint64 `json:"-"` // the lease epoch of the thread's runs, for checkpoint.Fencer; grows with each takeover
	Seq   uint64 `json:"-"` // the last sequence number used by the thread's events
	V2    bool   `json:"-"` // a client has subscribed to all of the thread's events
	Small Object `json:"-"` // the short values of the state, for searching
	// Revision is the greatest revision of all processes that have changed the thread or
	// started one of its runs. A process with an earlier revision may not understand the state.
	Revision int `json:"-"`
	// Wake is when the thread continues by itself, because something that it waits for is due;
	// zero means never. Signals lists the names of the signals that the thread waits for.
	Wake    time.Time `json:"-"`
	Signals []string  `json:"-"`
	// Priority is the priority of the thread's pending runs; nil means that it was never set,
	// and counts as 0.
	Priority *int `json:"-"`
	// Pushes lists webhooks for runs of the thread, in the server's own format; nil
	// means none. A list that has become empty is not nil.
	Pushes json.RawMessage `json:"-"`
	// Task is the first run of the task that the thread waits for: an answer, a time, or a signal
	// continues it. Zero means that no task waits.
	Task uuid.UUID `json:"-"`
}

// The range of priorities. Runs with a lower number start first.
const (
	MinPriority = -5
	MaxPriority = 5
)

// Graph returns the name of the graph that the thread belongs to, or "".
func (t *Thread) Graph() string {
	g, _ := t.Metadata["graph_id"].(string)
	return g
}

// ThreadStatus is the status of a thread.
type ThreadStatus string

// The statuses of a thread.
const (
	Idle        ThreadStatus = "idle"
	Busy        ThreadStatus = "busy"        // a run is pending or running
	Interrupted ThreadStatus = "interrupted" // waiting for an answer or for the next run
	Failed      ThreadStatus = "error"
)

// A Failure is the error of a run.
type Failure struct {
	Class   string `json:"error"`
	Message string `json:"message"`
}

// TTL limits how long a thread is kept after its last change.
type TTL struct {
	Strategy string    `json:"strategy"` // "delete" or "keep_latest"
	Minutes  float64   `json:"ttl_minutes"`
	Expires  time.Time `json:"expires_at"`
}

// A Run is one execution of a graph.
type Run struct {
	ID        uuid.UUID       `json:"run_id"`
	Thread    uuid.UUID       `json:"thread_id"` // of a temporary run: an ID from NewTemporaryThread
	Assistant uuid.UUID       `json:"assistant_id"`
	Created   time.Time       `json:"created_at"`
	Updated   time.Time       `json:"updated_at"`
	Status    RunStatus       `json:"status"`
	Metadata  Object          `json:"metadata"`
	Kwargs    json.RawMessage `json:"kwargs"` // stored as the row's body; nil if read in a transaction
	Strategy  Strategy        `json:"multitask_strategy"`

	Graph     string    `json:"-"`
	Temporary bool      `json:"-"` // the run has no thread, and its row is deleted when it ends
	Resumable bool      `json:"-"` // the run's events are stored
	Due       time.Time `json:"-"` // the earliest start
	Started   time.Time `json:"-"`
	Ended     time.Time `json:"-"`
	Worker    uuid.UUID `json:"-"` // the process that executes the run
	Attempt   int       `json:"-"` // the number of attempts so far
	Order     Action    `json:"-"` // the order to its worker
	Head      string    `json:"-"` // the run's last checkpoint
	Failure   *Failure  `json:"-"`
	Key       string    `json:"-"` // the client's idempotency key
	Webhook   string    `json:"-"`
	Epoch     uint64    `json:"-"` // of the thread when the run was claimed; not stored
	Seq       uint64    `json:"-"` // of the thread when the run was claimed; not stored
	V2        bool      `json:"-"` // of the thread when the run was claimed; not stored

	// Task is the first run of the run's task, or zero if that is the run itself. A task is a run
	// and the later runs that continue what it has waited for.
	Task  uuid.UUID `json:"-"`
	Waits bool      `json:"-"` // the run ended because its thread waits for an answer, a time, or a signal

	revision int    // of a temporary run; see Thread
	priority int    // of a temporary run
	doc      []byte // the row's document, if the ledger has put this run
}

// RunStatus is the status of a run.
type RunStatus string

// The statuses of a run. The last four are final.
const (
	Pending     RunStatus = "pending"
	Running     RunStatus = "running"
	Success     RunStatus = "success" // even if the run stopped at an interrupt
	Error       RunStatus = "error"
	TimedOut    RunStatus = "timeout"
	RunCanceled RunStatus = "interrupted"
)

// Strategy is a multitask strategy: it determines what happens if a run is created while its
// thread has another open run.
type Strategy string

// The multitask strategies.
const (
	Reject    Strategy = "reject"    // the new run is rejected
	Enqueue   Strategy = "enqueue"   // the new run waits
	Interrupt Strategy = "interrupt" // the other runs are canceled
	Rollback  Strategy = "rollback"  // the other runs are rolled back
)

// A Cron is a schedule that creates runs.
type Cron struct {
	ID          uuid.UUID       `json:"cron_id"`
	Assistant   uuid.UUID       `json:"assistant_id"`
	Thread      *uuid.UUID      `json:"thread_id"`        // nil means a new thread per run
	OnCompleted string          `json:"on_run_completed"` // "delete" or "keep"; for runs without a thread
	Schedule    string          `json:"schedule"`         // five fields
	Timezone    *string         `json:"timezone"`         // an IANA time zone; nil means UTC
	End         *time.Time      `json:"end_time"`
	Next        *time.Time      `json:"next_run_date"` // nil if the schedule has ended; due if the cron is enabled
	Enabled     bool            `json:"enabled"`
	Payload     json.RawMessage `json:"payload"` // the body of the create request for each run
	Metadata    Object          `json:"metadata"`
	UserID      *string         `json:"user_id"`
	Created     time.Time       `json:"created_at"`
	Updated     time.Time       `json:"updated_at"`

	// Creator is the user who created the cron, as the server encodes users. The cron's runs act
	// as this user.
	Creator json.RawMessage `json:"-"`
}

// A Hook is a webhook to send.
type Hook struct {
	ID      uuid.UUID // zero means the ID of the run
	Run     uuid.UUID
	URL     string
	Header  map[string]string // added to the request
	Push    bool              // a client of the thread's task has chosen the URL and the header
	Body    []byte
	Attempt int
	Due     time.Time
}

// Action is an order to end a run.
type Action string

// The possible actions.
const (
	NoAction    Action = ""
	CancelRun   Action = "interrupt" // stop the run, keeping what it saved
	RollbackRun Action = "rollback"  // stop the run, undo what it saved, and delete it
)
