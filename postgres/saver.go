package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// statements are what is sent, with the schema's name in it.
type statements struct {
	put, putWrites, fence, read, chunks, shapeOf, deleteThread, copyThread, remember     string
	tally, names, line, listRange, listIDs, metadata                                     string
	threads, threadsAfter, size                                                          string
	recall, forget, forgetAll                                                            string
	lockThread, lockLines, linesOf, idsOf, idsOfRuns, interrupted, runsNamed             string
	writesIn, dropWrites                                                                 string
	bases, records, deleteCheckpoints, deletePending, deleteChunks, chunkPlaces, recount string
	headBack, collectRuns, deleteLine, deleteThreadRow                                   string
}

// newStatements writes them for a schema.
func newStatements(quoted string) statements {
	in := func(q string) string { return strings.ReplaceAll(q, "{schema}", quoted) }
	const rows = `SELECT c.id, c.run, r.name, r.metadata, c.base, c.record, c.control, c.echo, c.metadata, w.task, w.kind, w.data
		FROM {schema}.checkpoint c
		LEFT JOIN {schema}.run r ON r.thread = $2 AND r.id = c.run
		LEFT JOIN LATERAL (SELECT array_agg(p.task ORDER BY p.ord) AS task, array_agg(p.kind ORDER BY p.ord) AS kind, array_agg(p.data ORDER BY p.ord) AS data
			FROM {schema}.pending p WHERE p.line = c.line AND p.id = c.id) w ON true `
	const threads = `SELECT t.name, s.head, s.checkpoints, s.bytes FROM {schema}.thread t, LATERAL (` + sums + `) s `
	return statements{
		put: in(`SELECT {schema}.put(
			$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25)`),
		putWrites: in(`SELECT o_status, o_epoch FROM {schema}.put_writes($1,$2,$3,$4,$5,$6,$7)`),
		fence:     in(`SELECT o_status, o_epoch FROM {schema}.fence($1,$2)`),
		read: in(`SELECT o_thread, o_epoch, o_line, o_head, o_rev, o_next, o_id, o_run, o_run_name, o_run_metadata,
			o_base, o_record, o_control, o_echo, o_metadata, o_task, o_kind, o_write, o_base_data FROM {schema}.read($1,$2,$3)`),
		chunks:       in(`SELECT o_chain, o_seq, o_data FROM {schema}.chunks($1,$2,$3,$4)`),
		shapeOf:      in(`SELECT {schema}.shape_of($1)`),
		deleteThread: in(`SELECT {schema}.delete_thread($1)`),
		copyThread:   in(`SELECT o_status FROM {schema}.copy_thread($1,$2)`),
		remember:     in(`SELECT {schema}.remember($1,$2,$3,$4,$5)`),

		names: in(`SELECT s.names FROM {schema}.shape s WHERE s.id = $1`),
		tally: in(`SELECT l.checkpoints, (SELECT count(*) FROM {schema}.checkpoint c WHERE c.line = l.id),
			EXISTS (SELECT FROM {schema}.checkpoint c WHERE c.line = l.id AND c.id = l.head) FROM {schema}.line l WHERE l.id = $1`),
		line: in(`SELECT l.thread, l.id, l.checkpoints FROM {schema}.thread t JOIN {schema}.line l ON l.thread = t.id
			WHERE sha256(t.name) = sha256($1) AND sha256(l.path) = sha256($2)`),
		listRange: in(rows + `WHERE c.line = $1 AND c.id < $3 ORDER BY c.id DESC LIMIT $4`),
		listIDs:   in(rows + `WHERE c.line = $1 AND c.id = ANY ($3) ORDER BY c.id DESC`),
		metadata: in(`SELECT c.id, coalesce(c.metadata, r.metadata) FROM {schema}.checkpoint c
			LEFT JOIN {schema}.run r ON r.thread = $2 AND r.id = c.run
			WHERE c.line = $1 AND c.id < $3 ORDER BY c.id DESC LIMIT $4`),

		threads:      in(threads + `ORDER BY substring(t.name, 1, 256), t.name LIMIT $1`),
		threadsAfter: in(threads + `WHERE (substring(t.name, 1, 256), t.name) > (substring($2, 1, 256), $2) ORDER BY substring(t.name, 1, 256), t.name LIMIT $1`),
		size:         in(`SELECT s.bytes FROM {schema}.thread t, LATERAL (` + sums + `) s WHERE sha256(t.name) = sha256($1)`),

		recall:    in(`SELECT value FROM {schema}.cache WHERE space = $1 AND key = $2 AND (expires IS NULL OR expires > $3)`),
		forget:    in(`DELETE FROM {schema}.cache WHERE space = ANY ($1)`),
		forgetAll: in(`DELETE FROM {schema}.cache`),

		lockThread: in(`SELECT t.id FROM {schema}.thread t WHERE sha256(t.name) = sha256($1) FOR NO KEY UPDATE`),
		lockLines:  in(`SELECT FROM {schema}.line l WHERE l.thread = $1 ORDER BY l.id FOR NO KEY UPDATE`),
		linesOf:    in(`SELECT l.id, l.head FROM {schema}.line l WHERE l.thread = $1 ORDER BY l.id`),
		idsOf:      in(`SELECT c.id FROM {schema}.checkpoint c WHERE c.line = $1 ORDER BY c.id`),
		idsOfRuns:  in(`SELECT c.id FROM {schema}.checkpoint c WHERE c.line = $1 AND c.run = ANY ($2) ORDER BY c.id`),
		interrupted: in(`SELECT DISTINCT w.id FROM {schema}.pending w WHERE w.line = $1 AND (w.kind IN ('interrupt', 'resume')
			OR substring(w.kind, 1, 10) = '\x696e7465727275707400' OR substring(w.kind, 1, 7) = '\x726573756d6500')`), // with a run: see saved.WriteRow
		runsNamed: in(`SELECT r.id FROM {schema}.run r WHERE r.thread = $1
			AND sha256(r.name) = ANY (SELECT sha256(u.name) FROM unnest($2::bytea[]) AS u(name))`),
		writesIn:          in(`SELECT w.ord, w.kind, w.data FROM {schema}.pending w WHERE w.line = $1`),
		dropWrites:        in(`DELETE FROM {schema}.pending w WHERE w.line = $1 AND w.ord = ANY ($2)`),
		bases:             in(`SELECT k.chain, k.data FROM {schema}.chunk k WHERE k.line = $1 AND k.seq = 0 AND k.chain IN (SELECT c.base FROM {schema}.checkpoint c WHERE c.line = $1)`),
		records:           in(`SELECT c.id, c.base, c.record, c.echo FROM {schema}.checkpoint c WHERE c.line = $1`),
		deleteCheckpoints: in(`DELETE FROM {schema}.checkpoint c WHERE c.line = $1 AND c.id = ANY ($2)`),
		deletePending:     in(`DELETE FROM {schema}.pending w WHERE w.line = $1 AND w.id = ANY ($2)`),
		chunkPlaces:       in(`SELECT k.chain, k.seq FROM {schema}.chunk k WHERE k.line = $1 ORDER BY k.chain, k.seq`),
		deleteChunks: in(`DELETE FROM {schema}.chunk k USING unnest($2::bigint[], $3::bigint[]) AS d(chain, seq)
			WHERE k.line = $1 AND k.chain = d.chain AND k.seq >= d.seq`),
		recount: in(`UPDATE {schema}.line SET (checkpoints, bytes) = (
			SELECT count(*), coalesce(sum(octet_length(c.record) + coalesce(octet_length(c.control), octet_length(c.echo), 0) + coalesce(octet_length(c.metadata), 0)), 0)
				+ (SELECT coalesce(sum(octet_length(k.data)), 0) FROM {schema}.chunk k WHERE k.line = $1)
			FROM {schema}.checkpoint c WHERE c.line = $1) WHERE id = $1`),
		headBack: in(`UPDATE {schema}.line SET rev = rev + 1, head = (SELECT c.id FROM {schema}.checkpoint c WHERE c.line = $1 ORDER BY c.id DESC LIMIT 1) WHERE id = $1`),
		collectRuns: in(`DELETE FROM {schema}.run r WHERE r.thread = $1 AND NOT EXISTS (
			SELECT FROM {schema}.line l JOIN {schema}.checkpoint c ON c.line = l.id WHERE l.thread = $1 AND c.run = r.id)`),
		deleteLine:      in(`DELETE FROM {schema}.line l WHERE l.id = $1`),
		deleteThreadRow: in(`DELETE FROM {schema}.thread t WHERE t.id = $1 AND t.epoch = 0 AND NOT EXISTS (SELECT FROM {schema}.line l WHERE l.thread = $1)`),
	}
}

