package treadle_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// The schemas describe the input, output, and context of a graph to clients.
func ExampleGraph_Schemas() {
	type Question struct{ Text string }
	type Answer struct{ Words reduce.List[string] }
	type State struct {
		Text  string              `json:"text"`
		Words reduce.List[string] `json:"words"`
	}
	type User struct {
		Name string `json:"name"`
	}

	b := treadle.New[State]("split")
	treadle.ContextType[User](b)
	treadle.AddNode(b, "split", func(_ context.Context, q Question) (Answer, error) {
		return Answer{reduce.List[string]{q.Text}}, nil
	})
	b.Edge(treadle.Start, "split")
	g := treadle.Must(treadle.Compile[Question, Answer](b, nil))

	schemas, err := g.Schemas()
	fmt.Println(err)
	for _, s := range []*jsonschema.Schema{schemas.Input, schemas.Output, schemas.Context} {
		raw, err := json.Marshal(s)
		fmt.Println(string(raw), err)
	}
	// Output:
	// <nil>
	// {"type":"object","properties":{"text":{"type":"string"}}} <nil>
	// {"type":"object","properties":{"words":{"type":["null","array"],"items":{"type":"string"}}}} <nil>
	// {"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false} <nil>
}
