package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/internal/imports/langgraphimport"
)

// importer holds the flags of the import command.
type importer struct {
	*streams
	from, db   string
	schema     string
	dryRun     bool
	incomplete bool
	json       bool
	memory     string // namespace for memories of other systems
	profiles   []string
}

func newImport(s *streams) *cobra.Command {
	in := &importer{streams: s}
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Import threads and memories from LangGraph and others",
		Long: `Import threads and store items that LangGraph for Python saved with SqliteSaver,
PostgresSaver, and their stores. A graph with the same field and node names can
continue the threads: pending interrupts can be answered, unfinished steps resume,
and the history is kept.

JSON files are imported into the store: files written by 'treadle export', mem0
memories (the result of get_all), and Letta agent files and passages.

Stop the Python program first. The source is not changed. Importing again adds
only new data; threads and items that have changed in the target are left
unchanged. If some data cannot be converted, it is listed and the exit code is 1.`,
		Example: `  treadle import --from langgraph.sqlite --dry-run
  treadle import --from langgraph.sqlite --db agent.db
  treadle import --from postgres://localhost/agents --db postgres://localhost/agents
  treadle import --from items.jsonl --db agent.db
  treadle import --from mem0.json --memory memories --db agent.db`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return errors.New("import takes no arguments: pass the source with --from and the target with --db")
			case in.from == "":
				return errors.New("missing --from: pass LangGraph's SQLite file, a Postgres URL, or a JSON file")
			case in.db == "" && !in.dryRun:
				return errors.New("missing --db: pass the target, or use --dry-run")
			}
			_, err := namespaceOf("--memory", in.memory)
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return in.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&in.from, "from", "", "LangGraph's SQLite file, the URL of its Postgres database, or a JSON file")
	flags.StringVar(&in.db, "db", "", "target SQLite file, created if it does not exist, or Postgres URL")
	flags.StringVar(&in.schema, "schema", "", "Postgres schema of the target (default treadle)")
	flags.StringVar(&in.memory, "memory", "memories", `parent namespace for mem0 and Letta memories, which get a namespace per user or agent`)
	flags.StringSliceVar(&in.profiles, "profile", nil, "LangMem memory kind that is a profile: a single memory of this kind in a namespace gets the key default")
	flags.BoolVar(&in.dryRun, "dry-run", false, "report without importing")
	flags.BoolVar(&in.incomplete, "allow-incomplete", false, "exit with 0 even if some data could not be converted")
	flags.BoolVar(&in.json, "json", false, "print the report as JSON")
	return cmd
}

func (in *importer) run(ctx context.Context, progress io.Writer) (err error) {
	if in.isJSON() {
		return in.runFile(ctx)
	}
	o := langgraphimport.Options{From: in.from, Profiles: in.profiles, Progress: everySeconds(progress)}
	if !in.dryRun {
		var to database
		if to, err = openOrCreate(ctx, in.db, in.schema); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Close()) }()
		o.To = to
	}
	r, err := langgraphimport.Run(ctx, o)
	if r != nil {
		if err := in.report(r); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return in.incompleteError(len(r.Problems))
}

// everySeconds returns a function that writes a progress line every few seconds.
func everySeconds(w io.Writer) func(done, threads int) {
	const pause = 3 * time.Second
	last := time.Now()
	return func(done, threads int) {
		if time.Since(last) < pause {
			return
		}
		last = time.Now()
		fmt.Fprintf(w, "%d of %d threads\n", done, threads)
	}
}

func (in *importer) report(r *langgraphimport.Report) error {
	if in.json {
		return (&inspector{streams: in.streams}).emit(r)
	}
	fmt.Fprintf(in.out, "%s %s with %s, and %s.\n", in.verb(), count(r.Threads, "thread"), count(r.Checkpoints, "checkpoint"), count(r.Items, "store item"))
	if r.Unchanged+r.SameItems > 0 {
		fmt.Fprintf(in.out, "Already imported: %s and %s.\n", count(r.Unchanged, "thread"), count(r.SameItems, "item"))
	}
	if r.Expired > 0 {
		fmt.Fprintf(in.out, "Not imported because expired: %s.\n", count(r.Expired, "item"))
	}
	if len(r.Problems) == 0 {
		return nil
	}
	fmt.Fprintln(in.out, "\nNot converted:")
	for _, p := range r.Problems {
		fmt.Fprintln(in.out, " ", plain(problemLine(p)))
	}
	return nil
}

// problemLine formats a problem as one line that starts with its location.
func problemLine(p langgraphimport.Problem) string {
	var b strings.Builder
	for _, part := range []struct{ name, value string }{{"item", p.Item}, {"thread", p.Thread}, {"namespace", p.Namespace}, {"checkpoint", p.Checkpoint}, {"field", p.Field}} {
		if part.value != "" {
			fmt.Fprintf(&b, "%s %s, ", part.name, part.value)
		}
	}
	place := strings.TrimSuffix(b.String(), ", ")
	if place == "" {
		return p.Text
	}
	return place + ": " + p.Text
}
