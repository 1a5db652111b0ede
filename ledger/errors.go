package ledger

import "errors"

// Errors of a [Ledger].
var (
	// ErrNotFound is returned when an object does not exist or the filter rejects it.
	ErrNotFound = errors.New("ledger: not found")
	// ErrExists is returned when the ID of a new object is taken.
	ErrExists = errors.New("ledger: already exists")
	// ErrBusy is returned when the thread has an unfinished run.
	ErrBusy = errors.New("ledger: thread has an unfinished run")
	// ErrLost is returned when the worker no longer holds the run, because the run has ended,
	// was deleted, or was taken over.
	ErrLost = errors.New("ledger: worker no longer holds the run")
	// ErrFull is returned when the thread has too many pending runs.
	ErrFull = errors.New("ledger: thread has too many pending runs")
	// ErrStale is returned when [NewRun].As is outdated. CreateRun removes the assistant from
	// the cache, so Recall reads it again.
	ErrStale = errors.New("ledger: assistant has changed")
	// ErrNoLease is returned when the worker has no lease and so cannot hold runs.
	// [Ledger.Beat] renews the lease.
	ErrNoLease = errors.New("ledger: worker has no lease: call Beat first")
)
