package ui_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/ui"
)

type state struct {
	City string      `json:"city"`
	UI   ui.Messages `json:"ui"`
}

type update struct {
	UI ui.Messages `json:"ui"`
}

// show shows a forecast, and then fills in the temperature.
func show(ctx context.Context, s state) (update, error) {
	card, err := ui.Push(ctx, "forecast", map[string]any{"city": s.City}, &ui.PushOptions{ID: "forecast"})
	if err != nil {
		return update{}, err
	}
	celsius, err := temperature(ctx, s.City)
	if err != nil {
		return update{}, err
	}
	full, err := ui.Push(ctx, "forecast", map[string]any{"celsius": celsius}, &ui.PushOptions{ID: "forecast", Merge: true})
	return update{UI: ui.Messages{card, full}}, err
}

func temperature(context.Context, string) (int, error) { return 21, nil }

// A node shows a component without its data, loads the data, and then adds it to the component.
func ExamplePush() {
	b := treadle.New[state]("weather")
	treadle.AddNode(b, "show", show)
	b.Edge(treadle.Start, "show")
	g := treadle.Must(b.Compile(nil))

	for ev, err := range g.Stream(context.Background(), state{City: "Paris"}, treadle.Modes(treadle.ModeCustom)) {
		switch ev := ev.(type) {
		case treadle.Custom:
			fmt.Println("shown:", ev.Value.(ui.Message).Props)
		case treadle.Finished[state]:
			fmt.Println("saved:", ev.Output.UI[0].Props, err)
		}
	}
	// Output:
	// shown: map[city:Paris]
	// shown: map[celsius:21]
	// saved: map[celsius:21 city:Paris] <nil>
}
