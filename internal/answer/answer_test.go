package answer_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/answer"
)

type order struct {
	Count int    `json:"count"`
	Size  string `json:"size,omitempty" default:"small"`
}

func TestFillAddsDefaults(t *testing.T) {
	of := reflect.TypeFor[order]()
	fits, err := answer.Schema(of)
	if err != nil || !strings.Contains(string(fits), `"count"`) {
		t.Fatalf("the schema is %s, %v", fits, err)
	}
	if raw, err := answer.Fill(of, []byte(`{"count":2}`)); err != nil || !strings.Contains(string(raw), `"size":"small"`) {
		t.Errorf("filled in: %s, %v", raw, err)
	}
	if fits, err := answer.Schema(reflect.TypeFor[any]()); fits != nil || err != nil {
		t.Errorf("any value has the schema %s, %v", fits, err)
	}
}

func TestDeadlineRejectsInvalidValue(t *testing.T) {
	fits, err := answer.Schema(reflect.TypeFor[int]())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Hour)
	if d, err := answer.Deadline(fits, time.Time{}, nil); d != nil || err != nil {
		t.Errorf("without one: %v, %v", d, err)
	}
	if d, err := answer.Deadline(fits, at, 5); err != nil || !d.At.Equal(at) || string(d.Default) != "5" {
		t.Errorf("with a value: %+v, %v", d, err)
	}
	if d, err := answer.Deadline(fits, at, nil); err != nil || d.Default != nil {
		t.Errorf("without a value: %+v, %v", d, err)
	}
	for _, wrong := range []any{"five", func() {}} {
		if _, err := answer.Deadline(fits, at, wrong); err == nil {
			t.Errorf("a deadline for a number gives %T", wrong)
		}
	}
	if _, err := answer.Deadline(fits, time.Time{}, 5); err == nil {
		t.Error("a value without a deadline was accepted")
	}
}
