package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/sqlite"
)

func TestProgramPrintsSteps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trip.db")
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"book", "Rome"}, "booked the flight for Rome\ncanceled the flight for Rome\ncanceled: no rooms in Rome\n"},
		{[]string{"book", "Oslo"}, "booked the flight for Oslo\nbooked the hotel for Oslo\nwaiting for the payment\n"},
		{[]string{"cancel", "Oslo"}, "canceled the hotel for Oslo\ncanceled the flight for Oslo\ncanceled: not paid\n"},
		{[]string{"book", "Bonn"}, "booked the flight for Bonn\nbooked the hotel for Bonn\nwaiting for the payment\n"},
		{[]string{"pay", "Bonn"}, "booked\n"},
		{[]string{"pay", "Bonn"}, "booked\n"}, // a second payment, which no trip may take
		{[]string{"book", "Bonn"}, "booked\n"},
		{[]string{"book", "Nice"}, "booked the flight for Nice\nbooked the hotel for Nice\nwaiting for the payment\n"},
		{[]string{"book", "Nice"}, "waiting for the payment\n"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), file, step.args, &out); err != nil || out.String() != step.want {
			t.Errorf("%v printed %q, want %q: %v", step.args, out.String(), step.want, err)
		}
	}
}

// A process dies while it books the hotel. The next process continues the trip.
func TestProgramBooksOnceAfterCrash(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trip.db")
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, die := context.WithCancel(t.Context())
	g, err := newTrip(&dying{die: die}, db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("Oslo").Run(ctx, "Oslo"); err == nil {
		t.Error("run succeeded, want cancellation")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), file, []string{"book", "Oslo"}, &out); err != nil {
		t.Fatal(err)
	}
	if want := "booked the hotel for Oslo\nwaiting for the payment\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// dying is an agency that ends the run when it books a hotel.
type dying struct {
	fake
	die func()
}

func (d *dying) Book(ctx context.Context, what, city, key string) (Booking, error) {
	if what == "hotel" {
		d.die()
		return Booking{}, ctx.Err()
	}
	return d.fake.Book(ctx, what, city, key)
}
