package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type mail struct {
	To string `json:"to"`
}

func sendMail(_ context.Context, m mail) (string, error) { return "sent to " + m.To, nil }

// memory returns the options of a graph with a memory saver.
func memory() treadle.Options { return treadle.Options{Saver: checkpoint.NewMemory()} }

// made returns an agent for a test.
func made(t *testing.T, model llm.Model, o *agent.Options) *treadle.Graph[agent.State, agent.State] {
	t.Helper()
	a, err := agent.New(model, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// asked returns the only pending interrupt of a stopped run.
func asked(t *testing.T, err error) treadle.Pause {
	t.Helper()
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok || len(stop.Pauses) != 1 {
		t.Fatalf("want one question, got %v", err)
	}
	return stop.Pauses[0]
}

func mailer(t *testing.T, turns []llmtest.Turn, gates ...agent.Gate) *treadle.Thread[agent.State, agent.State] {
	tools := []*llm.Tool{llm.NewTool("send", "Sends a mail.", sendMail), llm.NewTool("draft", "Writes a mail.", sendMail)}
	return made(t, llmtest.Scripted(t, turns...), &agent.Options{Tools: tools, Graph: memory(),
		Middleware: []*agent.Middleware{agent.Gates(gates...)}}).Thread("1")
}

func TestGatesInterruptOncePerMessage(t *testing.T) {
	thread := mailer(t, []llmtest.Turn{
		llmtest.Ask(llmtest.ToolCall("send", mail{"ann"}), llmtest.ToolCall("draft", mail{"bob"}), llmtest.ToolCall("send", mail{"cid"}),
			llmtest.ToolCall("send", mail{"dan"}), llmtest.ToolCall("send", mail{"eve"})),
		llmtest.Say("done"),
	}, agent.Gate{Tool: "send", Description: "A mail goes out."})
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	var review agent.Review
	if err := asked(t, err).Decode(&review); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range review.Calls {
		names = append(names, c.Name+string(c.Args)+c.Description)
	}
	want := []string{`send{"to":"ann"}A mail goes out.`, `send{"to":"cid"}A mail goes out.`, `send{"to":"dan"}A mail goes out.`, `send{"to":"eve"}A mail goes out.`}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	rule := agent.ReviewRule{Tool: "send", Allow: []agent.DecisionType{agent.Approve, agent.Edit, agent.Reject, agent.Respond}}
	if d := cmp.Diff([]agent.ReviewRule{rule, rule, rule, rule}, review.Rules); d != "" {
		t.Errorf("rules (-want +got):\n%s", d)
	}
	out, err := thread.Resume(t.Context(), agent.Decisions{
		{Type: agent.Approve},
		{Type: agent.Edit, Edited: &agent.Action{Name: "send", Args: json.RawMessage(`{"to":"carol"}`)}},
		{Type: agent.Respond, Message: "dan knows"},
		{Type: agent.Reject},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go",
		`ai:  [send {"to":"ann"}] [draft {"to":"bob"}] [send {"to":"carol"}] [send {"to":"dan"}] [send {"to":"eve"}]`,
		"tool: dan knows",
		"tool: User rejected the tool call for `send` with id call_5. The tool was not executed. Do not retry this tool call unless the user explicitly requests it. (error)",
		"tool: sent to ann", "tool: sent to bob", "tool: sent to carol",
		"ai: done")
}

func TestGatesRejectInvalidDecisions(t *testing.T) {
	thread := mailer(t, []llmtest.Turn{
		llmtest.Ask(llmtest.ToolCall("send", mail{"ann"}), llmtest.ToolCall("draft", mail{"bob"})),
		llmtest.Say("done"),
	}, agent.Gate{Tool: "send", Allow: []agent.DecisionType{agent.Approve, agent.Reject}}, agent.Gate{Tool: "draft"})
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	asked(t, err)
	before, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	yes := agent.Decision{Type: agent.Approve}
	for name, answer := range map[string]any{
		"too few":       agent.Decisions{yes},
		"too many":      agent.Decisions{yes, yes, yes},
		"not allowed":   agent.Decisions{{Type: agent.Respond, Message: "x"}, yes},
		"no such":       agent.Decisions{yes, {Type: "perhaps"}},
		"edit of what":  agent.Decisions{yes, {Type: agent.Edit}},
		"respond what":  agent.Decisions{yes, {Type: agent.Respond}},
		"no decisions":  "yes",
		"arguments":     agent.Decisions{yes, {Type: agent.Edit, Edited: &agent.Action{Name: "draft", Args: json.RawMessage(`[]`)}}},
		"none at all":   agent.Decisions{},
		"not even JSON": nil,
	} {
		if _, err := thread.Resume(t.Context(), answer); err == nil {
			t.Errorf("%s: was accepted", name)
		} else if _, ok := errors.AsType[*treadle.AnswerError](err); !ok {
			t.Errorf("%s: want an AnswerError, got %v", name, err)
		}
	}
	after, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if before.ID != after.ID || len(after.Pauses) != 1 {
		t.Errorf("the thread has moved from %v to %v with %d questions", before.ID, after.ID, len(after.Pauses))
	}
	out, err := thread.Resume(t.Context(), agent.Decisions{yes, yes})
	if err != nil {
		t.Fatal(err)
	}
	if got := agent.Answer(out); got != "done" {
		t.Errorf("answer = %q", got)
	}
}

// An unknown decision would let the call run.
func TestGatesRejectUnknownDecisionTypes(t *testing.T) {
	model := llmtest.NewScript(llmtest.Ask(say("a")))
	_, err := agent.New(model, with(agent.Gates(agent.Gate{Tool: "echo", Allow: []agent.DecisionType{"yes"}})))
	if err == nil || !strings.Contains(err.Error(), `agent: middleware gates: gate for tool "echo" allows unknown decision "yes": want some of ["approve" "edit" "reject" "respond"]`) {
		t.Errorf("err = %v", err)
	}
	model = llmtest.NewScript(llmtest.Ask(say("a")))
	thread := made(t, model, with(agent.Gates(agent.Gate{Tool: "echo", Allow: []agent.DecisionType{}}))).Thread("1")
	_, err = thread.Run(t.Context(), agent.Ask("go"))
	asked(t, err)
	_, err = thread.Resume(t.Context(), agent.Decisions{{Type: "whatever"}})
	if _, ok := errors.AsType[*treadle.AnswerError](err); !ok {
		t.Errorf("err = %v", err)
	}
}

func TestGateWhenSelectsCalls(t *testing.T) {
	abroad := func(_ context.Context, call llm.ToolCall) (bool, error) {
		return strings.Contains(string(call.Args), "abroad"), nil
	}
	thread := mailer(t, []llmtest.Turn{
		llmtest.Ask(llmtest.ToolCall("send", mail{"home"})),
		llmtest.Ask(llmtest.ToolCall("send", mail{"abroad"}), llmtest.ToolCall("send", mail{"home"})),
		llmtest.Say("done"),
	}, agent.Gate{Tool: "send", When: abroad})
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	var review agent.Review
	if err := asked(t, err).Decode(&review); err != nil || len(review.Calls) != 1 {
		t.Fatalf("review = %+v, %v", review, err)
	}
	out, err := thread.Resume(t.Context(), agent.Decisions{{Type: agent.Reject, Message: "not there"}})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", `ai:  [send {"to":"home"}]`, "tool: sent to home",
		`ai:  [send {"to":"abroad"}] [send {"to":"home"}]`, "tool: User rejected the tool call for `send` with reason: not there (error)", "tool: sent to home", "ai: done")
}

func TestModelRunsAfterAllCallsGetResponses(t *testing.T) {
	thread := mailer(t, []llmtest.Turn{
		llmtest.Ask(llmtest.ToolCall("send", mail{"ann"})),
		llmtest.Say("As you wish.", llmtest.Asked("later")),
	}, agent.Gate{Tool: "send"})
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	asked(t, err)
	out, err := thread.Resume(t.Context(), agent.Decisions{{Type: agent.Respond, Message: "later"}})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", `ai:  [send {"to":"ann"}]`, "tool: later", "ai: As you wish.")
}

// The texts match LangChain's HumanInTheLoopMiddleware.
func TestRejectReasonReachesModel(t *testing.T) {
	thread := mailer(t, []llmtest.Turn{llmtest.Ask(llmtest.ToolCall("send", mail{"ann"})), llmtest.Say("done")}, agent.Gate{Tool: "send"})
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	asked(t, err)
	out, err := thread.Resume(t.Context(), agent.Decisions{{Type: agent.Reject, Message: "Ann is away."}})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", `ai:  [send {"to":"ann"}]`, "tool: User rejected the tool call for `send` with reason: Ann is away. (error)", "ai: done")
}

// The answer of a web page is JSON, in LangChain's shape.
func TestGatesAcceptDecisionsAsJSON(t *testing.T) {
	thread := mailer(t, []llmtest.Turn{llmtest.Ask(llmtest.ToolCall("send", mail{"ann"})), llmtest.Say("done")}, agent.Gate{Tool: "send"})
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	pause := asked(t, err)
	want := `{"action_requests":[{"name":"send","args":{"to":"ann"},"description":"Tool execution requires approval\n\nTool: send\nArgs: {\"to\":\"ann\"}"}],"review_configs":[{"action_name":"send","allowed_decisions":["approve","edit","reject","respond"]}]}`
	if got := string(pause.Value); got != want {
		t.Errorf("question = %s\nwant %s", got, want)
	}
	out, err := thread.Resume(t.Context(), json.RawMessage(`{"decisions":[{"type":"edit","edited_action":{"name":"draft","args":{"to":"bob"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", `ai:  [draft {"to":"bob"}]`, "tool: sent to bob", "ai: done")
}

// A person reviews a mail before it is sent and changes the recipient.
func ExampleGates() {
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("send", mail{"everyone"})),
		llmtest.Say("Bob has it."))
	a, err := agent.New(model, &agent.Options{
		Tools:      []*llm.Tool{llm.NewTool("send", "Sends a mail.", sendMail)},
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "send"})},
		Graph:      treadle.Options{Saver: checkpoint.NewMemory()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, thread := context.Background(), a.Thread("1")

	_, err = thread.Run(ctx, agent.Ask("Send the report."))
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		var review agent.Review
		_ = stop.Pauses[0].Decode(&review)
		fmt.Printf("%s %s?\n", review.Calls[0].Name, review.Calls[0].Args)
	}
	_, err = thread.Resume(ctx, agent.Decisions{})
	fmt.Println("refused:", err != nil)

	toBob := agent.Action{Name: "send", Args: json.RawMessage(`{"to":"bob"}`)}
	out, err := thread.Resume(ctx, agent.Decisions{{Type: agent.Edit, Edited: &toBob}})
	for _, line := range lines(out.Messages) {
		fmt.Println(line)
	}
	fmt.Println(err)
	// Output:
	// send {"to":"everyone"}?
	// refused: true
	// human: Send the report.
	// ai:  [send {"to":"bob"}]
	// tool: sent to bob
	// ai: Bob has it.
	// <nil>
}

// An agent that is a node of another graph asks through it.
func TestGatesInterruptParentGraph(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("send", mail{"ann"})), llmtest.Say("done"))
	inner := made(t, model, &agent.Options{Tools: []*llm.Tool{llm.NewTool("send", "", sendMail)}, Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "send"})}})
	b := treadle.New[agent.State]("office")
	treadle.AddGraph(b, "mailer", inner)
	b.Edge(treadle.Start, "mailer")
	o := memory()
	g, err := b.Compile(&o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Thread("1").Run(t.Context(), agent.Ask("go"))
	asked(t, err)
	if _, err := g.Thread("1").Resume(t.Context(), agent.Decisions{}); err == nil {
		t.Error("an answer without decisions was accepted")
	}
	out, err := g.Thread("1").Resume(t.Context(), agent.Decisions{{Type: agent.Approve}})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: go", `ai:  [send {"to":"ann"}]`, "tool: sent to ann", "ai: done")
}
