package code_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/code"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// The model writes a script that reads prices at the same time and orders what is cheap. A
// person approves the order, and the script continues.
func Example() {
	type product struct {
		Name string `json:"name"`
	}
	type price struct {
		Cents int `json:"cents"`
	}
	prices := map[string]int{"tea": 450, "jam": 380, "rum": 1990}
	look := llm.NewTool("price", "Returns the price of a product.", func(_ context.Context, p product) (price, error) {
		return price{prices[p.Name]}, nil
	})
	order := llm.NewTool("order", "Orders a product.", func(_ context.Context, p product) (string, error) {
		fmt.Println("ordered:", p.Name)
		return "ordered " + p.Name, nil
	})
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("run_code", map[string]string{"code": `
		const names = ["tea", "jam", "rum"];
		const all = await Promise.all(names.map(name => tools.price({name})));
		const cheapest = names[all.map(p => p.cents).indexOf(Math.min(...all.map(p => p.cents)))];
		console.log("cheapest:", cheapest);
		return await tools.order({name: cheapest});`})),
		llmtest.Say("The jam is ordered."))

	a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{look, order},
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "order"}), code.Mode(nil)},
		Graph:      treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, thread := context.Background(), a.Thread("1")
	_, err = thread.Run(ctx, agent.Ask("Order the cheapest product."))
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		var about agent.Review
		err = stop.Pauses[0].Decode(&about)
		fmt.Println("may it call", about.Calls[0].Name, string(about.Calls[0].Args), err)
	}
	out, err := thread.Resume(ctx, agent.Decisions{{Type: agent.Approve}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Messages[2].Text())
	fmt.Println(agent.Answer(out))
	// Output:
	// may it call order {"name":"jam"} <nil>
	// ordered: jam
	// Log:
	// cheapest: jam
	//
	// ordered jam
	// The jam is ordered.
}

// A deep agent writes its files in a script.
func ExampleMode() {
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("run_code", map[string]string{"code": `
		for (const n of [1, 2, 3]) await tools.write_file({file_path: "/" + n + ".txt", content: "n" + n});`})),
		llmtest.Say("done"))
	g, err := deep.New(model, &deep.Options{Middleware: []*agent.Middleware{code.Mode(nil)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := g.Run(context.Background(), deep.Ask("go"))
	fmt.Println(len(out.Files), string(out.Files["/3.txt"].Content), err)
	// Output: 3 n3 <nil>
}
