package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFinishedStepsAreNotRepeated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "orders.db")
	run := func(down bool) ([]string, error) {
		var out bytes.Buffer
		err := process(t.Context(), file, "42", &services{out: &out, down: down})
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(lines) // the first two steps run at the same time
		return lines, err
	}
	first, err := run(true)
	if err == nil || !strings.Contains(err.Error(), "the shipping company does not answer") {
		t.Errorf("the first run ended with %v", err)
	}
	if want := []string{"charge order 42", "reserve order 42"}; !slices.Equal(first, want) {
		t.Errorf("the first run did %q, want %q", first, want)
	}
	const done = "done: {Reservation:reserve-42 Payment:charge-42 Parcel:ship-42}"
	second, err := run(false)
	if want := []string{done, "ship order 42"}; err != nil || !slices.Equal(second, want) {
		t.Errorf("the second run did %q, %v, want %q", second, err, want)
	}
	third, err := run(false)
	if want := []string{done}; err != nil || !slices.Equal(third, want) {
		t.Errorf("the third run did %q, %v, want %q", third, err, want)
	}
}
