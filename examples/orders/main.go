// Orders is a workflow that survives crashes: it reserves, charges, and ships an order, each
// step once. If a step fails, start the program again: finished steps do not run again.
//
//	go run ./examples/orders 42
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/sqlite"
)

type order struct{ Number string }

type receipt struct{ Reservation, Payment, Parcel string }

// services stands for the systems that the workflow calls.
type services struct {
	mu   sync.Mutex // two steps run concurrently
	out  io.Writer
	down bool // the shipping company does not respond
}

// call stands for a request to another system. A real request includes
// treadle.InfoFrom(ctx).IdempotencyKey: it stays the same when a step is rerun after a crash,
// so that the other system can detect the duplicate.
func (s *services) call(_ context.Context, what string, o order) (string, error) {
	if what == "ship" && s.down {
		return "", errors.New("the shipping company does not answer")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%s order %s\n", what, o.Number)
	return what + "-" + o.Number, nil
}

func newWorkflow(s *services, saver checkpoint.Saver) (*treadle.Graph[order, receipt], error) {
	step := func(name string) *treadle.Task[order, string] {
		return treadle.NewTask(name, func(ctx context.Context, o order) (string, error) { return s.call(ctx, name, o) })
	}
	reserve, charge, ship := step("reserve"), step("charge"), step("ship")
	return treadle.NewWorkflow("orders", func(ctx context.Context, o order) (r receipt, err error) {
		reservation, payment := reserve.Go(ctx, o), charge.Go(ctx, o) // concurrently
		if r.Reservation, err = reservation.Wait(); err != nil {
			return r, err
		}
		if r.Payment, err = payment.Wait(); err != nil {
			return r, err
		}
		r.Parcel, err = ship.Run(ctx, o)
		return r, err
	}, &treadle.Options{Saver: saver})
}

// process runs the workflow of an order, or continues it if it failed before.
func process(ctx context.Context, file, number string, s *services) (err error) {
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	g, err := newWorkflow(s, db)
	if err != nil {
		return err
	}
	thread := g.Thread("order " + number)
	state, err := thread.State(ctx)
	if err != nil {
		return err
	}
	var r receipt
	switch {
	case state.ID.IsZero():
		r, err = thread.Run(ctx, order{number})
	case len(state.Next) > 0:
		r, err = thread.Continue(ctx)
	default:
		err = state.Read(&r)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "done: %+v\n", r)
	return nil
}

func main() {
	number := "42"
	if len(os.Args) > 1 {
		number = os.Args[1]
	}
	if err := process(context.Background(), "orders.db", number, &services{out: os.Stdout, down: os.Getenv("DOWN") != ""}); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}
