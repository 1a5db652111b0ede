package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
)

func commandGraph(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
	b := treadle.New[askState]("commands")
	treadle.AddNode(b, "first", askPlain(c, "first"))
	treadle.AddNode(b, "late", askPlain(c, "late"), treadle.Defer())
	treadle.AddNode(b, "more", askPlain(c, "more"))
	treadle.AddNode(b, "sent", func(_ context.Context, n askNote) (askLog, error) {
		c.add("sent")
		return askSay("sent " + n.Note), nil
	})
	b.Edge(treadle.Start, "first")
	treadle.AddBranch(b, "first", func(context.Context, askState) (treadle.Goto, error) { return treadle.To(treadle.End), nil }, "more", "sent", "late")
	return b.Compile(&treadle.Options{Saver: saver})
}

// commandFirst checks that a command can start a thread: it is an input, and its goto
// targets run alongside the first nodes.
func commandFirst(t *testing.T, open opener) {
	send := func(t *testing.T, rig *askRig[askState, askState], command string) error {
		t.Helper()
		for _, err := range dynamic.Open(rig.graph(), "t").CommandJSON(t.Context(), json.RawMessage(command)) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	log := func(t *testing.T, rig *askRig[askState, askState], want string) {
		t.Helper()
		snap, err := rig.thread().State(t.Context())
		if err != nil || snap.State.String() != want {
			t.Errorf("state: %s, %v; want %s", snap.State, err, want)
		}
	}
	askBothWays(t, open, commandGraph, func(t *testing.T, rig *askRig[askState, askState]) {
		for _, command := range []string{`{"goto":"nowhere"}`, `{"goto":{"node":"sent","input":3}}`, `{"update":{"no":1}}`, `{"update":[["no",1]]}`, `{"update":[["log"]]}`, `{"update":[[1,2]]}`} {
			if err := send(t, rig, command); err == nil {
				t.Errorf("%s is taken", command)
			}
		}
		if err := send(t, rig, `{"resume":"x","goto":"more"}`); !errors.Is(err, treadle.ErrNothingToResume) {
			t.Errorf("answer on a fresh thread: %v", err)
		}
		if d := askDump(t, rig.saver); d != "" {
			t.Fatalf("something was stored: %s", d)
		}
		if err := send(t, rig, `{"update":[["log",["x"]],["note","n"],["log",["y"]]],"goto":["more","late",{"node":"sent","input":{"note":"s"}}]}`); err != nil {
			t.Fatal(err)
		}
		log(t, rig, `{"log":["x","y","first","more","sent s","late"],"note":"n"}`)
		rig.tally.want(t, "first", "more", "sent", "late")
		// Then the thread continues as usual.
		if err := send(t, rig, `{"update":[["log",["z"]]],"goto":"more"}`); err != nil {
			t.Fatal(err)
		}
		log(t, rig, `{"log":["x","y","first","more","sent s","late","z","more"],"note":"n"}`)
		rig.tally.want(t, "more")
		if err := send(t, rig, `{"update":[["note","a"],["note","b"]]}`); err == nil || !strings.Contains(err.Error(), "note") {
			t.Errorf("two values for one field: %v", err)
		}
	})
	// The command's goto is saved with it.
	saver := open(t)
	c := &askTally{}
	g, err := commandGraph(&failingSaver{Saver: saver, after: 1}, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range dynamic.Open(g, "t").CommandJSON(t.Context(), json.RawMessage(`{"update":{"note":"n"},"goto":["late",{"node":"sent","input":{"note":"s"}},"more"]}`)) {
	}
	if !errors.Is(err, errDead) {
		t.Fatalf("process that was to die: %v", err)
	}
	if g, err = commandGraph(saver, c); err != nil {
		t.Fatal(err)
	}
	out, err := g.Thread("t").Continue(t.Context())
	askEnded(t, out, err, "first", "more", "sent s", "late")
}

// failingSaver accepts a number of puts and then fails.
type failingSaver struct {
	checkpoint.Saver
	after int
}

func (s *failingSaver) Put(ctx context.Context, p *checkpoint.Put) error {
	s.after--
	if s.after < 0 {
		return errDead
	}
	return s.Saver.Put(ctx, p)
}
