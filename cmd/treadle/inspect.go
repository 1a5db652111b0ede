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
	idle       status = "idle"                  // no tasks remain
	waiting    status = "waiting for an answer" // an interrupt is pending
	failed     status = "failed"                // a task failed; the thread can be continued
	unfinished status = "unfinished"            // tasks remain, and a run may be working on them
	undecided  status = "idle or unfinished"    // an imported thread: depends on the edges of its graph
	unreadable status = "unreadable"            // encrypted or damaged
)

// checkpointInfo is the part of a checkpoint that can be read without its graph.
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
	After     []string                   `json:"after,omitempty"` // for an imported thread: the nodes after these are also next
	Tasks     []taskInfo                 `json:"tasks,omitempty"`
	Questions []treadle.Pause            `json:"questions,omitempty"`
	Values    map[string]json.RawMessage `json:"values,omitempty"`
}

// taskInfo is a task as recorded in a checkpoint. Interrupts and failures name the node; the
// writes of a finished task do not.
type taskInfo struct {
	ID     string   `json:"id"`
	Node   string   `json:"node,omitempty"`
	State  string   `json:"state"` // finished, failed, asks, answered
	Error  string   `json:"error,omitempty"`
	Writes []string `json:"writes,omitempty"`
}

// describe decodes a checkpoint. If a part cannot be read, the status is unreadable.
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

// readControl decodes which nodes run next.
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

// readTasks decodes the results of tasks. A task that failed, was interrupted, and finished has
// a write of each kind, and their order does not show which is the last.
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
	// The order in which tasks save their results is random. Tasks with an unknown node come
	// last.
	slices.SortStableFunc(g.Tasks, func(a, b taskInfo) int {
		if (a.Node == "") != (b.Node == "") {
			return cmp.Compare(b.Node, a.Node)
		}
		return cmp.Compare(a.Node, b.Node)
	})
	return true
}

// valueJSON returns a stored value as JSON and reports whether it is JSON.
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
