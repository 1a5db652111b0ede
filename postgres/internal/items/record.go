package items

import (
	"context"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

// Parts of statements that read records.
const (
	recordColumns = "r.seq, r.kind, r.name, r.key, r.created, r.updated, r.ttl, l.expires, r.paths, r.meta, r.value"
	// itemColumns lists the columns of the record of store_item i, which may be missing.
	itemColumns  = "i.seq, coalesce(r.kind, 0), r.name, r.key, coalesce(r.created, 0), coalesce(r.updated, 0), coalesce(r.ttl, 0), l.expires, r.paths, r.meta, r.value"
	itemTables   = "{schema}.store_item i LEFT JOIN {schema}.store_record r ON r.seq = i.seq LEFT JOIN {schema}.store_life l ON l.seq = i.seq"
	recordTables = "{schema}.store_record r LEFT JOIN {schema}.store_life l ON l.seq = r.seq"
)

// A recordRow holds a scanned row of recordColumns.
type recordRow struct {
	seq, created, updated, ttl         int64
	kind                               int16
	expires                            *int64
	namespace, key, paths, meta, value []byte
}

// dest returns the destinations for Scan.
func (r *recordRow) dest() []any {
	return []any{&r.seq, &r.kind, &r.namespace, &r.key, &r.created, &r.updated, &r.ttl, &r.expires, &r.paths, &r.meta, &r.value}
}

func (r *recordRow) record() (*store.Record, error) {
	out := &store.Record{
		Seq:     r.seq,
		Kind:    saved.ItemKind(int(r.kind)),
		Key:     string(r.key),
		Updated: fromMicros(r.updated),
		TTL:     time.Duration(r.ttl) * time.Microsecond,
		Paths:   string(r.paths),
		Meta:    r.meta,
		Value:   r.value,
	}
	if out.Kind == "" {
		return nil, fmt.Errorf("%w: store record %d of key %q is missing or has unknown kind %d", database.ErrDamaged, r.seq, r.key, r.kind)
	}
	if r.ttl > 0 && r.expires == nil {
		return nil, fmt.Errorf("%w: missing expiry of store record %d of key %q", database.ErrDamaged, r.seq, r.key)
	}
	var err error
	if out.Namespace, err = store.DecodeNamespace(string(r.namespace)); err != nil {
		return nil, fmt.Errorf("%w: store record %d: %w", database.ErrDamaged, r.seq, err)
	}
	if r.kind == saved.ItemPut {
		out.Created = fromMicros(r.created)
	}
	if r.ttl > 0 && r.expires != nil {
		out.Expires = fromMicros(*r.expires)
	}
	return out, nil
}

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

// records returns the records that a query selects.
func records(ctx context.Context, q database.Querier, query string, args ...any) ([]*store.Record, error) {
	var all []*store.Record
	var row recordRow
	err := database.Each(ctx, q, query, args, row.dest(), func() error {
		r, err := row.record()
		all = append(all, r)
		row = recordRow{} // the record keeps the memory
		return err
	})
	return all, err
}
