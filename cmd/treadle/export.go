package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/memory"
)

// exporter holds the flags of the export command.
type exporter struct {
	*streams
	db, schema, memory string
}

func newExport(s *streams) *cobra.Command {
	ex := &exporter{streams: s}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export memories and other store items as JSON Lines",
		Long: `Write the items of the store with their history, times, and metadata to standard
output as JSON Lines: a header, a line for each version of each item, and a last
line with the number of versions. 'treadle import' reads them into another
database. This command cannot read encrypted items: use store.Export in a program
that has the keys.`,
		Example: `  treadle export --db agent.db > items.jsonl
  treadle export --db agent.db --memory memories/ada > ada.jsonl
  treadle import --from ada.jsonl --db postgres://localhost/agents`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return errors.New("export takes no arguments: pass the database with --db and a namespace with --memory")
			case ex.db == "":
				return errors.New("missing --db: pass an SQLite file or a Postgres URL")
			}
			_, err := namespaceOf("--memory", ex.memory)
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return ex.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&ex.db, "db", "", "SQLite file or Postgres URL")
	flags.StringVar(&ex.schema, "schema", "", "Postgres schema (default treadle)")
	flags.StringVar(&ex.memory, "memory", "", `namespace of the memories to export, such as "memories/ada" or a JSON array (default all items)`)
	return cmd
}

func (ex *exporter) run(ctx context.Context, said io.Writer) (err error) {
	prefix, err := namespaceOf("--memory", ex.memory)
	if err != nil {
		return err
	}
	db, err := openExisting(ctx, ex.db, ex.schema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := db.Store(nil)
	if err != nil {
		return err
	}
	n, err := memory.Export(ctx, s, ex.out, prefix)
	if err != nil {
		return err
	}
	fmt.Fprintf(said, "Exported %s.\n", count(n, "version"))
	return nil
}
