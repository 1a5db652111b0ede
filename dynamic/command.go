package dynamic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/pregel"
)

// commandInput parses a command in LangGraph's format.
func commandInput(raw json.RawMessage) (pregel.Input, error) {
	var c struct {
		Resume json.RawMessage `json:"resume"`
		Update json.RawMessage `json:"update"`
		Goto   json.RawMessage `json:"goto"`
	}
	err := json.Unmarshal(raw, &c) // rejects data after the object
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields() // a misspelled key would be lost
		err = d.Decode(&c)
	}
	if err != nil {
		return pregel.Input{}, fmt.Errorf("%w: want {\"resume\", \"update\", \"goto\"}", err)
	}
	in := pregel.Input{Continue: true, First: true, AsRecord: true}
	if c.Resume != nil {
		in.Resume = &pregel.Resume{One: c.Resume}
		var byID map[string]json.RawMessage
		if json.Unmarshal(c.Resume, &byID) == nil && len(byID) > 0 && allPauseIDs(byID) {
			in.Resume = &pregel.Resume{ByID: byID}
		}
	}
	targets, err := gotoOf(c.Goto)
	if err != nil {
		return in, err
	}
	switch {
	case len(targets) > 0:
		in.Also = pregel.JSONCommand{Update: c.Update, Goto: targets}
	case c.Update != nil:
		in.Also = pregel.JSONCommand{Update: c.Update}
	}
	if in.Resume == nil && in.Also == nil {
		return in, errors.New("missing resume, update, or goto")
	}
	return in, nil
}

// gotoOf parses a target or a list of targets.
func gotoOf(raw json.RawMessage) (treadle.Goto, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list treadle.Goto
	if raw[0] == '[' {
		err := json.Unmarshal(raw, &list)
		return list, err
	}
	list = make(treadle.Goto, 1)
	return list, json.Unmarshal(raw, &list[0])
}

// allPauseIDs reports whether all keys of an object are interrupt IDs, which
// distinguishes answers by ID from an answer that is an object.
func allPauseIDs(m map[string]json.RawMessage) bool {
	for k := range m {
		if len(k) != 32 || strings.Trim(k, "0123456789abcdef") != "" {
			return false
		}
	}
	return true
}
