package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/server"
)

type turnState struct {
	Name string `json:"name"`
}

// turns returns a graph whose runs note their names when they start. The run "hold" then waits until
// free is closed.
func turns(started func(name string), holds chan<- struct{}, free <-chan struct{}) treadle.AnyGraph {
	b := treadle.New[turnState]("turns")
	treadle.AddNode(b, "take", func(ctx context.Context, s turnState) (turnState, error) {
		if s.Name == "hold" {
			close(holds)
			select {
			case <-free:
			case <-ctx.Done():
				return s, ctx.Err()
			}
			return s, nil
		}
		started(s.Name)
		return s, nil
	})
	b.Sequence(treadle.Start, "take", treadle.End)
	return treadle.Must(b.Compile(nil))
}

func TestWaitingRunsStartByPriority(t *testing.T) {
	var mu sync.Mutex
	var order []string
	var asked []*server.PriorityContext
	holds, free := make(chan struct{}), make(chan struct{})
	graph := turns(func(name string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, name)
	}, holds, free)
	c := startGraphs(t, newMemory(), &server.Options{Workers: 1, Priority: func(_ context.Context, p *server.PriorityContext) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, p)
		n, err := p.RunMetadata["priority"].(json.Number).Int64()
		return int(n), err
	}}, graph)
	run := func(path, name string, priority int) (id string) {
		var made struct {
			ID string `json:"run_id"`
		}
		c.ok("POST", path, fmt.Sprintf(`{"assistant_id":"turns","input":{"name":%q},"metadata":{"priority":%d}}`, name, priority), &made)
		return made.ID
	}
	thread := func(name string, priority int) string {
		id := c.thread()
		run("/threads/"+id+"/runs", name, priority)
		return id
	}
	thread("hold", 0)
	<-holds
	batch := thread("batch", 5)
	thread("usual", 0)
	run("/runs", "urgent, no thread", -4)
	thread("urgent", -5)
	last := run("/threads/"+batch+"/runs", "batch again", -5) // the thread has a priority
	close(free)
	c.ok("GET", "/threads/"+batch+"/runs/"+last+"/join", "", nil)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"urgent", "urgent, no thread", "usual", "batch", "batch again"}; !slices.Equal(order, want) {
		t.Errorf("the runs started in the order %q, want %q", order, want)
	}
	if len(asked) != 5 || asked[1].Thread != batch || asked[3].Thread != "" || asked[1].Graph != "turns" || asked[1].Assistant == "" {
		t.Errorf("the function was called with %+v", asked)
	}
}

func TestPriorityErrorsFailRequest(t *testing.T) {
	answer := func() (int, error) { return 6, nil }
	c := serve(t, &server.Options{Priority: func(context.Context, *server.PriorityContext) (int, error) { return answer() }})
	id := c.thread()
	for name, fn := range map[string]func() (int, error){
		"out of range": answer,
		"error":        func() (int, error) { return 0, errors.New("no") },
		"panic":        func() (int, error) { panic("no") },
	} {
		answer = fn
		if status, _, raw := c.do("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"router","input":{}}`); status != http.StatusInternalServerError {
			t.Errorf("%s: %d %s", name, status, raw)
		}
	}
	answer = func() (int, error) { return 1, nil }
	c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"router","input":{}}`, nil)
}
