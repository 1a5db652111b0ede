package pregel

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/treadle-go/treadle/treadletype"
)

// Interrupts and answers are saved in the form of encoding/json and decoded unchanged.
func TestPauseEncodingMatchesEncodingJSON(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	text := func() string {
		return []string{"", "plain", "a \"quoted\" <é> & \n", "\x7f\u2028", "0b6f2a1e-61b8"}[rnd.IntN(5)]
	}
	raw := func() json.RawMessage {
		return json.RawMessage([]string{`1`, `"how many?"`, `{"a":[1,null]}`, `null`, `"\u003cé\u003e"`}[rnd.IntN(5)])
	}
	maybe := func(v json.RawMessage) json.RawMessage {
		if rnd.IntN(2) == 0 {
			return nil
		}
		return v
	}
	for range 2000 {
		var pauses []Pause
		for range 1 + rnd.IntN(3) {
			p := Pause{ID: text(), Value: raw(), Node: text(), Key: text(), Schema: maybe(raw()), Kind: treadletype.PauseKind(text())}
			switch rnd.IntN(6) {
			case 0:
				p.Namespace = []string{text()}
			case 1:
				p.Due, p.Default = time.Unix(1700000000, 5).UTC(), maybe(raw())
			}
			pauses = append(pauses, p)
		}
		sameJSONOf(t, pauses, encodePauses)

		answers := map[string]answer{}
		for range rnd.IntN(4) {
			a := answer{Question: raw(), Answer: raw()}
			if rnd.IntN(6) == 0 {
				a.Question, a.Answer, a.Deadline = maybe(raw()), maybe(raw()), time.Unix(1700000000, 0).UTC()
			}
			answers[text()] = a
		}
		sameJSONOf(t, answers, encodeAnswers)
	}
}

func sameJSONOf[T any](t *testing.T, v T, encode func(T) ([]byte, error)) {
	t.Helper()
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := encode(v)
	if err != nil || string(got) != string(want) {
		t.Fatalf("it is stored as %s, %v; want %s", got, err, want)
	}
	var back, by T
	if err := unmarshal(got, &back); err != nil || json.Unmarshal(got, &by) != nil || !reflect.DeepEqual(back, by) {
		t.Fatalf("%s is read as %+v, %v; want %+v", got, back, err, by)
	}
}

// An invalid JSON value is rejected when it is saved, not when it is read.
func TestInvalidJSONQuestionIsRejected(t *testing.T) {
	broken := json.RawMessage(`{"type":`)
	for _, p := range []Pause{{Value: broken}, {Value: json.RawMessage("1"), Schema: broken}} {
		if raw, err := encodePauses([]Pause{p}); err == nil {
			t.Errorf("%+v is stored as %s", p, raw)
		}
	}
	for _, a := range []answer{{Question: broken, Answer: json.RawMessage("1")}, {Question: json.RawMessage("1"), Answer: broken}} {
		if raw, err := encodeAnswers(map[string]answer{"id": a}); err == nil {
			t.Errorf("%+v is stored as %s", a, raw)
		}
	}
}

// An answer that a client sends may have spaces, which are kept.
func TestAnswersKeepSpaces(t *testing.T) {
	given := map[string]answer{"id": {Question: json.RawMessage(`"?"`), Answer: json.RawMessage("{ \"a\" :\n 1 }")}}
	raw, err := encodeAnswers(given)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]answer
	if err := unmarshal(raw, &back); err != nil || !sameJSON(back["id"].Answer, given["id"].Answer) {
		t.Errorf("%s is read as %+v, %v", raw, back, err)
	}
}
