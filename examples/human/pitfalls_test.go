package human_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// On resume a node runs again from its beginning, and Interrupt returns the answer.
//
// Sample: B16.
func Example_nodeRunsAgain() {
	type State struct{ Answer string }
	counter := 0

	b := treadle.New[State]("again")
	treadle.AddNode(b, "node", func(ctx context.Context, _ State) (State, error) {
		counter++
		fmt.Printf("> Entered the node: %d # of times\n", counter)
		answer, err := treadle.Interrupt[string](ctx, "well?")
		if err != nil {
			return State{}, err
		}
		fmt.Println("The value of counter is:", counter)
		return State{answer}, nil
	})
	b.Edge(treadle.Start, "node")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	report(thread.Run(ctx, State{}))
	report(thread.Resume(ctx, "yes"))
	// Output:
	// > Entered the node: 1 # of times
	// node asks "well?"
	// > Entered the node: 2 # of times
	// The value of counter is: 2
	// {Answer:yes}
}

// An effect before the question happens again on resume. After the question, in another
// node, or recorded with Do, it happens once.
//
// Sample: B17.
func Example_sideEffects() {
	type State struct{ Answer string }
	ctx := context.Background()
	calls := 0
	call := func() string {
		calls++
		return "receipt"
	}
	ask := func(ctx context.Context) (State, error) {
		answer, err := treadle.Interrupt[string](ctx, "well?")
		return State{answer}, err
	}

	before := treadle.New[State]("before")
	treadle.AddNode(before, "human_node", func(ctx context.Context, _ State) (State, error) {
		call()
		return ask(ctx)
	})
	before.Edge(treadle.Start, "human_node")

	after := treadle.New[State]("after")
	treadle.AddNode(after, "human_node", func(ctx context.Context, _ State) (State, error) {
		s, err := ask(ctx)
		if err != nil {
			return s, err
		}
		call()
		return s, nil
	})
	after.Edge(treadle.Start, "human_node")

	separate := treadle.New[State]("separate node")
	treadle.AddNode(separate, "human_node", func(ctx context.Context, _ State) (State, error) { return ask(ctx) })
	treadle.AddNode(separate, "api_call_node", func(context.Context, State) (*State, error) {
		call()
		return nil, nil // writes nothing
	})
	separate.Sequence(treadle.Start, "human_node", "api_call_node")

	recorded := treadle.New[State]("recorded, before")
	treadle.AddNode(recorded, "human_node", func(ctx context.Context, _ State) (State, error) {
		_, err := treadle.Do(ctx, "api_call", func(context.Context) (string, error) { return call(), nil })
		if err != nil {
			return State{}, err
		}
		return ask(ctx)
	})
	recorded.Edge(treadle.Start, "human_node")

	for _, b := range []*treadle.Builder[State]{before, after, separate, recorded} {
		calls = 0
		g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))
		_, err := g.Thread("1").Run(ctx, State{})
		_, stopped := errors.AsType[*treadle.InterruptError](err)
		_, err = g.Thread("1").Resume(ctx, "yes")
		fmt.Println(g.Name(), "- stopped:", stopped, "calls:", calls, err)
	}
	// Output:
	// before - stopped: true calls: 2 <nil>
	// after - stopped: true calls: 1 <nil>
	// separate node - stopped: true calls: 1 <nil>
	// recorded, before - stopped: true calls: 1 <nil>
}

