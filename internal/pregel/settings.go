package pregel

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/store"
)

// DefaultStepLimit is how many steps a run may take if nobody says otherwise.
const DefaultStepLimit = 25

// Settings are what one run is given beside its input.
type Settings struct {
	StepLimit      int
	MaxConcurrency int // 0: no bound
	Context        any // the user's run-scoped value
	Tags           []string
	Metadata       map[string]any
	RunID          string
	Thread         string
	NS             string           // the nested graph that is looked at, edited or gone back to
	Saver          checkpoint.Saver // used with a Thread only
	Sizer          checkpoint.Sizer // the saver, if the size of threads is watched
	SizeWarning    int64            // and from how many bytes on
	HeadsOf        checkpoint.Saver // the saver whose heads are kept in the process; nil: none
	Cache          checkpoint.Cache
	Store          *store.Store
	Codecs         Codecs // how values are stored
	Check          bool   // nodes must not change what they are given
	Logger         *slog.Logger
	Drain          <-chan struct{} // closed: end after the step under way
	Before, After  []string        // nodes with a breakpoint; "*" is all
	Fence          uint64          // the lease epoch that stores carry
	At             checkpoint.ID   // the checkpoint to start from; zero: the head
	Durability     Durability
	Keep           Keep          // how a nested run is stored
	StepTimeout    time.Duration // of a whole step; 0: none
	PutTimeout     time.Duration // of the saver, once the run's context is over; 0: DefaultPutTimeout
	Sink           *Sink
}

// Input is what starts a run.
type Input struct {
	Value    any             // of the graph's input type
	JSON     json.RawMessage // or the same as JSON
	Continue bool            // or nothing: go on from the checkpoint
	AsRecord bool            // the output is wanted as a *Record
	Resume   *Resume         // or answers: go on with them
	Also     any             // an update to make before going on
	First    bool            // of Also: where there is no checkpoint to go on from, it is the input

	inherit []write // or what a parent shares
	command any     // or Also, as the first input of a thread
}
