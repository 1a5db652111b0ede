package server_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/ledger"
)

type nestedState struct {
	Text string `json:"text"`
}

// nestedGraph returns a graph with two levels of subgraphs. The innermost node asks a question,
// and fails if the answer is not "yes".
func nestedGraph() treadle.AnyGraph {
	leaf := treadle.New[nestedState]("leaf")
	treadle.AddNode(leaf, "ask", func(ctx context.Context, in nestedState) (treadle.Update, error) {
		answer, err := treadle.Interrupt[string](ctx, "Go on?")
		if err == nil && answer != "yes" {
			err = errors.New("answered " + answer)
		}
		return nil, err
	})
	leaf.Sequence(treadle.Start, "ask", treadle.End)
	middle := treadle.New[nestedState]("middle")
	treadle.AddGraph(middle, "leaf", treadle.Must(leaf.Compile(nil)))
	middle.Sequence(treadle.Start, "leaf", treadle.End)
	b := treadle.New[nestedState]("nested_twice")
	treadle.AddGraph(b, "middle", treadle.Must(middle.Compile(nil)))
	b.Sequence(treadle.Start, "middle", treadle.End)
	return treadle.Must(b.Compile(nil))
}

type state struct {
	Values     map[string]any
	Checkpoint struct {
		NS string `json:"checkpoint_ns"`
	}
	Tasks []struct {
		Name       string
		Checkpoint *struct {
			NS string `json:"checkpoint_ns"`
		}
		Interrupts []any
	}
}

type overviewOf struct {
	Thread struct {
		ID     string `json:"thread_id"`
		Status string
	}
	Run *struct {
		ID     string `json:"run_id"`
		Status string
		Kwargs map[string]any
		Error  *ledger.Failure
	}
	States []state
}

func TestOverviewHasNewestRun(t *testing.T) {
	c := startGraphs(t, openFile(t), nil, nestedGraph())
	id := c.thread()
	get := func(query string) (o overviewOf) {
		c.ok("GET", "/threads/"+id+"/overview"+query, "", &o)
		return o
	}
	if o := get(""); o.Run != nil || len(o.States) != 0 || o.Thread.ID != id || o.Thread.Status != "idle" {
		t.Errorf("new thread: %+v", o)
	}
	first := c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"nested_twice","input":{"text":"x"}}`, nil).Get("Content-Location")
	o := get("?limit=1")
	if o.Run == nil || !strings.HasSuffix(first, o.Run.ID) || o.Run.Kwargs != nil || o.Run.Error != nil || len(o.States) != 1 || o.Thread.Status != "interrupted" {
		t.Fatalf("first run %s: %+v", first, o)
	}
	c.do("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"nested_twice","command":{"resume":"no"}}`)
	o = get("?kwargs=true")
	if o.Run == nil || o.Run.Status != "error" || o.Run.Error == nil || !strings.Contains(o.Run.Error.Message, "answered no") || o.Run.Kwargs["command"] == nil {
		t.Errorf("failed run: %+v", o.Run)
	}
	var history []state
	c.ok("GET", "/threads/"+id+"/history", "", &history)
	if len(history) < 2 || asJSON(t, o.States) != asJSON(t, history) {
		t.Errorf("states differ from the history: %+v", o.States)
	}
	for path, want := range map[string]int{"/threads/" + id + "/overview?limit=0": 422, "/threads/" + strings.Repeat("0", 8) + id[8:] + "/overview": 404} {
		if status, _, body := c.do("GET", path, ""); status != want {
			t.Errorf("GET %s: got %d %s, want %d", path, status, body, want)
		}
	}
}

func TestSubgraphStatesAreReadTogether(t *testing.T) {
	c := startGraphs(t, openFile(t), nil, nestedGraph())
	id := c.thread()
	c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"nested_twice","input":{"text":"x"}}`, nil)
	var o overviewOf
	c.ok("GET", "/threads/"+id+"/overview", "", &o)
	outer := o.States[0].Tasks[0].Checkpoint.NS
	var got struct{ Subgraphs map[string][]state }
	c.ok("POST", "/threads/"+id+"/subgraphs", `{"checkpoint_ns":["`+outer+`"]}`, &got)
	if len(got.Subgraphs) != 2 {
		t.Fatalf("got %v, want two subgraphs", got.Subgraphs)
	}
	for ns, states := range got.Subgraphs {
		var alone []state
		c.ok("POST", "/threads/"+id+"/history", `{"checkpoint":{"checkpoint_ns":"`+ns+`"}}`, &alone)
		if len(states) == 0 || asJSON(t, states) != asJSON(t, alone) || states[0].Checkpoint.NS != ns {
			t.Errorf("%s: got %v, want its history %v", ns, states, alone)
		}
	}
	for body, want := range map[string]int{
		`{}`:                        200,
		`{"limit":0}`:               422,
		`{"checkpoint_ns":["a|"]}`:  422,
		`{"checkpoint_ns":"a:1"}`:   422,
		`{"checkpoint_ns":["a:1"]}`: 422, // the graph has no such subgraph
		`{"checkpoint_ns":[` + strings.Repeat(`"a",`, 1000) + `"a"]}`: 422,
	} {
		if status, _, answer := c.do("POST", "/threads/"+id+"/subgraphs", body); status != want {
			t.Errorf("%.40s: got %d %s, want %d", body, status, answer, want)
		}
	}
}

func TestSearchCountsQuestions(t *testing.T) {
	c := startGraphs(t, openFile(t), nil, nestedGraph())
	if got := c.ok("POST", "/threads/search", `{}`, nil).Values("X-Questions"); len(got) > 0 {
		t.Errorf("counted without being asked: %q", got)
	}
	for want := range 3 {
		// The count is independent of the search.
		head := c.ok("POST", "/threads/search", `{"questions":true,"metadata":{"graph_id":"other"},"limit":1}`, nil)
		if got := head.Get("X-Questions"); got != strconv.Itoa(want) {
			t.Errorf("got %q questions, want %d", got, want)
		}
		c.ok("POST", "/threads/"+c.thread()+"/runs/wait", `{"assistant_id":"nested_twice","input":{"text":"x"}}`, nil)
	}
}
