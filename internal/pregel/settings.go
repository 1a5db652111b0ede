package pregel

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/store"
)

// DefaultStepLimit is the step limit of a run that sets none.
const DefaultStepLimit = 25

// Settings are the settings of one run.
type Settings struct {
	StepLimit      int
	MaxConcurrency int            // 0: no bound
	Context        any            // the user's run-scoped value
	Config         map[string]any // what a server says about the run
	Tags           []string
	Metadata       map[string]any
	RunID          string
	Thread         string
	NS             string           // the nested graph that is read, edited or run from
	Saver          checkpoint.Saver // used with a Thread only
	Sizer          checkpoint.Sizer // the saver, if the size of threads is watched
	SizeWarning    int64            // the size in bytes that is worth a warning
	HeadsOf        checkpoint.Saver // the saver whose heads are cached in the process; nil: none
	Memory         *Memory          // of the server that runs the graph; nil: there is none
	Cache          checkpoint.Cache
	Store          *store.Store
	Codecs         Codecs // how values are stored
	Logger         *slog.Logger
	Drain          <-chan struct{} // closed: end after the current step
	Before, After  []string        // nodes with a breakpoint; "*" is all
	Recorded       func() error    // called before a store, when the stream's reader is done with the events so far
	Fence          uint64          // the lease epoch of stores
	At             checkpoint.ID   // the checkpoint to start from; zero: the head
	Durability     Durability
	Keep           Keep          // how a nested run is stored
	Check          bool          // check that nodes do not change their input
	AnyGraph       bool          // the thread may be another graph's
	StepTimeout    time.Duration // of a whole step; 0: none
	PutTimeout     time.Duration // of the saver, after the run's context has ended; 0: DefaultPutTimeout
	Sink           *Sink
}

// Input is what starts a run.
type Input struct {
	Value    any             // of the graph's input type
	JSON     json.RawMessage // or the input as JSON
	Continue bool            // or no input: continue from the checkpoint
	AsRecord bool            // return the output as a *Record
	Resume   *Resume         // or answers: continue with them
	Also     any             // an update to make before continuing
	First    bool            // Also is the input if there is no checkpoint to continue from

	inherit []write // or the fields that the parent shares
	command any     // or Also as the first input of a thread
}
