package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/internal/langgraphimport"
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
		Short: "Import threads and memories of LangGraph and other systems",
		Long: `Import the threads and store items that LangGraph for Python has saved with
SqliteSaver, PostgresSaver and their stores. A graph with the same names of
fields and nodes continues the threads: open questions can be answered,
unfinished steps go on, and the history is there.

Files of JSON are imported into the store: those of 'treadle export', memories
of mem0 (the result of get_all), and agent files and passages of Letta.

Stop the Python program first. The source is only read. Importing again adds
what is new; threads and items that have changed in the target stay as they are.
What cannot be converted is listed, and the exit code is 1 then.`,
		Example: `  treadle import --from langgraph.sqlite --dry-run
  treadle import --from langgraph.sqlite --db agent.db
  treadle import --from postgres://localhost/agents --db postgres://localhost/agents
  treadle import --from items.jsonl --db agent.db
  treadle import --from mem0.json --memory memories --db agent.db`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return errors.New("import takes no arguments: name the source with --from and the target with --db")
			case in.from == "":
				return errors.New("name the source with --from: an SQLite file of LangGraph, a Postgres URL, or a file of JSON")
			case in.db == "" && !in.dryRun:
				return errors.New("name the target with --db, or use --dry-run")
			}
			_, err := namespaceOf("--memory", in.memory)
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return in.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&in.from, "from", "", "the SQLite file of LangGraph, the URL of its Postgres database, or a file of JSON")
	flags.StringVar(&in.db, "db", "", "the SQLite file of Treadle, which is made if it does not exist, or a Postgres URL")
	flags.StringVar(&in.schema, "schema", "", "the schema of Treadle in Postgres (default treadle)")
	flags.StringVar(&in.memory, "memory", "memories", `the namespace under which memories of mem0 and Letta get one for each user or agent`)
	flags.StringSliceVar(&in.profiles, "profile", nil, "a kind of LangMem's memories whose only one in a namespace is a profile and gets the key default")
	flags.BoolVar(&in.dryRun, "dry-run", false, "store nothing, only report")
	flags.BoolVar(&in.incomplete, "allow-incomplete", false, "exit with 0 even if something could not be converted")
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
	fmt.Fprintf(in.out, "%s %s with %s, and %s of the store.\n", in.verb(), count(r.Threads, "thread"), count(r.Checkpoints, "checkpoint"), count(r.Items, "item"))
	if r.Unchanged+r.SameItems > 0 {
		fmt.Fprintf(in.out, "Imported before: %s and %s.\n", count(r.Unchanged, "thread"), count(r.SameItems, "item"))
	}
	if r.Expired > 0 {
		fmt.Fprintf(in.out, "Not imported, because they have expired: %s.\n", count(r.Expired, "item"))
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
