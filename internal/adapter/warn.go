package adapter

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"
)

// A Warner logs the warnings of a model, each once.
type Warner struct {
	log             *slog.Logger
	provider, model string
	logged          sync.Map // keys of warnings
	events          atomic.Int32
}

// NewWarner returns a warner for a model. The provider starts the messages. A nil log
// means [slog.Default].
func NewWarner(log *slog.Logger, provider, model string) *Warner {
	return &Warner{log: cmp.Or(log, slog.Default()), provider: provider, model: model}
}

// Once logs a warning unless one with the same key has been logged.
func (w *Warner) Once(key, event string, args ...any) {
	if _, logged := w.logged.LoadOrStore(key, true); !logged {
		w.log.Warn(w.provider+": "+event, args...) //nolint:sloglint // callers pass constants
	}
}

// maxEvents is the maximum number of types of unknown events that are logged, because the
// server chooses their names.
const maxEvents = 100

// UnknownEvent logs that an event of a stream is ignored, once for each type.
func (w *Warner) UnknownEvent(typ string) {
	typ = Excerpt(typ)
	if _, logged := w.logged.Load("event " + typ); !logged && w.events.Add(1) <= maxEvents {
		w.Once("event "+typ, "ignoring unknown event", "type", typ)
	}
}

// ForeignReasoning logs that reasoning is not sent, which another provider's model wrote.
func (w *Warner) ForeignReasoning(from any) {
	w.Once("foreign reasoning", "dropping reasoning of another provider's model", "provider", from, "model", w.model)
}
