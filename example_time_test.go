package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// A question has a deadline. Nobody answers in time, so the default counts.
func ExampleQuestion_deadline() {
	b := treadle.New[struct{ Verdict string }]("review")
	type verdict struct{ Verdict string }
	treadle.AddNode(b, "ask", func(ctx context.Context, _ struct{ Verdict string }) (verdict, error) {
		answer, err := treadle.Interrupt[string](ctx, treadle.Question{Value: "publish?", Deadline: time.Now().Add(20 * time.Millisecond), OnTimeout: "no"})
		return verdict{answer}, err
	})
	b.Edge(treadle.Start, "ask")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx, thread := context.Background(), g.Thread("1")
	out, err := thread.Run(ctx, struct{ Verdict string }{})
	for {
		stop, waits := errors.AsType[*treadle.InterruptError](err)
		if !waits {
			break
		}
		time.Sleep(time.Until(stop.Pauses[0].Due))
		out, err = thread.Continue(ctx) // as Wake and the server do
	}
	fmt.Println(out.Verdict, err)
	// Output: no <nil>
}

// After a restart, a program continues the threads that were unfinished when it stopped.
func ExampleGraph_Unfinished() {
	saver, broken := checkpoint.NewMemory(), true
	g := treadle.Must(treadle.NewWorkflow("import", func(_ context.Context, file string) (string, error) {
		if broken {
			return "", errors.New("the power is off")
		}
		return file + " imported", nil
	}, &treadle.Options{Saver: saver}))
	ctx := context.Background()
	for _, file := range []string{"a.csv", "b.csv"} {
		_, err := g.Thread(file).Run(ctx, file)
		fmt.Println(err != nil)
	}
	broken = false
	for thread, err := range g.Unfinished(ctx) {
		if err != nil {
			panic(err)
		}
		out, err := thread.Continue(ctx)
		fmt.Println(out, err)
	}
	other := treadle.Must(treadle.NewWorkflow("export", func(context.Context, string) (string, error) { return "", nil }, &treadle.Options{Saver: saver}))
	_, err := other.Thread("a.csv").Continue(ctx)
	if e, ok := errors.AsType[*treadle.GraphError](err); ok {
		fmt.Printf("%s cannot continue a thread of %s\n", e.Graph, e.Of)
	}
	// Output:
	// true
	// true
	// a.csv imported <nil>
	// b.csv imported <nil>
	// export cannot continue a thread of import
}
