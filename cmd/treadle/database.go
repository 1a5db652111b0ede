package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/langgraphimport"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// database is a database of Treadle.
type database interface {
	langgraphimport.Target
	Ledger() ledger.Backend
	io.Closer
}

// openExisting opens a database that must be there, and does not change its tables.
func openExisting(ctx context.Context, name, schema string) (database, error) {
	if langgraphimport.IsPostgres(name) {
		return postgres.Open(ctx, name, &postgres.Options{Schema: schema})
	}
	if err := checkFile(name); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return sqlite.Open(name, nil)
}

// openOrCreate opens a database, and makes the file or the tables that are missing.
func openOrCreate(ctx context.Context, name, schema string) (database, error) {
	if langgraphimport.IsPostgres(name) {
		return postgres.Open(ctx, name, &postgres.Options{Schema: schema, Migrate: true})
	}
	return sqlite.Open(name, nil)
}

// namespaceOf reads a namespace from a flag: segments with slashes between them, or a
// JSON array for segments that have slashes.
func namespaceOf(flag, text string) (store.Namespace, error) {
	var n store.Namespace
	switch {
	case text == "":
		return nil, nil
	case strings.HasPrefix(text, "["):
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			return nil, fmt.Errorf("%s %s is not a JSON array of texts", flag, text)
		}
	default:
		n = strings.Split(text, "/")
	}
	if slices.Contains(n, "") {
		return nil, fmt.Errorf("%s %s has an empty segment", flag, text)
	}
	return n, nil
}
