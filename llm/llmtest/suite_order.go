package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

// testBlockOrder checks that interleaved reasoning and calls are sent back in the
// order in which they came: from a stream or a whole response, after the message
// was saved, and after middleware edited or removed a call.
func testBlockOrder(t *testing.T, r *rig) {
	reply := r.reply(Reply{
		Reasoning: []string{"Weather", " first."},
		Signature: "Zmlyc3Q=",
		Calls:     twoCalls[:1],
		Stop:      llm.StopTools,
		Usage:     usage,
		Next:      []Reply{{Reasoning: []string{"Now the", " time."}, Signature: "c2Vjb25k", Calls: twoCalls[1:]}},
	})
	question := llm.User("Weather and time?")
	tools := llm.With(r.model, llm.Tools(weather(), clock()), llm.Reasoning("low"))
	all := []string{"think Weather first.", `call get_weather {"city":"San Francisco"}`, "think Now the time.", `call get_time {"zone":"PST"}`}
	for name, model := range map[string]llm.Model{"whole": llm.With(tools, llm.NoStream()), "streamed": tools} {
		r.will(reply)
		m := must(t)(llm.Generate(t.Context(), model, question))
		wantCalls(t, m, twoCalls...)
		for _, edit := range []struct {
			name string
			call func(*llm.Message)
			want []string
		}{
			{"unchanged", func(*llm.Message) {}, all},
			{"edited", func(m *llm.Message) { m.ToolCalls[0].Args = json.RawMessage(`{"city":"Boston"}`) },
				[]string{all[0], `call get_weather {"city":"Boston"}`, all[2], all[3]}},
			{"without the first call", func(m *llm.Message) { m.ToolCalls = m.ToolCalls[1:] }, all[2:]},
			{"without the last call", func(m *llm.Message) { m.ToolCalls = m.ToolCalls[:1] }, all[:2]},
		} {
			saved := reload(t, m)
			saved.ToolCalls = slices.Clone(saved.ToolCalls)
			edit.call(&saved)
			r.will(r.reply(Reply{Text: []string{"ok"}, Stop: llm.StopEnd, Usage: usage}))
			must(t)(llm.Generate(t.Context(), tools, question, saved)) // Repair adds the results
			diff(t, fmt.Sprintf("the %s message sent back, %s", name, edit.name), edit.want, trace(r.last().Messages[1]))
		}
	}
}

// loopTurns is the number of turns of a loop.
const loopTurns = 5

// loop is a tool loop whose model reasons before each call.
type loop struct {
	model   llm.Model
	history llm.Messages
}

func newLoop(m llm.Model) *loop {
	return &loop{llm.With(m, llm.Tools(weather()), llm.Reasoning("low")), llm.Messages{llm.User("Weather in five cities?")}}
}

// loopReply returns the response of a turn.
func loopReply(turn int) Reply {
	return Reply{Reasoning: []string{fmt.Sprintf("City %d.", turn)}, Stop: llm.StopTools, Usage: usage,
		Signature: base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "signature %d", turn)),
		Calls:     []Call{{ID: fmt.Sprintf("call_%d", turn), Name: "get_weather", Args: []string{fmt.Sprintf(`{"city":"City %d"}`, turn)}}}}
}

func loopResult(turn int) string { return fmt.Sprintf("sunny %d", turn) }

// next makes the next turn.
func (l *loop) next(t *testing.T) {
	t.Helper()
	m := must(t)(llm.Generate(t.Context(), l.model, l.history...))
	if len(m.ToolCalls) != 1 {
		t.Fatalf("the calls are %+v, want one", m.ToolCalls)
	}
	l.history = append(l.history, reload(t, m), llm.ToolResult(m.ToolCalls[0], loopResult(l.turns())))
}

// turns returns the number of turns so far.
func (l *loop) turns() int { return (len(l.history) - 1) / 2 }

// finish makes the remaining turns, and checks that each request contains the
// reasoning and the calls of all turns before it, in order.
func (l *loop) finish(t *testing.T, r *rig) {
	for l.turns() < loopTurns {
		turn := l.turns()
		r.will(r.reply(loopReply(turn)))
		l.next(t)
		var want, got [][]string
		for i := range turn {
			want = append(want, []string{"think " + loopReply(i).Reasoning[0], "call get_weather " + loopReply(i).Calls[0].Args[0]})
		}
		for _, sent := range r.last().Messages {
			if sent.Role == llm.RoleAI {
				got = append(got, trace(sent))
			}
		}
		diff(t, fmt.Sprintf("the answers sent back in turn %d", turn), want, got)
		wantSignatures(t, r, turn)
	}
}

// wantSignatures checks that the last request contains the signatures of the turns
// before it, each once and between the tool results of its turn and the turn before,
// if the provider signs its reasoning.
func wantSignatures(t *testing.T, r *rig, turn int) {
	rest := string(r.lastBody())
	for i := range turn {
		reply := loopReply(i)
		part, after, ok := strings.Cut(rest, loopResult(i))
		if !ok {
			t.Errorf("the request of turn %d lacks the result of turn %d:\n%s", turn, i, r.lastBody())
			return
		}
		if n := strings.Count(part, reply.Signature); n != 1 && bytes.Contains(r.p.Whole(reply), []byte(reply.Signature)) {
			t.Errorf("the request of turn %d has the signature of turn %d %d times in its place, want once:\n%s", turn, i, n, r.lastBody())
		}
		rest = after
	}
}

// testReasoningLoop checks that a tool loop of five turns sends all of its reasoning
// and calls back in order.
func testReasoningLoop(t *testing.T, r *rig) { newLoop(r.model).finish(t, r) }

// reload returns the message as a saver would: through its JSON.
func reload(t *testing.T, m llm.Message) (out llm.Message) {
	t.Helper()
	raw, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// trace describes the content and the calls of a received message in order.
func trace(m llm.Message) (out []string) {
	calls := m.ToolCalls
	call := func() {
		if len(calls) > 0 {
			out = append(out, fmt.Sprintf("call %s %s", calls[0].Name, compact(calls[0].Args)))
			calls = calls[1:]
		}
	}
	for _, b := range slices.Concat([]llm.Block{llm.Text(m.Content)}, m.Blocks) {
		switch {
		case b.Type == llm.BlockToolCall:
			call()
		case b.Type == llm.BlockReasoning:
			out = append(out, "think "+b.Reasoning)
		case b.Type != llm.BlockText:
			out = append(out, b.Type)
		case b.Text != "":
			out = append(out, "say "+b.Text)
		}
	}
	for len(calls) > 0 {
		call()
	}
	return out
}

func compact(args json.RawMessage) string {
	raw, err := json.Marshal(plain(args))
	if err != nil {
		return string(args)
	}
	return string(raw)
}
