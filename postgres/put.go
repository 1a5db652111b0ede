package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// errStale means that the cached head is outdated or incomplete.
var errStale = errors.New("postgres: stale head")

// Put implements [checkpoint.Saver].
func (db *DB) Put(ctx context.Context, p *checkpoint.Put) error {
	if p.Fence > math.MaxInt64 {
		return fmt.Errorf("postgres: fence %d exceeds the bigint range", p.Fence)
	}
	key := lineName{p.Thread, p.Namespace}
	h, _ := db.known.heads.Get(key)
	if h != nil && (h.id != p.Head || h.epoch != p.Fence || h.m == nil || !p.Parent.IsZero() && p.Parent != h.id) {
		h = nil // outdated or incomplete
	}
	var unknown error // why the outcome of an earlier attempt is unknown
	for try := 1; ; try++ {
		err := db.tryPut(ctx, key, h, p)
		if err == nil {
			return nil
		}
		var lost lostError
		switch {
		case errors.As(err, &lost):
			unknown = lost.error
		case errors.Is(err, errStale), database.State(err) == database.StateStale, database.State(err) == database.StateSerialization, database.State(err) == database.StateDeadlock:
		case unknown == nil:
			return err
		case errors.Is(err, checkpoint.ErrFenced):
			// Even if this put is saved, its writer must not continue: another has taken over.
			return fmt.Errorf("%w: %w", ErrOutcomeUnknown, errors.Join(unknown, err))
		case errors.Is(err, checkpoint.ErrConflict), errors.Is(err, checkpoint.ErrNotFound):
			// The head has moved, perhaps by this put if its response was lost. No other
			// writer generates this ID.
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
		if try == database.Tries || ctx.Err() != nil {
			if unknown != nil {
				return fmt.Errorf("%w: %w", ErrOutcomeUnknown, unknown)
			}
			return fmt.Errorf("postgres: put in thread %q: overtaken by other writers in %d attempts: %w", p.Thread, try, err)
		}
		if unknown != nil {
			db.conn.Log.WarnContext(ctx, "postgres: connection broken, resending put", "schema", db.conn.Schema, "thread", p.Thread, "id", p.ID.String(), "error", unknown)
		}
		h = nil
	}
}

// lostError reports that the connection broke before the response arrived.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// isStored reports whether the checkpoint exists.
func (db *DB) isStored(ctx context.Context, key checkpoint.Key) (bool, error) {
	r, err := db.readRow(ctx, key)
	return err == nil && r.found, err
}

// tryPut saves p after h, or after the head in the database if h is nil.
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
	after := &head{epoch: max(h.epoch, p.Fence), id: p.ID, rev: h.rev, next: g.Next, names: g.Names, m: g.m}
	if worthEcho(p.Control) {
		after.control = p.Control // immutable from now on: see checkpoint.Saver
	}
	s := newStep(h, p, g)
	args := s.args()
	var made []*int64
	of, err := db.conn.With(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, db.sql.put, args...).Scan(&made) })
	switch {
	case of == database.Lost:
		return lostError{err}
	case of == database.Unsent && ctx.Err() == nil:
		return fmt.Errorf("%w: %w", errStale, err)
	case err != nil:
		return err
	case len(made) != 4:
		return errStale
	}
	after.thread, after.line = *made[0], *made[1]
	if s.run != nil {
		after.run = h.run
	} else if made[2] != nil {
		after.run = run{id: *made[2], name: p.RunID, metadata: bytes.Clone(p.Metadata), known: *made[3] == 1}
	}
	db.known.heads.Set(key, after, after.size())
	return nil
}

// A step is the data that a put adds to a line, in the form that the database function
// put expects.
type step struct {
	*checkpoint.Put
	*growth
	before         *head
	raise          *int64 // the thread's new epoch, or nil
	run            *int64 // the head's run, if the put belongs to it
	runName        []byte // otherwise the name of another run
	metadata       []byte // nil means the run's metadata
	base           *int64 // the chain of the base, or nil
	record         []byte
	size           int // number of bytes added to the line
	chain, seq     []int64
	data           [][]byte
	echo           []byte // if not nil, replaces the parent's control
	task, kind, of [][]byte
}

// newStep encodes an accepted put.
func newStep(h *head, p *checkpoint.Put, g *growth) *step {
	s := &step{Put: p, growth: g, before: h}
	g.m.Rev = h.rev
	g.m.Parent = p.Parent
	g.m.Step = p.Step
	g.m.Source = p.Source
	if g.m.base != nil {
		s.base = &g.m.base.chain
	}
	s.record = g.m.append(make([]byte, 0, 128), p.ID)
	s.size = len(s.record) + len(p.Control)
	if n := len(g.Chunks); n > 0 {
		numbers := make([]int64, 2*n)
		s.chain, s.seq, s.data = numbers[:n:n], numbers[n:], make([][]byte, n)
	}
	for i, k := range g.Chunks {
		s.size += len(k.Data)
		s.chain[i], s.seq[i], s.data[i] = k.Chain, k.Seq, k.Data
	}
	if h.control != nil && p.Parent == h.id && h.line != 0 {
		if s.echo = echoOf(h.control, g.Chunks); s.echo != nil {
			s.size -= len(h.control) - len(s.echo)
		}
	}
	if p.Fence > h.epoch {
		s.raise = new(int64(p.Fence))
	}
	s.chooseRun()
	s.task, s.kind, s.of = writeArrays(p.Pending)
	return s
}

