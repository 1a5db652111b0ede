package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/client"
)

// suite calls every endpoint of a server that serves the ten graphs.
type suite struct {
	*client.Client
	url       string
	langgraph bool // it is LangGraph's own Python server, which lacks some things
}

func (s *suite) run(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"System": s.system, "Assistants": s.assistants, "Threads": s.threads, "States": s.states, "Runs": s.runs, "Streams": s.streams,
		"Cancelling": s.cancelling, "Stateless": s.stateless, "Crons": s.crons, "Searches": s.searches, "Store": s.store, "ProtocolV2": s.protocol,
		"Unknown": s.unknown, "RemoteGraph": s.remote, "RemoteNode": s.node, "RemoteQuestions": s.questions, "Breaks": s.breaks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func (s *suite) system(t *testing.T) {
	ok(t, s.OK(t.Context()))
	info, err := s.Info(t.Context())
	if must(t, info, err).Version == "" || (info.Context == "treadle") == s.langgraph {
		t.Errorf("%+v", info)
	}
	var spec struct {
		Paths map[string]any `json:"paths"`
	}
	ok(t, s.Call(t.Context(), http.MethodGet, "/openapi.json", nil, &spec))
	if spec.Paths["/threads"] == nil {
		t.Errorf("description has %d paths", len(spec.Paths))
	}
}

func (s *suite) assistants(t *testing.T) {
	ctx := t.Context()
	mark := uuid.NewString()
	made, err := s.Assistants.Create(ctx, &client.AssistantCreate{Graph: "configurable", Name: "first " + mark, Description: "a test",
		Context: map[string]any{"tier": "gold"}, Metadata: map[string]any{"mark": mark}})
	must(t, made, err)
	if made.Graph != "configurable" || made.Version != 1 || made.Description != "a test" || made.Context["tier"] != "gold" || made.Created.IsZero() {
		t.Fatalf("%+v", made)
	}
	_, err = s.Assistants.Create(ctx, &client.AssistantCreate{Graph: "configurable", ID: made.ID})
	fails(t, err, client.ErrConflict)
	again, err := s.Assistants.Create(ctx, &client.AssistantCreate{Graph: "configurable", ID: made.ID, IfExists: "do_nothing"})
	if must(t, again, err).Name != made.Name {
		t.Errorf("%+v", again)
	}
	changed, err := s.Assistants.Update(ctx, made.ID, &client.AssistantCreate{Name: "second " + mark, Metadata: map[string]any{"more": 1}})
	must(t, changed, err)
	if changed.Version != 2 || changed.Metadata["mark"] != mark || changed.Metadata["more"] != 1.0 {
		t.Fatalf("%+v", changed)
	}
	versions, err := s.Assistants.Versions(ctx, made.ID, nil)
	must(t, versions, err)
	if len(versions) != 2 || versions[0].Version != 2 {
		t.Fatalf("%+v", versions)
	}
	latest, err := s.Assistants.SetLatest(ctx, made.ID, 1)
	if must(t, latest, err).Name != made.Name {
		t.Errorf("%+v", latest)
	}
	got, err := s.Assistants.Get(ctx, made.ID)
	if must(t, got, err).Name != made.Name {
		t.Errorf("%+v", got)
	}
	search := &client.AssistantSearch{Metadata: map[string]any{"mark": mark}, Graph: "configurable", Page: client.Page{Limit: 5, SortBy: "name", Order: "asc"}}
	found, err := s.Assistants.Search(ctx, search)
	must(t, found, err)
	if len(found) != 1 || found[0].ID != made.ID {
		t.Fatalf("%+v", found)
	}
	if n, err := s.Assistants.Count(ctx, search); must(t, n, err) != 1 {
		t.Errorf("%d assistants", n)
	}
	ok(t, s.Assistants.Delete(ctx, made.ID, false))
	_, err = s.Assistants.Get(ctx, made.ID)
	fails(t, err, client.ErrNotFound)

	own, err := s.Assistants.Get(ctx, "nested") // by the name of its graph
	if must(t, own, err).Graph != "nested" {
		t.Errorf("%+v", own)
	}
	closed, err := s.Assistants.Graph(ctx, "nested", 0)
	opened, err2 := s.Assistants.Graph(ctx, "nested", -1)
	if err := errors.Join(err, err2); err != nil || strings.Contains(closed.Mermaid(), "child_one") || !strings.Contains(opened.Mermaid(), "child_one") {
		t.Errorf("%v:\n%s\n%s", err, closed.Mermaid(), opened.Mermaid())
	}
	schemas, err := s.Assistants.Schemas(ctx, "nested")
	must(t, schemas, err)
	if schemas.Graph != "nested" || !strings.Contains(string(schemas.Input), `"value"`) {
		t.Errorf("%+v", schemas)
	}
	inner, err := s.Assistants.Subgraphs(ctx, "nested", "", true)
	must(t, inner, err)
	if !strings.Contains(string(inner["child"].State), `"steps"`) {
		t.Errorf("%+v", inner)
	}
	inner, err = s.Assistants.Subgraphs(ctx, "nested", "child", false)
	must(t, inner, err)
	if len(inner) != 1 {
		t.Errorf("%+v", inner)
	}
}

func (s *suite) threads(t *testing.T) {
	ctx := t.Context()
	mark := uuid.NewString()
	made, err := s.Threads.Create(ctx, &client.ThreadCreate{Metadata: map[string]any{"mark": mark}, TTL: &client.TTL{Minutes: 60}})
	must(t, made, err)
	if made.Status != "idle" || made.Metadata["mark"] != mark {
		t.Fatalf("%+v", made)
	}
	_, err = s.Threads.Create(ctx, &client.ThreadCreate{ID: made.ID})
	fails(t, err, client.ErrConflict)
	_, err = s.Threads.Create(ctx, &client.ThreadCreate{ID: made.ID, IfExists: "do_nothing"})
	ok(t, err)
	got, err := s.Threads.Get(ctx, made.ID)
	must(t, got, err)
	if !s.langgraph && (got.TTL == nil || got.TTL.Minutes != 60 || got.TTL.Strategy != "delete" || got.TTL.Expires.IsZero()) {
		t.Errorf("%+v", got.TTL) // LangGraph's server in memory keeps none
	}
	changed, err := s.Threads.Update(ctx, made.ID, &client.ThreadUpdate{Metadata: map[string]any{"more": true}, TTL: &client.TTL{Minutes: 5, Strategy: "delete"}})
	must(t, changed, err)
	if changed.Metadata["mark"] != mark || changed.Metadata["more"] != true {
		t.Fatalf("%+v", changed)
	}
	seeded, err := s.Threads.Create(ctx, &client.ThreadCreate{Graph: "router", Metadata: map[string]any{"mark": mark}, Supersteps: [][]client.StateUpdate{
		{{Values: map[string]any{"target": "left"}, AsNode: treadle.InputNode}},
		{{Values: map[string]any{"target": "left"}, AsNode: treadle.Start}},
	}})
	must(t, seeded, err)
	state, err := s.Threads.State(ctx, seeded.ID, nil)
	same(t, must(t, state, err).Next, `["route"]`)
	if state.Checkpoint == nil {
		t.Error("seeded thread has no checkpoint")
	}
	search := &client.ThreadSearch{Metadata: map[string]any{"mark": mark}, Page: client.Page{SortBy: "created_at", Order: "asc"}}
	found, err := s.Threads.Search(ctx, search)
	must(t, found, err)
	if len(found) != 2 || found[0].ID != made.ID {
		t.Fatalf("%+v", found)
	}
	if n, err := s.Threads.Count(ctx, search); must(t, n, err) != 2 {
		t.Errorf("%d threads", n)
	}
	found, err = s.Threads.Search(ctx, &client.ThreadSearch{IDs: []string{made.ID}, Status: "idle"})
	must(t, found, err)
	if len(found) != 1 {
		t.Fatalf("%+v", found)
	}
	found, err = s.Threads.Search(ctx, &client.ThreadSearch{IDs: []string{seeded.ID}, Extract: map[string]string{"to": "values.target"}, Page: client.Page{Select: []string{"thread_id"}}})
	must(t, found, err)
	if len(found) != 1 || string(found[0].Extracted["to"]) != `"left"` || found[0].Status != "" {
		t.Fatalf("%+v", found)
	}
	copied, err := s.Threads.Copy(ctx, seeded.ID)
	if must(t, copied, err).ID == seeded.ID {
		t.Errorf("%+v", copied)
	}
	if size, err := s.Threads.Storage(ctx, copied.ID); must(t, size, err).Checkpoints.Count == 0 {
		t.Errorf("%+v", size)
	}
	if !s.langgraph { // which has no signals
		ok(t, s.Threads.Signal(ctx, copied.ID, "paid", map[string]any{"amount": 5}))
		fails(t, s.Threads.Signal(ctx, made.ID, "paid", nil), client.ErrConflict) // it has not run
		fails(t, s.Threads.Signal(ctx, uuid.NewString(), "paid", nil), client.ErrNotFound)
	}
	if n, err := s.Threads.Prune(ctx, []string{copied.ID}, false); must(t, n, err) != 1 {
		t.Errorf("%d threads pruned", n)
	}
	if n, err := s.Threads.Prune(ctx, []string{seeded.ID}, true); !s.langgraph && must(t, n, err) != 1 {
		t.Errorf("%d threads pruned", n)
	}
	ok(t, s.Threads.Delete(ctx, made.ID))
	_, err = s.Threads.Get(ctx, made.ID)
	fails(t, err, client.ErrNotFound)
}

// thread creates a thread.
func (s *suite) thread(t *testing.T) string {
	t.Helper()
	th, err := s.Threads.Create(t.Context(), nil)
	return must(t, th, err).ID
}

func (s *suite) states(t *testing.T) {
	ctx := t.Context()
	thread := s.thread(t)
	empty, err := s.Threads.State(ctx, thread, nil)
	must(t, empty, err)
	if empty.Checkpoint != nil {
		t.Errorf("%+v", empty.Checkpoint)
	}
	values, err := s.Runs.Wait(ctx, thread, &client.RunCreate{Assistant: "nested", Input: map[string]any{"value": "pause"}})
	must(t, values, err)
	if !strings.Contains(string(values), "child paused") {
		t.Fatalf("%s", values)
	}
	state, err := s.Threads.State(ctx, thread, &client.StateOptions{Subgraphs: true})
	must(t, state, err)
	if len(state.Interrupts) != 1 || string(state.Interrupts[0].Value) != `"child paused"` || state.Tasks[0].Name != "child" || state.Tasks[0].State == nil {
		t.Fatalf("%+v", state)
	}
	inner := state.Tasks[0].State
	same(t, inner.Values, `{"value":"pause>before>c1","steps":["child_one"]}`)
	at, err := s.Threads.State(ctx, thread, &client.StateOptions{Checkpoint: inner.Checkpoint})
	same(t, must(t, at, err).Next, `["child_two"]`)
	nested, err := s.Threads.History(ctx, thread, &client.HistoryOptions{Namespace: inner.Checkpoint.Namespace})
	must(t, nested, err)
	if len(nested) == 0 || !strings.Contains(string(nested[0].Values), "child_one") {
		t.Errorf("%+v", nested)
	}

	history, err := s.Threads.History(ctx, thread, nil)
	must(t, history, err)
	if len(history) != 3 || history[0].Parent == nil || history[0].Metadata["step"] != 1.0 || history[0].Created.IsZero() {
		t.Fatalf("%+v", history)
	}
	earlier, err := s.Threads.History(ctx, thread, &client.HistoryOptions{Limit: 1, Before: history[0].Checkpoint.ID})
	must(t, earlier, err)
	if len(earlier) != 1 || earlier[0].Checkpoint.ID != history[1].Checkpoint.ID {
		t.Fatalf("%+v", earlier)
	}
	inputs, err := s.Threads.History(ctx, thread, &client.HistoryOptions{Metadata: map[string]any{"source": "input"}})
	must(t, inputs, err)
	if len(inputs) != 1 {
		t.Fatalf("%+v", inputs)
	}
	past, err := s.Threads.State(ctx, thread, &client.StateOptions{Checkpoint: history[1].Checkpoint})
	same(t, must(t, past, err).Next, `["before"]`)
	fork, err := s.Threads.UpdateState(ctx, thread, &client.StateUpdate{Values: map[string]any{"value": "s"}, Checkpoint: history[1].Checkpoint, AsNode: "before"})
	must(t, fork, err)
	values, err = s.Runs.Wait(ctx, thread, &client.RunCreate{Assistant: "nested", Checkpoint: fork})
	same(t, must(t, values, err), `{"value":"s>c1>c2>after"}`)
}

func (s *suite) runs(t *testing.T) {
	ctx := t.Context()
	thread := s.thread(t)
	made, err := s.Runs.Create(ctx, thread, &client.RunCreate{Assistant: "router", Input: map[string]any{"target": "right"}, Metadata: map[string]any{"m": "1"}, Durability: "sync"})
	must(t, made, err)
	if made.Thread != thread || made.Status != "pending" || made.Metadata["m"] != "1" {
		t.Fatalf("%+v", made)
	}
	values, err := s.Runs.Join(ctx, thread, made.ID)
	same(t, must(t, values, err), `{"target":"right","path":["route","right"]}`)
	values, err = s.Runs.Join(ctx, thread, made.ID) // it has ended
	same(t, must(t, values, err), `{"target":"right","path":["route","right"]}`)
	got, err := s.Runs.Get(ctx, thread, made.ID)
	if must(t, got, err).Status != "success" {
		t.Errorf("%+v", got)
	}
	values, err = s.Runs.Wait(ctx, thread, &client.RunCreate{Assistant: "router", Command: &client.Command{Goto: treadle.To("left"), Update: map[string]any{"x": 1}}})
	same(t, must(t, values, err), `{"target":"right","x":1,"path":["route","right","left"]}`)
	listed, err := s.Runs.List(ctx, thread, &client.RunList{Limit: 5, Status: "success", Select: []string{"run_id", "status"}})
	must(t, listed, err)
	if len(listed) != 2 || listed[1].ID != made.ID || listed[0].Thread != "" {
		t.Fatalf("%+v", listed)
	}
	ok(t, s.Runs.Delete(ctx, thread, listed[0].ID))
	listed, err = s.Runs.List(ctx, thread, nil)
	must(t, listed, err)
	if len(listed) != 1 {
		t.Fatalf("%+v", listed)
	}
	_, err = s.Runs.Wait(ctx, thread, &client.RunCreate{Assistant: "failing", Input: map[string]any{"message": "m"}})
	failed, isRun := errors.AsType[*client.RunError](err)
	if !isRun || failed.Message != "boom: m" {
		t.Errorf("%v", err)
	}
}

// collect reads a stream.
func collect(t *testing.T, events iter.Seq2[client.Event, error]) (out []client.Event) {
	t.Helper()
	for ev, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ev)
	}
	return out
}

