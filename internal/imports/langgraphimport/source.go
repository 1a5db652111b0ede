package langgraphimport

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"github.com/treadle-go/treadle/internal/dburl"
)

// A source is a LangGraph database, opened read-only. All methods read the same snapshot.
type source interface {
	// threads returns the names of all threads, sorted.
	threads(ctx context.Context) ([]string, error)
	// thread calls yield for every checkpoint of a thread, oldest first within a
	// namespace. It may omit channel values for which known returns true.
	thread(ctx context.Context, name string, known func(valueKey) bool, yield func(*rawPoint)) error
	// items calls yield for every store item until yield returns an error.
	items(ctx context.Context, yield func(*rawItem) error) error
	close(ctx context.Context) error
}

// rawItem is a stored item.
type rawItem struct {
	prefix, key      string
	value            []byte // JSON
	created, updated time.Time
	expires          time.Time // zero means never
	ttl              time.Duration
	unread           []string // times in an unknown format
}

func openSource(ctx context.Context, from string) (source, error) {
	name, err := dburl.Parse(from)
	if err != nil {
		return nil, err
	}
	if name.Postgres {
		return openPostgres(ctx, name.Open)
	}
	return openSQLite(ctx, name.Open)
}

// errForeign is returned when a database does not contain LangGraph's tables.
var errForeign = errors.New("no tables of LangGraph's savers or stores: is it the database that the Python program uses?")

// sqliteSource reads a file written by SqliteSaver and SqliteStore.
type sqliteSource struct {
	db       *sql.DB
	conn     *sql.Conn
	tables   map[string]bool
	taskPath bool
	inner    map[string][]nestedThread // subgraph threads by thread, for LangGraph 0.1; otherwise nil
}

