package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/treadle-go/treadle/internal/dburl"
	"github.com/treadle-go/treadle/internal/imports/memoryimport"
	"github.com/treadle-go/treadle/store"
)

// isJSON reports whether the source is a JSON file rather than a database.
func (in *importer) isJSON() bool {
	name, err := dburl.Parse(in.from)
	if err != nil || name.Postgres {
		return false // opening the database reports the error
	}
	f, err := os.Open(name.Open)
	if err != nil {
		return false // opening the database reports the error
	}
	defer func() { _ = f.Close() }() // opened only for reading
	begin := make([]byte, 512)
	n, _ := io.ReadFull(f, begin)
	begin = bytes.TrimSpace(bytes.TrimPrefix(begin[:n], []byte("\ufeff")))
	return len(begin) > 0 && (begin[0] == '{' || begin[0] == '[')
}

// maxForeign is the maximum size of a file of another system, which is read as a whole.
const maxForeign = 1 << 30

// runFile imports a JSON file: an export of Treadle, mem0, or Letta.
func (in *importer) runFile(ctx context.Context) (err error) {
	name, err := dburl.Parse(in.from)
	if err != nil {
		return fmt.Errorf("import: --from: %w", err)
	}
	f, err := os.Open(name.Open)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var s *store.Store
	if !in.dryRun {
		to, openErr := openOrCreate(ctx, in.db, in.schema)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, to.Close()) }()
		if s, err = to.Store(nil); err != nil {
			return err
		}
	}
	r := bufio.NewReader(f)
	begin, _ := r.Peek(128)
	if bytes.Contains(begin, []byte(`"treadle store"`)) {
		return in.runExport(ctx, r, s)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxForeign+1))
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if len(data) > maxForeign {
		return fmt.Errorf("import: %s exceeds %d bytes: split it", in.from, maxForeign)
	}
	prefix, err := namespaceOf("--memory", in.memory)
	if err != nil {
		return err
	}
	report, err := memoryimport.Run(ctx, data, s, prefix)
	if err != nil {
		return fmt.Errorf("import: %s: %w", in.from, err)
	}
	if err := in.reportForeign(report); err != nil {
		return err
	}
	return in.incompleteError(len(report.Problems))
}

func (in *importer) verb() string {
	if in.dryRun {
		return "Would import"
	}
	return "Imported"
}

// runExport imports a Treadle export. A dry run imports it into memory.
func (in *importer) runExport(ctx context.Context, r io.Reader, s *store.Store) error {
	if s == nil {
		var err error
		if s, err = store.NewMemory(nil); err != nil {
			return err
		}
	}
	report, err := s.Import(ctx, r)
	if in.json {
		err = errors.Join(err, (&inspector{streams: in.streams}).emit(report))
	} else {
		fmt.Fprintf(in.out, "%s %s of store items.\n", in.verb(), count(report.Versions, "version"))
		if report.Same > 0 {
			fmt.Fprintf(in.out, "Already imported: %s.\n", count(report.Same, "version"))
		}
		if report.Older > 0 {
			fmt.Fprintf(in.out, "Not imported because the target has newer versions: %s.\n", count(report.Older, "version"))
		}
		if len(report.Conflicts) > 0 {
			fmt.Fprintln(in.out, "\nNewer in the target, left unchanged:")
		}
		for _, c := range report.Conflicts {
			fmt.Fprintln(in.out, " ", plain(fmt.Sprintf("item %v %s", c.Namespace, c.Key)))
		}
	}
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return in.incompleteError(len(report.Conflicts))
}

func (in *importer) reportForeign(r *memoryimport.Report) error {
	if in.json {
		return (&inspector{streams: in.streams}).emit(r)
	}
	fmt.Fprintf(in.out, "%s %s as store items.\n", in.verb(), memories(r.Items))
	if r.Same > 0 {
		fmt.Fprintf(in.out, "Already imported: %s.\n", memories(r.Same))
	}
	if len(r.Pinned) > 0 {
		fmt.Fprintf(in.out, "To recall them always, as their system does, list them in memory.RecallerOptions.Pinned: %s.\n", plain(strings.Join(r.Pinned, ", ")))
	}
	if len(r.Problems) > 0 {
		fmt.Fprintln(in.out, "\nNot converted:")
	}
	for _, p := range r.Problems {
		fmt.Fprintln(in.out, " ", plain(p.Item+": "+p.Text))
	}
	return nil
}

// incompleteError returns the error of an import that omitted something.
func (in *importer) incompleteError(problems int) error {
	if problems == 0 || in.incomplete {
		return nil
	}
	return fmt.Errorf("%s could not be converted; the rest was imported: use --allow-incomplete to exit with 0", count(problems, "part"))
}

func memories(n int) string {
	if n == 1 {
		return "1 memory"
	}
	return fmt.Sprintf("%d memories", n)
}
