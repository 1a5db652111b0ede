package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// checkpointBody names a checkpoint.
type checkpointBody struct {
	ID  string `json:"checkpoint_id"`
	NS  string `json:"checkpoint_ns"`
	Map any    `json:"checkpoint_map"`
}

// open opens the thread named in the path. The thread handle is nil if the thread has no graph
// yet, and therefore an empty state.
func (s stateAPI) open(c *call) (*ledger.Thread, *ledger.Filter, *dynamic.Thread, error) {
	t, f, err := s.threads().named(c)
	if err != nil || t.Graph() == "" {
		return t, f, nil, err
	}
	th, err := s.runner.Thread(t, nil)
	if err != nil {
		return nil, nil, nil, fail(http.StatusBadRequest, "%v", err)
	}
	return t, f, th, nil
}

// at returns the thread at a checkpoint.
func at(th *dynamic.Thread, b checkpointBody) (*dynamic.Thread, error) {
	th, err := runs.At(th, map[string]any{"checkpoint_id": b.ID, "checkpoint_ns": b.NS})
	if err != nil {
		return nil, invalid("checkpoint", "%v", err)
	}
	return th, nil
}

func (s stateAPI) get(c *call) error {
	nested, err := c.query().bool("subgraphs")
	if err != nil {
		return err
	}
	return s.showAt(c, checkpointBody{ID: c.r.PathValue("checkpoint_id")}, nested)
}

type stateAtBody struct {
	Checkpoint checkpointBody `json:"checkpoint"`
	Subgraphs  any            `json:"subgraphs"` // true, or "true"
}

func (s stateAPI) getAt(c *call) error {
	var b stateAtBody
	if err := c.decode(&b); err != nil {
		return err
	}
	return s.showAt(c, b.Checkpoint, b.Subgraphs == true || b.Subgraphs == "true")
}

func (s stateAPI) showAt(c *call, b checkpointBody, nested bool) error {
	_, _, th, err := s.open(c)
	if err != nil {
		return err
	}
	snap := &treadle.Snapshot{}
	if th != nil {
		if th, err = at(th, b); err != nil {
			return err
		}
		if snap, err = th.State(c.r.Context()); errors.Is(err, checkpoint.ErrNotFound) {
			return fail(http.StatusNotFound, "checkpoint_id: the thread has no checkpoint %s", b.ID)
		}
		if err != nil {
			return err
		}
	}
	raw, err := dynamic.StateJSON(snap, nested)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, raw)
}

type updateBody struct {
	Values       json.RawMessage `json:"values"`
	AsNode       string          `json:"as_node"`
	CheckpointID string          `json:"checkpoint_id"`
	Checkpoint   checkpointBody  `json:"checkpoint"`
}

func (s stateAPI) update(c *call) error {
	var b updateBody
	if err := c.decode(&b); err != nil {
		return err
	}
	t, f, th, err := s.open(c)
	if err != nil {
		return err
	}
	if th == nil {
		return fail(http.StatusBadRequest, "Thread %s has no graph ID: run it first, or give it metadata.graph_id", t.ID)
	}
	if b.Checkpoint.ID == "" {
		b.Checkpoint.ID = b.CheckpointID
	}
	here, err := at(th, b.Checkpoint)
	if err != nil {
		return err
	}
	var opts []treadle.UpdateOption
	if b.AsNode != "" {
		if !s.knows(t.Graph(), b.Checkpoint.NS, b.AsNode) {
			return fail(http.StatusBadRequest, "as_node: Node %s does not exist", b.AsNode)
		}
		opts = append(opts, treadle.AsNode(b.AsNode))
	}
	values := b.Values
	if len(values) > 0 && b.Checkpoint.NS == "" {
		values = s.runner.Update(t.Graph(), values)
	}
	var id checkpoint.ID
	_, err = s.runner.Edit(c.r.Context(), t.ID, f, th, func() (err error) {
		id, err = here.UpdateJSON(c.r.Context(), values, opts...)
		return err
	})
	if errors.Is(err, ledger.ErrBusy) {
		return fail(http.StatusConflict, "Thread %s is busy: a run is pending or running", t.ID)
	}
	if err != nil {
		switch status, detail := statusOf(err); {
		case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
			return fail(status, "values: %s", detail)
		case status == http.StatusInternalServerError && isMistake(err):
			return fail(http.StatusUnprocessableEntity, "values: %v", err)
		}
		return err
	}
	ref := map[string]any{"thread_id": t.ID, "checkpoint_ns": b.Checkpoint.NS, "checkpoint_id": id}
	return c.json(http.StatusOK, map[string]any{"checkpoint": ref, "configurable": ref, "checkpoint_id": id})
}

// isMistake reports whether an edit failed because of its values. A node error is shown like
// the error of a run, because it comes from a branch that has read the values. All other errors
// are server failures, whose texts are hidden from clients.
func isMistake(err error) bool {
	_, update := errors.AsType[*treadle.UpdateError](err)
	_, refused := errors.AsType[*treadle.ValidationError](err)
	_, conflict := errors.AsType[*treadle.ConflictError](err)
	_, nowhere := errors.AsType[*treadle.GotoError](err)
	_, node := errors.AsType[*treadle.NodeError](err)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	return update || refused || conflict || nowhere || node || syntax || kind
}

