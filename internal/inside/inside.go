// Package inside connects packages to the unexported parts of others. Package treadle sets these
// functions when the program starts.
//
// Parameters and results of type any have types of package treadle, which this package
// cannot import.
package inside

import (
	"reflect"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
)

var (
	// Graph converts a treadle.AnyGraph to a *treadle.Graph[pregel.Input, *pregel.Record]. The
	// last event of its streams is a treadle.Finished[json.RawMessage].
	Graph func(graph any) any

	// Base returns a treadle.RunOption that changes the settings of a graph as soon as it is
	// applied, because threads read the saver before their first run. defaultCache reports
	// whether the graph was compiled without a cache.
	Base func(change func(s *pregel.Settings, defaultCache bool)) any

	// Reads returns a treadle.NodeOption that makes a node read further structs of fields; see
	// pregel.ReadOf.
	Reads func(types ...reflect.Type) any

	// Record returns the fields of a treadle.Record, or nil for the zero Record.
	Record func(record any) *pregel.Record

	// Around returns the checkpoints of the parent graphs of a *treadle.Snapshot, by
	// namespace, if the snapshot belongs to a subgraph's event.
	Around func(snapshot any) map[string]checkpoint.ID

	// TaskOf describes a *treadle.TaskState.
	TaskOf func(task any) Task

	// Tried returns the attempts of the task of a treadle.TaskFinished, or nil after one attempt.
	Tried func(event any) *pregel.Tried
)

// Task is the unexported part of a treadle.TaskState.
type Task struct {
	Nested string // the namespace of the subgraph that the task runs, if any
	Sent   int    // its index among the sends of the step, or -1
	Tried  *pregel.Tried
}