// sums are those of a thread t: what its lines say, and what comes and goes so
// often, or is so little, that it is summed when asked for.
const sums = `SELECT max(l.head::text) FILTER (WHERE octet_length(l.path) = 0) AS head, coalesce(sum(l.checkpoints), 0)::bigint AS checkpoints,
	(coalesce(sum(l.bytes), 0)
	+ coalesce(sum((SELECT sum(octet_length(p.data)) FROM {schema}.pending p WHERE p.line = l.id)), 0)
	+ coalesce((SELECT sum(octet_length(r.name) + coalesce(octet_length(r.metadata), 0)) FROM {schema}.run r WHERE r.thread = t.id), 0))::bigint AS bytes
	FROM {schema}.line l WHERE l.thread = t.id`

// What functions return as o_status.
const (
	statusDone     = 0
	statusNotFound = 2
	statusFenced   = 3
)

func uuid(id checkpoint.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// uuidOr is NULL for the zero ID.
func uuidOr(id checkpoint.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

// name is a thread's or namespace's; nil would be NULL.
func name(s string) []byte { return append([]byte{}, s...) }

// known is what the process remembers. All of it may be behind the times, when
// another process has written, but none of it is ever wrong: what it says of
// ids stays true, and what it says of a head is used only under the
// compare-and-set of that head.
type known struct {
	mu     sync.Mutex
	heads  map[lineName]*head
	shapes map[string]int64 // by saved.EncodeNames
	names  map[int64][]string
}

type lineName struct{ thread, path string }

// maxKnown bounds each of the maps.
const maxKnown = 4096

// remember puts v into a map. Which entry of a full one goes decides only what
// has to be read again.
func remember[K comparable, V any](mu *sync.Mutex, m *map[K]V, k K, v V) {
	mu.Lock()
	defer mu.Unlock()
	if *m == nil {
		*m = map[K]V{}
	}
	if _, ok := (*m)[k]; !ok && len(*m) >= maxKnown {
		for old := range *m {
			delete(*m, old)
			break
		}
	}
	(*m)[k] = v
}

func recall[K comparable, V any](mu *sync.Mutex, m *map[K]V, k K) (V, bool) {
	mu.Lock()
	defer mu.Unlock()
	v, ok := (*m)[k]
	return v, ok
}

// head is the state of a line. It is not changed once others can see it.
type head struct {
	thread int64 // 0: there is no such thread
	epoch  uint64
	line   int64 // 0: there is no such line
	id     checkpoint.ID
	rev    uint64
	next   int64
	run    run       // of the checkpoint id, so it stays as long as that does
	names  []string  // the channels of m
	m      *manifest // of the checkpoint id; nil: not read
	// control of the checkpoint id, if it is known and worth an echo, and has
	// none.
	control []byte
}

type run struct {
	id       int64 // 0: none
	name     string
	metadata []byte
	known    bool // metadata is what the row has
}

// errStale: what was remembered does not hold, or is not enough.
var errStale = errors.New("postgres: stale")

// Put implements [checkpoint.Saver].
func (db *DB) Put(ctx context.Context, p *checkpoint.Put) error {
	if p.Fence > math.MaxInt64 {
		return fmt.Errorf("postgres: fence %d is greater than a bigint", p.Fence)
	}
	key := lineName{p.Thread, p.Namespace}
	h, _ := recall(&db.known.mu, &db.known.heads, key)
	if h != nil && (h.id != p.Head || h.epoch != p.Fence || h.m == nil || !p.Parent.IsZero() && p.Parent != h.id) {
		h = nil // it may be behind the times, or not be enough
	}
	var unknown error // why an earlier try's outcome is not known
	for try := 1; ; try++ {
		err := db.tryPut(ctx, key, h, p)
		if err == nil {
			return nil
		}
		var lost lostError
		switch {
		case errors.As(err, &lost):
			unknown = lost.error
		case errors.Is(err, errStale), state(err) == stateStale, state(err) == stateSerialization, state(err) == stateDeadlock:
		case unknown == nil:
			return err
		case errors.Is(err, checkpoint.ErrConflict), errors.Is(err, checkpoint.ErrFenced), errors.Is(err, checkpoint.ErrNotFound):
			// Another is ahead: perhaps we ourselves, when the answer was lost.
			// Nobody else makes this id.
			there, e := db.isStored(ctx, p.Key)
			if e != nil {
				return fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(unknown, e))
			}
			if there {
				return nil
			}
			return err
		default:
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(unknown, err))
		}
		if try == tries || ctx.Err() != nil {
			if unknown != nil {
				return fmt.Errorf("%w: %w", ErrOutcomeUnknown, unknown)
			}
			return fmt.Errorf("postgres: put in thread %q: other writers came in between %d times: %w", p.Thread, try, err)
		}
		if unknown != nil {
			db.log.WarnContext(ctx, "postgres: the connection broke, a put is sent again", "schema", db.schema, "thread", p.Thread, "id", p.ID.String(), "error", unknown)
		}
		h = nil
	}
}

