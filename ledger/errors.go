package ledger

import "errors"

// Errors of a [Ledger].
var (
	// ErrNotFound: there is no such object, or the filter does not let the caller see it.
	ErrNotFound = errors.New("ledger: not found")
	// ErrExists: an object with this id exists already.
	ErrExists = errors.New("ledger: exists already")
	// ErrBusy: the thread has a run that has not ended.
	ErrBusy = errors.New("ledger: the thread has a run that has not ended")
	// ErrLost: the worker does not execute the run, because it has ended, was deleted
	// or was taken over.
	ErrLost = errors.New("ledger: another process has taken the run over")
	// ErrFull: too many runs wait for the thread.
	ErrFull = errors.New("ledger: too many runs wait for the thread")
	// ErrStale: the assistant is not as it was given. CreateRun has forgotten it, so Recall
	// reads it again.
	ErrStale = errors.New("ledger: the assistant has changed")
	// ErrNoLease: the worker has no lease, so it can have no runs. Beat renews it.
	ErrNoLease = errors.New("ledger: the worker has no lease: call Beat first")
)
