package pregel

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	slow, fast := errors.New("slow"), errors.New("fast")
	on := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	n := &node{NodeSpec: &NodeSpec{Retry: []RetryPolicy{
		{On: on(slow), Initial: time.Minute, Factor: 3, Max: 5 * time.Minute, Attempts: 4, NoJitter: true},
		{On: on(fast), Initial: time.Second, NoJitter: true},
		{On: on(slow), Initial: time.Hour, NoJitter: true}, // the first that matches decides
	}}}
	for _, test := range []struct {
		err     error
		attempt int
		wait    time.Duration
		again   bool
	}{
		{slow, 1, time.Minute, true},
		{slow, 2, 3 * time.Minute, true},
		{slow, 3, 5 * time.Minute, true},
		{slow, 4, 0, false},
		{fast, 1, time.Second, true},
		{fast, 2, 2 * time.Second, true},
		{fast, 3, 0, false},
		{errors.New("other"), 1, 0, false},
	} {
		wait, again, err := n.retryAfter(test.err, test.attempt)
		if wait != test.wait || again != test.again || !errors.Is(err, test.err) {
			t.Errorf("%v, attempt %d: wait %v, again %t, error %v; want %v, %t", test.err, test.attempt, wait, again, err, test.wait, test.again)
		}
	}
}

func TestRetryPolicyPanicKeepsFailure(t *testing.T) {
	failure := errors.New("failure")
	n := &node{NodeSpec: &NodeSpec{Retry: []RetryPolicy{{On: func(error) bool { panic("oops") }}}}}
	_, again, err := n.retryAfter(failure, 1)
	if again || !errors.Is(err, failure) || !strings.Contains(err.Error(), "oops") {
		t.Errorf("again %t, error %v", again, err)
	}
}