// lostError: the connection broke before the answer.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// isStored reports whether there is such a checkpoint.
func (db *DB) isStored(ctx context.Context, key checkpoint.Key) (bool, error) {
	r, err := db.readRow(ctx, key)
	return err == nil && r.found, err
}

// tryPut stores p after h, or after what the database has if h is nil.
func (db *DB) tryPut(ctx context.Context, key lineName, h *head, p *checkpoint.Put) error {
	var parent *row
	if h == nil {
		at := p.Key
		at.ID = p.Parent
		var err error
		if parent, err = db.readRow(ctx, at); err != nil {
			return err
		}
		h = &parent.line
	}
	g, err := db.grow(ctx, h, parent, p)
	if err != nil {
		return err
	}
	if g.m.Shape == 0 {
		if g.m.Shape, err = db.shapeOf(ctx, g.Names); err != nil {
			return err
		}
	}
	g.m.Rev, g.m.Parent, g.m.Step, g.m.Source = h.rev, p.Parent, p.Step, p.Source
	var on *int64
	if g.m.base != nil {
		on = &g.m.base.chain
	}
	record := g.m.append(make([]byte, 0, 128), p.ID)
	size := len(record) + len(p.Control)
	var chain, seq []int64
	var data [][]byte
	for _, k := range g.Chunks {
		size += len(k.Data)
		chain, seq, data = append(chain, k.Chain), append(seq, k.Seq), append(data, k.Data)
	}
	var echo []byte
	if h.control != nil && p.Parent == h.id && h.line != 0 {
		if echo = echoOf(h.control, g.Chunks); echo != nil {
			size -= len(h.control) - len(echo)
		}
	}
	var raise *int64
	if p.Fence > h.epoch {
		raise = new(int64(p.Fence))
	}
	var runID *int64
	var runName, metadata []byte
	switch {
	case p.RunID == "":
		metadata = p.Metadata
	case h.run.id != 0 && h.run.name == p.RunID && h.run.known:
		runID = &h.run.id
		if !bytes.Equal(p.Metadata, h.run.metadata) {
			metadata = append([]byte{}, p.Metadata...) // empty, not NULL, if there is none
		}
	default:
		runName, metadata = name(p.RunID), p.Metadata
	}
	task, kind, write := writeArrays(p.Pending)

	var made []*int64
	after := &head{epoch: max(h.epoch, p.Fence), id: p.ID, rev: h.rev, next: g.Next, names: g.Names, m: &g.m}
	if worthEcho(p.Control) {
		after.control = p.Control // it does not change any more: see checkpoint.Saver
	}
	of, err := db.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, db.sql.put,
			h.thread, name(p.Thread), h.line, name(p.Namespace), uuid(h.id), int64(h.rev), int64(h.epoch), raise,
			uuid(p.ID), uuidOr(p.Parent), g.Next, int64(size), runID, runName, on, record, p.Control, metadata,
			chain, seq, data, echo, task, kind, write,
		).Scan(&made)
	})
	switch {
	case of == lost:
		return lostError{err}
	case of == unsent && ctx.Err() == nil:
		return fmt.Errorf("%w: %w", errStale, err)
	case err != nil:
		return err
	case len(made) != 4:
		return errStale
	}
	after.thread, after.line = *made[0], *made[1]
	if runID != nil {
		after.run = h.run
	} else if made[2] != nil {
		after.run = run{id: *made[2], name: p.RunID, metadata: bytes.Clone(p.Metadata), known: *made[3] == 1}
	}
	remember(&db.known.mu, &db.known.heads, key, after)
	return nil
}

