package v1

import (
	"context"
	"errors"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/sqlite"
)

// Record saves a thread in each situation that a new version must continue from.
func Record(ctx context.Context, file string) (err error) {
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	g, err := New(db)
	if err != nil {
		return err
	}
	_, finished := g.Thread("finished").Run(ctx, Essay{Title: "Owls"})
	if treadle.IsPause(finished) {
		_, finished = g.Thread("finished").Resume(ctx, "Ada")
	}
	_, waiting := g.Thread("waiting").Run(ctx, Essay{Title: "Bees"})
	if treadle.IsPause(waiting) {
		waiting = nil
	}
	_, stopped := g.With(treadle.After("draft")).Thread("stopped").Run(ctx, Essay{Title: "Ants"})
	if treadle.IsPause(stopped) {
		stopped = nil
	}
	return errors.Join(finished, waiting, stopped)
}
