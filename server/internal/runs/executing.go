package runs

import "github.com/google/uuid"

// Observe is called with each new Runner, unless it is nil. Tests set it before they start a server,
// to compare the runs that a process executes with the runs that the ledger assigns to it.
var Observe func(*Runner)

// Executing returns the IDs of the runs that this process executes.
func (r *Runner) Executing() (ids []uuid.UUID) {
	for _, x := range r.executing() {
		ids = append(ids, x.run.ID)
	}
	return ids
}

// Worker returns the ID of this process in the ledger.
func (r *Runner) Worker() uuid.UUID { return r.worker }
