package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// withoutPins returns a guard that removes PINs and rejects deletes.
func withoutPins(_ context.Context, c *memory.ItemChange) error {
	if c.Op == memory.Delete {
		return errors.New("nothing is removed here")
	}
	c.After = json.RawMessage(strings.ReplaceAll(string(c.After), "1234", "…"))
	return nil
}

func TestManageToolCallsGuard(t *testing.T) {
	s := newStore(t, nil)
	tool := manageTool[string](t, memory.ToolOptions{Store: s, Guard: withoutPins})
	out, err := call(t, tool, `{"content":"the pin is 1234"}`)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(out.(string), "created memory ")
	wantStored(t, s, `{"content":"the pin is …"}`)
	if out, err := call(t, tool, `{"content":"the pin is 1234"}`); err != nil || !strings.Contains(out.(string), "says this already") {
		t.Errorf("the same again: %v, %v", out, err)
	}
	if _, err := call(t, tool, `{"action":"update","id":"`+id+`","content":"pin: 1234"}`); err != nil {
		t.Error(err)
	}
	wantStored(t, s, `{"content":"pin: …"}`)
	if _, err := call(t, tool, `{"action":"delete","id":"`+id+`"}`); err == nil || !strings.Contains(err.Error(), "Guard rejected the delete: nothing is removed here") {
		t.Errorf("the error is %v", err)
	}
	wantStored(t, s, `{"content":"pin: …"}`)
	put(t, s, "a", teaItem) // of a manager
	if _, err := call(t, tool, `{"action":"update","id":"a","content":"tea, pin 1234"}`); err != nil {
		t.Error(err)
	}
	item, err := s.Get(t.Context(), memories, "a", nil)
	if err != nil || string(item.Value) != `{"kind":"Memory","content":{"content":"tea, pin …"}}` {
		t.Errorf("stored is %s, %v", item.Value, err)
	}
}

type visit struct {
	Place string `json:"place"`
}

func (v visit) Validate() error {
	if v.Place == "" {
		return errors.New("a visit needs a place")
	}
	return nil
}

// The guard's output is validated like the model's.
func TestManageToolRejectsInvalidGuardOutput(t *testing.T) {
	for name, test := range map[string]struct {
		after, want string
		tool        func(*testing.T, memory.ToolOptions) *llm.Tool
		args        string
	}{
		"not valid":       {`{"place":""}`, "a visit needs a place", manageTool[visit], `{"content":{"place":"Rome"}}`},
		"another field":   {`{"city":"Rome"}`, "city", manageTool[visit], `{"content":{"place":"Rome"}}`},
		"another type":    {`{"text":"x"}`, "changed the type", manageTool[string], `{"content":"x"}`},
		"not JSON":        {`x`, "changed the type", manageTool[string], `{"content":"x"}`},
		"nothing at all":  {``, "changed the type", manageTool[string], `{"content":"x"}`},
		"null for a text": {`null`, "changed the type", manageTool[string], `{"content":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			tool := test.tool(t, memory.ToolOptions{Store: s, Guard: func(_ context.Context, c *memory.ItemChange) error {
				c.After = json.RawMessage(test.after)
				return nil
			}})
			if _, err := call(t, tool, test.args); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			wantStored(t, s)
		})
	}
}

// Memory changes can require approval. A gate with a misspelled name would let every call
// pass, so it is rejected.
func TestManageMemoryCanNeedApproval(t *testing.T) {
	s := newStore(t, nil)
	build := func(gate string) (*treadle.Graph[agent.State, agent.State], error) {
		return agent.New(llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("manage_memory", `{"content":"Ann likes tea"}`)), llmtest.Say("Noted.")), &agent.Options{
			Tools:      []*llm.Tool{manageTool[string](t, memory.ToolOptions{Store: s})},
			Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: gate})},
			Graph:      treadle.Options{Saver: checkpoint.NewMemory()},
		})
	}
	if _, err := build("manage_memry"); err == nil || !strings.Contains(err.Error(), `"manage_memry"`) || !strings.Contains(err.Error(), "manage_memory") {
		t.Errorf("with a misspelled gate, the error is %v", err)
	}
	g, err := build("manage_memory")
	if err != nil {
		t.Fatal(err)
	}
	thread := g.Thread("1")
	_, err = thread.Run(t.Context(), agent.Ask("I like tea."))
	if _, asked := errors.AsType[*treadle.InterruptError](err); !asked {
		t.Fatalf("no approval requested: %v", err)
	}
	wantStored(t, s)
	out, err := thread.Resume(t.Context(), agent.Decisions{{Type: agent.Approve}})
	if err != nil || agent.Answer(out) != "Noted." {
		t.Errorf("answered is %v, %v", agent.Answer(out), err)
	}
	items, err := s.Search(t.Context(), memories, &store.SearchOptions{})
	if err != nil || len(items) != 1 {
		t.Errorf("stored are %v, %v", items, err)
	}
}

// A guard keeps secrets out of memories that a model stores with its tool.
func ExampleManageTool_guard() {
	ctx := context.Background()
	s := treadle.Must(store.NewMemory(nil))
	tool := treadle.Must(memory.ManageTool[string](&memory.ToolOptions{
		Store: s, Namespace: []string{"memories", "ann"},
		Guard: func(_ context.Context, c *memory.ItemChange) error {
			if strings.Contains(string(c.After), "PIN") {
				return errors.New("no PINs")
			}
			return nil
		},
	}))
	for _, text := range []string{"Ann likes tea", "Her PIN is 1234"} {
		args := treadle.Must(json.Marshal(map[string]string{"action": "create", "content": text}))
		_, err := tool.Call(ctx, llm.ToolCall{Name: tool.Name, Args: args})
		fmt.Println(text, "| refused:", err != nil)
	}
	items, err := s.Search(ctx, store.Namespace{"memories"}, nil)
	fmt.Println(len(items), "memory", err)
	// Output:
	// Ann likes tea | refused: false
	// Her PIN is 1234 | refused: true
	// 1 memory <nil>
}
