package pregel

import (
	"context"
	"fmt"
	"iter"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
)

// getFrom reads a checkpoint. It returns an error if the saver panics, or returns
// neither a checkpoint nor an error.
func getFrom(ctx context.Context, s checkpoint.Saver, key checkpoint.Key) (cp *checkpoint.Checkpoint, err error) {
	defer func() {
		if p := recover(); p != nil {
			cp, err = nil, asFault(caught.New("saver: Get: ", p))
		}
	}()
	if cp, err = s.Get(ctx, key); cp == nil && err == nil {
		err = fmt.Errorf("saver: Get returned neither a checkpoint nor an error for thread %q", key.Thread)
	}
	return cp, err
}

// listFrom lists checkpoints, with the same checks as getFrom. It does not recover
// panics of the loop that ranges over it.
func listFrom(ctx context.Context, s checkpoint.Saver, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return func(yield func(*checkpoint.Checkpoint, error) bool) {
		reading := false
		defer func() {
			if reading {
				return
			}
			if p := recover(); p != nil {
				yield(nil, asFault(caught.New("saver: List: ", p)))
			}
		}()
		for cp, err := range s.List(ctx, q) {
			if cp == nil && err == nil {
				err = fmt.Errorf("saver: List returned neither a checkpoint nor an error for thread %q", q.Thread)
			}
			reading = true
			if !yield(cp, err) {
				return
			}
			reading = false
		}
	}
}