// knows reports whether an update can be made as a node.
func (s stateAPI) knows(graph, ns, node string) bool {
	if ns != "" {
		return true // the engine checks it
	}
	switch node {
	case treadle.Start, treadle.End, treadle.InputNode, treadle.CopyNode:
		return true
	}
	for _, n := range s.runner.Graph(graph).Shape().Nodes {
		if n.ID == node {
			return true
		}
	}
	return false
}

func (s stateAPI) history(c *call) error {
	limit, err := c.query().int("limit", 10, 1, 1000)
	if err != nil {
		return err
	}
	return s.showHistory(c, limit, c.query().Get("before"), nil, checkpointBody{})
}

// before is a checkpoint in one of the forms that clients use: an ID, a reference, or a config
// that contains one.
type before string

// UnmarshalJSON accepts all forms.
func (b *before) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		*b = before(s)
		return nil
	}
	var o struct {
		ID           string `json:"checkpoint_id"`
		Configurable struct {
			ID string `json:"checkpoint_id"`
		} `json:"configurable"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return invalid("before", "want the id of a checkpoint, or an object with it")
	}
	*b = before(o.ID + o.Configurable.ID)
	return nil
}

type historyBody struct {
	Limit      *int           `json:"limit"`
	Before     before         `json:"before"`
	Metadata   ledger.Object  `json:"metadata"`
	Checkpoint checkpointBody `json:"checkpoint"`
}

func (s stateAPI) postHistory(c *call) error {
	var b historyBody
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
	return s.showHistory(c, limit, string(b.Before), b.Metadata, b.Checkpoint)
}

func (s stateAPI) showHistory(c *call, limit int, before string, metadata ledger.Object, where checkpointBody) error {
	_, _, th, err := s.open(c)
	if err != nil {
		return err
	}
	if th == nil {
		return c.json(http.StatusOK, []any{})
	}
	o := &treadle.HistoryOptions{Limit: limit}
	if before != "" {
		if o.Before, err = checkpoint.ParseID(before); err != nil {
			return invalid("before", "%q is not a checkpoint ID", before)
		}
	}
	if where.NS != "" {
		if th, err = nested(th, where.NS, "checkpoint.checkpoint_ns"); err != nil {
			return err
		}
	}
	selectHistory(o, metadata)
	var out bytes.Buffer // json.Marshal would copy large states several times
	if err := writeHistory(c.r.Context(), &out, th, o, nil); err != nil {
		return err
	}
	return c.json(http.StatusOK, json.RawMessage(out.Bytes()))
}

// nested returns the thread of the subgraph with a namespace, which a field of the request contains.
func nested(th *dynamic.Thread, ns, field string) (*dynamic.Thread, error) {
	in, err := th.Nested(strings.Split(ns, "|")...)
	if err != nil {
		return nil, invalid(field, "%v", err)
	}
	return in, nil
}

// writeHistory writes states of a thread as a JSON array, newest first. seen, unless it is nil, is called with each.
func writeHistory(ctx context.Context, out *bytes.Buffer, th *dynamic.Thread, o *treadle.HistoryOptions, seen func(*treadle.Snapshot)) error {
	out.WriteByte('[')
	first := true
	results := map[checkpoint.ID][]treadle.TaskState{} // writes of a checkpoint's tasks, recorded in its successor
	for snap, err := range th.History(ctx, o) {
		if err != nil {
			return err
		}
		if _, ok := results[snap.Parent]; !ok && snap.Source == checkpoint.Loop {
			results[snap.Parent] = snap.Writes
		}
		withResults(snap, results[snap.ID])
		raw, err := dynamic.StateJSON(snap, false)
		if err != nil {
			return err
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.Write(raw)
		if seen != nil {
			seen(snap)
		}
	}
	out.WriteByte(']')
	return nil
}

// withResults adds the results to the tasks of a checkpoint.
func withResults(snap *treadle.Snapshot, wrote []treadle.TaskState) {
	used := make([]bool, len(wrote))
	for i := range snap.Tasks {
		t := &snap.Tasks[i]
		j := slices.IndexFunc(wrote, func(w treadle.TaskState) bool { return w.Name == t.Name })
		for j >= 0 && j < len(wrote) && (used[j] || wrote[j].Name != t.Name) {
			j++
		}
		if j >= 0 && j < len(wrote) {
			used[j] = true
			t.Result = wrote[j].Result
		}
	}
}

// selectHistory converts a metadata filter to options. The source and step are not stored as
// metadata.
func selectHistory(opts *treadle.HistoryOptions, metadata ledger.Object) {
	for key, v := range metadata {
		switch key {
		case "source":
			if s, ok := v.(string); ok {
				opts.Sources = append(opts.Sources, checkpoint.Source(s))
			}
		case "step":
			if n, ok := v.(json.Number); ok {
				if i, err := n.Int64(); err == nil {
					step := int(i)
					opts.Step = &step
				}
			}
		default:
			if opts.Metadata == nil {
				opts.Metadata = map[string]any{}
			}
			opts.Metadata[key] = v
		}
	}
}
