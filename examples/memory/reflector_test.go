package memory_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// While messages keep coming, nothing is extracted. Half a second after the last message
// the whole conversation is processed once. (In practice, wait for half an hour.)
//
// Sample: E2.
func Example_delayedProcessing() {
	ctx := context.Background()
	extract := func(_ context.Context, thread string, conversation llm.Messages) (int, error) {
		fmt.Printf("extraction from thread %s:\n", thread)
		for _, m := range conversation {
			fmt.Printf("  %s: %s\n", m.Role, m.Text())
		}
		return len(conversation), nil
	}
	reflector := treadle.Must(memory.NewReflector(extract, nil))

	model := llmtest.NewScript(llmtest.Say("Nice!"), llmtest.Say("A classic."), llmtest.Say("Good boy."))
	b := treadle.New[llm.Chat]("chat")
	treadle.AddNode(b, "chat", func(ctx context.Context, chat llm.Chat) (reply, error) {
		answer, err := llm.Generate(ctx, model, chat.Messages...)
		if err != nil {
			return reply{}, err
		}
		toProcess := llm.Messages{chat.Messages[len(chat.Messages)-1], answer}
		_, err = reflector.Submit(ctx, treadle.InfoFrom(ctx).Thread, toProcess, 500*time.Millisecond)
		return reply{llm.Messages{answer}}, err
	})
	b.Edge(treadle.Start, "chat")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	for _, text := range []string{"I like dogs.", "My dog's name is Fido.", "He is three."} {
		if _, err := g.Thread("7").Run(ctx, llm.Chat{Messages: llm.Messages{llm.User(text)}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := reflector.Drain(ctx); err != nil {
		fmt.Println(err)
	}
	if err := reflector.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// extraction from thread 7:
	//   human: I like dogs.
	//   ai: Nice!
	//   human: My dog's name is Fido.
	//   ai: A classic.
	//   human: He is three.
	//   ai: Good boy.
}

// A durable reflector keeps pending work in a store. Work that the end of the process
// interrupts is done by the next process.
func Example_durableReflector() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "reflector")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	process := func(do func(*memory.Reflector[llm.Messages, string]) error) error {
		db, err := sqlite.Open(filepath.Join(dir, "agent.db"), nil)
		if err != nil {
			return err
		}
		defer db.Close()
		s, err := db.Store(nil)
		if err != nil {
			return err
		}
		extract := func(_ context.Context, thread string, ms llm.Messages) (string, error) {
			fmt.Printf("extraction from thread %s: %s\n", thread, ms[0].Text())
			return "", nil
		}
		r, err := memory.OpenReflector(ctx, s, store.Namespace{"reflector"}, extract, nil)
		if err != nil {
			return err
		}
		if err := do(r); err != nil {
			return err
		}
		return r.Close(ctx)
	}
	err = process(func(r *memory.Reflector[llm.Messages, string]) error {
		_, err := r.Submit(ctx, "7", llm.Messages{llm.User("I like dogs.")}, 30*time.Minute)
		return err
	})
	fmt.Println("the first process has ended:", err)
	err = process(func(r *memory.Reflector[llm.Messages, string]) error { return r.Flush(ctx) })
	fmt.Println("the second process has ended:", err)
	// Output:
	// the first process has ended: <nil>
	// extraction from thread 7: I like dogs.
	// the second process has ended: <nil>
}
