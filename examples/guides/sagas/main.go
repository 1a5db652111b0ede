// Command trip books a trip, and undoes the bookings if it fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	if err := run(context.Background(), "trip.db", os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// printer is an agency that prints what it does. Hotels in Rome are full.
type printer struct{ io.Writer }

func (p printer) Book(_ context.Context, what, city, _ string) (Booking, error) {
	if what == "hotel" && city == "Rome" {
		return Booking{Refused: "no rooms in Rome"}, nil
	}
	fmt.Fprintf(p, "booked the %s for %s\n", what, city)
	return Booking{ID: what + " for " + city}, nil
}

func (p printer) Cancel(_ context.Context, id, _ string) error {
	fmt.Fprintf(p, "canceled the %s\n", id)
	return nil
}

func run(ctx context.Context, file string, args []string, out io.Writer) (err error) {
	if len(args) != 2 || !slices.Contains([]string{"book", "pay", "cancel"}, args[0]) {
		return errors.New("usage: trip book CITY | pay CITY | cancel CITY")
	}
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	g, err := newTrip(printer{out}, db)
	if err != nil {
		return err
	}
	city := args[1]
	thread := g.Thread(city) // one per trip
	snap, err := thread.State(ctx)
	if err != nil {
		return err
	}
	if args[0] != "book" && len(snap.Pauses) > 0 {
		if err := thread.Signal(ctx, "payment", args[0] == "pay"); err != nil {
			return err
		}
	}
	var result string
	if args[0] == "book" && snap.ID.IsZero() {
		result, err = thread.Run(ctx, city)
	} else {
		result, err = thread.Continue(ctx) // Run would abandon the trip with its bookings
	}
	if treadle.IsPause(err) {
		result, err = "waiting for the payment", nil
	}
	fmt.Fprintln(out, result)
	return err
}
