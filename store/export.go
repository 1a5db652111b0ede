package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// An export consists of a header, one line per version of each item in write order, and
// a last line that distinguishes a complete file from a truncated one.
const (
	exportFormat  = "treadle store"
	exportVersion = 1
)

// exportHeader is the first line of an export.
type exportHeader struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// exportEnd is the last line of an export.
type exportEnd struct {
	End int `json:"end"` // number of versions in the file
}

// exportLine is a line that describes a version of an item.
type exportLine struct {
	Namespace Namespace       `json:"namespace"`
	Key       string          `json:"key"`
	Kind      Kind            `json:"kind"` // put, deleted, or expired
	Created   *time.Time      `json:"created,omitempty"`
	Updated   time.Time       `json:"updated"`
	Expires   *time.Time      `json:"expires,omitempty"`
	TTL       int64           `json:"ttl_micros,omitempty"`
	Index     json.RawMessage `json:"index,omitempty"` // a list of paths, or false
	Meta      json.RawMessage `json:"meta,omitempty"`
	Value     json.RawMessage `json:"value,omitempty"`
}

const (
	exportPage  = 256     // maximum number of records per read
	exportBytes = 4 << 20 // approximate number of bytes per read
)

// Export writes the items in all namespaces under the prefixes with their history, or all
// items if there are no prefixes, and returns the number of versions. [Store.Import] reads
// them into another store, or into this one after a data loss.
//
// The file contains one JSON object per line: a header with the format's name and version,
// each version of each item with its namespace, key, kind ("put", "deleted", or "expired"),
// times, value, and meta, and finally the number of versions. Values are not encrypted, even
// if the store has Keys. The file omits forgotten items, embeddings, and branches. It may
// contain versions that are written during the export.
func (s *Store) Export(ctx context.Context, w io.Writer, prefixes ...Namespace) (versions int, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	if w == nil {
		return 0, &InvalidError{What: "writer", Reason: "is nil"}
	}
	for _, p := range prefixes {
		if err := p.check(true); err != nil {
			return 0, err
		}
	}
	if len(prefixes) == 0 {
		prefixes = []Namespace{nil}
	}
	e := &exporter{backend: s.backend, lines: json.NewEncoder(w)}
	e.lines.SetEscapeHTML(false)
	if err := e.lines.Encode(exportHeader{exportFormat, exportVersion}); err != nil {
		return 0, fmt.Errorf("store: export: %w", err)
	}
	for i, p := range prefixes {
		if err := e.under(ctx, p, prefixes[:i]); err != nil {
			return e.versions, fmt.Errorf("store: export: %w", err)
		}
	}
	if err := e.lines.Encode(exportEnd{e.versions}); err != nil {
		return e.versions, fmt.Errorf("store: export: %w", err)
	}
	return e.versions, nil
}

type exporter struct {
	backend  Backend
	lines    *json.Encoder
	versions int
}

// under exports the records under a prefix, except those under prefixes already
// exported.
func (e *exporter) under(ctx context.Context, prefix Namespace, done []Namespace) error {
	limit := 16
	for after := int64(0); ; {
		records, seq, err := e.backend.Changes(ctx, prefix, after, limit)
		if errors.Is(err, ErrCompacted) {
			return errors.New("records removed by a concurrent sweep: export again")
		}
		if err != nil {
			return err
		}
		size := 1
		for _, r := range records {
			size += len(r.Value) + len(r.Meta)
			if r.Kind == Forgotten || isBranch(r.Namespace) || slices.ContainsFunc(done, r.Namespace.HasPrefix) {
				continue
			}
			if err := e.record(r); err != nil {
				return err
			}
		}
		if len(records) < limit {
			return nil
		}
		after = seq
		limit = min(max(1, limit*exportBytes/size), 4*limit, exportPage)
	}
}

func (e *exporter) record(r *Record) error {
	line := exportLine{
		Namespace: r.Namespace,
		Key:       r.Key,
		Kind:      r.Kind,
		Updated:   r.Updated,
		TTL:       r.TTL.Microseconds(),
		Meta:      r.Meta,
		Value:     r.Value,
	}
	if r.Kind == Put {
		line.Created = &r.Created
	}
	if !r.Expires.IsZero() {
		line.Expires = &r.Expires
	}
	switch r.Paths {
	case "":
	case noPaths:
		line.Index = json.RawMessage("false")
	default:
		line.Index = json.RawMessage(r.Paths)
	}
	if err := e.lines.Encode(line); err != nil {
		return err
	}
	e.versions++
	return nil
}
