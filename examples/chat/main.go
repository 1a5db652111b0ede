// Chat is a conversation in the terminal. It streams the responses and is saved in an SQLite
// file, so that it continues when the program is started again.
//
//	go run ./examples/chat chat.db
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	file := "chat.db"
	if len(os.Args) > 1 {
		file = os.Args[1]
	}
	if err := chat(context.Background(), file, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

func chat(ctx context.Context, file string, in io.Reader, out io.Writer) (err error) {
	model, err := models.Open(echo{})
	if err != nil {
		return err
	}
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	g, err := agent.New(model, &agent.Options{Prompt: "Answer briefly.", Graph: treadle.Options{Saver: db}})
	if err != nil {
		return err
	}
	thread := g.Thread("chat")
	lines := bufio.NewScanner(in)
	for fmt.Fprint(out, "> "); lines.Scan(); fmt.Fprint(out, "\n> ") {
		for event, err := range thread.Stream(ctx, agent.Ask(lines.Text()), treadle.Modes(treadle.ModeTokens)) {
			if err != nil {
				return err
			}
			if token, ok := event.(treadle.Token); ok {
				if chunk, ok := token.Chunk.(llm.Chunk); ok {
					fmt.Fprint(out, chunk.Content)
				}
			}
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
	return lines.Err()
}

// echo is the model used without an API key. It repeats the last message word by word and
// counts the user's messages.
type echo struct{}

// Stream implements [llm.Model].
func (echo) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		said := llm.Filter(req.Messages, &llm.FilterOptions{Roles: []llm.Role{llm.RoleHuman}})
		text := fmt.Sprintf("Message %d was: %s", len(said), said[len(said)-1].Text())
		for word := range strings.SplitAfterSeq(text, " ") {
			if !yield(llm.Chunk{Content: word}, nil) {
				return
			}
		}
		yield(llm.Chunk{Stop: llm.StopEnd}, nil)
	}
}
