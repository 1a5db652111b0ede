package runs

import (
	"context"
	"errors"
	"iter"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// ErrSlow is returned to a reader that has lost its place, because entries that it has not read
// were dropped.
var ErrSlow = errors.New("reader too slow: unread events were dropped")

// Read yields the entries of a run after a sequence number, past and future, and ends after the
// last entry. It yields nothing if the run's events no longer exist. fresh means that the
// caller has just created the run.
func (r *Runner) Read(ctx context.Context, run *ledger.Run, after uint64, fresh bool) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		feed := r.feeds.use(run.Thread)
		feed.reading()
		ended := false
		defer func() { r.feeds.release(feed, run.Temporary && ended) }()
		if !fresh || run.Worker != r.worker { // otherwise, this process executes it
			defer r.follow(feed)()
		}
		over := false
		if !fresh {
			// The feed is held before the ledger is read, so it contains an end that arrives in
			// between.
			var err error
			if over, err = r.over(ctx, run); err != nil {
				yield(nil, err)
				return
			}
		}
		if run.Resumable && !fresh {
			for e, err := range r.past(ctx, run.Thread, run.ID, after, feed) {
				if !yield(e, err) || err != nil || e.End != nil {
					return
				}
				after = e.Seq
			}
		}
		first := firstSeq(run, fresh)
		for {
			es, gap, more := feed.after(max(after, first))
			if gap && after > 0 {
				if !run.Resumable {
					yield(nil, ErrSlow)
					return
				}
				last := after
				for e, err := range r.past(ctx, run.Thread, run.ID, after, feed) {
					if !yield(e, err) || err != nil || e.End != nil {
						return
					}
					after = e.Seq
				}
				if after == last { // not in the ledger
					yield(nil, ErrSlow)
					return
				}
				continue
			}
			for _, e := range es {
				after = e.Seq
				if e.Run != run.ID {
					continue
				}
				ended = e.End != nil
				if !yield(e, nil) || ended {
					return
				}
			}
			if more == nil {
				continue
			}
			if over { // the run has ended, and its end is no longer in the feed
				if r.o.Bus != nil && !fresh {
					r.rest(ctx, run, after, yield)
				}
				return
			}
			var err error
			if over, err = r.more(ctx, feed, more, run); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// firstSeq returns a number below the numbers of all entries of a run: the last number of its
// thread when the run started. It returns 0 if the caller did not create the run, because the
// ledger does not store that number.
func firstSeq(run *ledger.Run, fresh bool) uint64 {
	if !fresh {
		return 0
	}
	return run.Seq
}

// rest yields the stored entries of a run that has ended in another process. Without them, a
// reader would mistake the entries that it has for all. rest ignores the feed, which may
// receive some of the entries at the same time.
func (r *Runner) rest(ctx context.Context, run *ledger.Run, after uint64, yield func(*Entry, error) bool) {
	for e, err := range r.unpacked(ctx, run.Thread, run.ID, after) {
		if !yield(e, err) || err != nil || e.End != nil {
			return
		}
	}
}

// more waits until a feed has more entries. It reports whether the run has ended in another
// process whose events do not arrive.
func (r *Runner) more(ctx context.Context, feed *Feed, more <-chan struct{}, run *ledger.Run) (over bool, err error) {
	if r.o.Bus == nil {
		return false, feed.waitMore(ctx, more, r.stopped)
	}
	soon, cancel := context.WithTimeout(ctx, pollEnd)
	defer cancel()
	err = feed.waitMore(soon, more, r.stopped)
	if err == nil || ctx.Err() != nil || soon.Err() == nil {
		return false, err
	}
	if r.executes(run.ID) { // it may still lose the run to another process
		return false, nil
	}
	if over, err = r.over(ctx, run); err != nil || !over {
		return false, err
	}
	// Give entries in transit time to arrive before the end.
	last, cancel := context.WithTimeout(ctx, pollEnd)
	defer cancel()
	err = feed.waitMore(last, more, r.stopped)
	if err == nil || ctx.Err() == nil && last.Err() != nil {
		return err != nil, nil
	}
	return true, err
}

// executes reports whether this process executes a run.
func (r *Runner) executes(run uuid.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active[run] != nil
}

// over reports whether a run has ended.
func (r *Runner) over(ctx context.Context, run *ledger.Run) (bool, error) {
	now, err := r.ledger.Run(ctx, run.Thread, run.ID, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return now.Status != ledger.Pending && now.Status != ledger.Running, nil
}

// End waits for the end of a run and returns the run's last entry, or nil if the run ended long
// ago. fresh means that the caller has just created the run.
func (r *Runner) End(ctx context.Context, run *ledger.Run, fresh bool) (*Entry, error) {
	for {
		e, err := r.lastEntry(ctx, run, fresh)
		if !errors.Is(err, errCut) {
			return e, err
		}
		fresh = false // the run continues in another feed, or has ended
	}
}

// lastEntry is like Read, but returns only the last entry, so the reader cannot be too slow.
func (r *Runner) lastEntry(ctx context.Context, run *ledger.Run, fresh bool) (*Entry, error) {
	feed := r.feeds.use(run.Thread)
	var end *Entry
	defer func() { r.feeds.release(feed, run.Temporary && end != nil) }()
	if !fresh || run.Worker != r.worker { // otherwise, this process executes it
		defer r.follow(feed)()
	}
	over, after := false, firstSeq(run, fresh)
	if !fresh {
		feed.reading()
		// The feed is held before the ledger is read, so it contains an end that arrives in
		// between.
		var err error
		if over, err = r.over(ctx, run); err != nil {
			return nil, err
		}
	}
	for {
		var gap bool
		var more <-chan struct{}
		if end, after, gap, more = feed.end(run.ID, after); end != nil {
			if fresh {
				feed.took(run.ID)
			}
			return end, nil
		}
		var err error
		switch {
		case over: // the feed no longer contains the end
			return nil, nil
		case gap: // the end may have been dropped too
			over, err = r.over(ctx, run)
		default:
			over, err = r.more(ctx, feed, more, run)
		}
		if err != nil {
			return nil, err
		}
	}
}

// past yields the stored entries of a thread, or of one of its runs, that the feed does not
// contain.
func (r *Runner) past(ctx context.Context, thread, run uuid.UUID, after uint64, feed *Feed) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		if feed.covers(run, after, r.executes(run)) {
			return
		}
		for e, err := range r.unpacked(ctx, thread, run, after) {
			if err == nil && feed.has(e.Seq) || !yield(e, err) {
				return
			}
		}
	}
}

// unpacked yields the stored entries of a thread, or of one of its runs. Packs overlap if the
// response to the first one was lost, because the process stores its entries again, together
// with later ones.
func (r *Runner) unpacked(ctx context.Context, thread, run uuid.UUID, after uint64) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		for pack, err := range r.recorded(ctx, thread, run, after) {
			var es []*Entry
			if err == nil {
				es, err = unpackEntries(pack)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range es {
				if e.Seq <= after {
					continue
				}
				after = e.Seq
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// covers reports whether the feed contains, or will receive, all entries of a run after a
// number. The feed of a process that only reads the run may have stopped in the middle of it.
func (f *Feed) covers(run uuid.UUID, after uint64, executes bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run == uuid.Nil || len(f.entries) == 0 {
		return false
	}
	first, last := f.entries[0].Seq <= after+1, executes
	for _, e := range f.entries {
		if e.Run == run {
			first = first || e.first
			last = last || e.End != nil
		}
	}
	return first && last
}

// has reports whether the number is within the range of the feed's entries.
func (f *Feed) has(seq uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries) > 0 && f.entries[0].Seq <= seq && seq <= f.entries[len(f.entries)-1].Seq
}
