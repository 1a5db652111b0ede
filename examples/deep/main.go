// Deep is an agent that reads the papers in a folder, gives each one to a sub-agent, and writes
// a report once a person has approved it. It can be killed at any time and started again.
//
//	go run ./examples/deep                       reads, and asks for approval; continues if it was killed
//	go run ./examples/deep approve               writes report.md
//	go run ./examples/deep reject "too short"    does not write it
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	if err := run(context.Background(), "examples/deep/papers", "deep.db", os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, folder, file string, answer []string, out io.Writer) (err error) {
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
	model, err := models.Open(offline)
	if err != nil {
		return err
	}
	ask := []deep.Permission{{Paths: []string{"/**"}, Ops: []string{deep.OpWrite}, Mode: deep.Confirm}}
	g, err := deep.New(model, &deep.Options{Files: deep.FilesOptions{Backend: papers, Permissions: ask}, Graph: treadle.Options{Saver: db}})
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
	case len(before.Pauses) > 0 && len(answer) > 0:
		state, err = thread.Resume(ctx, decisions(answer))
	case len(before.Next) > 0: // an earlier process was killed, or has asked
		state, err = thread.Continue(ctx)
	case before.ID.IsZero():
		state, err = thread.Run(ctx, deep.Ask("Give each paper (*.txt) to a sub-agent, and write what they find to /report.md."))
	default: // an earlier process has finished
		err = before.Read(&state)
	}
	return show(out, state, err)
}
