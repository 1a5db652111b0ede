package studiotest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/reduce"
)

// letter is the argument of send_mail.
type letter struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// city is the argument of get_weather.
type city struct {
	City string `json:"city"`
}

// newTalker returns an agent that asks before it sends mail.
func newTalker() (treadle.AnyGraph, error) {
	mail := llm.NewTool("send_mail", "Sends a mail.", func(_ context.Context, l letter) (string, error) {
		return fmt.Sprintf("sent %q to %s", l.Text, l.To), nil
	})
	weather := llm.NewTool("get_weather", "The weather in a city.", func(_ context.Context, c city) (string, error) {
		return "sunny in " + c.City, nil
	})
	return agent.New(&talker{}, &agent.Options{
		Name:       "talker",
		Tools:      []*llm.Tool{mail, weather},
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "send_mail", Description: "Send **this** mail?"})},
	})
}

// talker is a model whose response depends on the last message.
type talker struct{ answers atomic.Int64 }

// Stream implements [llm.Model].
func (t *talker) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	last := req.Messages[len(req.Messages)-1]
	text := last.Text()
	if last.Role == llm.RoleTool {
		return inWords("Result: "+text, nil)
	}
	words := strings.Fields(text)
	switch {
	case strings.HasPrefix(text, "tokens "): // tokens 2000
		n, _ := strconv.Atoi(words[1])
		return inWords(numbered(n), func() error { return delay.For(ctx, time.Millisecond) })
	case strings.HasPrefix(text, "paced "): // paced NAME 40
		n, _ := strconv.Atoi(words[2])
		return inWords(numbered(n), func() error { return pace.wait(ctx, words[1]) })
	case strings.HasPrefix(text, "mail "): // mail ada bob
		return calls("send_mail", words[1:], func(who string) any { return letter{who + "@example.com", "Hello " + who} })
	case strings.HasPrefix(text, "weather "): // weather Paris
		return calls("get_weather", words[1:], func(where string) any { return city{where} })
	case text == "markdown":
		return inWords(markdown, nil)
	case text == "think":
		return thinking
	default:
		return inWords(fmt.Sprintf("Answer %d to: %s (%d images)", t.answers.Add(1), text, images(last)), nil)
	}
}

func images(m llm.Message) (n int) {
	for _, b := range m.Parts() {
		if b.Type == llm.BlockImage {
			n++
		}
	}
	return n
}

// markdown is a response with everything that the page must show, and with content that
// it must not show.
const markdown = `## Plan

A **bold** start with ` + "`code`" + ` and [a link](https://example.com/page).

| Step | Time |
|------|-----:|
| one  | 10 s |
| two  | 20 s |

` + "```go\nfunc main() {\n\tfmt.Println(\"hello\")\n}\n```" + `

1. first
2. second

<script>window.hacked = true</script>
<img src="x" onerror="window.hacked = true">
<a href="javascript:window.hacked=true">do not click</a>
<img src="https://elsewhere.example/track.png">
<style>body { display: none }</style>
<iframe src="https://elsewhere.example/"></iframe>

The end.`

// numbered returns n distinct words, in paragraphs.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%d", i)
		if i%100 == 99 {
			b.WriteString("\n\n")
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

var token = regexp.MustCompile(`\S+\s*|\s+`)

// inWords streams a text word by word. It calls wait, if not nil, before each word.
func inWords(text string, wait func() error) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for _, w := range token.FindAllString(text, -1) {
			if wait != nil {
				if err := wait(); err != nil {
					yield(llm.Chunk{}, err)
					return
				}
			}
			if !yield(llm.Chunk{Content: w}, nil) {
				return
			}
		}
	}
}

