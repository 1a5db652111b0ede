package mcptool

import (
	"context"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
)

// Progress is the custom event for a progress notification of a server. A
// notification that arrives together with the result may be lost.
type Progress struct {
	Server   string  `json:"server"`
	Tool     string  `json:"tool"` // as the model knows it
	CallID   string  `json:"tool_call_id"`
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"` // 0 if unknown
	Message  string  `json:"message,omitempty"`
}

// watchers are the calls that hear of progress, by the token that their server
// tells it with.
type watchers struct {
	mu   sync.Mutex // held while an event is sent: after forget there is none
	last int
	all  map[string]watcher
}

type watcher struct {
	ctx  context.Context // of the call: events belong to its run
	call Progress
}

// watch returns the token of a call and a function to forget it.
func (w *watchers) watch(ctx context.Context, call Progress) (token string, forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[string]watcher{}
	}
	w.last++
	token = fmt.Sprint("call-", w.last)
	w.all[token] = watcher{ctx, call}
	return token, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, token)
	}
}

func (w *watchers) tell(p *mcp.ProgressNotificationParams) {
	w.mu.Lock()
	defer w.mu.Unlock()
	token, _ := p.ProgressToken.(string)
	if one, ok := w.all[token]; ok {
		one.call.Progress, one.call.Total, one.call.Message = p.Progress, p.Total, p.Message
		treadle.Emit(one.ctx, one.call)
	}
}
