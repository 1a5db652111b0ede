// Command answers answers a question from the files in a folder, with citations.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	flag.Parse()
	if err := run(context.Background(), flag.Arg(0), flag.Arg(1)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, folder, question string) (err error) {
	db, err := sqlite.Open("answers.db", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	index, err := retrieval.Open(db, nil)
	if err != nil {
		return err
	}
	report, err := index.Sync(ctx, retrieval.Dir(folder, nil), nil)
	if err != nil {
		return err
	}
	fmt.Println(report)
	answers, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{retrieval.Middleware(index, nil)}})
	if err != nil {
		return err
	}
	out, err := answers.Run(ctx, agent.Ask(question))
	if err != nil {
		return err
	}
	fmt.Println(agent.Answer(out))
	for _, c := range retrieval.CitationsOf(out.Messages[len(out.Messages)-1]) {
		fmt.Printf("[%d] %s: %s\n", c.Number, c.Place(), c.Text)
	}
	return nil
}
