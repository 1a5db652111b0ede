package main

import (
	"context"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Booking is the outcome of a booking. A refusal is a result, not an error, so it is recorded.
type Booking struct {
	ID      string
	Refused string // the reason
}

// An Agency books and cancels. It receives a request again with the same key if the process dies
// before the result is recorded.
type Agency interface {
	Book(ctx context.Context, what, city, key string) (Booking, error)
	Cancel(ctx context.Context, id, key string) error
}

// newTrip returns a workflow that books a flight and a hotel, and waits for the payment.
func newTrip(agency Agency, saver checkpoint.Saver) (*treadle.Graph[string, string], error) {
	book := func(what string) *treadle.Task[string, Booking] {
		return treadle.NewTask("book "+what, func(ctx context.Context, city string) (Booking, error) {
			return agency.Book(ctx, what, city, treadle.InfoFrom(ctx).IdempotencyKey)
		}, treadle.Retry())
	}
	cancel := treadle.NewTask("cancel", func(ctx context.Context, id string) (string, error) {
		return id, agency.Cancel(ctx, id, treadle.InfoFrom(ctx).IdempotencyKey)
	}, treadle.Retry())
	bookFlight, bookHotel := book("flight"), book("hotel")

	return treadle.NewWorkflow("trip", func(ctx context.Context, city string) (string, error) {
		// undo cancels bookings in reverse order.
		undo := func(reason string, ids ...string) (string, error) {
			for _, id := range ids {
				if _, err := cancel.Run(ctx, id); err != nil {
					return "", err
				}
			}
			return "canceled: " + reason, nil
		}
		flight, err := bookFlight.Run(ctx, city)
		if err != nil {
			return "", err // not a refusal: Continue tries again
		}
		if flight.Refused != "" {
			return undo(flight.Refused)
		}
		hotel, err := bookHotel.Run(ctx, city)
		if err != nil {
			return "", err
		}
		if hotel.Refused != "" {
			return undo(hotel.Refused, flight.ID)
		}
		paid, err := treadle.WaitFor[bool](ctx, "payment", &treadle.WaitOptions{Deadline: time.Now().Add(72 * time.Hour), OnTimeout: false})
		if err != nil {
			return "", err // a pause: everything stays booked
		}
		if !paid {
			return undo("not paid", hotel.ID, flight.ID)
		}
		return "booked", nil
	}, &treadle.Options{Saver: saver})
}
