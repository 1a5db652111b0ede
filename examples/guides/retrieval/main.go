// Command answers answers a question from the files in a folder, with citations.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/sqlite"
)

func check[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func main() {
	flag.Parse()
	ctx, folder, question := context.Background(), flag.Arg(0), flag.Arg(1)
	db := check(sqlite.Open("answers.db", nil))
	defer func() { check(0, db.Close()) }()
	index := check(retrieval.Open(db, nil))
	fmt.Println(check(index.Sync(ctx, retrieval.Dir(folder, nil), nil)))
	answers := check(agent.New(model, &agent.Options{Middleware: []*agent.Middleware{retrieval.Middleware(index, nil)}}))
	out := check(answers.Run(ctx, agent.Ask(question)))
	fmt.Println(agent.Answer(out))
	for _, c := range retrieval.CitationsOf(out.Messages[len(out.Messages)-1]) {
		fmt.Printf("[%d] %s: %s\n", c.Number, c.Place(), c.Text)
	}
}
