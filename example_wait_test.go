package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// A node sleeps. The run ends with the time at which it continues. Wake then continues the
// thread, in this process or in one that is started later.
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

// A signal whose name no node waits for stays in the list of signals.
func ExampleThread_Signals() {
	sell := treadle.Must(treadle.NewWorkflow("sell", func(ctx context.Context, item string) (string, error) {
		buyer, err := treadle.WaitFor[string](ctx, "sold", nil)
		return item + " for " + buyer, err
	}, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx, thread := context.Background(), sell.Thread("7")
	_, err := thread.Run(ctx, "a loom")
	fmt.Println(err)
	fmt.Println(thread.Signal(ctx, "sold", "Ada"), thread.Signal(ctx, "solt", "Bob"))
	out, err := thread.Continue(ctx)
	fmt.Println(out, err)
	signals, err := thread.Signals(ctx)
	for _, s := range signals {
		fmt.Printf("%s: %s\n", s.Name, s.Value)
	}
	fmt.Println(err)
	// Output:
	// graph "sell": interrupted: node "sell" waits for signal "sold"
	// <nil> <nil>
	// a loom for Ada <nil>
	// solt: "Bob"
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
	// graph "sell": interrupted: node "sell" waits for signal "payment"
	// <nil>
	// a loom sold for 120 euros <nil>
	// graph "sell": thread "8": signal "payment": thread does not exist: run it first: checkpoint: not found: thread "8", namespace "", id ""
}
