package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/llm"
)

const (
	defaultThread = "chat"
	defaultUser   = "me"
	offlinePace   = 30 * time.Millisecond // between two words of the offline model, in a terminal
)

type demoFlags struct {
	db, thread, user, notes, model, baseURL string
	yes                                     bool
	pace                                    paceFlag
}

func newDemo(s *streams) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Chat with an assistant that has tools, asks for permission, and remembers",
		Long: `Chat with an assistant. It computes, writes notes to files after asking you for
permission, and remembers what you tell it about yourself in all conversations.

With OPENAI_API_KEY, ANTHROPIC_API_KEY, or GEMINI_API_KEY in the environment, or
with --base-url, it uses a language model. Otherwise, it follows a few rules and
needs no key, service, or network.

In a terminal, every step is saved in an SQLite file. Stop it at any time, even
with kill -9, and start it again: it resumes where it left off and repeats any
unanswered question. The arrow keys edit the line and recall earlier lines.

Without a terminal, it reads messages and answers as lines from standard input,
and saves nothing unless --db names a file.`,
		Example: `  treadle demo
  treadle demo --thread work --notes ~/notes
  treadle demo --model anthropic:` + demo.DefaultModels[1].Model + `
  treadle demo --base-url http://localhost:11434/v1 --model llama3.2
  echo 'what is 2^64?' | treadle demo`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.thread == "" || f.user == "" {
				return errors.New("--thread and --user must not be empty")
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if s.term.live() && !cmd.Flags().Changed("pace") {
				f.pace = paceFlag(offlinePace)
			}
			model, err := demo.OpenModel(demo.ModelOptions{Name: f.model, BaseURL: f.baseURL, Pace: time.Duration(f.pace)})
			if err != nil {
				return err
			}
			file := f.db
			if file == "" {
				if file, err = s.databaseFile(); err != nil {
					return err
				}
			}
			if file, err = fileOnly(file); err != nil {
				return err
			}
			assistant, err := demo.Open(cmd.Context(), demo.Options{Model: model, File: file, Notes: f.notes, User: f.user})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, assistant.Close()) }()
			ctx := assistant.Context(cmd.Context())
			thread, err := assistant.Thread(ctx, f.thread)
			if err != nil {
				return err
			}
			c := &chat{streams: s, thread: thread, model: llm.Describe(model), yes: f.yes, flush: assistant.Flush}
			if file != demo.InMemory {
				c.resume = f.command(file)
				c.inspect = shellCommand("treadle", "threads", "show", f.thread, "--db", file)
			}
			return c.run(ctx)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.db, "db", "", "SQLite file for conversations and memories, or "+demo.InMemory+" (default in a terminal: demo.db in the user's state directory; otherwise "+demo.InMemory+")")
	flags.StringVar(&f.thread, "thread", defaultThread, "conversation to start or continue")
	flags.StringVar(&f.user, "user", defaultUser, "user whose memories to use")
	flags.StringVar(&f.notes, "notes", "", "directory for notes (default \"notes\" next to the SQLite file)")
	flags.StringVar(&f.model, "model", "", "model as provider:name, where provider is openai, anthropic, or gemini; or "+demo.Offline+" (default: by the API key that is set)")
	flags.StringVar(&f.baseURL, "base-url", "", "URL of an OpenAI-compatible server, such as http://localhost:11434/v1")
	flags.BoolVar(&f.yes, "yes", false, "approve all notes without asking")
	flags.Var(&f.pace, "pace", "pause between two words of the offline model (default in a terminal: "+offlinePace.String()+")")
	return cmd
}

// command returns the command that continues the conversation.
func (f *demoFlags) command(file string) string {
	args := []string{"treadle", "demo", "--db", file, "--thread", f.thread}
	for _, o := range []struct{ name, value, usual string }{
		{"--user", f.user, defaultUser}, {"--notes", f.notes, ""}, {"--base-url", f.baseURL, ""}, {"--model", f.model, ""},
	} {
		if o.value != o.usual {
			args = append(args, o.name, o.value)
		}
	}
	return shellCommand(args...)
}
