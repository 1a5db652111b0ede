package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// Ann leaves. The program erases all data stored about her and keeps the report, which
// contains no text, as proof.
func ExampleErasure() {
	ctx := context.Background()
	items := treadle.Must(store.NewMemory(nil))
	for _, person := range []string{"ann", "bob"} {
		if err := items.Put(ctx, store.Namespace{"memories", person}, "1", map[string]string{"content": person + " is allergic to nuts"}, nil); err != nil {
			fmt.Println(err)
		}
	}
	e := &memory.Erasure{
		Person:     "ann",
		Namespaces: []store.Namespace{{"memories", "ann"}},
		Threads:    []string{"ann's chat"},
		Saver:      checkpoint.NewMemory(),
		Store:      items,
	}
	would, err := e.DryRun(ctx)
	fmt.Printf("%v%v\n", would, err)
	report, err := e.Run(ctx)
	fmt.Printf("%v%v\n", report, err)
	proof := treadle.Must(json.Marshal(report))
	fmt.Println(strings.Contains(string(proof), "nuts"))
	left, err := items.Namespaces(ctx, nil)
	fmt.Println(left, err)
	// Output:
	// would erase: 1 item, 1 version
	// <nil>
	// erased: 1 item, 1 version
	// cleared: the cached results of all nodes
	// scrubbed: the files of the databases
	// <nil>
	// false
	// [["memories" "bob"]] <nil>
}
