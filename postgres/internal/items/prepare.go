package items

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

// A prepared is a batch together with the facts needed to execute it.
type prepared struct {
	backend *Backend
	batch   *store.Batch
	stamps  map[string]*int32     // stamp IDs; nil, which is NULL, for an unknown stamp
	server  *server               // nil for a batch that only gets
	indexed map[*store.Query]bool // searches that use an in-process index
}

// prepare collects what a batch needs. It takes a connection only for facts that are not
// cached.
func (s *Backend) prepare(ctx context.Context, b *store.Batch) (*prepared, error) {
	p := &prepared{backend: s, batch: b, stamps: map[string]*int32{}}
	for i := range b.Writes {
		if err := s.stamp(ctx, p.stamps, &b.Writes[i].Indexed); err != nil {
			return nil, err
		}
	}
	for _, q := range b.Searches {
		if q.Vector == nil {
			continue
		}
		if _, ok := p.stamps[q.Stamp]; ok {
			continue
		}
		id, err := s.stamps.find(ctx, s, q.Stamp)
		if err != nil {
			return nil, err
		}
		p.stamps[q.Stamp] = id
	}
	if len(b.Writes)+len(b.Searches) == 0 {
		return p, nil
	}
	var err error
	p.server, err = s.server.get(ctx, s)
	if err == nil && slices.ContainsFunc(b.Searches, func(q *store.Query) bool { return q.Vector != nil }) {
		s.server.notice(ctx, s.db, p.server)
	}
	return p, err
}

func (p *prepared) reads() bool {
	return len(p.batch.Gets)+len(p.batch.Searches)+len(p.batch.Namespaces) > 0
}

func (p *prepared) conditional() bool {
	return slices.ContainsFunc(p.batch.Writes, func(w store.Write) bool { return w.If != nil })
}

// stamp finds or creates the ID of x's stamp.
func (s *Backend) stamp(ctx context.Context, ids map[string]*int32, x *store.Indexed) error {
	if x.Stamp == "" {
		return nil
	}
	dimension := 0
	if len(x.Vectors) > 0 {
		dimension = len(x.Vectors[0].Data)
	}
	id, err := s.stamps.of(ctx, s, x.Stamp, dimension)
	if err == nil {
		ids[x.Stamp] = id
	}
	return err
}

// stamps caches the IDs of stamps, which are never removed.
type stamps struct {
	byID saved.Memo[string, stampID]
}

type stampID struct {
	id      int32
	vectors bool // known to have a dimension
}

// of finds or creates a stamp, before the transaction that needs it; an unused stamp does
// no harm.
func (t *stamps) of(ctx context.Context, s *Backend, text string, dimension int) (*int32, error) {
	if known, ok := t.byID.Get(text); ok && (known.vectors || dimension == 0) {
		return &known.id, nil
	}
	var id int32
	err := s.db.Read(ctx, func(c *pgx.Conn) error { // idempotent
		return c.QueryRow(ctx, s.db.In("SELECT {schema}.store_stamp_of($1, $2)"), database.Bytea(text), dimension).Scan(&id)
	})
	if err != nil {
		return nil, err
	}
	t.byID.Set(text, stampID{id, dimension > 0})
	return &id, nil
}

// find is like of, but only reads. It returns nil if the stamp does not exist.
func (t *stamps) find(ctx context.Context, s *Backend, text string) (*int32, error) {
	if known, ok := t.byID.Get(text); ok {
		return &known.id, nil
	}
	var id int32
	err := s.db.Read(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, s.db.In("SELECT id FROM {schema}.store_stamp WHERE sha256(text) = sha256($1)"), database.Bytea(text)).Scan(&id)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	t.byID.Set(text, stampID{id, false})
	return &id, nil
}

// A server describes the capabilities of the database.
type server struct {
	vector string // the schema of pgvector, quoted for SQL; empty if pgvector cannot be used
	utf8   bool   // the encoding is UTF-8, so jsonb can store any text
}

// facts caches the server's capabilities.
type facts struct {
	mu    sync.Mutex
	known *server
	told  bool
}

func (f *facts) get(ctx context.Context, s *Backend) (*server, error) {
	f.mu.Lock()
	known := f.known
	f.mu.Unlock()
	if known != nil {
		return known, nil
	}
	known = &server{}
	var schema string
	var usable bool
	err := s.db.Read(ctx, func(c *pgx.Conn) error {
		known.utf8 = c.PgConn().ParameterStatus("server_encoding") == "UTF8"
		return c.QueryRow(ctx, `SELECT n.nspname, has_schema_privilege(n.oid, 'USAGE') AND (string_to_array(e.extversion, '.'))[1:2]::int[] >= '{0,8}'
			FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'`).Scan(&schema, &usable)
	})
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return nil, err
	case usable:
		known.vector = pgx.Identifier{schema}.Sanitize()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = known
	}
	return f.known, nil
}

// notice logs once that vectors are compared in the process.
func (f *facts) notice(ctx context.Context, db *database.DB, known *server) {
	f.mu.Lock()
	tell := !f.told && known.vector == ""
	f.told = true
	f.mu.Unlock()
	if tell {
		db.Log.InfoContext(ctx, "postgres: pgvector 0.8 not available to the role; semantic search uses an in-memory index", "schema", db.Schema)
	}
}
