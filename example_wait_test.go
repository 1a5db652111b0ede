package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// A node sleeps. The run ends with the time at which it goes on, and Wake continues the
// thread then, in this process or in one that is started later.
func ExampleSleep() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	remind, err := treadle.NewWorkflow("remind", func(ctx context.Context, who string) (string, error) {
		if err := treadle.Sleep(ctx, 20*time.Millisecond); err != nil { // or for three months
			return "", err
		}
		fmt.Println("reminding", who)
		stop()
		return "done", nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		panic(err)
	}
	_, err = remind.Thread("1").Run(ctx, "Ada")
	if pause, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Println("waits:", pause.Pauses[0].Kind)
	}
	fmt.Println(treadle.Wake(ctx, remind)) // a server does this by itself
	// Output:
	// waits: sleep
	// reminding Ada
	// <nil>
}

// A workflow waits for a payment, which may come before it waits.
func ExampleWaitFor() {
	type payment struct{ Euros int }
	sell := treadle.Must(treadle.NewWorkflow("sell", func(ctx context.Context, item string) (string, error) {
		paid, err := treadle.WaitFor[payment](ctx, "payment", nil)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s sold for %d euros", item, paid.Euros), nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx, thread := context.Background(), sell.Thread("7")
	_, err := thread.Run(ctx, "a loom")
	fmt.Println(err)
	fmt.Println(thread.Signal(ctx, "payment", payment{120})) // from a webhook, say
	out, err := thread.Continue(ctx)                         // as Wake and the server do
	fmt.Println(out, err)
	fmt.Println(sell.Thread("8").Signal(ctx, "payment", payment{1}))
	// Output:
	// graph "sell": interrupted: node "sell" waits for the signal "payment"
	// <nil>
	// a loom sold for 120 euros <nil>
	// graph "sell": thread "8": signal "payment": the thread does not exist: run it first: checkpoint: not found: thread "8", namespace "", id ""
}
