// A2A serves an agent over the Agent2Agent protocol, and lets a workflow of another program
// use it. The agent asks which owl it should order, and the question interrupts the
// workflow.
//
//	go run ./examples/a2a
//
// Any other agent with A2A can take the place of either side.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client/a2a"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	address, stop, err := serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return buy(ctx, address)
}

type said struct{ Messages llm.Messages }

// serve serves a graph that asks a question, and returns its address as an agent.
func serve(ctx context.Context) (address string, stop func() error, err error) {
	b := treadle.New[llm.Chat]("shop")
	treadle.AddNode(b, "order", func(ctx context.Context, _ llm.Chat) (said, error) {
		owl, err := treadle.Interrupt[string](ctx, "Which owl would you like?")
		if err != nil {
			return said{}, err
		}
		return said{llm.Messages{llm.Assistant("Ordered: " + owl + ".")}}, nil
	})
	b.Sequence(treadle.Start, "order", treadle.End)
	g, err := b.Compile(nil)
	if err != nil {
		return "", nil, err
	}
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		return "", nil, err
	}
	handler, err := server.New(db, []treadle.AnyGraph{g}, nil)
	if err != nil {
		return "", nil, errors.Join(err, db.Close())
	}
	site := httptest.NewServer(handler)
	return site.URL + "/a2a/shop", func() error {
		err := handler.Drain(ctx)
		site.Close()
		return errors.Join(err, db.Close())
	}, nil
}

// buy runs a workflow that uses the agent at an address.
func buy(ctx context.Context, address string) error {
	shop, err := a2a.Connect(ctx, address, nil)
	if err != nil {
		return err
	}
	g, err := treadle.NewWorkflow("buy", func(ctx context.Context, wish string) (string, error) {
		reply, err := shop.Send(ctx, "", llm.User(wish))
		if err != nil {
			return "", err
		}
		return reply.Message.Text(), nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		return err
	}
	thread := g.Thread("1")
	_, err = thread.Run(ctx, "I want an owl.")
	stopped, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		return fmt.Errorf("the shop did not ask: %w", err)
	}
	var q a2a.Question
	if err := stopped.Pauses[0].Decode(&q); err != nil {
		return err
	}
	fmt.Printf("%s asks: %s\n", q.Agent, q.Message)
	out, err := thread.Resume(ctx, "the white one") // days later, and in another process if the saver is a database
	if err != nil {
		return err
	}
	fmt.Println(out)
	return nil
}
