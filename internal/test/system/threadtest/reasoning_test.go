package threadtest_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/openai"
)

// secret returns data that only its provider can read, like encrypted reasoning.
func secret(n byte) string {
	raw := make([]byte, 3000)
	for i := range raw {
		raw[i] = byte(i)*7 + n
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// thinker is a server whose model reasons before each of two calls, and then responds.
type thinker struct {
	open func(url string) (llm.Model, error)
	// turn returns a response with reasoning and a call, and last one with a text.
	turn func(n byte, tool string) string
	last string
}

var thinkers = map[string]thinker{
	"responses": {
		open: func(url string) (llm.Model, error) {
			return openai.New("m", &openai.Options{BaseURL: url, Key: "k", API: "responses"})
		},
		turn: func(n byte, tool string) string {
			return fmt.Sprintf(`{"id":"resp_%[1]d","status":"completed","output":[
				{"type":"reasoning","id":"rs_%[1]d","summary":[{"type":"summary_text","text":"Order <42> & \u2028 %[1]d?"}],"encrypted_content":%[2]q},
				{"type":"function_call","id":"fc_%[1]d","call_id":"call_%[1]d","name":%[3]q,"arguments":"{\"Number\": %[1]d}","status":"completed"}]}`, n, secret(n), tool)
		},
		last: `{"id":"resp_9","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}]}`,
	},
	"anthropic": {
		open: func(url string) (llm.Model, error) {
			return anthropic.New("claude-sonnet-4-6", &anthropic.Options{BaseURL: url, Key: "k"})
		},
		turn: func(n byte, tool string) string {
			return fmt.Sprintf(`{"id":"msg_%[1]d","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[
				{"type":"thinking","thinking":"Order <42> & \u2028 %[1]d?","signature":%[2]q},{"type":"redacted_thinking","data":%[4]q},
				{"type":"tool_use","id":"toolu_%[1]d","name":%[3]q,"input":{"Number": %[1]d}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`, n, secret(n), tool, "redacted "+secret(n+100))
		},
		last: `{"id":"msg_9","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
	},
	// Google's compatible server adds thought signatures to calls, and OpenRouter
	// encrypted details to messages.
	"chat": {
		open: func(url string) (llm.Model, error) {
			return openai.New("m", &openai.Options{BaseURL: url, Key: "k", API: "chat"})
		},
		turn: func(n byte, tool string) string {
			return fmt.Sprintf(`{"id":"chatcmpl-%[1]d","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,
				"reasoning_details":[{"type":"reasoning.encrypted","id":"r_%[1]d","index":0,"data":%[4]q}],
				"tool_calls":[{"id":"call_%[1]d","type":"function","extra_content":{"google":{"thought_signature":%[2]q}},
				"function":{"name":%[3]q,"arguments":"{\"Number\": %[1]d}"}}]}}]}`, n, secret(n), tool, "redacted "+secret(n+100))
		},
		last: `{"id":"chatcmpl-9","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Done."}}]}`,
	},
}

// scripted starts a server with the responses of a turn, any number of times. It returns
// the bodies of the requests.
func (th thinker) scripted(t *testing.T) (url string, sent func() []string) {
	var mu sync.Mutex
	var bodies []string
	responses := []string{th.turn(1, "find"), th.turn(2, "refund"), th.last}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, responses[len(bodies)%len(responses)])
		bodies = append(bodies, string(raw))
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		out := bodies
		bodies = nil
		return out
	}
}

type order struct{ Number int }

// clerk returns a new graph whose tool refund requires approval, if there is a saver.
func (th thinker) clerk(t *testing.T, url string, saver checkpoint.Saver) *treadle.Graph[agent.State, agent.State] {
	t.Helper()
	model, err := th.open(url)
	if err != nil {
		t.Fatal(err)
	}
	done := func(_ context.Context, o order) (string, error) { return fmt.Sprint("order ", o.Number), nil }
	opts := &agent.Options{Tools: []*llm.Tool{llm.NewTool("find", "Find an order.", done), llm.NewTool("refund", "Refund an order.", done)}, Graph: treadle.Options{Saver: saver}}
	if saver != nil {
		opts.Middleware = []*agent.Middleware{agent.Gates(agent.Gate{Tool: "refund"})}
	}
	g, err := agent.New(llm.With(model, llm.NoStream()), opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A tool loop with reasoning that is interrupted, and resumed by another graph value with
// a reopened saver, sends the same bytes as a loop in one piece.
func TestReasoningSurvivesCheckpoints(t *testing.T) {
	places := map[string]func(*testing.T) func() checkpoint.Saver{"memory": inMemory}
	for _, b := range backends.All {
		if !race.Enabled { // a single goroutine uses the saver
			places[b.Name] = inDatabase(t, b)
		}
	}
	for api, th := range thinkers {
		t.Run(api, func(t *testing.T) {
			url, sent := th.scripted(t)
			if _, err := th.clerk(t, url, nil).Run(t.Context(), agent.Ask("Refund order 42.")); err != nil {
				t.Fatal(err)
			}
			want := sent()
			if len(want) != 3 {
				t.Fatalf("%d requests, want 3", len(want))
			}
			for n := range byte(2) {
				for _, s := range []string{secret(n + 1), "redacted " + secret(n+101)} {
					if count := strings.Count(want[2], `"`+s+`"`); count != 1 && strings.Contains(th.turn(n+1, ""), s) {
						t.Errorf("the last request contains the reasoning of turn %d %d times, want once", n+1, count)
					}
				}
			}
			for name, place := range places {
				t.Run(name, func(t *testing.T) {
					open := place(t)
					_, err := th.clerk(t, url, open()).Thread(api).Run(t.Context(), agent.Ask("Refund order 42."))
					if _, ok := errors.AsType[*treadle.InterruptError](err); !ok {
						t.Fatalf("the run ended with %v, want an interrupt", err)
					}
					out, err := th.clerk(t, url, open()).Thread(api).Resume(t.Context(), agent.Decisions{{Type: agent.Approve}})
					if err != nil || agent.Answer(out) != "Done." {
						t.Fatalf("%q, %v", agent.Answer(out), err)
					}
					if d := cmp.Diff(want, sent()); d != "" {
						t.Errorf("requests (-one piece +interrupted):\n%s", d)
					}
				})
			}
		})
	}
}
