package ledger

import "errors"

// Errors of a [Ledger].
var (
	// ErrNotFound is returned when an object does not exist or the filter rejects it.
	ErrNotFound = errors.New("ledger: not found")
	// ErrExists is returned when the ID of a new object is taken.
	ErrExists = errors.New("ledger: exists already")
	// ErrBusy is returned when the thread has an unfinished run.
	ErrBusy = errors.New("ledger: the thread has a run that has not ended")
	// ErrLost is returned when the worker no longer holds the run, because the run has ended,
	// was deleted, or was taken over.
	ErrLost = errors.New("ledger: another process has taken the run over")
	// ErrFull is returned when the thread has too many pending runs.
	ErrFull = errors.New("ledger: too many runs wait for the thread")
	// ErrStale is returned when [NewRun].As is outdated. CreateRun removes the assistant from
	// the cache, so Recall reads it again.
	ErrStale = errors.New("ledger: the assistant has changed")
	// ErrNoLease is returned when the worker has no lease and so cannot hold runs.
	// [Ledger.Beat] renews the lease.
	ErrNoLease = errors.New("ledger: the worker has no lease: call Beat first")
)
