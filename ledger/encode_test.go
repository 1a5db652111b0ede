package ledger

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// fill sets about half of the exported fields of a struct, including through
// pointers, so that the test also covers fields added later.
func fill(r *rand.Rand, v reflect.Value) {
	words := []string{"", "plain", `"quoted" \ <b>&`, "Grüße\n", "line\u2028", "\xff", strings.Repeat("x", 300)}
	object := func() Object {
		return Object{"s": words[r.IntN(len(words))], words[r.IntN(len(words))]: json.Number("12345678901234567890"), "f": 1.5, "n": nil, "b": true,
			"l": []any{"a", nil, map[string]any{}}, "none": []any(nil), "o": map[string]any{"z": 1, "a": Object{"<": "x"}}, "empty": map[string]any{}, "nil": map[string]any(nil)}
	}
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.CanSet() || r.IntN(2) == 0 {
			continue
		}
		switch f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(time.UnixMicro(r.Int64N(2e15)).UTC()))
		case uuid.UUID:
			f.Set(reflect.ValueOf(uuid.New()))
		case Object:
			f.Set(reflect.ValueOf([]Object{{}, object()}[r.IntN(2)]))
		case json.RawMessage:
			f.Set(reflect.ValueOf(json.RawMessage([]string{"{}", `{"t": ["<x>", 1 ]}`}[r.IntN(2)])))
		case *int:
			f.Set(reflect.ValueOf(new(r.IntN(11) - 5)))
		case []string:
			f.Set(reflect.ValueOf([]string{words[r.IntN(len(words))]}))
		default:
			switch f.Kind() {
			case reflect.String:
				f.SetString(words[r.IntN(len(words))])
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Int:
				f.SetInt(r.Int64N(100) - 50)
			case reflect.Uint64:
				f.SetUint(r.Uint64())
			case reflect.Float64:
				f.SetFloat(r.Float64())
			case reflect.Pointer:
				f.Set(reflect.New(f.Type().Elem()))
				fill(r, f.Elem())
			case reflect.Struct:
				fill(r, f)
			default:
				panic("no values for " + v.Type().Field(i).Name)
			}
		}
	}
}

func TestRowEncodingMatchesJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		run := &Run{}
		fill(r, reflect.ValueOf(run).Elem())
		run.revision, run.priority = r.IntN(3), r.IntN(11)-5
		want, err := json.Marshal(&runDoc{
			Run: run, Graph: run.Graph, Temporary: run.Temporary, Resumable: run.Resumable,
			Due: run.Due, Started: run.Started, Ended: run.Ended,
			Worker: run.Worker, Attempt: run.Attempt, Order: run.Order,
			Head: run.Head, Failure: run.Failure, Key: run.Key, Webhook: run.Webhook, Revision: run.revision, Priority: run.priority,
			Task: run.Task, Waits: run.Waits,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.encode(); err != nil || string(got) != string(want) {
			t.Fatalf("run: %v\n%s, want\n%s", err, got, want)
		}

		d := &threadDoc{Thread: &Thread{}}
		fill(r, reflect.ValueOf(d).Elem())
		if want, err = json.Marshal(d); err != nil {
			t.Fatal(err)
		}
		if got, err := d.encode(); err != nil || string(got) != string(want) {
			t.Fatalf("thread: %v\n%s, want\n%s", err, got, want)
		}
	}
}

func TestEncodeReportsInvalidValues(t *testing.T) {
	for _, run := range []*Run{{Metadata: Object{"f": func() {}}}, {Created: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)}} {
		if _, err := run.encode(); err == nil {
			t.Errorf("invalid run %v encoded", run)
		}
	}
	if _, err := (&threadDoc{Thread: &Thread{Interrupts: json.RawMessage("{")}}).encode(); err == nil {
		t.Error("invalid JSON encoded")
	}
}
