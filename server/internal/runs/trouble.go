package runs

import (
	"sync"
	"time"
)

// trouble records the last database failure, for health checks.
type trouble struct {
	mu  sync.Mutex
	err error
	at  time.Time
}

// troubleTime is the time for which a failure that does not recur is reported.
const troubleTime = 15 * time.Second

func (t *trouble) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.at = err, time.Now()
}

func (t *trouble) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = nil
}

// Trouble returns the reason why the database recently failed to save data from this process,
// or nil. Reads may still succeed: a full disk can be read.
func (r *Runner) Trouble() error {
	r.trouble.mu.Lock()
	defer r.trouble.mu.Unlock()
	if time.Since(r.trouble.at) > troubleTime {
		return nil
	}
	return r.trouble.err
}
