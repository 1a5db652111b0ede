package server

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/treadletype"
)

// question is an interrupt that a thread waits on.
type question struct {
	ID     string                `json:"id"`
	Value  json.RawMessage       `json:"value"`
	Schema any                   `json:"response_schema,omitempty"`
	Kind   treadletype.PauseKind `json:"kind,omitempty"`
	Key    string                `json:"-"` // the program's name of the question, if any
}

// questions returns the pending interrupts of a thread, ordered by task ID. It omits waits for
// a time or a signal.
func questions(interrupts json.RawMessage) (out []question) {
	var byTask map[string][]struct {
		question
		Key string `json:"key"`
	}
	if json.Unmarshal(interrupts, &byTask) != nil {
		return nil
	}
	for _, list := range byTask {
		for _, q := range list {
			q.question.Key = q.Key
			out = append(out, q.question)
		}
	}
	out = slices.DeleteFunc(out, func(q question) bool { return q.Kind != treadletype.QuestionPause })
	slices.SortFunc(out, func(a, b question) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// questionsIn returns the interrupts that a run ended with.
func questionsIn(values json.RawMessage) []question {
	var v struct {
		Questions []question `json:"__interrupt__"`
	}
	if json.Unmarshal(values, &v) != nil {
		return nil
	}
	return v.Questions
}

// asked is like questionsIn, without the waits for a time or a signal.
func asked(values json.RawMessage) []question {
	return slices.DeleteFunc(questionsIn(values), func(q question) bool { return q.Kind != treadletype.QuestionPause })
}