// A graph that a node calls continues where it stopped: the calling node and the node that
// asked run again, finished nodes do not.
//
// Sample: B18.
func Example_interruptInACalledGraph() {
	type State struct {
		StateCounter int `json:"state_counter"`
	}
	inSubgraph, inHuman, inParent := 0, 0, 0

	sb := treadle.New[State]("subgraph")
	treadle.AddNode(sb, "some_node", func(context.Context, State) (*State, error) {
		inSubgraph++
		fmt.Printf("Entered `node_in_subgraph` a total of %d times\n", inSubgraph)
		return nil, nil
	})
	treadle.AddNode(sb, "human_node", func(ctx context.Context, _ State) (*State, error) {
		inHuman++
		fmt.Printf("Entered human_node in sub-graph a total of %d times\n", inHuman)
		answer, err := treadle.Interrupt[string](ctx, "what is your name?")
		if err != nil {
			return nil, err
		}
		fmt.Println("Got an answer of", answer)
		return nil, nil
	})
	sb.Sequence(treadle.Start, "some_node", "human_node")
	subgraph := treadle.Must(sb.Compile(nil)) // it is kept by the saver of the graph around it

	b := treadle.New[State]("parent")
	treadle.AddNode(b, "parent_node", func(ctx context.Context, s State) (State, error) {
		inParent++
		fmt.Printf("Entered `parent_node` a total of %d times\n", inParent)
		return subgraph.Run(ctx, s)
	}, treadle.Uses(subgraph))
	b.Edge(treadle.Start, "parent_node")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	_, err := thread.Run(ctx, State{StateCounter: 1})
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		p := stop.Pauses[0]
		outer, _, _ := strings.Cut(p.Namespace[0], ":") // the rest is the task ID
		fmt.Printf("%s > %s asks %s\n", outer, p.Node, p.Value)
	}
	fmt.Println("--- Resuming ---")
	watch(thread.ResumeStream(ctx, "35"))
	// Output:
	// Entered `parent_node` a total of 1 times
	// Entered `node_in_subgraph` a total of 1 times
	// Entered human_node in sub-graph a total of 1 times
	// parent_node > human_node asks "what is your name?"
	// --- Resuming ---
	// Entered `parent_node` a total of 2 times
	// Entered human_node in sub-graph a total of 2 times
	// Got an answer of 35
	// parent_node wrote {"state_counter":1}
}

// Person has a name and an age.
type Person struct {
	Name string `json:"name"`
	Age  string `json:"age"`
}

// askPerson asks for the fields that are empty. Answers find their questions by order, or
// by key if the questions have keys.
func askPerson(keyed bool) func(context.Context, Person) (Person, error) {
	return func(ctx context.Context, p Person) (Person, error) {
		ask := func(known, key string) (string, error) {
			switch {
			case known != "":
				return "N/A", nil
			case keyed:
				return treadle.Interrupt[string](ctx, treadle.Question{Value: "what is your " + key + "?", Key: key})
			}
			return treadle.Interrupt[string](ctx, "what is your "+key+"?")
		}
		name, err := ask(p.Name, "name")
		if err != nil {
			return Person{}, err
		}
		age, err := ask(p.Age, "age")
		return Person{name, age}, err
	}
}

// An update together with the answer makes the node skip its first question, so the answer
// would go to the second. In a strict graph, this is an error that names both questions;
// otherwise, it is logged as a warning.
//
// Sample: B19.
func Example_questionsInAnotherOrder() {
	b := treadle.New[Person]("person")
	treadle.AddNode(b, "human_node", askPerson(false))
	b.Edge(treadle.Start, "human_node")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory(), Strict: true})).Thread("1")

	type name struct{ Name string }
	ctx := context.Background()
	report(thread.Run(ctx, Person{}))
	_, err := thread.Resume(ctx, "John", treadle.WithUpdate(name{"foo"}))
	if changed, ok := errors.AsType[*treadle.InterruptChangedError](err); ok {
		fmt.Printf("answered: %s\nasked now: %s\n", changed.Answered, changed.Asked)
	}
	fmt.Println(err)
	// Output:
	// human_node asks "what is your name?"
	// answered: "what is your name?"
	// asked now: "what is your age?"
	// graph "person": node "human_node" (step 1): asks "what is your age?" where "what is your name?" was answered: the order of questions has changed: set Key in treadle.Question
}

// Questions with keys find their answers in any order.
func Example_questionsWithKeys() {
	b := treadle.New[Person]("person")
	treadle.AddNode(b, "human_node", askPerson(true))
	b.Edge(treadle.Start, "human_node")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory(), Strict: true})).Thread("1")

	type name struct{ Name string }
	ctx := context.Background()
	report(thread.Run(ctx, Person{}))
	report(thread.Resume(ctx, "John", treadle.WithUpdate(name{"foo"}))) // the name is no longer asked
	report(thread.Resume(ctx, "42"))
	// Output:
	// human_node asks "what is your name?"
	// human_node asks "what is your age?"
	// {Name:N/A Age:42}
}
