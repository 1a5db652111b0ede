package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// erasing holds the flags of the erase command.
type erasing struct {
	*streams
	db, schema string
	user       string
	namespaces []string
	threads    []string
	metadata   string
	journals   []string
	keepCache  bool
	dryRun     bool
	sure       bool
	json       bool
}

func newErase(s *streams) *cobra.Command {
	e := &erasing{streams: s}
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Erase everything that is stored of a person",
		Long: `Erase a person: memories and other items of the store with their history,
threads with all checkpoints, and what a server has of them: runs, crons,
webhooks, events. Cached results of nodes are removed for everybody. At last the
files are scrubbed, so that no unused part of them has the data. A report says
how much it was.

A server may run meanwhile; open runs of the person are told to end. If the
command fails or is interrupted, run it again.`,
		Example: `  treadle erase --db agent.db --user ann -n
  treadle erase --db agent.db --user ann --yes
  treadle erase --db agent.db --user ann --namespace users/ann --thread "chat 7" --yes
  treadle erase --db postgres://localhost/agents --user ann --metadata owner --yes --json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return errors.New("erase takes no arguments: name the person with --user and the database with --db")
			case e.db == "":
				return errors.New("name the database with --db: an SQLite file, or a Postgres URL")
			case e.user == "":
				return errors.New("name the person with --user")
			case !e.dryRun && !e.sure:
				return errors.New("what is erased cannot be restored: look at it with -n, then use --yes")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return e.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&e.db, "db", "", "the SQLite file of Treadle, or a Postgres URL")
	flags.StringVar(&e.schema, "schema", "", "the schema of Treadle in Postgres (default treadle)")
	flags.StringVar(&e.user, "user", "", "the id of the person")
	flags.StringArrayVar(&e.namespaces, "namespace", nil, `a namespace of the store: "users/ann", or a JSON array; may be repeated (default memories/USER)`)
	flags.StringArrayVar(&e.threads, "thread", nil, "the id of a thread; may be repeated")
	flags.StringVar(&e.metadata, "metadata", "user_id", "the key of the metadata of a server's threads that has the id of the person; empty for none")
	flags.StringArrayVar(&e.journals, "journal", nil, `namespace of a reflector's pending conversations: "pending" (includes "pending/notes"), or a JSON array; may be repeated`)
	flags.BoolVar(&e.keepCache, "keep-cache", false, "keep the cached results of nodes")
	flags.BoolVarP(&e.dryRun, "dry-run", "n", false, "erase nothing, only report")
	flags.BoolVar(&e.sure, "yes", false, "erase")
	flags.BoolVar(&e.json, "json", false, "print the report as JSON")
	return cmd
}

func (e *erasing) run(ctx context.Context) (err error) {
	x := &memory.Erasure{Person: e.user, Threads: e.threads, KeepCache: e.keepCache}
	for _, text := range e.namespaces {
		n, err := namespaceOf("--namespace", text)
		if err != nil {
			return err
		}
		x.Namespaces = append(x.Namespaces, n)
	}
	if e.namespaces == nil {
		x.Namespaces = []store.Namespace{{"memories", e.user}}
	}
	if e.metadata != "" {
		x.Metadata = map[string]any{e.metadata: e.user}
	}
	for _, text := range e.journals {
		n, err := namespaceOf("--journal", text)
		if err != nil {
			return err
		}
		if len(n) > 0 {
			x.Journals = append(x.Journals, n)
		}
	}
	db, err := openExisting(ctx, e.db, e.schema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if x.Store, err = db.Store(nil); err != nil {
		return err
	}
	x.Saver, x.Ledger = db, ledger.New(db.Ledger(), nil)
	do := x.Run
	if e.dryRun {
		do = x.DryRun
	}
	report, err := do(ctx)
	if report != nil && e.json {
		err = errors.Join(err, (&inspector{streams: e.streams}).emit(report))
	} else if report != nil {
		fmt.Fprint(e.out, report)
	}
	return err
}
