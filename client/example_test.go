package client_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/client"
)

// This example runs a graph on a new thread of a server, and prints the state after the run.
func Example() { //nolint:testableexamples // requires a server
	ctx := context.Background()
	c, err := client.New("http://localhost:2024", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	thread, err := c.Threads.Create(ctx, &client.ThreadCreate{Metadata: map[string]any{"user": "ann"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	values, err := c.Runs.Wait(ctx, thread.ID, &client.RunCreate{Assistant: "research", Input: map[string]string{"topic": "bees"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(values))
}
