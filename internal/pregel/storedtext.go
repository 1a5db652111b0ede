package pregel

import (
	"encoding/json"
	"maps"
	"slices"
)

// The functions below encode the interrupts and answers of most runs, in a fraction
// of the time that encoding/json takes. The output is the same, except that
// embedded JSON keeps its spaces. All others fall back to encoding/json.

// encodePauses returns the saved form of pauses.
func encodePauses(ps []Pause) ([]byte, error) {
	size := 2
	for i := range ps {
		p := &ps[i]
		if len(p.Namespace) > 0 || !p.Due.IsZero() || p.Default != nil || !json.Valid(p.Value) || len(p.Schema) > 0 && !json.Valid(p.Schema) {
			return json.Marshal(ps)
		}
		size += 96 + len(p.ID) + len(p.Value) + len(p.Node) + len(p.Key) + len(p.Schema)
	}
	b := append(make([]byte, 0, size), '[')
	for i := range ps {
		p := &ps[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"id":`...), p.ID)
		b = append(append(b, `,"value":`...), p.Value...)
		b = appendText(append(b, `,"node":`...), p.Node)
		if p.Key != "" {
			b = appendText(append(b, `,"key":`...), p.Key)
		}
		if len(p.Schema) > 0 {
			b = append(append(b, `,"schema":`...), p.Schema...)
		}
		if p.Kind != "" {
			b = appendText(append(b, `,"kind":`...), string(p.Kind))
		}
		b = append(b, '}')
	}
	return append(b, ']'), nil
}

// encodeAnswers returns the saved form of a task's answers.
func encodeAnswers(answers map[string]answer) ([]byte, error) {
	size := 2
	for id, a := range answers {
		if !a.Deadline.IsZero() || !json.Valid(a.Question) || !json.Valid(a.Answer) {
			return json.Marshal(answers)
		}
		size += 32 + len(id) + len(a.Question) + len(a.Answer)
	}
	b := append(make([]byte, 0, size), '{')
	for i, id := range slices.Sorted(maps.Keys(answers)) {
		if i > 0 {
			b = append(b, ',')
		}
		a := answers[id]
		b = appendText(b, id)
		b = append(append(b, `:{"question":`...), a.Question...)
		b = append(append(b, `,"answer":`...), a.Answer...)
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

// appendText appends a string as JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			raw, _ := json.Marshal(s) // encoding a string never fails
			return append(b, raw...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
