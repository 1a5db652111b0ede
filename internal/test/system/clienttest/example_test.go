package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server"
)

// Topic is the topic of a report.
type Topic struct {
	Topic string `json:"topic"`
}

// Report is a report.
type Report struct {
	Report string `json:"report"`
}

type essay struct {
	Topic  string `json:"topic"`
	Report string `json:"report"`
}

// researchServer serves a graph that writes reports, and asks before it writes about owls.
func researchServer() (url string, end func()) {
	b := treadle.New[essay]("research")
	treadle.AddNode(b, "search", func(ctx context.Context, _ Topic) (treadle.Update, error) {
		treadle.Emit(ctx, "searching")
		return nil, nil
	})
	treadle.AddNode(b, "write", func(ctx context.Context, in Topic) (Report, error) {
		style := "short"
		if in.Topic == "owls" {
			var err error
			if style, err = treadle.Interrupt[string](ctx, "which style?"); err != nil {
				return Report{}, err
			}
		}
		return Report{"a " + style + " report on " + in.Topic}, nil
	})
	b.Sequence(treadle.Start, "search", "write")
	srv, err := server.New(&memory{checkpoint.NewMemory(), ledger.NewMemory()}, []treadle.AnyGraph{treadle.Must(b.Compile(nil))}, nil)
	if err != nil {
		panic(err)
	}
	hs := httptest.NewServer(srv)
	return hs.URL, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = srv.Drain(ctx)
		hs.Close()
	}
}

// A thread, a run on it and the state that the run leaves.
func Example() {
	address, end := researchServer()
	defer end()
	ctx := context.Background()

	c, err := client.New(address, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	thread, err := c.Threads.Create(ctx, &client.ThreadCreate{Metadata: map[string]any{"user": "ann"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	values, err := c.Runs.Wait(ctx, thread.ID, &client.RunCreate{Assistant: "research", Input: Topic{"bees"}})
	fmt.Println(string(values), err)

	history, err := c.Threads.History(ctx, thread.ID, &client.HistoryOptions{Limit: 1})
	fmt.Println(history[0].Metadata["step"], history[0].Next, err)

	// Output:
	// {"topic":"bees","report":"a short report on bees"} <nil>
	// 2 [] <nil>
}

// This example streams the events of a run. If the connection breaks, the stream resumes after the
// last event.
func ExampleRuns_Stream() {
	address, end := researchServer()
	defer end()
	ctx := context.Background()
	c, err := client.New(address, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	thread, err := c.Threads.Create(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	run := &client.RunCreate{Assistant: "research", Input: Topic{"bees"}, StreamMode: []string{"updates", "custom"}}
	for ev, err := range c.Runs.Stream(ctx, thread.ID, run) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if ev.Mode != "metadata" {
			fmt.Println(ev.Mode, string(ev.Data))
		}
	}

	// Output:
	// custom "searching"
	// updates {"search":null}
	// updates {"write":{"report":"a short report on bees"}}
}

// A refusal of the server has a kind and a text.
func ExampleError() {
	address, end := researchServer()
	defer end()
	c, err := client.New(address, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	_, err = c.Threads.Get(context.Background(), "01a1e3d1-0000-7000-8000-000000000000")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	if refused, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refused.Status, refused.Detail)
	}

	// Output:
	// true
	// 404 Thread with ID 01a1e3d1-0000-7000-8000-000000000000 not found
}

// A question of a graph on the server, and the answer.
func ExampleGraph_Resume() {
	address, end := researchServer()
	defer end()
	ctx := context.Background()
	c, err := client.New(address, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	research := client.NewGraph[Topic, Report](c, "research", nil).Thread("01a1e3d1-0000-7000-8000-000000000001")
	_, err = research.Run(ctx, Topic{"owls"})
	if asked, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Println("asked:", string(asked.Pauses[0].Value))
	}
	out, err := research.Resume(ctx, "long")
	fmt.Println(out.Report, err)

	// Output:
	// asked: "which style?"
	// a long report on owls <nil>
}

// A graph of another server as a node. Its questions are questions of the thread here.
func ExampleGraph_Run() {
	address, end := researchServer()
	defer end()
	ctx := context.Background()
	c, err := client.New(address, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	research := client.NewGraph[Topic, Report](c, "research", nil)
	b := treadle.New[essay]("paper")
	treadle.AddNode(b, "research", research.Run)
	b.Edge(treadle.Start, "research")
	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		fmt.Println(err)
		return
	}
	paper := g.Thread("paper-7")
	_, err = paper.Run(ctx, essay{Topic: "owls"})
	if asked, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Println(asked.Pauses[0].Node, "asks", string(asked.Pauses[0].Value))
	}
	out, err := paper.Resume(ctx, "long")
	fmt.Println(out.Report, err)

	// The thread on the server records its origin.
	found, err := c.Threads.Search(ctx, &client.ThreadSearch{Metadata: map[string]any{"treadle_thread": "paper-7"}})
	if err != nil || len(found) != 1 {
		fmt.Println(len(found), err)
		return
	}
	var values essay
	fmt.Println(json.Unmarshal(found[0].Values, &values), values.Report)

	// Output:
	// research asks "which style?"
	// a long report on owls <nil>
	// <nil> a long report on owls
}

// The server's store.
func ExampleStore_Search() {
	address, end := researchServer()
	defer end()
	ctx := context.Background()
	c, err := client.New(address, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	for name, age := range map[string]int{"ann": 41, "bob": 17} {
		if err := c.Store.Put(ctx, []string{"users"}, name, map[string]any{"age": age}, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	found, err := c.Store.Search(ctx, []string{"users"}, &client.ItemSearch{Filter: map[string]any{"age": map[string]any{"$gte": 18}}})
	for _, item := range found {
		fmt.Println(item.Key, string(item.Value), err)
	}

	// Output:
	// ann {"age":41} <nil>
}
