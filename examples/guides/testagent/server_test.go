package desk

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

func TestServerStopsForApproval(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("order", Book{"Emma"})), llmtest.Say("Ordered."))
	var orders []string
	g, err := New(model, fakeShop(&orders), nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(db, []treadle.AnyGraph{g}, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	t.Cleanup(func() {
		if err := srv.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})

	c, err := client.New(web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	thread, err := c.Threads.Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wait := func(run *client.RunCreate) string {
		t.Helper()
		run.Assistant = "desk"
		values, err := c.Runs.Wait(t.Context(), thread.ID, run)
		if err != nil {
			t.Fatal(err)
		}
		return string(values)
	}
	input := json.RawMessage(`{"messages": [{"role": "user", "content": "Order Emma."}]}`)
	if values := wait(&client.RunCreate{Input: input}); !strings.Contains(values, "__interrupt__") || len(orders) > 0 {
		t.Errorf("before the approval: orders %v, values %s", orders, values)
	}
	answer := json.RawMessage(`{"decisions": [{"type": "approve"}]}`)
	if values := wait(&client.RunCreate{Command: &client.Command{Resume: answer}}); !strings.Contains(values, "Ordered.") || len(orders) != 1 {
		t.Errorf("after the approval: orders %v, values %s", orders, values)
	}
}
