package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/server/standalone"
)

func newServe() *cobra.Command {
	var model demo.ModelOptions
	var notes string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the demo graphs over HTTP",
		Long: `Serve the demo graphs (jokes, agent, and essay) over LangGraph Platform's HTTP API,
to try the server with a client. Ctrl-C or SIGTERM stops the server; unfinished runs
continue after the next start.

To serve your own graphs, see treadle new and treadle dev.`,
		Example: `  treadle serve
  treadle serve --port 8123 --db /tmp/try.db
  curl http://127.0.0.1:2024/runs/wait -d '{"assistant_id":"essay","input":{"topic":"owls"}}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := demo.OpenModel(model)
			if err != nil {
				return err
			}
			graphs, err := demo.Served(m, notes)
			if err != nil {
				return err
			}
			opts, err := demoOptions()
			if err != nil {
				return err
			}
			args := []string{"serve"}
			for _, name := range serverFlags {
				if f := cmd.Flags().Lookup(name); f.Changed {
					args = append(args, "--"+name+"="+f.Value.String())
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM)
			defer stop()
			return standalone.ServeFile(ctx, args, cmd.ErrOrStderr(), opts, graphs...)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&model.Name, "model", "", "model as provider:name, where provider is openai, anthropic, or gemini; or "+demo.Offline+" (default: by the API key that is set)")
	flags.StringVar(&model.BaseURL, "base-url", "", "URL of an OpenAI-compatible server")
	flags.StringVar(&notes, "notes", "", "directory for the agent's notes (default none)")
	// The flags in serverFlags. The server provides their defaults and validates their values.
	flags.String("config", "", "configuration file (default treadle.json or langgraph.json, if present)")
	flags.String("host", "127.0.0.1", "listen address (HOST)")
	flags.Int("port", 2024, "port; 0 selects a free one (PORT)")
	flags.String("allow", "", "additional hosts and origins that may call the server, such as agents.test,https://app.test (ALLOW_HOSTS)")
	flags.String("db", "treadle.db", "SQLite file, or "+demo.InMemory+" (DATABASE_URI)")
	flags.String("log", "auto", "log format: auto, json, text, or pretty (LOG_FORMAT)")
	flags.Bool("log-requests", false, "log each request")
	flags.Bool("studio", false, "serve the studio, a web page for running and inspecting graphs, at /studio/")
	flags.Duration("grace", 0, "time for runs to finish their step at shutdown (default 30s)")
	return cmd
}

// serverFlags lists the flags of [standalone.Main] that are passed on to the server.
var serverFlags = []string{"config", "host", "port", "allow", "db", "log", "log-requests", "studio", "grace"}
