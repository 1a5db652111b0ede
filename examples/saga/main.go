// Saga charges a customer, ships a parcel, waits three days for its delivery, and refunds the
// customer if it does not arrive. The wait uses no resources: the program may end, and
// continues where it stopped when it is started again.
//
//	go run ./examples/saga                     orders, and waits; stop it and start it again
//	go run ./examples/saga delivered           the parcel has arrived
//	go run ./examples/saga -wait 2s            a short wait, to see the refund
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	patience := flag.Duration("wait", 72*time.Hour, "how long to wait for the delivery")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "saga.db", *patience, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "saga:", err)
		os.Exit(1)
	}
}

type order struct {
	Item  string
	Euros int
}

// saga returns a workflow whose effects are tasks, so that they do not run again when the
// function is rerun after the wait.
func saga(saver checkpoint.Saver, patience time.Duration, out io.Writer) (*treadle.Graph[order, string], error) {
	say := func(name, format string) *treadle.Task[order, string] {
		return treadle.NewTask(name, func(ctx context.Context, o order) (string, error) {
			key := treadle.InfoFrom(ctx).IdempotencyKey // for the bank, which may receive the request twice
			fmt.Fprintf(out, format+" (key %.8s)\n", o.Euros, o.Item, key)
			return key, nil
		})
	}
	charge, ship, refund := say("charge", "charged %d euros for %s"), say("ship", "shipped, worth %d euros: %s"), say("refund", "refunded %d euros for %s")
	return treadle.NewWorkflow("saga", func(ctx context.Context, o order) (string, error) {
		if _, err := charge.Run(ctx, o); err != nil {
			return "", err
		}
		if _, err := ship.Run(ctx, o); err != nil {
			return "", err
		}
		came, err := treadle.WaitFor[bool](ctx, "delivered", &treadle.WaitOptions{Deadline: time.Now().Add(patience), OnTimeout: false})
		if err != nil {
			return "", err
		}
		if came {
			fmt.Fprintln(out, "delivered")
			return "delivered", nil
		}
		_, err = refund.Run(ctx, o)
		return "refunded", err
	}, &treadle.Options{Saver: saver})
}

func run(ctx context.Context, file string, patience time.Duration, args []string, out io.Writer) (err error) {
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	g, err := saga(db, patience, out)
	if err != nil {
		return err
	}
	thread := g.Thread("order 7")
	if len(args) > 0 { // another process may do this while the order waits in the first
		return thread.Signal(ctx, args[0], true)
	}
	for t, err := range g.Unfinished(ctx) { // after a crash
		if err == nil {
			_, err = t.Continue(ctx)
		}
		if _, waits := errors.AsType[*treadle.InterruptError](err); err != nil && !waits {
			return err
		}
	}
	snap, err := thread.State(ctx)
	if err != nil {
		return err
	}
	if snap.ID.IsZero() {
		_, err := thread.Run(ctx, order{"a loom", 120})
		if stop, waits := errors.AsType[*treadle.InterruptError](err); waits {
			fmt.Fprintf(out, "waiting for %q\n", stop.Pauses[0].Key)
		} else if err != nil {
			return err
		}
	}
	return wake(ctx, g, thread)
}

// wake continues the order whenever it is due, until it is finished.
func wake(ctx context.Context, g *treadle.Graph[order, string], thread *treadle.Thread[order, string]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- treadle.Wake(ctx, g) }()
	for {
		select {
		case err := <-done: // stopped
			return err
		case <-time.After(50 * time.Millisecond):
		}
		snap, err := thread.State(ctx)
		if ctx.Err() != nil {
			continue
		}
		if err != nil || len(snap.Next) == 0 {
			cancel()
			return errors.Join(err, <-done)
		}
	}
}
