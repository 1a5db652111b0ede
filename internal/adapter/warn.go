package adapter

import (
	"cmp"
	"log/slog"
	"sync"
)

// A Warner logs the warnings of a model, each once.
type Warner struct {
	log             *slog.Logger
	provider, model string
	logged          sync.Map // keys of warnings
}

// NewWarner returns a warner for a model. The provider starts the messages. A nil log
// means [slog.Default].
func NewWarner(log *slog.Logger, provider, model string) *Warner {
	return &Warner{log: cmp.Or(log, slog.Default()), provider: provider, model: model}
}

// Once logs a warning unless one with the same key has been logged.
func (w *Warner) Once(key, event string, args ...any) {
	if _, logged := w.logged.LoadOrStore(key, true); !logged {
		w.log.Warn(w.provider+": "+event, args...)
	}
}

// ForeignReasoning logs that reasoning is not sent, which another provider's model wrote.
func (w *Warner) ForeignReasoning(from any) {
	w.Once("foreign reasoning", "dropping reasoning of another provider's model", "provider", from, "model", w.model)
}
