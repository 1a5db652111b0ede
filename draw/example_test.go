package draw_test

import (
	"fmt"

	"github.com/treadle-go/treadle/draw"
)

func ExampleShape_Text() {
	s := draw.Shape{
		Name:  "agent",
		Nodes: []draw.Node{{ID: "__start__"}, {ID: "agent"}, {ID: "tools"}, {ID: "__end__"}},
		Edges: []draw.Edge{
			{From: "__start__", To: "agent"},
			{From: "agent", To: "__end__", Conditional: true},
			{From: "agent", To: "tools", Conditional: true},
			{From: "tools", To: "agent"},
		},
	}
	fmt.Print(s.Text())
	// Output:
	//           ╭───────────╮
	//           │ __start__ │
	//           ╰─────┬─────╯
	//                 │
	//                 ▼
	//           ┌───────────┐
	//           │   agent   │
	//           └─┬───┬─────┘
	//             ┆   ┆   ▲
	//      ┌╌╌╌╌╌╌┘   ┆   │
	//      ▼          ▼   │
	// ╭─────────╮   ┌─────┴─┐
	// │ __end__ │   │ tools │
	// ╰─────────╯   └───────┘
}
