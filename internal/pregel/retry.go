package pregel

import (
	"fmt"
	"time"

	"github.com/treadle-go/treadle/internal/caught"
)

// retryAfter reports whether to retry after err, and when. The first policy
// that matches the error decides. bad is err, or an error of the policy.
func (n *node) retryAfter(err error, attempt int) (wait time.Duration, again bool, bad error) {
	defer func() {
		if p := recover(); p != nil {
			wait, again, bad = 0, false, &undecidedError{caught.New("retry policy: ", p), err}
		}
	}()
	for i := range n.Retry {
		if p := n.Retry[i]; p.Retryable(err) {
			wait, again = p.Wait(attempt)
			return wait, again, err
		}
	}
	return 0, false, err
}

// undecidedError is the panic of a retry policy, with the failure that it was
// asked about.
type undecidedError struct{ err, failure error }

func (e *undecidedError) Error() string { return fmt.Sprintf("%v (asked about: %v)", e.err, e.failure) }

func (e *undecidedError) Unwrap() []error { return []error{e.err, e.failure} }
