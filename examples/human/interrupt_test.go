package human_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Text is a state with a text in it.
type Text struct {
	SomeText string `json:"some_text"`
}

// revise is the question of these examples.
type revise struct {
	TextToRevise string `json:"text_to_revise"`
}

// humanNode asks for a better text.
func humanNode(ctx context.Context, s Text) (Text, error) {
	text, err := treadle.Interrupt[string](ctx, revise{s.SomeText})
	if err != nil {
		return Text{}, err // the run stops; on resume the node runs again from its top
	}
	return Text{text}, nil
}

// A node asks with Interrupt, and the run ends with the question. Resume brings
// the answer.
//
// Sample: B8.
func Example_interrupt() {
	b := treadle.New[Text]("revise")
	treadle.AddNode(b, "human_node", humanNode)
	b.Edge(treadle.Start, "human_node")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})) // a question needs a saver

	ctx := context.Background()
	thread := g.Thread("some_id")
	out, err := thread.Run(ctx, Text{"Original text"})
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		var question revise
		if err := stop.Pauses[0].Decode(&question); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("to revise:", question.TextToRevise)
		out, err = thread.Resume(ctx, "Edited text") // perhaps days later, in another process
	}
	fmt.Println(out.SomeText, err)
	// Output:
	// to revise: Original text
	// Edited text <nil>
}

// In a stream the question is an event.
//
// Sample: B8.
func Example_interruptInAStream() {
	b := treadle.New[Text]("revise")
	treadle.AddNode(b, "human_node", humanNode)
	b.Edge(treadle.Start, "human_node")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("some_id")

	ctx := context.Background()
	for ev, err := range thread.Stream(ctx, Text{"Original text"}) {
		if err != nil { // the stream ends with the InterruptError
			_, stopped := errors.AsType[*treadle.InterruptError](err)
			fmt.Println("stopped:", stopped)
			break
		}
		if ev, ok := ev.(treadle.Interrupted); ok {
			for _, p := range ev.Pauses {
				fmt.Printf("%s asks %s, has an ID: %t, is nested: %t\n", p.Node, p.Value, p.ID != "", len(p.Namespace) > 0)
			}
		}
	}
	for ev, err := range thread.ResumeStream(ctx, "Edited text") {
		if err != nil {
			fmt.Println(err)
			break
		}
		if ev, ok := ev.(treadle.Updated); ok {
			fmt.Println(ev.Node, "wrote", ev.Update)
		}
	}
	// Output:
	// human_node asks {"text_to_revise":"Original text"}, has an ID: true, is nested: false
	// stopped: true
	// human_node wrote {"some_text":"Edited text"}
}

// An answer may be a struct, or a map or another struct with the same JSON. An invalid
// answer is rejected before anything runs.
//
// Sample: B14.
func Example_resumeWithAMap() {
	type Person struct{ Age string }
	type details struct {
		Age string `json:"age"`
	}

	b := treadle.New[Person]("person")
	treadle.AddNode(b, "ask", func(ctx context.Context, _ Person) (Person, error) {
		d, err := treadle.Interrupt[details](ctx, "your details, please")
		return Person(d), err
	})
	b.Edge(treadle.Start, "ask")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	report(thread.Run(ctx, Person{}))
	_, err := thread.Resume(ctx, map[string]int{"age": 25})
	_, refused := errors.AsType[*treadle.AnswerError](err)
	fmt.Println("refused:", refused)
	report(thread.Resume(ctx, map[string]string{"age": "25"}))
	// Output:
	// ask asks "your details, please"
	// refused: true
	// {Age:25}
}

// WithUpdate edits the state together with the answer, and the node runs again with the
// new state.
//
// Sample: B14.
func Example_updateAndResume() {
	type State struct{ Foo, Said string }
	type foo struct{ Foo string }
	type said struct{ Said string }

	b := treadle.New[State]("both")
	treadle.AddNode(b, "node", func(ctx context.Context, s State) (said, error) {
		answer, err := treadle.Interrupt[string](ctx, "shall we?")
		return said{answer + " With foo=" + s.Foo}, err
	})
	b.Edge(treadle.Start, "node")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	report(thread.Run(ctx, State{Foo: "old"}))
	report(thread.Resume(ctx, "Let's go!!!", treadle.WithUpdate(foo{"bar"})))
	// Output:
	// node asks "shall we?"
	// {Foo:bar Said:Let's go!!! With foo=bar}
}

// The thread's state has the open question.
//
// Sample: B15.
func Example_stateOfAnInterruptedThread() {
	type State struct {
		Foo string `json:"foo"`
		Age string `json:"age"`
	}
	type age struct{ Age string }

	b := treadle.New[State]("wait")
	treadle.AddNode(b, "node_foo", func(ctx context.Context, _ State) (age, error) {
		answer, err := treadle.Interrupt[map[string]string](ctx, "value_in_interrupt")
		return age{answer["age"]}, err
	})
	b.Edge(treadle.Start, "node_foo")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	_, err := thread.Run(ctx, State{Foo: "bar"})
	_, stopped := errors.AsType[*treadle.InterruptError](err)
	fmt.Println("stopped:", stopped)

	snap, err := thread.State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(snap.State, "next", snap.Next)
	for _, task := range snap.Tasks {
		fmt.Printf("task %s, error %q, asks %s\n", task.Name, task.Error, task.Pauses[0].Value)
	}
	fmt.Println(thread.Resume(ctx, map[string]string{"age": "25"}))
	// Output:
	// stopped: true
	// {"foo":"bar"} next [node_foo]
	// task node_foo, error "", asks "value_in_interrupt"
	// {bar 25} <nil>
}

// Concurrent nodes may all raise interrupts. Answers by ID can be given together or one
// after another.
func Example_severalQuestions() {
	type State struct{ Name, City string }
	type name struct{ Name string }
	type city struct{ City string }

	b := treadle.New[State]("several")
	treadle.AddNode(b, "ask_city", func(ctx context.Context, _ State) (city, error) {
		answer, err := treadle.Interrupt[string](ctx, "which city?")
		return city{answer}, err
	})
	treadle.AddNode(b, "ask_name", func(ctx context.Context, _ State) (name, error) {
		answer, err := treadle.Interrupt[string](ctx, "which name?")
		return name{answer}, err
	})
	b.Edge(treadle.Start, "ask_city")
	b.Edge(treadle.Start, "ask_name")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	report(thread.Run(ctx, State{}))
	_, err := thread.Resume(ctx, "Ada")
	fmt.Println("ambiguous:", errors.Is(err, treadle.ErrAmbiguousResume))

	snap, err := thread.State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	report(thread.Resume(ctx, treadle.Answers{snap.Pauses[0].ID: "London"}))
	report(thread.Resume(ctx, treadle.Answers{snap.Pauses[1].ID: "Ada"}))
	// Output:
	// ask_city asks "which city?"
	// ask_name asks "which name?"
	// ambiguous: true
	// ask_name asks "which name?"
	// {Name:Ada City:London}
}
