package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/store"
)

// Chat is a conversation, its last message at the end.
type Chat struct{ Messages reduce.List[string] }

func (c Chat) last() string { return c.Messages[len(c.Messages)-1] }

// A reply contains the writes of a node.
type reply struct{ Messages reduce.List[string] }

// User is who a run is for.
type User struct{ ID string }

// memoriesOf returns the namespace of the run's user.
func memoriesOf(ctx context.Context) store.Namespace {
	user, _ := treadle.ContextFrom[User](ctx)
	return store.Namespace{user.ID, "memories"}
}

// A saver keeps a thread, and a store keeps data about the user: what the user said in
// thread 1 is available in thread 2, but not to other users.
//
// Sample: C5.
func Example_acrossThreads() {
	ctx := context.Background()
	updateMemory := func(ctx context.Context, chat Chat) (nothing struct{}, err error) {
		fact, ok := strings.CutPrefix(chat.last(), "remember: ")
		if !ok {
			return nothing, nil
		}
		return nothing, treadle.StoreFrom(ctx).Put(ctx, memoriesOf(ctx), fact, map[string]string{"memory": fact}, nil)
	}
	callModel := func(ctx context.Context, chat Chat) (reply, error) {
		items, err := treadle.StoreFrom(ctx).Search(ctx, memoriesOf(ctx), &store.SearchOptions{Query: chat.last(), Limit: 3})
		if err != nil {
			return reply{}, err
		}
		answer := "I know nothing of that."
		for _, item := range items {
			var known struct{ Memory string }
			if err := item.Decode(&known); err != nil {
				return reply{}, err
			}
			answer = "You told me: " + known.Memory
		}
		return reply{reduce.List[string]{answer}}, nil
	}
	b := treadle.New[Chat]("assistant")
	treadle.AddNode(b, "update_memory", updateMemory)
	treadle.AddNode(b, "call_model", callModel)
	b.Sequence(treadle.Start, "update_memory", "call_model", treadle.End)
	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory(), Store: treadle.Must(store.NewMemory(nil))})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, turn := range []struct{ thread, user, text string }{
		{"1", "1", "remember: I like pizza"},
		{"2", "1", "hi, which pizza do I like?"},
		{"3", "2", "hi, which pizza do I like?"},
	} {
		chat, err := g.With(treadle.Context(User{turn.user})).Thread(turn.thread).Run(ctx, Chat{reduce.List[string]{turn.text}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("thread %s, user %s: %s\n", turn.thread, turn.user, chat.last())
	}
	// Output:
	// thread 1, user 1: You told me: I like pizza
	// thread 2, user 1: You told me: I like pizza
	// thread 3, user 2: I know nothing of that.
}

// An agent that rewrites its own instructions: they are in the store, call_model
// reads them, update_instructions changes them, and the next run uses the new
// ones.
//
// Sample: C6.
func Example_proceduralMemory() {
	ctx := context.Background()
	type instructions struct {
		Instructions string `json:"instructions"`
	}
	namespace := store.Namespace{"agent_instructions"}
	read := func(ctx context.Context) (in instructions, err error) {
		item, err := treadle.StoreFrom(ctx).Get(ctx, namespace, "agent_a", nil)
		if errors.Is(err, store.ErrNotFound) {
			return instructions{"Be polite."}, nil
		}
		if err != nil {
			return in, err
		}
		return in, item.Decode(&in)
	}
	callModel := func(ctx context.Context, _ Chat) (reply, error) {
		in, err := read(ctx)
		return reply{reduce.List[string]{"(" + in.Instructions + ") Here is your answer."}}, err
	}
	updateInstructions := func(ctx context.Context, chat Chat) (nothing struct{}, err error) {
		in, err := read(ctx)
		if err != nil {
			return nothing, err
		}
		in.Instructions += " " + chat.Messages[0] // as a model would apply the feedback
		return nothing, treadle.StoreFrom(ctx).Put(ctx, namespace, "agent_a", in, nil)
	}
	b := treadle.New[Chat]("agent")
	treadle.AddNode(b, "call_model", callModel)
	treadle.AddNode(b, "update_instructions", updateInstructions)
	b.Sequence(treadle.Start, "call_model", "update_instructions", treadle.End)
	g, err := b.Compile(&treadle.Options{Store: treadle.Must(store.NewMemory(nil))})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, feedback := range []string{"Be brief.", "No jokes."} {
		chat, err := g.Run(ctx, Chat{reduce.List[string]{feedback}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(chat.last())
	}
	// Output:
	// (Be polite.) Here is your answer.
	// (Be polite. Be brief.) Here is your answer.
}