// modes returns the names of events.
func modes(events []client.Event) string {
	var names []string
	for _, ev := range events {
		name := ev.Mode
		for _, part := range ev.Namespace {
			node, _, _ := strings.Cut(part, ":")
			name += "|" + node
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (s *suite) streams(t *testing.T) {
	ctx := t.Context()
	thread := s.thread(t)
	events := collect(t, s.Runs.Stream(ctx, thread, &client.RunCreate{Assistant: "nested", Input: map[string]any{"value": "s"}, StreamMode: []string{"updates"}, Subgraphs: true}))
	if got := modes(events); got != "metadata updates updates|child updates|child updates updates" {
		t.Fatal(got)
	}
	same(t, events[len(events)-1].Data, `{"after":{"value":"s>before>c1>c2>after"}}`)
	listed, err := s.Runs.List(ctx, thread, nil)
	run := must(t, listed, err)[0].ID
	again := collect(t, s.Runs.JoinStream(ctx, thread, run, &client.JoinOptions{LastEventID: events[1].ID}))
	same(t, again, string(marshal(events[2:])))
	all := collect(t, s.Runs.JoinStream(ctx, thread, run, &client.JoinOptions{LastEventID: "-1", StreamMode: []string{"updates"}}))
	if all[0].Mode == "metadata" { // not on LangGraph's server
		all = all[1:]
	}
	same(t, all, string(marshal(events[1:])))

	var last error
	for _, err := range s.Runs.Stream(ctx, thread, &client.RunCreate{Assistant: "failing", Input: map[string]any{"message": "m"}}) {
		last = err
	}
	if failed, isRun := errors.AsType[*client.RunError](last); !isRun || failed.Message != "boom: m" || failed.Thread != thread {
		t.Errorf("%v", last)
	}

	// A thread's stream has all runs and does not end with them.
	var seen []client.Event
	for ev, err := range s.Threads.Stream(ctx, thread, &client.ThreadStreamOptions{LastEventID: "-", Modes: []string{"run_modes"}}) {
		ok(t, err)
		seen = append(seen, ev)
		if strings.Contains(string(ev.Data), "run_done") {
			break
		}
	}
	if got := modes(seen); got != modes(events)+" metadata" {
		t.Error(got)
	}
}

func marshal(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func (s *suite) cancelling(t *testing.T) {
	ctx := t.Context()
	slow := &client.RunCreate{Assistant: "slow", Input: map[string]any{"count": 100, "delay_ms": 60000}}
	thread := s.thread(t)
	run, err := s.Runs.Create(ctx, thread, slow)
	must(t, run, err)
	_, err = s.Runs.Create(ctx, thread, &client.RunCreate{Assistant: "slow", Strategy: "reject"})
	fails(t, err, client.ErrConflict)
	ok(t, s.Runs.Cancel(ctx, thread, run.ID, &client.CancelOptions{Wait: true}))
	s.ended(t, thread, run.ID)
	run, err = s.Runs.Create(ctx, thread, slow)
	must(t, run, err)
	ok(t, s.Runs.CancelMany(ctx, &client.CancelMany{Thread: thread, Runs: []string{run.ID}}))
	s.ended(t, thread, run.ID)
}

// ended waits until a run is canceled.
func (s *suite) ended(t *testing.T, thread, run string) {
	t.Helper()
	_, err := s.Runs.Join(t.Context(), thread, run)
	if _, isRun := errors.AsType[*client.RunError](err); err != nil && !isRun { // LangGraph reports it so
		t.Fatal(err)
	}
	got, err := s.Runs.Get(t.Context(), thread, run)
	if must(t, got, err).Status != "interrupted" {
		t.Fatalf("%+v", got)
	}
}

func (s *suite) stateless(t *testing.T) {
	ctx := t.Context()
	left := client.RunCreate{Assistant: "router", Input: map[string]any{"target": "left"}}
	values, err := s.Runs.Wait(ctx, "", &left)
	same(t, must(t, values, err), `{"target":"left","path":["route","left"]}`)
	events := collect(t, s.Runs.Stream(ctx, "", &left))
	same(t, events[len(events)-1].Data, `{"target":"left","path":["route","left"]}`)
	made, err := s.Runs.Create(ctx, "", &left)
	if must(t, made, err).ID == "" {
		t.Errorf("%+v", made)
	}
	batch, err := s.Runs.Batch(ctx, []client.RunCreate{left, left})
	must(t, batch, err)
	if len(batch) != 2 {
		t.Errorf("%+v", batch)
	}
	if s.langgraph {
		return // it cannot join them
	}
	slow, err := s.Runs.Create(ctx, "", &client.RunCreate{Assistant: "slow", Input: map[string]any{"count": 2, "delay_ms": 300}})
	must(t, slow, err)
	ticks := collect(t, s.Runs.JoinStream(ctx, "", slow.ID, nil))
	if len(ticks) == 0 || !strings.Contains(string(ticks[len(ticks)-1].Data), `["t0","t1"]`) {
		t.Errorf("%+v", ticks)
	}
	slow, err = s.Runs.Create(ctx, "", &client.RunCreate{Assistant: "slow", Input: map[string]any{"count": 2, "delay_ms": 300}})
	must(t, slow, err)
	values, err = s.Runs.Join(ctx, "", slow.ID)
	must(t, values, err)
	if !strings.Contains(string(values), `["t0","t1"]`) {
		t.Errorf("%s", values)
	}
}

func (s *suite) crons(t *testing.T) {
	ctx := t.Context()
	mark := uuid.NewString()
	body := func() *client.CronCreate {
		return &client.CronCreate{Schedule: "0 4 1 1 *", Timezone: "Europe/Berlin",
			Run: client.RunCreate{Assistant: "router", Input: map[string]any{"target": "left"}, Metadata: map[string]any{"mark": mark}}}
	}
	made, err := s.Crons.Create(ctx, "", body())
	must(t, made, err)
	if made.Schedule != "0 4 1 1 *" || made.Timezone != "Europe/Berlin" || !made.Enabled || made.Next.IsZero() || made.Thread != "" {
		t.Fatalf("%+v", made)
	}
	thread := s.thread(t)
	threaded, err := s.Crons.Create(ctx, thread, body())
	if must(t, threaded, err).Thread != thread {
		t.Fatalf("%+v", threaded)
	}
	got, err := s.Crons.Get(ctx, made.ID)
	must(t, got, err)
	if !strings.Contains(string(got.Payload), `"left"`) {
		t.Errorf("%s", got.Payload)
	}
	changed, err := s.Crons.Update(ctx, made.ID, &client.CronCreate{Enabled: new(false), Schedule: "5 4 1 1 *"})
	must(t, changed, err)
	if changed.Enabled || changed.Schedule != "5 4 1 1 *" || !strings.Contains(string(changed.Payload), `"left"`) {
		t.Errorf("%+v", changed)
	}
	search := &client.CronSearch{Assistant: made.Assistant, Metadata: map[string]any{"mark": mark}, Page: client.Page{SortBy: "created_at", Order: "asc"}}
	found, err := s.Crons.Search(ctx, search)
	must(t, found, err)
	if len(found) != 2 || found[0].ID != made.ID {
		t.Fatalf("%+v", found)
	}
	if n, err := s.Crons.Count(ctx, search); must(t, n, err) != 2 {
		t.Errorf("%d crons", n)
	}
	ok(t, s.Crons.Delete(ctx, made.ID))
	ok(t, s.Crons.Delete(ctx, threaded.ID))
	_, err = s.Crons.Get(ctx, made.ID)
	fails(t, err, client.ErrNotFound)
}

func (s *suite) store(t *testing.T) {
	ctx := t.Context()
	at := []string{"client", uuid.NewString()}
	ok(t, s.Store.Put(ctx, at, "k", map[string]any{"n": 1}, &client.ItemPut{TTL: time.Hour, NoIndex: true}))
	ok(t, s.Store.Put(ctx, at, "l", map[string]any{"n": 2}, nil))
	item, err := s.Store.Get(ctx, at, "k", &client.ItemGet{Refresh: new(true)})
	same(t, must(t, item, err).Value, `{"n":1}`)
	if !slices.Equal(item.Namespace, at) || item.Key != "k" || item.Created.IsZero() {
		t.Errorf("%+v", item)
	}
	found, err := s.Store.Search(ctx, at[:1], &client.ItemSearch{Filter: map[string]any{"n": map[string]any{"$gte": 2}}, Limit: 1000})
	must(t, found, err)
	if !slices.ContainsFunc(found, func(i client.Item) bool { return i.Key == "l" && slices.Equal(i.Namespace, at) }) {
		t.Errorf("%+v", found)
	}
	spaces, err := s.Store.Namespaces(ctx, &client.NamespaceSearch{Prefix: at[:1], Suffix: at[1:]})
	must(t, spaces, err)
	if len(spaces) != 1 || !slices.Equal(spaces[0], at) {
		t.Errorf("%v", spaces)
	}
	if !s.langgraph {
		explained, err := s.Store.Search(ctx, at, &client.ItemSearch{Query: "2", Explain: true})
		must(t, explained, err)
		if len(explained) == 0 || len(explained[0].Explanation) == 0 {
			t.Errorf("%+v", explained)
		}
		changes, err := s.Store.History(ctx, at, "k")
		must(t, changes, err)
		if len(changes) != 1 || changes[0].Kind != "put" || string(changes[0].Value) != `{"n":1}` || changes[0].At.IsZero() {
			t.Errorf("%+v", changes)
		}
	}
	ok(t, s.Store.Delete(ctx, at, "k"))
	_, err = s.Store.Get(ctx, at, "k", nil)
	fails(t, err, client.ErrNotFound)
	_, err = s.Store.Get(ctx, []string{"a.b"}, "k", nil)
	says(t, err, "label with a dot")
}

func (s *suite) protocol(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	thread := s.thread(t)
	result, err := s.Threads.Command(ctx, thread, "run.start", map[string]any{"assistant_id": "router", "input": map[string]any{"target": "left"}})
	must(t, result, err)
	if !strings.Contains(string(result), "run_id") {
		t.Fatalf("%s", result)
	}
	for ev, err := range s.Threads.Events(ctx, thread, &client.Subscription{Channels: []string{"lifecycle", "values"}}) {
		ok(t, err)
		if ev.Mode == "lifecycle" && strings.Contains(string(ev.Data), `"completed"`) {
			break
		}
	}
	_, err = s.Threads.Command(ctx, thread, "no.such", nil)
	if refused, is := errors.AsType[*client.CommandError](err); !is || refused.Code != "unknown_command" {
		t.Errorf("%v", err)
	}
}

func (s *suite) unknown(t *testing.T) {
	ctx := t.Context()
	id := uuid.NewString()
	_, err := s.Threads.Get(ctx, id)
	fails(t, err, client.ErrNotFound)
	_, err = s.Runs.Wait(ctx, id, &client.RunCreate{Assistant: "router", Input: map[string]any{}})
	fails(t, err, client.ErrNotFound)
	_, err = s.Runs.Join(ctx, s.thread(t), id)
	fails(t, err, client.ErrNotFound)
	_, err = s.Runs.Create(ctx, s.thread(t), &client.RunCreate{Assistant: id})
	fails(t, err, client.ErrNotFound)
	_, err = s.Threads.Search(ctx, &client.ThreadSearch{Page: client.Page{Limit: -1}})
	if refused, is := errors.AsType[*client.Error](err); !is || refused.Status != http.StatusUnprocessableEntity || refused.Detail == "" {
		t.Errorf("%v", err)
	}
	for _, err := range s.Runs.Stream(ctx, id, &client.RunCreate{Assistant: "router"}) {
		fails(t, err, client.ErrNotFound)
	}
}
