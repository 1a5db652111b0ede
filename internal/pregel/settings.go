package pregel

import (
	"encoding/json"
	"log/slog"
	"math"
	"reflect"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/store"
)

// DefaultStepLimit is the default step limit of a run.
const DefaultStepLimit = 25

// ZeroStepLimit is the StepLimit of [Settings] for an invalid limit of 0, because 0 means the default there.
const ZeroStepLimit = math.MinInt

// Settings configures one run.
type Settings struct {
	StepLimit      int
	MaxConcurrency int            // 0 means no limit
	Context        any            // the user's run-scoped value
	Config         map[string]any // the server's configuration of the run
	Tags           []string
	Metadata       map[string]any
	RunID          string
	Thread         string
	NS             string           // the subgraph to read, edit, or start from
	Saver          checkpoint.Saver // used only with Thread
	Sizer          checkpoint.Sizer // the saver, if thread sizes are monitored
	SizeWarning    int64            // thread size in bytes that triggers a warning
	HeadsOf        checkpoint.Saver // the saver whose heads are cached in the process; nil disables the cache
	Memory         *Memory          // of the server that runs the graph, or nil
	Cache          checkpoint.Cache
	Store          *store.Store
	Codecs         Codecs // codecs for saved values
	Logger         *slog.Logger
	Drain          <-chan struct{} // closed to end the run after the current step
	Before, After  []string        // nodes with a breakpoint; "*" means all
	Recorded       func() error    // called before a save, after the reader has handled the events so far
	Fence          uint64          // lease epoch of saves
	At             checkpoint.ID   // the checkpoint to start from; zero means the head
	Durability     Durability
	Keep           Keep          // how a subgraph run is saved
	Check          bool          // check that nodes do not modify their input
	AnyGraph       bool          // accept a thread that belongs to another graph
	NoOutput       bool          // return no output to callers that want it as a record
	StepTimeout    time.Duration // limit for a whole step; 0 means none
	PutTimeout     time.Duration // limit for the saver after the run's context has ended; 0 means DefaultPutTimeout
	Sink           *Sink
}

// SetSaver sets the saver, and caches and monitors its threads if it supports that.
func (s *Settings) SetSaver(saver checkpoint.Saver) {
	s.Saver, s.HeadsOf, s.Sizer = saver, nil, nil
	if saver != nil && reflect.TypeOf(saver).Comparable() {
		s.HeadsOf = saver
	}
	if sizer, ok := saver.(checkpoint.Sizer); ok && s.SizeWarning >= 0 {
		s.Sizer = sizer
	}
}

// Input starts a run.
type Input struct {
	Value    any             // of the graph's input type
	JSON     json.RawMessage // or the input as JSON
	Continue bool            // or no input: continue from the checkpoint
	AsRecord bool            // return the output as a *Record
	Resume   *Resume         // or answers: resume with them
	Also     any             // an update to apply before continuing
	First    bool            // use Also as the input if there is no checkpoint to continue from

	inherit []write // or the fields shared by the parent graph
	command any     // or Also as the first input of a thread
}
