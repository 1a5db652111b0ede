package mcptool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
)

// Progress is the custom event for a progress notification from a server. A notification that
// arrives together with the result may be lost, as may one that follows another of the same call
// within 50 ms: a server cannot flood the stream of a run.
type Progress struct {
	Server   string  `json:"server"`
	Tool     string  `json:"tool"` // the name shown to the model
	CallID   string  `json:"tool_call_id"`
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"` // 0 if unknown
	Message  string  `json:"message,omitempty"`
}

// watchers maps progress tokens to the calls that receive progress notifications.
type watchers struct {
	mu   sync.Mutex // held while an event is sent, so none follows forget
	last int
	all  map[string]*watcher
}

type watcher struct {
	ctx  context.Context // context of the call, whose run emits the events
	call Progress
	last time.Time // of the last event
}

// progressPause is the time between two events of a call.
const progressPause = 50 * time.Millisecond

// maxProgressMessage limits the message of an event, in bytes.
const maxProgressMessage = 1000

// watch returns a token for a call and a function that removes it.
func (w *watchers) watch(ctx context.Context, call Progress) (token string, forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[string]*watcher{}
	}
	w.last++
	token = fmt.Sprint("call-", w.last)
	w.all[token] = &watcher{ctx: ctx, call: call}
	return token, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, token)
	}
}

// tell emits the event for a notification with the given message.
func (w *watchers) tell(p *mcp.ProgressNotificationParams, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	token, _ := p.ProgressToken.(string)
	one, ok := w.all[token]
	if now := time.Now(); ok && now.Sub(one.last) >= progressPause {
		one.last = now
		one.call.Progress, one.call.Total, one.call.Message = p.Progress, p.Total, message
		treadle.Emit(one.ctx, one.call)
	}
}
