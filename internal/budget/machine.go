package budget

import "sync"

// The bounds of the default budget.
const (
	leastDefault = 16 << 20
	mostDefault  = 128 << 20
)

// Default returns the default limit of a budget: a sixteenth of the memory that the process may
// use, at least 16 MiB and at most 128 MiB.
func Default() int64 {
	memory, ok := Memory()
	if !ok {
		return mostDefault
	}
	return min(max(memory/16, leastDefault), mostDefault)
}

// Memory returns the number of bytes that the process may use: the memory of the machine, or
// less if a control group limits it. It reports false if the number is unknown.
func Memory() (bytes int64, ok bool) { return memory() }

var memory = sync.OnceValues(func() (int64, bool) { return memoryOf("/") })
