// Command answers answers a question from the files in a folder, with citations.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	ctx, folder, question := context.Background(), os.Args[1], os.Args[2]
	db := treadle.Must(sqlite.Open("answers.db", nil))
	defer func() { _ = db.Close() }()
	index := treadle.Must(retrieval.Open(db, nil))
	fmt.Println(treadle.Must(index.Sync(ctx, retrieval.Dir(folder, nil), nil)))
	answers := treadle.Must(agent.New(model, &agent.Options{Middleware: []*agent.Middleware{retrieval.Middleware(index, nil)}}))
	out := treadle.Must(answers.Run(ctx, agent.Ask(question)))
	fmt.Println(agent.Answer(out))
	for _, c := range retrieval.CitationsOf(out.Messages[len(out.Messages)-1]) {
		fmt.Printf("[%d] %s: %s\n", c.Number, c.Place(), c.Text)
	}
}
