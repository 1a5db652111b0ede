// Command library reads papers and writes a report.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	if err := run(context.Background(), "papers", "library.db", len(os.Args) > 1 && os.Args[1] == "approve", os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, folder, file string, approve bool, out io.Writer) (err error) {
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	papers, err := files.NewDir(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, papers.Close()) }()
	g, err := newAgent(offline, papers, db)
	if err != nil {
		return err
	}
	thread := g.Thread("report")
	before, err := thread.State(ctx)
	if err != nil {
		return err
	}
	var state deep.State
	switch {
	case approve && len(before.Pauses) > 0:
		state, err = thread.Resume(ctx, agent.Decisions{{Type: agent.Approve}})
	case before.ID.IsZero():
		state, err = thread.Run(ctx, deep.Ask("What do the papers say? Write it to /report.md."))
	default: // an earlier process was killed, has asked, or has finished
		state, err = thread.Continue(ctx)
	}
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		var review agent.Review
		err = stop.Pauses[0].Decode(&review)
		fmt.Fprintln(out, review.Calls[0].Description)
	} else if err == nil {
		fmt.Fprintln(out, deep.Answer(state))
	}
	return err
}
