package client_test

import (
	"strings"
	"testing"

	"github.com/treadle-go/treadle/client"
)

func TestNewRejectsNegativeOptions(t *testing.T) {
	for want, opts := range map[string]*client.Options{
		"client: invalid Options.Silence -1ns: want more than 0, or 0 for 1m0s":      {Silence: -1},
		"client: invalid Options.MaxResponse -1: want 1 or more, or 0 for 268435456": {MaxResponse: -1},
	} {
		if _, err := client.New("http://127.0.0.1:2024", opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}
