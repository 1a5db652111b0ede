package agent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// Parity: 209.
func TestChunksShareIDWithoutRepeats(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(say("x")), llmtest.Say("one two three"))
	a := made(t, model, &agent.Options{Name: "bob", Tools: []*llm.Tool{echo}})
	text, whole := map[string]string{}, map[string]int{}
	var ids []string
	var out agent.State
	for ev, err := range a.Stream(t.Context(), agent.Ask("go"), treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.Token:
			c := ev.Chunk.(llm.Chunk)
			if !slices.Contains(ids, c.ID) {
				ids = append(ids, c.ID)
			}
			text[c.ID] += ev.Text()
		case treadle.Returned:
			m := ev.Message.(llm.Message)
			whole[string(m.Role)+" "+m.ID]++
		case treadle.Finished[agent.State]:
			out = ev.Output
		}
	}
	if d := cmp.Diff([]string{out.Messages[1].ID, out.Messages[3].ID}, ids); d != "" {
		t.Errorf("ids of the answers (-want +got):\n%s", d)
	}
	if got := text[out.Messages[3].ID]; got != "one two three" {
		t.Errorf("streamed %q", got)
	}
	// The result of the tool is a message that no model streamed.
	for key, n := range whole {
		if n != 1 || key[:2] == "ai" {
			t.Errorf("the whole message %s came %d times", key, n)
		}
	}
}

// Parity: 209.
func TestToolProgressIsStreamedWithCallID(t *testing.T) {
	work := llm.NewTool("work", "", func(ctx context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		call, _ := llm.CallFrom(ctx)
		for i := range in.N {
			treadle.Emit(ctx, fmt.Sprintf("%s %d/%d", call.ID, i+1, in.N))
		}
		return "done", nil
	})
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("work", `{"n":2}`), llmtest.ToolCall("work", `{"n":1}`)), llmtest.Say("ok"))
	var got []string
	for ev, err := range made(t, model, &agent.Options{Tools: []*llm.Tool{work}}).Stream(t.Context(), agent.Ask("go"), treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			got = append(got, fmt.Sprint(c.Value, " of ", c.Node))
		}
	}
	slices.Sort(got) // the calls run at the same time
	for i, want := range []string{"call_1 1/2", "call_1 2/2", "call_2 1/1"} {
		if i >= len(got) || got[i][:len(want)] != want {
			t.Fatalf("events = %q", got)
		}
	}
}

// Parity: 209.
func TestUpdatesComeFromModelAndTools(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(say("x"), say("y")), llmtest.Say("ok"))
	var got []string
	for ev, err := range made(t, model, &agent.Options{Tools: []*llm.Tool{echo}}).Stream(t.Context(), agent.Ask("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if u, ok := ev.(treadle.Updated); ok {
			var c llm.Chat
			if err := u.Update.Read(&c); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(u.Node, " ", lines(c.Messages)))
		}
	}
	want := []string{`model [ai:  [echo {"text":"x"}] [echo {"text":"y"}]]`, "tools [tool: x tool: y]", "model [ai: ok]"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("updates (-want +got):\n%s", d)
	}
}
