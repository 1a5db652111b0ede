package treadle

import (
	"encoding/json"
	"reflect"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/inside"
	"github.com/treadle-go/treadle/internal/pregel"
)

func init() { //nolint:gochecknoinits // package dynamic cannot reach unexported names otherwise
	inside.Graph = func(g any) any {
		return &Graph[pregel.Input, *pregel.Record]{core: *g.(AnyGraph).graph(),
			wrap: func(in pregel.Input) pregel.Input { return in }, last: finishJSON}
	}
	inside.Base = func(change func(*pregel.Settings, bool)) any { return baseOption(change) }
	inside.Reads = func(types ...reflect.Type) any {
		return nodeOption(func(n *pregel.NodeSpec) { n.Reads = append(n.Reads, types...) })
	}
	inside.Record = func(r any) *pregel.Record { return r.(Record).r }
	inside.Around = func(s any) map[string]checkpoint.ID { return s.(*Snapshot).around }
	inside.TaskOf = func(task any) inside.Task {
		t := task.(*TaskState)
		return inside.Task{Nested: t.nested, Sent: t.sent, Tried: t.tried}
	}
	inside.Tried = func(ev any) *pregel.Tried { return ev.(TaskFinished).tried }
}

// baseOption is a [RunOption] that changes the settings of a graph in [Graph.With]; see
// [inside.Base].
type baseOption func(s *pregel.Settings, defaultCache bool)

// run implements [RunOption]. It does nothing, because With has called the option.
func (baseOption) run(*pregel.Settings) {}

// finishJSON returns the last event of a stream of records. A run without output has a nil
// record.
func finishJSON(at Origin, out any) Event {
	end := Finished[json.RawMessage]{Origin: at}
	if out == nil {
		return end
	}
	raw, err := json.Marshal(out)
	if err == nil { // else a type without JSON, in a graph without a saver
		end.Output = raw
	}
	return end
}
