package workflows_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Essay is the result of the workflow.
type Essay struct {
	Essay      string `json:"essay"`
	IsApproved bool   `json:"is_approved"`
}

// review is the interrupt value.
type review struct {
	Essay  string `json:"essay"`
	Action string `json:"action"`
}

// writeEssay takes its time, so its result is recorded.
var writeEssay = treadle.NewTask("write_essay", func(_ context.Context, topic string) (string, error) {
	fmt.Println("writing about", topic)
	return "An essay about topic: " + topic, nil
})

func essayWorkflow(ctx context.Context, topic string) (Essay, error) {
	essay, err := writeEssay.Run(ctx, topic)
	if err != nil {
		return Essay{}, err
	}
	approved, err := treadle.Interrupt[bool](ctx, review{essay, "Please approve/reject the essay"})
	if err != nil {
		return Essay{}, err
	}
	return Essay{essay, approved}, nil
}

// A workflow is a function. When it is resumed it runs again from its beginning, but
// finished tasks do not.
//
// Sample: B20.
func Example_essay() {
	g := treadle.Must(treadle.NewWorkflow("essay", essayWorkflow, &treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("1")
	_, err := thread.Run(ctx, "cat")
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		fmt.Printf("asks %s\n", stop.Pauses[0].Value)
	}
	out, err := thread.Resume(ctx, true)
	fmt.Printf("%+v %v\n", out, err)
	// Output:
	// writing about cat
	// asks {"essay":"An essay about topic: cat","action":"Please approve/reject the essay"}
	// {Essay:An essay about topic: cat IsApproved:true} <nil>
}
