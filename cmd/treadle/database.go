package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/dburl"
	"github.com/treadle-go/treadle/internal/imports/langgraphimport"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// database is a Treadle database.
type database interface {
	langgraphimport.Target
	Ledger() ledger.Backend
	io.Closer
}

// openExisting opens an existing database without changing its tables.
func openExisting(ctx context.Context, text, schema string) (database, error) {
	name, err := dburl.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--db: %w", err)
	}
	if name.Postgres {
		return postgres.Open(ctx, name.Open, &postgres.Options{Schema: schema})
	}
	if err := checkFile(name.Open); err != nil {
		return nil, fmt.Errorf("%s: %w", name.Shown, err)
	}
	return sqlite.Open(name.Open, nil)
}

// openOrCreate opens a database and creates the file or the tables if they are missing.
func openOrCreate(ctx context.Context, text, schema string) (database, error) {
	name, err := dburl.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--db: %w", err)
	}
	if name.Postgres {
		return postgres.Open(ctx, name.Open, &postgres.Options{Schema: schema, Migrate: true})
	}
	return sqlite.Open(name.Open, nil)
}

// fileOnly returns the file named by --db, for a command that does not support Postgres.
func fileOnly(text string) (string, error) {
	name, err := dburl.Parse(text)
	if err == nil && name.Postgres {
		err = errors.New("want an SQLite file: this command does not support Postgres")
	}
	if err != nil {
		return "", fmt.Errorf("--db: %w", err)
	}
	return name.Open, nil
}

// namespaceOf parses a namespace flag: segments separated by slashes, or a JSON array for
// segments that contain slashes.
func namespaceOf(flag, text string) (store.Namespace, error) {
	var n store.Namespace
	switch {
	case text == "":
		return nil, nil
	case strings.HasPrefix(text, "["):
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			return nil, fmt.Errorf("%s %s is not a JSON array of strings", flag, text)
		}
	default:
		n = strings.Split(text, "/")
	}
	if slices.Contains(n, "") {
		return nil, fmt.Errorf("%s %s has an empty segment", flag, text)
	}
	return n, nil
}
