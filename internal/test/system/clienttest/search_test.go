package clienttest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/server"
)

// searches calls the searches and the spans, which LangGraph's servers do not have.
func (s *suite) searches(t *testing.T) {
	ctx := t.Context()
	if s.langgraph {
		for _, err := range s.Threads.Find(ctx, nil) {
			fails(t, err, client.ErrNotFound)
		}
		return
	}
	mark := uuid.NewString()
	var threads []string
	for range 103 { // more than a page
		made, err := s.Threads.Create(ctx, &client.ThreadCreate{Metadata: map[string]any{"mark": mark}})
		threads = append(threads, must(t, made, err).ID)
	}
	n := 0
	for found, err := range s.Threads.Find(ctx, &client.ThreadFind{Metadata: map[string]any{"mark": mark}, Status: "idle"}) {
		ok(t, err)
		if found.ID != threads[len(threads)-1-n] || found.Created.IsZero() {
			t.Fatalf("thread %d is %+v", n, found)
		}
		n++
	}
	if n != len(threads) {
		t.Errorf("found %d threads", n)
	}
	began := time.Now()
	run, err := s.Runs.Create(ctx, threads[0], &client.RunCreate{Assistant: "failing", Input: map[string]any{"message": mark}})
	must(t, run, err)
	_, err = s.Runs.Join(ctx, threads[0], run.ID)
	if err == nil {
		t.Fatal("the run did not fail")
	}
	n = 0
	for found, err := range s.Runs.Find(ctx, &client.RunFind{Status: []string{"error"}, Graph: "failing", Error: "boom " + mark, Since: began.Add(-time.Hour), Until: began.Add(time.Hour)}) {
		ok(t, err)
		if found.ID != run.ID || found.Error == nil || found.Graph != "failing" || found.Ended.IsZero() || found.Of.Status != "error" {
			t.Errorf("%+v", found)
		}
		n++
	}
	if n != 1 {
		t.Errorf("found %d runs", n)
	}
	for span, err := range s.Runs.Spans(ctx, threads[0], run.ID, true) {
		t.Errorf("the run has no calls, but %+v, %v", span, err)
	}
	_, err = s.Runs.Span(ctx, threads[0], run.ID, "0000000000000000")
	fails(t, err, client.ErrNotFound)
}

// The calls of a run show what was sent to the model and to tools.
func ExampleRuns_Spans() {
	clock := llm.NewTool("clock", "Tell the time.", func(context.Context, struct{}) (string, error) { return "noon", nil })
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("clock", struct{}{})), llmtest.Say("It is noon."))
	g := treadle.Must(agent.New(model, &agent.Options{Prompt: "Be brief.", Tools: []*llm.Tool{clock}}))
	srv, err := server.New(&memory{checkpoint.NewMemory(), ledger.NewMemory()}, []treadle.AnyGraph{g}, &server.Options{Spans: &server.SpanOptions{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	hs := httptest.NewServer(srv)
	defer hs.Close()
	ctx := context.Background()
	defer func() { _ = srv.Drain(ctx) }()

	c, err := client.New(hs.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	thread, err := c.Threads.Create(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Runs.Wait(ctx, thread.ID, &client.RunCreate{Assistant: "agent", Input: agent.Ask("What time is it?")}); err != nil {
		fmt.Println(err)
		return
	}
	runs, err := c.Runs.List(ctx, thread.ID, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for span, err := range c.Runs.Spans(ctx, thread.ID, runs[0].ID, true) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(span.Kind, span.Name, span.Status)
		if span.Kind == "tool" {
			fmt.Printf("  %s → %s\n", span.Input, span.Output)
		}
	}
	// Output:
	// model script success
	// tool clock success
	//   {} → "noon"
	// model script success
}
