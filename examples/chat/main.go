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
	"os"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
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
	model, err := models.Open(echo)
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
	fmt.Fprint(out, "> ")
	for lines.Scan() {
		for event, err := range thread.Stream(ctx, agent.Ask(lines.Text()), treadle.Modes(treadle.ModeMessages)) {
			if err != nil {
				return err
			}
			if token, ok := event.(treadle.Token); ok {
				fmt.Fprint(out, token.Text())
			}
		}
		fmt.Fprint(out, "\n\n> ")
	}
	fmt.Fprintln(out)
	return lines.Err()
}

// echo is the model used without an API key. It repeats the last message word by word and
// counts the user's messages.
var echo = llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
	said := llm.Filter(req.Messages, &llm.FilterOptions{Roles: []llm.Role{llm.RoleHuman}})
	return llm.Assistant(fmt.Sprintf("Message %d was: %s", len(said), said[len(said)-1].Text())), nil
})
