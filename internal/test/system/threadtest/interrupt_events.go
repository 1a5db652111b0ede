package threadtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

func interruptEvents(t *testing.T, open opener) {
	askBothWays(t, open, askChain(plain("one"), asking("ask"), plain("two")), func(t *testing.T, rig *askRig[askState, askState]) {
		collect := func(stream func() ([]string, error), want ...string) error {
			t.Helper()
			got, err := stream()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("stream (-want +got):\n%s", diff)
			}
			return err
		}
		modes := treadle.Modes(treadle.ModeValues, treadle.ModeUpdates)
		read := func(seq func(func(treadle.Event, error) bool)) ([]string, error) {
			var lines []string
			var last error
			for ev, err := range seq {
				if err != nil {
					last = err
					continue
				}
				lines = append(lines, askLine(ev))
			}
			return lines, last
		}
		err := collect(func() ([]string, error) { return read(rig.thread().Stream(t.Context(), askState{Note: "x"}, modes)) },
			`values {"log":[],"note":"x"} pauses 0`,
			`update one {"log":["one"]}`,
			`values {"log":["one"],"note":"x"} pauses 0`,
			`interrupted ask "ask?" before [] after []`,
			`values {"log":["one"],"note":"x"} pauses 1`)
		askedStrings(t, err, "ask?")
		err = collect(func() ([]string, error) { return read(rig.thread().ResumeStream(t.Context(), "A", modes)) },
			`values {"log":["one"],"note":"x"} pauses 0`,
			`update ask {"log":["ask=A"]}`,
			`values {"log":["one","ask=A"],"note":"x"} pauses 0`,
			`update two {"log":["two"]}`,
			`values {"log":["one","ask=A","two"],"note":"x"} pauses 0`,
			`treadle.Finished[github.com/treadle-go/treadle/internal/test/system/threadtest.askState]`)
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Run("nested", func(t *testing.T) {
		build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
			leaf := treadle.New[askState]("leaf")
			treadle.AddNode(leaf, "ask", askNode(c, "ask"))
			leaf.Edge(treadle.Start, "ask")
			g, err := askNest(leaf, c, 1)
			if err != nil {
				return nil, err
			}
			b := treadle.New[askState]("root")
			treadle.AddGraph(b, "sub", g)
			b.Edge(treadle.Start, "sub")
			return b.Compile(&treadle.Options{Saver: saver})
		}
		for _, deep := range []bool{false, true} {
			rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
			opts := []treadle.StreamOption{}
			want := []string{`interrupted sub "ask?" before [] after []`}
			if deep {
				opts = append(opts, treadle.Subgraphs())
				want = []string{`update 1 deep pre {"log":["pre0"]}`, `interrupted 2 deep ask "ask?" before [] after []`,
					`interrupted 1 deep in "ask?" before [] after []`, want[0]}
			}
			var got []string
			for ev, err := range rig.thread().Stream(t.Context(), askState{}, opts...) {
				if err != nil {
					askedStrings(t, err, "ask?")
					continue
				}
				got = append(got, askLine(ev))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("subgraphs %v (-want +got):\n%s", deep, diff)
			}
		}
	})
}