// growth makes the manifest of a put out of its parent's.
type growth struct {
	saved.Growth
	m manifest // its shape is 0 if the names are not the parent's
}

// grow makes the manifest of p after h, or refuses p. parent is what was read,
// or nil if p goes on from h.
func (db *DB) grow(ctx context.Context, h *head, parent *row, p *checkpoint.Put) (*growth, error) {
	if p.Fence < h.epoch {
		return nil, fencedError(p.Thread, h.epoch, p.Fence)
	}
	if h.id != p.Head {
		return nil, fmt.Errorf("%w: thread %q has %s, the put expected %s", checkpoint.ErrConflict, p.Thread, h.id, p.Head)
	}
	g := &growth{}
	g.Next, g.Load = h.next, func(s *saved.Slot) ([][]byte, error) {
		have, want := saved.Chains{}, map[int64]int64{}
		s.Need(want)
		if err := db.fetch(ctx, h.line, want, have); err != nil {
			if errors.Is(err, errMissing) {
				return nil, errStale
			}
			return nil, err
		}
		items, err := have.Elements(s)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return items, nil
	}
	if !p.Parent.IsZero() {
		m, names := h.m, h.names
		if parent != nil {
			if !parent.found {
				return nil, fmt.Errorf("%w: parent %s in thread %q", checkpoint.ErrNotFound, p.Parent, p.Thread)
			}
			var err error
			if names, err = db.namesOf(ctx, parent.cp.m.Shape); err != nil {
				return nil, err
			}
			m = parent.cp.m
		}
		g.Inherit(names, m.slots, p.Parent == h.id && m.Rev == h.rev)
		g.m.Shape, g.m.rent, g.m.base = m.Shape, m.rent, m.base
	}
	if p.ID.IsZero() || bytes.Compare(p.ID[:], h.id[:]) <= 0 {
		return nil, fmt.Errorf("%w: id %s does not follow %s", checkpoint.ErrConflict, p.ID, h.id)
	}
	if err := g.Apply(p.Changes); err != nil {
		return nil, err
	}
	if g.More {
		g.m.Shape = 0 // to be found
	}
	g.m.slots = g.Slots
	g.m.settle(g.Changed, func(slots []byte) int64 { return g.Begin(0, slots) })
	return g, nil
}

