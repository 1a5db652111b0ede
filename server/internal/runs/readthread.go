package runs

import (
	"context"
	"iter"

	"github.com/google/uuid"
)

// ReadThread yields the entries of all runs of a thread after a sequence number: the stored
// entries, and then new ones until ctx ends or the runner stops. The thread need not exist yet.
func (r *Runner) ReadThread(ctx context.Context, thread uuid.UUID, after uint64) iter.Seq2[*Entry, error] {
	return r.readThread(ctx, thread, after, true)
}

// Kept yields the stored entries of a thread after a sequence number.
func (r *Runner) Kept(ctx context.Context, thread uuid.UUID, after uint64) iter.Seq2[*Entry, error] {
	return r.readThread(ctx, thread, after, false)
}

func (r *Runner) readThread(ctx context.Context, thread uuid.UUID, after uint64, live bool) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		feed := r.feeds.use(thread)
		defer r.feeds.release(feed, false)
		feed.reading()
		if live {
			defer r.follow(feed)()
		}
		// Entries that are no longer in the feed are read from the ledger: initially all of
		// them, and later those that the reader was too slow for.
		for behind, joined := true, false; ; joined = true {
			if behind {
				for e, err := range r.past(ctx, thread, uuid.Nil, after, feed) {
					if !yield(e, err) || err != nil {
						return
					}
					after = e.Seq
				}
			}
			es, gap, more := feed.after(after)
			if gap && !behind {
				behind = true
				continue
			}
			if gap && joined {
				yield(nil, ErrSlow)
				return
			}
			behind = false
			for _, e := range es {
				after = e.Seq
				if !yield(e, nil) {
					return
				}
			}
			if more == nil {
				continue
			}
			if !live {
				return
			}
			if err := feed.waitMore(ctx, more, r.stopped); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Watch registers a reader of protocol v2: runs of the thread that start before done is called
// record all of their events.
func (r *Runner) Watch(thread uuid.UUID) (done func()) {
	feed := r.feeds.use(thread)
	feed.watch(1)
	return func() {
		feed.watch(-1)
		r.feeds.release(feed, false)
	}
}

// LastSeq returns the number of the last entry in this process's feed of a thread, or 0 if the
// process has no recent entries.
func (r *Runner) LastSeq(thread uuid.UUID) uint64 {
	feed := r.feeds.use(thread)
	defer r.feeds.release(feed, false)
	return feed.last()
}

// Stopped returns a channel that is closed when this process executes no more runs and readers
// must leave.
func (r *Runner) Stopped() <-chan struct{} { return r.stopped }
