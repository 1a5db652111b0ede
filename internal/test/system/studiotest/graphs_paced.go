package studiotest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// paces let a script decide how far a run proceeds before the page is inspected. Each
// pace has a name, and a waiter continues as often as the script allows. Without them, a
// check would depend on the speed of the machine.
type paces struct {
	mu     sync.Mutex
	byName map[string]chan struct{}
}

// pace holds the paces of this process.
var pace paces

// maxAllowed is the maximum number of unused permits.
const maxAllowed = 100_000

func (p *paces) named(name string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName == nil {
		p.byName = map[string]chan struct{}{}
	}
	if p.byName[name] == nil {
		p.byName[name] = make(chan struct{}, maxAllowed)
	}
	return p.byName[name]
}

// wait blocks until the named pace permits the caller to continue.
func (p *paces) wait(ctx context.Context, name string) error {
	select {
	case <-p.named(name):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type allowance struct {
	Pace string `json:"pace"`
	N    int    `json:"n"`
}

// newAllow returns a graph that scripts run to let other graphs continue.
func newAllow() (treadle.AnyGraph, error) {
	b := treadle.New[allowance]("allow")
	treadle.AddNode(b, "allow", func(_ context.Context, a allowance) (allowance, error) {
		for range a.N {
			select {
			case pace.named(a.Pace) <- struct{}{}:
			default:
				return a, fmt.Errorf("pace %q: more than %d are allowed", a.Pace, maxAllowed)
			}
		}
		return a, nil
	})
	b.Edge(treadle.Start, "allow")
	return erased(b)
}

type paced struct {
	Pace  string           `json:"pace"`
	Count int              `json:"count"`
	Fail  string           `json:"fail,omitempty"` // the error of the last step
	Ticks reduce.List[int] `json:"ticks"`
}

type ticked struct {
	Ticks reduce.List[int] `json:"ticks"`
}

// newPaced returns a graph whose steps wait for a pace.
func newPaced() (treadle.AnyGraph, error) {
	b := treadle.New[paced]("paced")
	treadle.AddNode(b, "tick", func(ctx context.Context, s paced) (ticked, error) {
		if err := pace.wait(ctx, s.Pace); err != nil {
			return ticked{}, err
		}
		if s.Fail != "" && len(s.Ticks)+1 >= s.Count {
			return ticked{}, errors.New(s.Fail)
		}
		return ticked{reduce.List[int]{len(s.Ticks)}}, nil
	})
	b.Edge(treadle.Start, "tick")
	treadle.AddBranch(b, "tick", func(_ context.Context, s paced) (treadle.Goto, error) {
		if len(s.Ticks) < s.Count {
			return treadle.To("tick"), nil
		}
		return treadle.To(treadle.End), nil
	}, treadle.Label(treadle.End, "false"), treadle.Label("tick", "true"))
	return erased(b)
}
