package deep_test

import (
	"log/slog"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/backgroundtest"
	"github.com/treadle-go/treadle/checkpoint"
)

func TestLocalTasks(t *testing.T) {
	backgroundtest.Run(t, func(t *testing.T, worker *treadle.Graph[deep.State, deep.State]) func() backgroundtest.Process {
		saver := checkpoint.NewMemory()
		return func() backgroundtest.Process {
			l, err := deep.NewLocal("tasks", worker, &treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return backgroundtest.Process{Background: l, Serve: l.Serve, Answer: l.Resume}
		}
	})
}
