package treadle_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

type trip struct{ City string }

// booked is the outcome of a booking. A rejection is a result, not an error, so it is
// recorded.
type booked struct {
	ID      string
	Refused string
}

// A saga undoes its finished steps if a later step is rejected. Neither a pause nor the
// end of the run's context is a rejection: nothing is undone, and the thread can continue.
func Example_saga() {
	step := func(name string, does func(trip) booked) *treadle.Task[trip, booked] {
		return treadle.NewTask(name, func(_ context.Context, t trip) (booked, error) {
			out := does(t)
			fmt.Println(name, out.ID+out.Refused)
			return out, nil
		})
	}
	bookFlight := step("book flight", func(trip) booked { return booked{ID: "F1"} })
	bookHotel := step("book hotel", func(trip) booked { return booked{Refused: "is refused: no rooms"} })
	cancelFlight := step("cancel flight", func(trip) booked { return booked{ID: "F1"} })

	saga := func(ctx context.Context, t trip) (string, error) {
		if _, err := bookFlight.Run(ctx, t); err != nil {
			return "", err
		}
		if _, err := treadle.Interrupt[bool](ctx, "Book a hotel in "+t.City+"?"); err != nil {
			return "", err // a pause: the flight stays booked
		}
		hotel, err := bookHotel.Run(ctx, t)
		if err != nil {
			return "", err // the run has ended, or the hotel did not respond: Continue tries again
		}
		if hotel.Refused != "" {
			_, err := cancelFlight.Run(ctx, t)
			return "canceled: " + hotel.Refused, err
		}
		return "booked", nil
	}
	g := treadle.Must(treadle.NewWorkflow("trip", saga, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx, thread := context.Background(), g.Thread("1")
	_, err := thread.Run(ctx, trip{"Rome"})
	fmt.Println("paused:", treadle.IsPause(err))

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = thread.Resume(ended, true)
	fmt.Println(err != nil, "and nothing was undone")

	fmt.Println(thread.Resume(ctx, true))
	// Output:
	// book flight F1
	// paused: true
	// true and nothing was undone
	// book hotel is refused: no rooms
	// cancel flight F1
	// canceled: is refused: no rooms <nil>
}