// calls streams one tool call for each argument.
func calls(tool string, of []string, args func(string) any) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for i, name := range of {
			raw, err := json.Marshal(args(name))
			if err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			for _, piece := range []llm.ToolCallChunk{
				{Index: &i, ID: fmt.Sprintf("call_%s_%d", name, i), Name: tool},
				{Index: &i, Args: string(raw[:len(raw)/2])},
				{Index: &i, Args: string(raw[len(raw)/2:])},
			} {
				if !yield(llm.Chunk{ToolCalls: []llm.ToolCallChunk{piece}}, nil) {
					return
				}
			}
		}
	}
}

// thinking streams reasoning, an answer, and usage.
func thinking(yield func(llm.Chunk, error) bool) {
	zero := 0
	for _, w := range []string{"First ", "I ", "think."} {
		if !yield(llm.Chunk{Blocks: []llm.Block{{Type: llm.BlockReasoning, Index: &zero, Reasoning: w}}}, nil) {
			return
		}
	}
	for _, w := range []string{"Then ", "I ", "answer."} {
		if !yield(llm.Chunk{Content: w}, nil) {
			return
		}
	}
	yield(llm.Chunk{Usage: &llm.Usage{Input: 12, Output: 34, Total: 46}, Stop: llm.StopEnd}, nil)
}

// survey is the state of the graph with several interrupts in one step.
type survey struct {
	Answers reduce.List[string] `json:"answers"`
}

// answered is a node's update of survey.
type answered struct {
	Answers reduce.List[string] `json:"answers"`
}

// newSurvey returns a graph with four interrupts in one step.
func newSurvey() (treadle.AnyGraph, error) {
	b := treadle.New[survey]("survey")
	ask := func(node string, question any) {
		treadle.AddNode(b, node, func(ctx context.Context, _ survey) (answered, error) {
			answer, err := treadle.Interrupt[json.RawMessage](ctx, question)
			if err != nil {
				return answered{}, err
			}
			return answered{reduce.List[string]{node + "=" + string(answer)}}, nil
		})
		b.Edge(treadle.Start, node)
	}
	ask("budget", map[string]any{"question": "Spend **100 euros**?", "type": "boolean"})
	ask("name", "What is your name?")
	ask("colour", map[string]any{"question": "Which colour?", "options": []string{"red", "green", "blue"}})
	ask("order", map[string]any{"question": "What do you order?", "response_schema": map[string]any{
		"type": "object", "required": []string{"dish"},
		"properties": map[string]any{"dish": map[string]any{"type": "string"}, "count": map[string]any{"type": "integer", "default": 1}},
	}})
	return b.Compile(nil)
}

// mailbox is the state of a graph that asks to review mails.
type mailbox struct {
	Mails   int                 `json:"mails,omitempty"` // 0 is 1
	Answers reduce.List[string] `json:"answers"`
}

// newInbox returns a graph whose interrupt has the form that agent inboxes use: actions
// with the permitted responses.
func newInbox() (treadle.AnyGraph, error) {
	b := treadle.New[mailbox]("inbox")
	treadle.AddNode(b, "send", func(ctx context.Context, s mailbox) (answered, error) {
		request := map[string]any{
			"action_request": map[string]any{"action": "send_mail", "args": map[string]any{"to": "ada@example.com", "urgent": true}},
			"config":         map[string]any{"allow_accept": true, "allow_edit": true, "allow_respond": true, "allow_ignore": true},
			"description":    "Send a mail to *Ada*.",
		}
		answer, err := treadle.Interrupt[json.RawMessage](ctx, slices.Repeat([]map[string]any{request}, max(1, s.Mails)))
		if err != nil {
			return answered{}, err
		}
		return answered{reduce.List[string]{string(answer)}}, nil
	})
	b.Edge(treadle.Start, "send")
	return b.Compile(nil)
}

// newNap returns a graph that sleeps for a day.
func newNap() (treadle.AnyGraph, error) {
	b := treadle.New[survey]("nap")
	sleep := treadle.AddNode(b, "sleep", func(ctx context.Context, _ survey) (answered, error) {
		return answered{}, treadle.Sleep(ctx, 24*time.Hour)
	})
	b.Edge(treadle.Start, sleep)
	return b.Compile(nil)
}
