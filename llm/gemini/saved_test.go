package gemini_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
)

// A tool loop that is interrupted, and resumed by another graph value with the same saver,
// sends the same bytes as a loop in one piece, including thought signatures.
func TestSignaturesSurviveCheckpoints(t *testing.T) {
	secret := func(name string) string {
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name+"\xff\xfe\x00", 500)))
	}
	turn := func(tool string) object {
		return object{"functionCall": object{"id": tool, "name": tool, "args": object{"number": 42}}, "thoughtSignature": secret(tool)}
	}
	thought := object{"text": "Order <42> & \u2028?", "thought": true}
	s := serve(t,
		ok(thought, turn("find")), ok(thought, turn("refund")), ok(text("Done.")),
		ok(thought, turn("find")), ok(thought, turn("refund")), ok(text("Done.")))
	clerk := func(saver checkpoint.Saver) *treadle.Graph[agent.State, agent.State] {
		done := func(context.Context, struct{ Number int }) (string, error) { return "ok", nil }
		o := &agent.Options{Tools: []*llm.Tool{llm.NewTool("find", "Find an order.", done), llm.NewTool("refund", "Refund an order.", done)}, Graph: treadle.Options{Saver: saver}}
		if saver != nil {
			o.Middleware = []*agent.Middleware{agent.Gates(agent.Gate{Tool: "refund"})}
		}
		g, err := agent.New(llm.With(open(t, "gemini-3.8-flash", s.URL), llm.NoStream()), o)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if _, err := clerk(nil).Run(t.Context(), agent.Ask("Refund order 42.")); err != nil {
		t.Fatal(err)
	}
	saver := checkpoint.NewMemory()
	_, err := clerk(saver).Thread("1").Run(t.Context(), agent.Ask("Refund order 42."))
	if _, ok := errors.AsType[*treadle.InterruptError](err); !ok {
		t.Fatalf("the run ended with %v, want an interrupt", err)
	}
	if out, err := clerk(saver).Thread("1").Resume(t.Context(), agent.Decisions{{Type: agent.Approve}}); err != nil || agent.Answer(out) != "Done." {
		t.Fatalf("%q, %v", agent.Answer(out), err)
	}
	var bodies []string
	for _, a := range s.asked {
		bodies = append(bodies, string(a.body))
	}
	if len(bodies) != 6 || strings.Count(bodies[2], secret("find")) != 1 || strings.Count(bodies[2], secret("refund")) != 1 {
		t.Fatalf("%d requests, want 6; the third contains each signature once: %s", len(bodies), bodies[min(2, len(bodies)-1)])
	}
	if d := cmp.Diff(bodies[:3], bodies[3:]); d != "" {
		t.Errorf("requests (-one piece +interrupted):\n%s", d)
	}
}
