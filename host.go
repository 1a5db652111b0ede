package treadle

import (
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/store"
)

// Host provides a server's saver, store, and lease to a graph, so that graphs can be
// compiled without them. It is a [RunOption].
type Host struct {
	// Saver replaces the graph's saver, if it is not nil.
	Saver checkpoint.Saver
	// Scratch means that the saver is discarded after the run, so that the process
	// does not cache its threads.
	Scratch bool
	// Store and Cache apply if the graph was compiled without them. A nil Cache means
	// the cache of Saver.
	Store *store.Store
	Cache checkpoint.Cache
	// Fence is the epoch of the server's lease on the thread; a put with an older epoch
	// returns [checkpoint.ErrFenced]. 0 means no lease.
	Fence uint64
	// Recorded is called before a checkpoint or a task result is saved, after
	// the reader of the run's stream has handled all earlier events. A server that
	// saves events thus loses none: a step whose events are not saved runs again.
	// If Recorded fails, nothing is saved, and the run fails with its error.
	Recorded func() error
	// AnyGraph lets the graph continue a thread of another graph, as LangGraph does.
	// It reads the fields with the same names.
	AnyGraph bool
	// Config is the Config field of [Info] in the graph's nodes.
	Config map[string]any
	// NoOutput leaves the Output of the last event of StreamJSON and CommandJSON nil. The output
	// is the whole state, which a server that reads [Values] events has already encoded.
	NoOutput bool
}

// run implements [RunOption]. It does nothing: serve applies the host, because handles need
// it before their first run.
func (Host) run(*pregel.Settings) {}

func (h Host) serve(g *core) {
	set := &g.base
	if h.Saver != nil {
		setSaver(set, h.Saver)
		if h.Scratch {
			set.HeadsOf, set.Sizer = nil, nil
		}
	}
	if set.Store == nil {
		set.Store = h.Store
	}
	if g.ownCache {
		if h.Cache != nil {
			set.Cache = h.Cache
		} else if c, ok := h.Saver.(checkpoint.Cacher); ok {
			set.Cache = c.Cache()
		}
	}
	g.noOutput = h.NoOutput
	set.Fence, set.Config, set.AnyGraph, set.Recorded = h.Fence, h.Config, h.AnyGraph, h.Recorded
}
