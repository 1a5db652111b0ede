package treadle_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// A workflow is a plain function. On a thread, its tasks are recorded: when the workflow
// continues after a failure, finished tasks do not run again.
func ExampleNewWorkflow() {
	double := treadle.NewTask("double", func(_ context.Context, n int) (int, error) {
		fmt.Println("doubling", n)
		return 2 * n, nil
	})
	broken := true
	g := treadle.Must(treadle.NewWorkflow("sums", func(ctx context.Context, n int) (string, error) {
		a, b := double.Go(ctx, n), double.Go(ctx, n+1) // at the same time
		x, err := a.Wait()
		if err != nil {
			return "", err
		}
		y, err := b.Wait()
		if err != nil {
			return "", err
		}
		if broken {
			return "", errors.New("the printer is broken")
		}
		return fmt.Sprintf("%d + %d = %d", x, y, x+y), nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx, thread := context.Background(), g.Thread("1")
	_, err := thread.Run(ctx, 1)
	fmt.Println(err)
	broken = false
	fmt.Println(thread.Continue(ctx))
	// Unordered output:
	// doubling 1
	// doubling 2
	// graph "sums": node "sums" (step 1): the printer is broken
	// 2 + 4 = 6 <nil>
}

// Do records the result of a part of a node. The node runs again when its question is
// answered; the part does not.
func ExampleDo() {
	type ticket struct{ Price, Seat string }
	b := treadle.New[ticket]("tickets")
	treadle.AddNode(b, "book", func(ctx context.Context, _ ticket) (ticket, error) {
		price, err := treadle.Do(ctx, "price", func(context.Context) (string, error) {
			fmt.Println("asking for the price")
			return "20 euros", nil
		})
		if err != nil {
			return ticket{}, err
		}
		seat, err := treadle.Interrupt[string](ctx, "Which seat, for "+price+"?")
		return ticket{price, seat}, err
	})
	b.Edge(treadle.Start, "book")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx, thread := context.Background(), g.Thread("1")
	_, err := thread.Run(ctx, ticket{})
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Printf("%s\n", stop.Pauses[0].Value)
	}
	fmt.Println(thread.Resume(ctx, "7b"))
	// Output:
	// asking for the price
	// "Which seat, for 20 euros?"
	// {20 euros 7b} <nil>
}
