package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// A status is the status of a thread at a checkpoint.
type status string

const (
	idle       status = "idle"                  // no task is left
	waiting    status = "waiting for an answer" // a question is open
	failed     status = "failed"                // a task has failed; the thread can be continued
	unfinished status = "unfinished"            // tasks are left, and a run may be working on them
	undecided  status = "idle or unfinished"    // an imported thread: the edges of its graph decide
	unreadable status = "unreadable"            // it is encrypted or damaged
)

// checkpointInfo is what a checkpoint tells without the graph that made it.
type checkpointInfo struct {
	Thread    string                     `json:"thread"`
	Graph     string                     `json:"graph,omitempty"` // "" if the checkpoint does not name it
	ID        checkpoint.ID              `json:"id"`
	Parent    *checkpoint.ID             `json:"parent,omitempty"`
	Step      int                        `json:"step"`
	Source    checkpoint.Source          `json:"source"`
	Run       string                     `json:"run,omitempty"`
	Metadata  json.RawMessage            `json:"metadata,omitempty"`
	Created   time.Time                  `json:"created"`
	Status    status                     `json:"status"`
	Next      []string                   `json:"next"`
	After     []string                   `json:"after,omitempty"` // of an imported thread: the nodes after these are next too
	Tasks     []taskInfo                 `json:"tasks,omitempty"`
	Questions []treadle.Pause            `json:"questions,omitempty"`
	Values    map[string]json.RawMessage `json:"values,omitempty"`
}

// taskInfo is what a checkpoint records of a task. Questions and failures name the
// node; the writes of a finished task do not.
type taskInfo struct {
	ID     string   `json:"id"`
	Node   string   `json:"node,omitempty"`
	State  string   `json:"state"` // finished, failed, asks, answered
	Error  string   `json:"error,omitempty"`
	Writes []string `json:"writes,omitempty"`
}

// describe reads a checkpoint. If a part cannot be read, the status is unreadable.
func describe(cp *checkpoint.Checkpoint) checkpointInfo {
	g := checkpointInfo{Thread: cp.Thread, ID: cp.ID, Step: cp.Step, Source: cp.Source, Run: cp.RunID, Created: cp.Time(), Next: []string{}}
	if !cp.Parent.IsZero() {
		g.Parent = &cp.Parent
	}
	if json.Valid(cp.Metadata) {
		g.Metadata = cp.Metadata
	}
	readable := g.readControl(cp.Control) && g.readTasks(cp.Pending)
	if len(cp.Values) > 0 {
		g.Values = map[string]json.RawMessage{}
	}
	for name, v := range cp.Values {
		raw, ok := valueJSON(v)
		g.Values[name] = raw
		readable = readable && ok
	}
	switch {
	case !readable:
		g.Status = unreadable
	case len(g.Questions) > 0:
		g.Status = waiting
	case slices.ContainsFunc(g.Tasks, func(t taskInfo) bool { return t.State == "failed" }):
		g.Status = failed
	case len(g.Next) > 0:
		g.Status = unfinished
	case len(g.After) > 0:
		g.Status = undecided
	default:
		g.Status = idle
	}
	return g
}

// readControl reads which nodes run next.
func (g *checkpointInfo) readControl(raw []byte) bool {
	var c struct {
		Graph string
		Start json.RawMessage
		Next  []string
		After []string
		Sends []struct{ Node string }
	}
	if len(raw) == 0 {
		return true
	}
	if json.Unmarshal(raw, &c) != nil {
		return false
	}
	g.Graph = c.Graph
	if c.Start != nil {
		g.Next = append(g.Next, treadle.Start)
		return true
	}
	for _, s := range c.Sends {
		g.Next = append(g.Next, s.Node)
	}
	g.Next = append(g.Next, c.Next...)
	g.After = c.After
	return true
}

// readTasks reads the results of tasks. A task that has failed, asked and finished has
// a write of each kind, and their order does not tell which is the last.
func (g *checkpointInfo) readTasks(writes []checkpoint.Write) bool {
	kinds := map[string]map[checkpoint.WriteKind][]byte{}
	for _, w := range writes {
		if !json.Valid(w.Data) {
			return false
		}
		if w.Kind == checkpoint.Done && string(w.Data) == "null" {
			continue // a void result: the step could not be committed
		}
		if kinds[w.Task] == nil {
			kinds[w.Task] = map[checkpoint.WriteKind][]byte{}
			g.Tasks = append(g.Tasks, taskInfo{ID: w.Task})
		}
		kinds[w.Task][w.Kind] = w.Data
	}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		of := kinds[t.ID]
		var failure struct{ Node, Message string }
		var asked []treadle.Pause
		var answers map[string]json.RawMessage
		var result struct{ Writes []struct{ Field string } }
		// Missing writes and writes of another shape are ignored.
		_ = json.Unmarshal(of[checkpoint.Failed], &failure)
		_ = json.Unmarshal(of[checkpoint.Paused], &asked)
		_ = json.Unmarshal(of[checkpoint.Answers], &answers)
		_ = json.Unmarshal(of[checkpoint.Done], &result)
		t.Node = failure.Node
		open := slices.DeleteFunc(slices.Clone(asked), func(p treadle.Pause) bool { return answers[p.ID] != nil })
		if len(asked) > 0 && len(asked[0].Namespace) == 0 {
			t.Node = asked[0].Node
		}
		switch {
		case of[checkpoint.Done] != nil:
			t.State = "finished"
			for _, w := range result.Writes {
				t.Writes = append(t.Writes, w.Field)
			}
		case len(open) > 0:
			t.State = "asks"
			g.Questions = append(g.Questions, open...)
		case of[checkpoint.Failed] != nil:
			t.State, t.Error = "failed", failure.Message
		default:
			t.State = "answered"
		}
	}
	// Which of two tasks has stored its result first is chance. Those whose node is not
	// known come last.
	slices.SortStableFunc(g.Tasks, func(a, b taskInfo) int {
		if (a.Node == "") != (b.Node == "") {
			return cmp.Compare(b.Node, a.Node)
		}
		return cmp.Compare(a.Node, b.Node)
	})
	return true
}

// valueJSON returns a stored value as JSON, and whether it is JSON.
func valueJSON(v checkpoint.Value) (json.RawMessage, bool) {
	raw := v.Data
	if v.List {
		raw = slices.Concat([]byte{'['}, bytes.Join(v.Items, []byte{','}), []byte{']'})
	}
	if json.Valid(raw) {
		return raw, true
	}
	return fmt.Appendf(nil, `{"base64":"%s"}`, base64.StdEncoding.EncodeToString(raw)), false
}
