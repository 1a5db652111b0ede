package dynamic

import (
	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/inside"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/store"
)

// Host provides a server's saver, store, and lease to a graph, so that graphs can be
// compiled without them. [Host.Option] applies it.
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
	// Config is the Config field of [treadle.Info] in the graph's nodes.
	Config map[string]any
	// NoOutput leaves the output of runs on a [Thread] nil. The output is the whole state, which
	// a server that reads [treadle.Values] events has already encoded.
	NoOutput bool
}

// Option returns the host as an option for a graph or a thread.
func (h Host) Option() treadle.RunOption {
	return inside.Base(h.apply).(treadle.RunOption)
}

func (h *Host) apply(s *pregel.Settings, defaultCache bool) {
	if h.Saver != nil {
		s.SetSaver(h.Saver)
		if h.Scratch {
			s.HeadsOf, s.Sizer = nil, nil
		}
	}
	if s.Store == nil {
		s.Store = h.Store
	}
	if defaultCache {
		if h.Cache != nil {
			s.Cache = h.Cache
		} else if c, ok := h.Saver.(checkpoint.Cacher); ok {
			s.Cache = c.Cache()
		}
	}
	s.Fence = h.Fence
	s.Config = h.Config
	s.AnyGraph = h.AnyGraph
	s.Recorded = h.Recorded
	s.NoOutput = h.NoOutput
}
