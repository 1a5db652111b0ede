package treadle

import (
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/store"
)

// Host is what a server gives to the graphs that it runs, so that they can be
// compiled without a saver and a store. It is a [RunOption].
type Host struct {
	// Saver replaces that of the graph, if it is not nil.
	Saver checkpoint.Saver
	// Scratch says that the saver is thrown away after the run. The process then
	// keeps nothing of its threads in memory.
	Scratch bool
	// Store and Cache are used if the graph was compiled without them. Cache is that
	// of Saver if it is nil.
	Store *store.Store
	Cache checkpoint.Cache
	// Fence is the epoch of the server's lease on the thread; a put with an older one
	// is [checkpoint.ErrFenced]. 0 means no lease.
	Fence uint64
	// Recorded is called before a checkpoint or the result of a task is stored, when
	// the reader of the run's stream is done with all events before it. A server that
	// stores events then loses none: a step whose events are not stored runs again.
	// If it fails, nothing is stored and the run fails with its error.
	Recorded func() error
	// AnyGraph lets the graph continue a thread of another graph, as LangGraph does.
	// It takes the fields that have the same names.
	AnyGraph bool
	// Config is what nodes find in the Config of [InfoFrom].
	Config map[string]any
	// NoOutput leaves the Output of the last event of StreamJSON and CommandJSON nil. It
	// is the whole state, which a server that reads [Values] events has encoded already.
	NoOutput bool
}

// run implements [RunOption]. Everything is done by serve, which handles need before
// their first run.
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
