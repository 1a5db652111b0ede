package runs

import (
	"context"
	"iter"

	"github.com/google/uuid"
)

// ReadThread yields the entries of all runs of a thread behind a sequence number: those
// that are kept, and then those to come, until ctx ends or the runner stops. The thread
// need not exist yet.
func (r *Runner) ReadThread(ctx context.Context, thread uuid.UUID, after uint64) iter.Seq2[*Entry, error] {
	return r.readThread(ctx, thread, after, true)
}

// Kept yields the entries of a thread behind a sequence number that are kept.
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
		// Entries that are no longer in the feed are read from the ledger: all of them
		// at first, and later those that the reader was too slow for.
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

// Watch says that somebody reads a thread by protocol v2: runs of it that begin before
// done is called record all of their events.
func (r *Runner) Watch(thread uuid.UUID) (done func()) {
	feed := r.feeds.use(thread)
	feed.watch(1)
	return func() {
		feed.watch(-1)
		r.feeds.release(feed, false)
	}
}

// LastSeq is the number of the last entry of a thread that this process has written; 0
// if it has not written any lately.
func (r *Runner) LastSeq(thread uuid.UUID) uint64 {
	feed := r.feeds.use(thread)
	defer r.feeds.release(feed, false)
	return feed.last()
}

// Stopped is closed when nothing is executed any more and readers have to leave.
func (r *Runner) Stopped() <-chan struct{} { return r.stopped }
