package main

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
)

type echo struct{ llm.Model }

func main() {
	g, err := agent.New(echo{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Run(context.Background(), agent.Ask("hello")))
}
