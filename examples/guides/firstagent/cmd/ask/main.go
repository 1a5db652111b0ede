// Command ask sends one question to the agent and prints the answer.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/treadle-go/treadle/examples/guides/firstagent/support"

	"github.com/treadle-go/treadle/agent"
)

func main() {
	if err := run(context.Background(), strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, question string) error {
	model, err := support.Model()
	if err != nil {
		return err
	}
	g, err := support.New(model, nil)
	if err != nil {
		return err
	}
	out, err := g.Run(ctx, agent.Ask(question))
	if err != nil {
		return err
	}
	fmt.Println(agent.Answer(out))
	return nil
}
