// Package platform contains the ten graphs that the platform example serves. Together
// they use every feature of the server: a streaming tool loop, interrupts, subgraphs,
// sends, custom events, slow and failing nodes, configuration, and the store.
//
// The graphs have neither a saver nor a store; the server provides both.
package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// All returns the graphs. Clients refer to them by their IDs, which are the names passed
// to treadle.New.
func All() ([]treadle.AnyGraph, error) { return compile(nil) }

func compile(opts *treadle.Options) ([]treadle.AnyGraph, error) {
	var all []treadle.AnyGraph
	var errs []error
	for _, build := range []func(*treadle.Options) (treadle.AnyGraph, error){
		newAgent, newHITL, newNested, newFanout, newCustom, newSlow, newFailing, newConfigurable, newMemory, newRouter,
	} {
		g, err := build(opts)
		all, errs = append(all, g), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

// compiled compiles a graph and erases its type.
func compiled[S any](b *treadle.Builder[S], opts *treadle.Options) (treadle.AnyGraph, error) {
	g, err := b.Compile(opts)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// config returns the configuration of the run that ctx belongs to: "configurable",
// "tags", and "metadata".
func config(ctx context.Context) map[string]any { return treadle.InfoFrom(ctx).Config }

// list is a field whose updates append. Unlike reduce.List, it also accepts a single
// string as an update, as LangGraph clients may send it.
type list []string

// Reduce returns l followed by u.
func (l list) Reduce(u list) list { return append(slices.Clip(l), u...) }

// Reducer lets the engine append without copying.
func (list) Reducer() reduce.Reducer { return reduce.Appending[list, string]{} }

// MarshalJSON writes an empty list as [], never as null.
func (l list) MarshalJSON() ([]byte, error) { return json.Marshal(append([]string{}, l...)) }

// UnmarshalJSON decodes a list of strings, or a single string as a list of one.
func (l *list) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte(`"`)) {
		*l = list{""}
		return json.Unmarshal(raw, &(*l)[0])
	}
	return json.Unmarshal(raw, (*[]string)(l))
}