// chooseRun sets the checkpoint's run and any metadata that differs from the run's.
func (s *step) chooseRun() {
	h := s.before
	switch {
	case s.RunID == "":
		s.metadata = s.Metadata
	case h.run.id != 0 && h.run.name == s.RunID && h.run.known:
		s.run = &h.run.id
		if !bytes.Equal(s.Metadata, h.run.metadata) {
			s.metadata = append([]byte{}, s.Metadata...) // without metadata: empty, not NULL
		}
	default:
		s.runName, s.metadata = database.Bytea(s.RunID), s.Metadata
	}
}

// putParams lists the parameters of the function put (0002_functions.sql), each with its
// argument.
var putParams = []struct {
	name  string
	value func(*step) any
}{
	{"p_thread", func(s *step) any { return s.before.thread }},
	{"p_name", func(s *step) any { return database.Bytea(s.Thread) }},
	{"p_line", func(s *step) any { return s.before.line }},
	{"p_path", func(s *step) any { return database.Bytea(s.Namespace) }},
	{"p_head", func(s *step) any { return uuid(s.before.id) }},
	{"p_rev", func(s *step) any { return int64(s.before.rev) }},
	{"p_epoch", func(s *step) any { return int64(s.before.epoch) }},
	{"p_raise", func(s *step) any { return s.raise }},
	{"p_id", func(s *step) any { return uuid(s.ID) }},
	{"p_parent", func(s *step) any { return uuidOr(s.Parent) }},
	{"p_next", func(s *step) any { return s.Next }},
	{"p_bytes", func(s *step) any { return int64(s.size) }},
	{"p_run", func(s *step) any { return s.run }},
	{"p_run_name", func(s *step) any { return s.runName }},
	{"p_base", func(s *step) any { return s.base }},
	{"p_record", func(s *step) any { return s.record }},
	{"p_control", func(s *step) any { return s.Control }},
	{"p_metadata", func(s *step) any { return s.metadata }},
	{"p_chain", func(s *step) any { return s.chain }},
	{"p_seq", func(s *step) any { return s.seq }},
	{"p_data", func(s *step) any { return s.data }},
	{"p_echo", func(s *step) any { return s.echo }},
	{"p_task", func(s *step) any { return s.task }},
	{"p_kind", func(s *step) any { return s.kind }},
	{"p_write", func(s *step) any { return s.of }},
}

// putNames returns the argument list of a call to put, in named notation.
func putNames() string {
	args := make([]string, len(putParams))
	for i, p := range putParams {
		args[i] = fmt.Sprintf("%s => $%d", p.name, i+1)
	}
	return strings.Join(args, ", ")
}

// args returns the values for putNames.
func (s *step) args() []any {
	args := make([]any, len(putParams))
	for i, p := range putParams {
		args[i] = p.value(s)
	}
	return args
}

// A growth derives the manifest of a put from its parent's manifest.
type growth struct {
	saved.Growth
	m *manifest // the shape is 0 if the names differ from the parent's; allocated separately because heads keep it
}

// grow derives the manifest of p after h, or rejects p. The parent is the row that was
// read, or nil if p follows h directly.
func (db *DB) grow(ctx context.Context, h *head, parent *row, p *checkpoint.Put) (*growth, error) {
	if p.Fence < h.epoch {
		return nil, saved.Fenced(p.Thread, h.epoch, p.Fence)
	}
	if h.id != p.Head {
		return nil, saved.NotAtHead(p, h.id)
	}
	g := &growth{m: &manifest{}}
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
				return nil, saved.NoParent(p)
			}
			var err error
			if names, err = db.namesOf(ctx, parent.cp.m.Shape); err != nil {
				return nil, err
			}
			m = parent.cp.m
		}
		g.Inherit(names, m.slots, p.Parent == h.id && m.Rev == h.rev)
		g.m.Shape, g.m.repeated, g.m.base = m.Shape, m.repeated, m.base
	}
	if p.ID.IsZero() || bytes.Compare(p.ID[:], h.id[:]) <= 0 {
		return nil, saved.NotAfter(p, h.id)
	}
	if err := g.Apply(p.Changes); err != nil {
		return nil, err
	}
	if g.More {
		g.m.Shape = 0 // still to be looked up
	}
	g.m.slots = g.Slots
	g.m.settle(g.Changed, func(slots []byte) int64 { return g.Begin(0, slots) })
	return g, nil
}
