package agents_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// A basic agent: tools, a prompt, and a thread that keeps the conversation.
func Example_agent() {
	ctx := context.Background()
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("get_weather", place{"sf"})), llmtest.Say("It is sunny in SF."))

	a, err := agent.New(model, &agent.Options{
		Prompt: "You are a helpful assistant.",
		Tools:  []*llm.Tool{getWeather},
		Graph:  treadle.Options{Saver: checkpoint.NewMemory()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Thread("1").Run(ctx, agent.Ask("what is the weather in sf"))
	fmt.Println(agent.Answer(out), err)
	// Output:
	// It is sunny in SF. <nil>
}

// Forecast is the structured answer of an agent.
type Forecast struct {
	Sky     string `json:"sky" enum:"sunny,rainy"`
	Degrees int    `json:"degrees"`
}

// An agent that ends with a value instead of a text.
func Example_structuredAnswer() {
	ctx := context.Background()
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("get_weather", place{"sf"})), llmtest.Say("Sunny, 20 degrees."),
		llmtest.Ask(llmtest.ToolCall("Forecast", Forecast{"sunny", 20})))

	a := treadle.Must(agent.New(model, &agent.Options{
		Tools:    []*llm.Tool{getWeather},
		Response: agent.NewResponse[Forecast]("", nil),
	}))
	out, err := a.Run(ctx, agent.Ask("what is the weather in sf"))
	if err != nil {
		fmt.Println(err)
		return
	}
	forecast, err := agent.ResponseAs[Forecast](out)
	fmt.Println(forecast.Sky, forecast.Degrees, err)
	// Output:
	// sunny 20 <nil>
}

// People decide about some tools, and limits hold for all of them.
func Example_middleware() {
	ctx := context.Background()
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("get_weather", place{"sf"})), llmtest.Say("It is sunny."))

	a := treadle.Must(agent.New(model, &agent.Options{
		Tools: []*llm.Tool{getWeather},
		Middleware: []*agent.Middleware{
			agent.Gates(agent.Gate{Tool: "get_weather"}),
			agent.LimitToolCalls("", agent.Limit{Run: 10}),
		},
		Graph: treadle.Options{Saver: checkpoint.NewMemory()},
	}))
	thread := a.Thread("1")
	out, err := thread.Run(ctx, agent.Ask("what is the weather in sf"))
	if _, ok := errors.AsType[*treadle.InterruptError](err); ok {
		out, err = thread.Resume(ctx, agent.Decisions{{Type: agent.Approve}})
	}
	fmt.Println(agent.Answer(out), err)
	// Output:
	// It is sunny. <nil>
}

// A tool that writes to the state returns a command, with the result of its call
// among the messages.
func Example_toolCommand() {
	users := map[string]string{"u7": "Ada, gold plan"}
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("lookup_user_info", "{}")), llmtest.Say("You are Ada."))

	lookup := llm.NewTool("lookup_user_info", "Look up who the user is.", func(ctx context.Context, _ struct{}) (treadle.Command[lookedUp], error) {
		id, _ := treadle.ContextFrom[string](ctx)
		call, _ := llm.CallFrom(ctx)
		result := llm.ToolResult(call, "Successfully looked up user information")
		return treadle.Command[lookedUp]{Update: &lookedUp{users[id], llm.Messages{result}}}, nil
	})
	a := treadle.Must(agent.For[Support](model, &agent.Options{Tools: []*llm.Tool{lookup}}))
	out, err := a.With(treadle.Context("u7")).Run(context.Background(), Support{Chat: chat("Who am I?")})
	fmt.Println(out.UserInfo, err)
	// Output:
	// Ada, gold plan <nil>
}

// A supervisor with two agents.
func Example_supervisorOfAgents() {
	ctx := context.Background()
	research := scripted("research", nil, llmtest.Say("Owls hoot."))
	math := scripted("math", nil)
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("transfer_to_research", "{}")), llmtest.Say("They hoot."))

	team := treadle.Must(agent.Supervisor(model, agents{research, math}, &agent.SupervisorOptions{
		Options: agent.Options{Prompt: "Use research for facts and math for sums."},
		Share:   agent.ShareAnswer,
	}))
	out, err := team.Run(ctx, agent.Ask("what do owls do?"))
	fmt.Println(agent.Answer(out), err)
	// Output:
	// They hoot. <nil>
}
