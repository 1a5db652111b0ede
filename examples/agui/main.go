// AG-UI serves an agent to web pages over AG-UI, and then acts as such a page: it lists
// a tool that only the page can run, runs it when the model calls it, and shows the response.
//
//	go run ./examples/agui
//
// In a real page, the client is CopilotKit or HttpAgent of the npm package @ag-ui/client.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	model, err := models.Open(llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("set_theme", map[string]string{"color": "dark"})),
		llmtest.Say("The page is dark now.")))
	if err != nil {
		return err
	}
	g, err := agent.New(model, &agent.Options{Name: "helper", Middleware: []*agent.Middleware{agent.ClientTools()}})
	if err != nil {
		return err
	}
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	handler, err := server.New(db, []treadle.AnyGraph{g}, nil)
	if err != nil {
		return err
	}
	site := httptest.NewServer(handler)
	defer site.Close()
	defer func() { err = errors.Join(err, handler.Drain(ctx)) }()

	p := page{url: site.URL + "/agui/helper", messages: []message{{ID: "1", Role: "user", Content: "Make it dark, please."}}}
	calls, err := p.turn(ctx, "run-1")
	if err != nil {
		return err
	}
	for _, c := range calls { // the page runs its tool, and sends the result with the next request
		fmt.Printf("page: %s %s\n", c.Name, c.Args)
		p.messages = append(p.messages, message{ID: "result of " + c.ID, Role: "tool", ToolCallID: c.ID, Content: "done"})
	}
	_, err = p.turn(ctx, "run-2")
	return err
}

// page is a page with a tool.
type page struct {
	url      string
	messages []message
}

type message struct {
	ID         string `json:"id"`
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCallID string `json:"toolCallId,omitempty"`
}

type tool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type event struct {
	Type    string `json:"type"`
	Delta   string `json:"delta"`
	ID      string `json:"toolCallId"`
	Tool    string `json:"toolCallName"`
	Message string `json:"message"`
	Outcome struct {
		Calls []string `json:"pendingToolCallIds"`
	} `json:"outcome"`
}

// turn runs the agent, prints what it says, and returns the calls that wait for the page.
func (p *page) turn(ctx context.Context, id string) (waiting []llm.ToolCall, err error) {
	body, err := json.Marshal(map[string]any{"threadId": "my page", "runId": id, "protocolVersion": "1.0", "messages": p.messages,
		"tools": []tool{{"set_theme", "Set the colors of the page."}}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	calls := map[string]*llm.ToolCall{}
	var said strings.Builder
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var ev event
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			return nil, err
		}
		switch ev.Type {
		case "TEXT_MESSAGE_CONTENT":
			said.WriteString(ev.Delta)
		case "TOOL_CALL_START":
			calls[ev.ID] = &llm.ToolCall{ID: ev.ID, Name: ev.Tool}
		case "TOOL_CALL_ARGS":
			calls[ev.ID].Args = append(calls[ev.ID].Args, ev.Delta...)
		case "RUN_FINISHED":
			for _, id := range ev.Outcome.Calls {
				waiting = append(waiting, *calls[id])
			}
		case "RUN_ERROR":
			return nil, errors.New(ev.Message)
		}
	}
	if said.Len() > 0 {
		fmt.Println("agent:", said.String())
	}
	return waiting, nil
}
