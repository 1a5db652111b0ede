package treadle_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// A node asks, and the run ends with the question. The node runs again from its
// beginning when the thread is resumed, and then Interrupt returns the answer.
func ExampleInterrupt() {
	type letter struct{ Text string }
	b := treadle.New[letter]("letters")
	treadle.AddNode(b, "sign", func(ctx context.Context, l letter) (letter, error) {
		name, err := treadle.Interrupt[string](ctx, "Who signs?")
		if err != nil {
			return letter{}, err // the question
		}
		return letter{l.Text + " " + name}, nil
	})
	b.Edge(treadle.Start, "sign")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})) // questions need a saver

	ctx, thread := context.Background(), g.Thread("1")
	_, err := thread.Run(ctx, letter{"Kind regards,"})
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Printf("%s asks %s\n", stop.Pauses[0].Node, stop.Pauses[0].Value)
	}
	out, err := thread.Resume(ctx, "Ada")
	fmt.Println(out.Text, err)
	// Output:
	// sign asks "Who signs?"
	// Kind regards, Ada <nil>
}

// Two tasks of a step ask. The questions may be answered one by one, by their ids;
// Resume returns the questions that are left.
func ExampleThread_Resume() {
	type order struct{ Wine, Main string }
	b := treadle.New[order]("dinner")
	treadle.AddNode(b, "wine", func(ctx context.Context, _ order) (struct{ Wine string }, error) {
		answer, err := treadle.Interrupt[string](ctx, "red or white?")
		return struct{ Wine string }{answer}, err
	})
	treadle.AddNode(b, "main", func(ctx context.Context, _ order) (struct{ Main string }, error) {
		answer, err := treadle.Interrupt[string](ctx, "fish or pasta?")
		return struct{ Main string }{answer}, err
	})
	b.Edge(treadle.Start, "wine")
	b.Edge(treadle.Start, "main")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx, thread := context.Background(), g.Thread("table 4")
	out, err := thread.Run(ctx, order{})
	answers := map[string]string{"wine": "red", "main": "pasta"}
	for {
		stop, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok {
			break
		}
		next := stop.Pauses[0]
		fmt.Printf("%d open, answering %s\n", len(stop.Pauses), next.Node)
		out, err = thread.Resume(ctx, treadle.Answers{next.ID: answers[next.Node]})
	}
	fmt.Println(out, err)
	// Output:
	// 2 open, answering main
	// 1 open, answering wine
	// {red pasta} <nil>
}
