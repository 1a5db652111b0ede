package bus_test

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/ledger"
)

func Example() {
	ctx := context.Background()
	b := bus.NewMemory()
	defer b.Close()

	// A worker waits for work.
	woken := make(chan string)
	stop, err := b.Listen("wake", func(payload []byte) { woken <- string(payload) })
	if err != nil {
		panic(err)
	}
	defer stop()
	if err := b.Signal(ctx, "wake", []byte("chat")); err != nil {
		panic(err)
	}
	fmt.Println("look for runs of", <-woken)

	// The worker appends the events of a run, and a client reads the ones it
	// has not seen.
	thread, run := uuid.New(), uuid.New()
	for n := range uint64(3) {
		e := &ledger.Events{Thread: thread, Run: run, First: n + 1, Last: n + 1, Data: fmt.Appendf(nil, "token %d", n+1)}
		if err := b.Log().Append(ctx, e); err != nil {
			panic(err)
		}
	}
	for e, err := range b.Log().Read(ctx, thread, 1, false) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d: %s\n", e.Last, e.Data)
	}
	// Output:
	// look for runs of chat
	// 2: token 2
	// 3: token 3
}
