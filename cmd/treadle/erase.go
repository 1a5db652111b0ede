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
		Short: "Erase all data stored about a person",
		Long: `Erase all data stored about a person: memories and other store items with their
history, threads with all checkpoints, and server data (runs, crons, webhooks,
events). Cached node results are removed for all users. Finally, the files are
scrubbed, so that unused pages no longer contain the data. A report counts the
erased data.

A server may keep running; the person's unfinished runs are canceled. If the
command fails or is interrupted, run it again.`,
		Example: `  treadle erase --db agent.db --user ann -n
  treadle erase --db agent.db --user ann --yes
  treadle erase --db agent.db --user ann --namespace users/ann --thread "chat 7" --yes
  treadle erase --db postgres://localhost/agents --user ann --metadata owner --yes --json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return errors.New("erase takes no arguments: pass the person with --user and the database with --db")
			case e.db == "":
				return errors.New("missing --db: pass an SQLite file or a Postgres URL")
			case e.user == "":
				return errors.New("missing --user: pass the ID of the person")
			case !e.dryRun && !e.sure:
				return errors.New("erasing cannot be undone: preview with -n, then pass --yes")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return e.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&e.db, "db", "", "SQLite file or Postgres URL")
	flags.StringVar(&e.schema, "schema", "", "Postgres schema (default treadle)")
	flags.StringVar(&e.user, "user", "", "ID of the person")
	flags.StringArrayVar(&e.namespaces, "namespace", nil, `store namespace, such as "users/ann" or a JSON array; repeatable (default memories/USER)`)
	flags.StringArrayVar(&e.threads, "thread", nil, "thread ID; repeatable")
	flags.StringVar(&e.metadata, "metadata", "user_id", "metadata key of server threads that contains the person's ID; empty for none")
	flags.StringArrayVar(&e.journals, "journal", nil, `namespace of a reflector's pending conversations, such as "pending" (includes "pending/notes") or a JSON array; repeatable`)
	flags.BoolVar(&e.keepCache, "keep-cache", false, "keep cached node results")
	flags.BoolVarP(&e.dryRun, "dry-run", "n", false, "report without erasing")
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
