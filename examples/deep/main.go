// Deep is an agent that reads the papers in a folder, gives each one to a sub-agent, and writes
// a report once a person has approved it. It can be killed at any time and started again.
//
//	go run ./examples/deep                       reads, and asks for approval
//	go run ./examples/deep approve               writes report.md
//	go run ./examples/deep reject "too short"    does not write it
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
	thread, review := g.Thread("report"), agent.Review{}
	var state deep.State
	if len(answer) == 0 {
		state, err = thread.Run(ctx, deep.Ask("Give each paper (*.txt) to a sub-agent, and write what they find to /report.md."))
	} else {
		state, err = thread.Resume(ctx, decisions(answer))
	}
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		err = stop.Pauses[0].Decode(&review)
		fmt.Fprintf(out, "%s\nStart again with approve or reject.\n", review.Calls[0].Description)
	} else if err == nil {
		fmt.Fprintln(out, deep.Answer(state))
	}
	return err
}
