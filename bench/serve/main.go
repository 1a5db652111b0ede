// Serve serves the graphs of the server jobs, with the flags of [standalone.Main].
//
// With TREADLE_BENCH_CPU=FILE, it writes a CPU profile to the file when it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/server/standalone"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if path := os.Getenv("TREADLE_BENCH_CPU"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return errors.Join(err, f.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			_ = f.Close()
		}()
	}
	graphs, err := all()
	if err != nil {
		return err
	}
	return standalone.Serve(ctx, args, os.Stderr, nil, graphs...)
}

// all returns the platform's router and the graphs of this program.
func all() ([]treadle.AnyGraph, error) {
	first, firstErr := newFirst()
	burst, burstErr := newBurst()
	graphs, err := platform.All()
	if err := errors.Join(firstErr, burstErr, err); err != nil {
		return nil, err
	}
	for _, g := range graphs {
		if g.Name() == "router" {
			return []treadle.AnyGraph{g, first, burst}, nil
		}
	}
	return nil, errors.New("no graph router in package platform")
}

type told struct {
	Done bool `json:"done"`
}

type moment struct {
	At string `json:"at"` // nanoseconds since 1970, a string as in the other languages
}

// newFirst returns a graph with a node that sends the time.
func newFirst() (*treadle.Graph[told, told], error) {
	b := treadle.New[told]("first")
	treadle.AddNode(b, "emit", func(ctx context.Context, _ told) (told, error) {
		treadle.Emit(ctx, moment{strconv.FormatInt(time.Now().UnixNano(), 10)})
		return told{true}, nil
	})
	b.Edge(treadle.Start, "emit")
	return b.Compile(nil)
}

type bursting struct {
	Gate   string `json:"gate"`
	Frames int    `json:"frames"`
	Done   bool   `json:"done"`
}

type frame struct {
	Frame int `json:"frame"`
}

// newBurst returns a graph with a node that waits until the file named Gate exists
// and then sends its frames.
func newBurst() (*treadle.Graph[bursting, bursting], error) {
	b := treadle.New[bursting]("burst")
	treadle.AddNode(b, "emit", func(ctx context.Context, s bursting) (told, error) {
		look := time.NewTicker(5 * time.Millisecond)
		defer look.Stop()
		for {
			_, err := os.Stat(s.Gate)
			if err == nil {
				break
			}
			if !errors.Is(err, os.ErrNotExist) {
				return told{}, err
			}
			select {
			case <-ctx.Done():
				return told{}, context.Cause(ctx)
			case <-look.C:
			}
		}
		for i := range s.Frames {
			treadle.Emit(ctx, frame{i})
		}
		return told{true}, nil
	})
	b.Edge(treadle.Start, "emit")
	return b.Compile(nil)
}
