package treadletype_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/treadle-go/treadle/treadletype"
)

func TestPauseFormatsAsText(t *testing.T) {
	pause := treadletype.Pause{ID: "1", Node: "ask", Value: json.RawMessage(`"why?"`)}
	if got, want := fmt.Sprintf("%v", []treadletype.Pause{pause}), `[node "ask" asks "why?" (ID 1)]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
