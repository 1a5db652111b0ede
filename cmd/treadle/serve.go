package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/server"
)

func newServe() *cobra.Command {
	var model demo.ModelOptions
	var notes string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the demo's graphs over HTTP",
		Long: `Serve the graphs of the demo over LangGraph Platform's HTTP API: jokes, agent and
essay. Nothing else is needed to try the server with a client. It stops at Ctrl-C
or SIGTERM; runs that are under way continue at the next start.

A program of your own serves your graphs: see treadle new and treadle dev.`,
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
			args := []string{"serve"}
			for _, name := range serverFlags {
				if f := cmd.Flags().Lookup(name); f.Changed {
					args = append(args, "--"+name+"="+f.Value.String())
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM)
			defer stop()
			return server.ServeFile(ctx, args, cmd.ErrOrStderr(), nil, graphs...)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&model.Name, "model", "", "the model as provider:name with openai, anthropic or gemini, or "+demo.Offline+" (default by the key that is set)")
	flags.StringVar(&model.BaseURL, "base-url", "", "the address of a server that speaks OpenAI's protocol")
	flags.StringVar(&notes, "notes", "", "the directory where the agent may write notes (default none)")
	// The flags in serverFlags. The server provides their defaults and validates their values.
	flags.String("config", "", "the configuration (default treadle.json or langgraph.json, if it is there)")
	flags.String("host", "127.0.0.1", "the address to listen at (HOST)")
	flags.Int("port", 2024, "the port; 0 takes a free one (PORT)")
	flags.String("allow", "", "further hosts and origins that may call the server, as agents.test,https://app.test (ALLOW_HOSTS)")
	flags.String("db", "treadle.db", "the SQLite file, or "+demo.InMemory+" (DATABASE_URI)")
	flags.String("log", "auto", "the form of the log: auto, json, text or pretty (LOG_FORMAT)")
	flags.Bool("log-requests", false, "log each request")
	flags.Bool("studio", false, "serve the studio, a web page to run and inspect the graphs, at /studio/")
	flags.Duration("grace", 0, "how long runs may take to end their step at shutdown (default 30s)")
	return cmd
}

// serverFlags lists the flags of [server.Main] that are passed on to the server.
var serverFlags = []string{"config", "host", "port", "allow", "db", "log", "log-requests", "studio", "grace"}
