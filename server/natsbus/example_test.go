package natsbus_test

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/natstest"
	"github.com/treadle-go/treadle/server/natsbus"
)

func Example() {
	ctx := context.Background()
	url, stop := startNATS() // in production nats://user:password@a,b,c
	defer stop()

	worker, err := natsbus.Open(ctx, url, nil)
	if err != nil {
		panic(err)
	}
	defer worker.Close()
	api, err := natsbus.Open(ctx, url, nil)
	if err != nil {
		panic(err)
	}
	defer api.Close()

	// A client of one process follows a run that another process executes.
	thread := uuid.New()
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range uint64(3) {
			e := &ledger.Events{Thread: thread, First: n + 1, Last: n + 1, Data: fmt.Appendf(nil, "token %d", n+1)}
			if err := worker.Log().Append(ctx, e); err != nil {
				panic(err)
			}
		}
	})
	for e, err := range api.Log().Read(ctx, thread, 0, true) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", e.Data)
		if e.Last == 3 {
			break
		}
	}
	wg.Wait()
	// Output:
	// token 1
	// token 2
	// token 3
}

// startNATS starts a server in this process.
func startNATS() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "natsbus")
	if err != nil {
		panic(err)
	}
	s, err := natstest.Start(dir, nil)
	if err != nil {
		panic(err)
	}
	return s.URL(), func() {
		s.Stop()
		_ = os.RemoveAll(dir)
	}
}