func fencedError(thread string, epoch, fence uint64) error {
	return fmt.Errorf("%w: thread %q is at epoch %d, the writer has %d", checkpoint.ErrFenced, thread, epoch, fence)
}

// shapeOf finds or makes the shape of the names. It is made before the put
// that needs it; nobody minds one that is not needed in the end.
func (db *DB) shapeOf(ctx context.Context, names []string) (int64, error) {
	if len(names) == 0 {
		return 0, nil
	}
	key := saved.EncodeNames(names)
	if id, ok := recall(&db.known.mu, &db.known.shapes, key); ok {
		return id, nil
	}
	var id int64
	err := db.read(ctx, func(c *pgx.Conn) error { // it may be done twice
		return c.QueryRow(ctx, db.sql.shapeOf, []byte(key)).Scan(&id)
	})
	if err != nil {
		return 0, err
	}
	remember(&db.known.mu, &db.known.shapes, key, id)
	remember(&db.known.mu, &db.known.names, id, names)
	return id, nil
}

// namesOf reads a shape. Shape 0 has no names.
func (db *DB) namesOf(ctx context.Context, shape int64) ([]string, error) {
	if shape == 0 {
		return nil, nil
	}
	if names, ok := recall(&db.known.mu, &db.known.names, shape); ok {
		return names, nil
	}
	var raw []byte
	err := db.read(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, db.sql.names, shape).Scan(&raw) })
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	names, readable := saved.DecodeNames(raw)
	if err != nil || !readable {
		return nil, fmt.Errorf("%w: shape %d is missing or unreadable", ErrDamaged, shape)
	}
	remember(&db.known.mu, &db.known.names, shape, names)
	remember(&db.known.mu, &db.known.shapes, saved.EncodeNames(names), shape)
	return names, nil
}

