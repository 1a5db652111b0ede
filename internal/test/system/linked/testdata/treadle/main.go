package main

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
)

type state struct{ Text string }

func main() {
	b := treadle.New[state]("program")
	treadle.AddNode(b, "greet", func(_ context.Context, s state) (state, error) { return state{"hello " + s.Text}, nil })
	b.Edge(treadle.Start, "greet")
	g, err := b.Compile(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Run(context.Background(), state{"you"}))
}