func openSQLite(ctx context.Context, file string) (_ source, err error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("file does not exist")
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("is a directory")
	}
	mode := "mode=ro&immutable=1" // reading creates no files next to the database
	if log, err := os.Stat(file + "-wal"); err == nil && log.Size() > 0 {
		mode = "mode=ro" // part of the data is in the write-ahead log
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: filepath.ToSlash(abs)}).EscapedPath()+"?"+mode)
	if err != nil {
		return nil, err
	}
	s := &sqliteSource{db: db, tables: map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if s.conn, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	if _, err := s.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, err
	}
	names, err := texts(ctx, s.conn, "SELECT name FROM sqlite_master WHERE type = 'table'")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		s.tables[n] = true
	}
	if !s.tables["checkpoints"] && !s.tables["store"] || s.tables["checkpoints"] != s.tables["writes"] {
		return nil, errForeign
	}
	if s.tables["writes"] {
		columns, err := texts(ctx, s.conn, "SELECT name FROM pragma_table_info('writes') WHERE name IN ('task_path', 'thread_ts')")
		if err != nil {
			return nil, err
		}
		s.taskPath = slices.Contains(columns, "task_path")
		if slices.Contains(columns, "thread_ts") {
			if s.inner, err = nestedThreads(ctx, s.conn); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (s *sqliteSource) close(context.Context) error {
	var err error
	if s.conn != nil {
		err = s.conn.Close()
	}
	return errors.Join(err, s.db.Close())
}

// texts returns the rows of a one-column query.
func texts(ctx context.Context, c *sql.Conn, query string) (out []string, err error) {
	rows, err := c.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

func (s *sqliteSource) threads(ctx context.Context) ([]string, error) {
	if !s.tables["checkpoints"] {
		return nil, nil
	}
	if s.inner != nil {
		return slices.Sorted(maps.Keys(s.inner)), nil
	}
	return texts(ctx, s.conn, "SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")
}

func (s *sqliteSource) thread(ctx context.Context, name string, _ func(valueKey) bool, yield func(*rawPoint)) (err error) {
	if s.inner != nil {
		return s.oldThread(ctx, name, yield)
	}
	path := "task_path"
	if !s.taskPath {
		path = "''"
	}
	writes, err := s.conn.QueryContext(ctx, `SELECT checkpoint_ns, checkpoint_id, task_id, `+path+`, idx, channel, coalesce(type, ''), value FROM writes WHERE thread_id = ?`, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writes.Close()) }()
	by := map[[2]string][]rawWrite{}
	for writes.Next() {
		var at [2]string
		var w rawWrite
		if err := writes.Scan(&at[0], &at[1], &w.task, &w.path, &w.idx, &w.channel, &w.value.kind, &w.value.data); err != nil {
			return err
		}
		by[at] = append(by[at], w)
	}
	if err := writes.Err(); err != nil {
		return err
	}
	rows, err := s.conn.QueryContext(ctx, `SELECT checkpoint_ns, checkpoint_id, coalesce(parent_checkpoint_id, ''), coalesce(type, ''),
		checkpoint, metadata FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_ns, checkpoint_id`, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		p := &rawPoint{}
		if err := rows.Scan(&p.ns, &p.id, &p.parent, &p.body.kind, &p.body.data, &p.meta); err != nil {
			return err
		}
		p.writes, p.sent = by[[2]string{p.ns, p.id}], sentBy(by[[2]string{p.ns, p.parent}])
		yield(p)
	}
	return rows.Err()
}

// sentBy returns the sends among writes.
func sentBy(writes []rawWrite) (sends []rawWrite) {
	for _, w := range writes {
		if w.channel == tasksChannel {
			sends = append(sends, w)
		}
	}
	return sends
}

func (s *sqliteSource) items(ctx context.Context, yield func(*rawItem) error) (err error) {
	if !s.tables["store"] {
		return nil
	}
	columns, err := texts(ctx, s.conn, "SELECT name FROM pragma_table_info('store') WHERE name = 'expires_at'")
	if err != nil {
		return err
	}
	expiry := "'', 0"
	if len(columns) > 0 {
		expiry = "coalesce(CAST(expires_at AS TEXT), ''), coalesce(ttl_minutes, 0)"
	}
	rows, err := s.conn.QueryContext(ctx, `SELECT prefix, key, CAST(value AS BLOB), coalesce(CAST(created_at AS TEXT), ''), coalesce(CAST(updated_at AS TEXT), ''), `+expiry+` FROM store ORDER BY prefix, key`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		it := &rawItem{}
		var created, updated, expires string
		var minutes float64
		if err := rows.Scan(&it.prefix, &it.key, &it.value, &created, &updated, &expires, &minutes); err != nil {
			return err
		}
		it.created, it.updated, it.expires = timeOf(created), timeOf(updated), timeOf(expires)
		for text, t := range map[string]time.Time{created: it.created, updated: it.updated, expires: it.expires} {
			if text != "" && t.IsZero() {
				it.unread = append(it.unread, text)
			}
		}
		slices.Sort(it.unread)
		it.ttl = time.Duration(minutes * float64(time.Minute))
		if err := yield(it); err != nil {
			return err
		}
	}
	return rows.Err()
}

// timeOf parses an SQLite timestamp; a timestamp without a zone is in UTC. It returns the
// zero time if the format is unknown.
func timeOf(text string) time.Time {
	for _, layout := range []string{"2006-01-02 15:04:05.999999999-07:00", "2006-01-02 15:04:05.999999999", time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// postgresSource reads a database written by PostgresSaver and PostgresStore.
type postgresSource struct {
	conn     *pgx.Conn
	tables   map[string]bool
	taskPath bool
}

func openPostgres(ctx context.Context, url string) (_ source, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // works through a connection pooler
	s := &postgresSource{tables: map[string]bool{}}
	if s.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if _, err := s.conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return nil, err
	}
	for _, table := range []string{"checkpoints", "checkpoint_blobs", "checkpoint_writes", "store"} {
		var there bool
		if err := s.conn.QueryRow(ctx, "SELECT to_regclass($1::text) IS NOT NULL", table).Scan(&there); err != nil {
			return nil, err
		}
		s.tables[table] = there
	}
	threads := s.tables["checkpoints"] && s.tables["checkpoint_blobs"] && s.tables["checkpoint_writes"]
	if !threads && !s.tables["store"] || s.tables["checkpoints"] != threads {
		return nil, errForeign
	}
	if threads {
		if s.taskPath, err = s.has(ctx, "checkpoint_writes", "task_path"); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// has reports whether a table has the column.
func (s *postgresSource) has(ctx context.Context, table, column string) (there bool, err error) {
	err = s.conn.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_attribute WHERE attrelid = $1::text::regclass AND attname = $2::text", table, column).Scan(&there)
	return there, err
}

func (s *postgresSource) close(ctx context.Context) error {
	return s.conn.Close(context.WithoutCancel(ctx)) // closing ends the transaction
}

func (s *postgresSource) threads(ctx context.Context) ([]string, error) {
	if !s.tables["checkpoints"] {
		return nil, nil
	}
	rows, err := s.conn.Query(ctx, `SELECT DISTINCT thread_id COLLATE "C" FROM checkpoints ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (s *postgresSource) thread(ctx context.Context, name string, known func(valueKey) bool, yield func(*rawPoint)) error {
	var points []*rawPoint
	by := map[[2]string]*rawPoint{}
	err := s.each(ctx, `SELECT checkpoint_ns, checkpoint_id, coalesce(parent_checkpoint_id, ''), checkpoint::text, metadata::text FROM checkpoints
		WHERE thread_id = $1::text ORDER BY checkpoint_ns COLLATE "C", checkpoint_id COLLATE "C"`, func(rows pgx.Rows) error {
		p := &rawPoint{body: typed{kind: "json"}}
		var body, meta string
		if err := rows.Scan(&p.ns, &p.id, &p.parent, &body, &meta); err != nil {
			return err
		}
		p.body.data, p.meta = []byte(body), []byte(meta)
		by[[2]string{p.ns, p.id}] = p
		points = append(points, p)
		return nil
	}, name)
	if err != nil {
		return err
	}
	path := "task_path"
	if !s.taskPath {
		path = "''"
	}
	sends := map[[2]string][]rawWrite{}
	err = s.each(ctx, `SELECT checkpoint_ns, checkpoint_id, task_id::text, `+path+`, idx, channel, coalesce(type, ''), blob FROM checkpoint_writes WHERE thread_id = $1::text`, func(rows pgx.Rows) error {
		var at [2]string
		var w rawWrite
		if err := rows.Scan(&at[0], &at[1], &w.task, &w.path, &w.idx, &w.channel, &w.value.kind, &w.value.data); err != nil {
			return err
		}
		if p := by[at]; p != nil {
			p.writes = append(p.writes, w)
		} else if w.channel == tasksChannel { // a checkpoint may have been deleted without its writes
			sends[at] = append(sends[at], w)
		}
		return nil
	}, name)
	if err != nil {
		return err
	}
	for _, p := range points {
		p.sent = sends[[2]string{p.ns, p.parent}]
		if err := s.blobs(ctx, name, p, known); err != nil {
			return err
		}
		yield(p)
		p.blob = nil // blobs may be large
	}
	return nil
}

// blobs reads a checkpoint's values, except known ones.
func (s *postgresSource) blobs(ctx context.Context, thread string, p *rawPoint, known func(valueKey) bool) error {
	var channels, versions []string
	if v, err := parseJSON(p.body.data); err == nil {
		body, _ := v.(*dict)
		if of, err := dictAt(body, "channel_versions"); err == nil {
			for i, k := range of.keys {
				name, ok := k.(string)
				if key := (valueKey{p.ns, name, versionText(of.values[i])}); ok && !known(key) {
					channels, versions = append(channels, name), append(versions, key.version)
				}
			}
		}
	} // errors are reported when the checkpoint is decoded
	found := map[[2]string]typed{}
	p.blob = func(channel, version string) (typed, bool) {
		v, ok := found[[2]string{channel, version}]
		return v, ok
	}
	return s.each(ctx, `SELECT b.channel, b.version, b.type, b.blob FROM unnest($3::text[], $4::text[]) AS w(channel, version)
		JOIN checkpoint_blobs b ON b.thread_id = $1::text AND b.checkpoint_ns = $2::text AND b.channel = w.channel AND b.version = w.version`, func(rows pgx.Rows) error {
		var key [2]string
		var v typed
		err := rows.Scan(&key[0], &key[1], &v.kind, &v.data)
		found[key] = v
		return err
	}, thread, p.ns, channels, versions)
}

// each calls read for every row of a query.
func (s *postgresSource) each(ctx context.Context, query string, read func(pgx.Rows) error, args ...any) error {
	rows, err := s.conn.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *postgresSource) items(ctx context.Context, yield func(*rawItem) error) error {
	if !s.tables["store"] {
		return nil
	}
	expires, err := s.has(ctx, "store", "expires_at")
	if err != nil {
		return err
	}
	expiry := "NULL::timestamptz, 0::float8"
	if expires {
		expiry = "expires_at, coalesce(ttl_minutes, 0)::float8"
	}
	rows, err := s.conn.Query(ctx, `SELECT prefix, key, value::text, created_at, updated_at, `+expiry+` FROM store ORDER BY prefix COLLATE "C", key COLLATE "C"`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		it := &rawItem{}
		var value string
		var created, updated, until *time.Time
		var minutes float64
		if err := rows.Scan(&it.prefix, &it.key, &value, &created, &updated, &until, &minutes); err != nil {
			return err
		}
		it.value, it.ttl = []byte(value), time.Duration(minutes*float64(time.Minute))
		for to, from := range map[*time.Time]*time.Time{&it.created: created, &it.updated: updated, &it.expires: until} {
			if from != nil {
				*to = from.UTC()
			}
		}
		if err := yield(it); err != nil {
			return err
		}
	}
	return rows.Err()
}