// writeArrays are the columns of pending writes, of which the last of a task
// and kind counts, at the place of the first. They are nil if there are none.
func writeArrays(writes []checkpoint.Write) (task, kind, data [][]byte) {
	type id struct{ task, kind string }
	at := map[id]int{}
	for _, w := range writes {
		of, raw := saved.WriteRow(&w)
		k := id{w.Task, string(of)}
		if i, ok := at[k]; ok {
			data[i] = raw
			continue
		}
		at[k] = len(task)
		task, kind, data = append(task, name(w.Task)), append(kind, of), append(data, raw)
	}
	return task, kind, data
}

// PutWrites implements [checkpoint.Saver]. What replaces itself may be written
// twice, so it is sent again when the connection broke; the head of a line may
// be another one by then.
func (db *DB) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, writes []checkpoint.Write) error {
	if fence > math.MaxInt64 {
		return fmt.Errorf("postgres: fence %d is greater than a bigint", fence)
	}
	task, kind, data := writeArrays(writes)
	var status int
	var epoch *int64
	earlier, err := db.send(ctx, !at.ID.IsZero(), func(c *pgx.Conn) error {
		return c.QueryRow(ctx, db.sql.putWrites, name(at.Thread), name(at.Namespace), uuidOr(at.ID), int64(fence), task, kind, data).Scan(&status, &epoch)
	})
	switch {
	case err != nil:
		return err
	case status == statusFenced:
		err = fencedError(at.Thread, uint64(*epoch), fence)
	case status == statusNotFound:
		err = fmt.Errorf("%w: %s in thread %q", checkpoint.ErrNotFound, at.ID, at.Thread)
	}
	if err != nil && earlier != nil {
		// The first try may have been in time.
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(earlier, err))
	}
	return err
}
