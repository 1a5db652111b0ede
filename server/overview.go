package server

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/inside"
	"github.com/treadle-go/treadle/ledger"
)

// overview is a thread with its newest run and states, which a page shows together.
type overview struct {
	Thread *ledger.Thread  `json:"thread"`
	Run    *overviewRun    `json:"run"`    // null if the thread has no runs
	States json.RawMessage `json:"states"` // newest first, as in the history
}

// overviewRun is a run with its failure.
type overviewRun struct {
	*ledger.Run
	Error *ledger.Failure `json:"error"`
}

// overview returns a thread with its newest run and states.
func (s stateAPI) overview(c *call) error {
	limit, err := c.query().int("limit", 10, 1, 1000)
	if err != nil {
		return err
	}
	kwargs, err := c.query().bool("kwargs")
	if err != nil {
		return err
	}
	t, f, th, err := s.open(c)
	if err != nil {
		return err
	}
	// The run is read first, so that the states include those of a run that has ended.
	newest, err := s.ledger.Runs(c.r.Context(), t.ID, f, "", ledger.Page{Limit: 1})
	if err != nil {
		return err
	}
	t.TTL = nil
	out := overview{Thread: t}
	if len(newest) > 0 {
		out.Run = &overviewRun{newest[0], newest[0].Failure}
		if !kwargs {
			out.Run.Kwargs = nil // may be large
		}
	}
	states := bytes.NewBufferString("[]")
	if th != nil {
		states.Reset()
		if err := writeHistory(c.r.Context(), states, th, &treadle.HistoryOptions{Limit: limit}, nil); err != nil {
			return err
		}
	}
	out.States = states.Bytes()
	return c.json(http.StatusOK, out)
}

const (
	// maxNamespaces is the maximum number of subgraphs that a request names.
	maxNamespaces = 1000
	// maxNestedStates is the number of states after which a response contains no further subgraph.
	maxNestedStates = 1000
)

type subgraphsBody struct {
	Namespaces []string `json:"checkpoint_ns"`
	Limit      *int     `json:"limit"`
}

// subgraphStates contains the states of subgraphs by namespace, newest first.
type subgraphStates struct {
	Subgraphs map[string]json.RawMessage `json:"subgraphs"`
}

// subgraphs returns the states of the named subgraphs, and of the subgraphs in them.
func (s stateAPI) subgraphs(c *call) error {
	var b subgraphsBody
	if err := c.decode(&b); err != nil {
		return err
	}
	limit := 10
	if b.Limit != nil {
		limit = *b.Limit
	}
	if limit < 1 || limit > 1000 {
		return invalid("limit", "want a number from 1 to 1000, not %d", limit)
	}
	if len(b.Namespaces) > maxNamespaces {
		return invalid("checkpoint_ns", "want at most %d, not %d", maxNamespaces, len(b.Namespaces))
	}
	_, _, th, err := s.open(c)
	if err != nil {
		return err
	}
	out := subgraphStates{map[string]json.RawMessage{}}
	states := 0
	for todo := b.Namespaces; th != nil && len(todo) > 0 && states < maxNestedStates; {
		ns := todo[0]
		todo = todo[1:]
		if out.Subgraphs[ns] != nil {
			continue
		}
		in, err := nested(th, ns, "checkpoint_ns")
		if err != nil {
			return err
		}
		var inner []string
		var raw bytes.Buffer
		seen := func(snap *treadle.Snapshot) {
			states++
			for i := range snap.Tasks {
				if ns := inside.TaskOf(&snap.Tasks[i]).Nested; ns != "" {
					inner = append(inner, ns)
				}
			}
		}
		if err := writeHistory(c.r.Context(), &raw, in, &treadle.HistoryOptions{Limit: limit}, seen); err != nil {
			return err
		}
		out.Subgraphs[ns] = raw.Bytes()
		todo = append(inner, todo...)
	}
	return c.json(http.StatusOK, out)
}
