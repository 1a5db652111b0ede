package runs

import (
	"context"
	"sync"
	"time"

	"github.com/treadle-go/treadle/internal/origin"
	"github.com/treadle-go/treadle/ledger"
)

// Limits on the webhooks that this process delivers at the same time, and on those to one receiver, so
// that a slow receiver does not delay others.
const (
	maxDeliveries = 64
	maxReceiver   = 8
)

// maxRest limits the time between searches for due webhooks.
const maxRest = time.Second

// deliveries counts the webhooks that are being delivered.
type deliveries struct {
	mu    sync.Mutex
	total int
	to    map[string]int // by receiver

	rest time.Time // of the search for due webhooks; used only by findWork
}

func (d *deliveries) free() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maxDeliveries - d.total
}

func (d *deliveries) count(receiver string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.to[receiver]
}

// add adds n deliveries to a receiver.
func (d *deliveries) add(receiver string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.to == nil {
		d.to = map[string]int{}
	}
	d.total += n
	d.to[receiver] += n
	if d.to[receiver] == 0 {
		delete(d.to, receiver)
	}
}

// hooks starts the delivery of due webhooks. It reports whether there may be more to deliver now. The end of
// a delivery wakes findWork.
func (r *Runner) hooks(ctx context.Context) (more bool) {
	d := &r.deliveries
	began := time.Now()
	limit := min(16, d.free())
	if limit <= 0 || began.Before(d.rest) {
		return false
	}
	picked, passed := map[string]int{}, false
	due, err := r.ledger.DueHooks(ctx, limit, func(url string) bool {
		to := origin.Of(url)
		if d.count(to)+picked[to] >= maxReceiver {
			passed = true
			return true
		}
		picked[to]++
		return false
	})
	if err != nil {
		r.missed(ctx, "webhooks", err)
	}
	if passed && err == nil {
		// Each search reads the webhooks of busy receivers, so search less often the longer that takes. A slow
		// database must not keep webhooks back for long.
		d.rest = time.Now().Add(min(20*time.Since(began), maxRest))
	}
	for _, h := range due {
		to := origin.Of(h.URL)
		d.add(to, 1)
		r.loops.Go(func() {
			defer r.Wake()
			defer d.add(to, -1)
			r.send(ctx, h)
		})
	}
	return len(due) == limit && err == nil
}

// retries lists the delays between attempts to deliver a webhook.
var retries = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 8 * time.Minute}

func (r *Runner) send(ctx context.Context, h *ledger.Hook) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var again time.Time
	if err := r.o.Send(ctx, h); err != nil {
		r.logger.WarnContext(ctx, "webhook delivery failed", "run", h.Run, "attempt", h.Attempt, "error", err)
		if h.Attempt <= len(retries) { // the first attempt is number 1
			again = time.Now().Add(retries[h.Attempt-1])
		}
	}
	if err := r.ledger.HookDone(context.WithoutCancel(ctx), h.ID, again); err != nil {
		r.logger.WarnContext(ctx, "failed to record webhook delivery", "run", h.Run, "error", err)
	}
}
