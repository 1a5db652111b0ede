package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/sqlite"
)

const (
	chatThread   = "chat"
	chatUser     = "me"
	offlineName  = "offline"
	speakingPace = 30 * time.Millisecond // between the offline model's words, if somebody watches them
)

// demoFlags are what the demo was told.
type demoFlags struct {
	db, thread, user, notes, model, baseURL string
	yes                                     bool
	pace                                    paceFlag
}

func newDemo(s *streams) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Chat with an agent that has tools, asks first, and remembers",
		Long: `Chat with an agent. It can compute, write notes to files, for which it asks you
first, and remembers what you tell it about yourself in all conversations.

With OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY in the environment, or
with --base-url, a language model does the talking. Without, a few rules do: no
key, no service and no network are needed.

In a terminal every step is kept in an SQLite file. Stop it at any time, even
with kill -9, and start it again: it goes on where it was, and asks again what
nobody has answered. Elsewhere it reads its lines from standard input, answers to
its questions among them, and keeps nothing unless it is given a file.`,
		Example: `  treadle demo
  treadle demo --thread work --notes ~/notes
  treadle demo --model anthropic:` + defaultModels[1].model + `
  treadle demo --base-url http://localhost:11434/v1 --model llama3.2
  echo 'what is 2^64?' | treadle demo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.term.live() && !cmd.Flags().Changed("pace") {
				f.pace = paceFlag(speakingPace)
			}
			return s.converse(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.db, "db", "", "the SQLite file to keep everything in, or "+inMemory+" (in a terminal demo.db in the user's state directory, else "+inMemory+")")
	flags.StringVar(&f.thread, "thread", chatThread, "the conversation to begin or to go on with")
	flags.StringVar(&f.user, "user", chatUser, "whose memories to use")
	flags.StringVar(&f.notes, "notes", "", "the directory for notes (default notes beside the SQLite file)")
	flags.StringVar(&f.model, "model", "", "the model as provider:name with openai, anthropic or gemini, or offline (default by the key that is set)")
	flags.StringVar(&f.baseURL, "base-url", "", "the address of a server that speaks OpenAI's protocol, such as http://localhost:11434/v1")
	flags.BoolVar(&f.yes, "yes", false, "approve all notes without asking")
	flags.Var(&f.pace, "pace", "the time between two words of the offline model (in a terminal "+speakingPace.String()+")")
	return cmd
}

const instructions = `You are the assistant of Treadle's demo, in a terminal. Answer briefly and in plain text.
Use the calculator for every computation. Use manage_memory when the user asks you to remember something, and
search_memory before you say that you do not know something about the user. Notes are files: write_note asks the user
for permission itself, so do not ask first.`

// converse opens what a conversation needs, and has it.
func (s *streams) converse(ctx context.Context, f demoFlags) (err error) {
	if f.thread == "" || f.user == "" {
		return errors.New("--thread and --user must not be empty")
	}
	m, err := f.openModel()
	if err != nil {
		return err
	}
	file := f.db
	if file == "" {
		if file, err = s.demoFile(); err != nil {
			return err
		}
	}
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	mem, err := db.Store(nil)
	if err != nil {
		return err
	}
	book := &notebook{dir: f.notes}
	if book.dir == "" && file == inMemory {
		if book.dir, err = os.MkdirTemp("", "treadle-notes-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(book.dir)) }()
	}
	book.dir = cmp.Or(book.dir, filepath.Join(filepath.Dir(file), "notes"))
	learner := m
	if _, ok := m.(offline); ok {
		learner = offline{} // nobody watches its words
	}
	known, err := openMemories(ctx, mem, learner, file != inMemory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, known.close()) }()
	ctx = forUser(ctx, f.user)
	g, err := agent.New(m, &agent.Options{
		Prompt:     instructions,
		Tools:      slices.Concat([]*llm.Tool{newCalculator()}, book.tools(), known.tools),
		Middleware: []*agent.Middleware{known.middleware},
		Graph:      treadle.Options{Saver: db, Store: mem},
	})
	if err != nil {
		return err
	}
	c := &chat{streams: s, thread: g.Thread(f.thread), model: llm.Describe(m).String(), yes: f.yes, settle: known.settle}
	if file != inMemory {
		c.goOn = f.command(file)
		c.look = shellLine("treadle", "threads", "show", f.thread, "--db", file)
	}
	if err := checkConversation(ctx, db, f.thread); err != nil {
		return err
	}
	return c.run(ctx)
}

// command is how to go on with the conversation.
func (f *demoFlags) command(file string) string {
	args := []string{"treadle", "demo", "--db", file, "--thread", f.thread}
	for _, o := range []struct{ name, value, usual string }{
		{"--user", f.user, chatUser}, {"--notes", f.notes, ""}, {"--base-url", f.baseURL, ""}, {"--model", f.model, ""},
	} {
		if o.value != o.usual {
			args = append(args, o.name, o.value)
		}
	}
	return shellLine(args...)
}

// checkConversation reports that a thread is not a conversation: the file may hold those
// of other graphs.
func checkConversation(ctx context.Context, db *sqlite.DB, thread string) error {
	cp, err := db.Get(ctx, checkpoint.Key{Thread: thread})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, ok := cp.Values["messages"]; !ok && len(cp.Values) > 0 {
		return fmt.Errorf("thread %q is not a conversation: take another --thread", thread)
	}
	return nil
}
