package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// A look executes the reads of a batch in one transaction.
type look struct {
	c        *database.Conn
	batch    *store.Batch
	indexes  *indexes
	lists    *seqLists
	kept     *keptItems
	vectors  *keptVectors
	fields   *keptFields
	narrowed *narrowings
	seen     int64 // the number of the last record, once read
	limits   limits
	ended    func() error // the context's error
	looked   int          // number of items examined
	passed   bool         // whether all items in scope are known to pass the search's filter
	decision *decision    // the items that pass the search's filter; nil if unknown
	at       int64        // the time at which items must be live
	past     bool         // whether it reads a past state
	upto     int64        // only records written up to this time
	until    int64        // only records with smaller numbers
	spaces   spaces
	refresh  []refresh

	spaceIDs map[string]int64 // IDs of namespaces in which a key was not found
}

// A refresh changes the expiration time of a record.
type refresh struct{ seq, expires int64 }

func (s *Backend) look(ctx context.Context, c *database.Conn, b *store.Batch, x *indexes) *look {
	l := &look{
		c:        c,
		batch:    b,
		indexes:  x,
		lists:    &s.lists,
		kept:     &s.kept,
		vectors:  &s.vectors,
		fields:   &s.fields,
		narrowed: &s.narrowed,
		limits:   s.limits,
		ended:    ctx.Err,
		at:       b.Now.UnixMicro(),
		past:     b.Past(),
		upto:     math.MaxInt64,
		until:    math.MaxInt64,
		spaces:   spaces{c: c},
	}
	if !b.AsOf.IsZero() {
		l.at = b.AsOf.UnixMicro()
		l.upto = l.at
	}
	if b.Until != 0 {
		l.until = b.Until
	}
	return l
}

func (l *look) all() (*store.Results, error) {
	out := &store.Results{
		Gets:       make([]*store.Record, len(l.batch.Gets)),
		Searches:   make([][]store.Found, len(l.batch.Searches)),
		Namespaces: make([][]store.Namespace, len(l.batch.Namespaces)),
	}
	err := l.reaches()
	if err != nil {
		return nil, err
	}
	for i, g := range l.batch.Gets {
		if out.Gets[i], err = l.get(g.Namespace, g.Key); err != nil {
			return nil, err
		}
		l.keep(out.Gets[i], g.Refresh)
	}
	for i, q := range l.batch.Searches {
		if out.Searches[i], err = l.search(q); err != nil {
			return nil, err
		}
		for _, f := range out.Searches[i] {
			l.keep(f.Record, q.Refresh)
		}
	}
	for i, prefix := range l.batch.Namespaces {
		if out.Namespaces[i], err = l.namespaces(prefix); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// keep schedules a record's refresh.
func (l *look) keep(r *store.Record, refreshes bool) {
	if r == nil || !refreshes || r.TTL == 0 {
		return
	}
	if expires := l.batch.Now.Add(r.TTL); !expires.Equal(r.Expires) {
		r.Expires = expires
		l.refresh = append(l.refresh, refresh{r.Seq, expires.UnixMicro()})
	}
}

// get returns the record of a key that is live at the look's time, or nil.
func (l *look) get(n store.Namespace, key string) (*store.Record, error) {
	query, args := getNow, []any{[]byte(key), []byte(n.Encode())}
	if l.past {
		if err := l.lost("r.space=(SELECT id FROM store_space WHERE name=?) AND r.key=?", args[1], args[0]); err != nil {
			return nil, err
		}
		query, args = getThen, append(args, l.upto, l.until)
	}
	var found *store.Record
	there := false
	err := l.c.Each(query, args, func(scan func(...any) error) error {
		there = true
		r, err := scanRecord(scan)
		if err != nil {
			return err
		}
		if r.ended && r.Kind == store.Put && !l.past {
			return fmt.Errorf("%w: missing successor of store record %d, key %q in namespace %q", database.ErrDamaged, r.Seq, key, n)
		}
		if r.Live(fromMicros(l.at)) {
			r.Namespace = n
			found = r.Record
		}
		return nil
	})
	if err == nil && !there && !l.past {
		err = l.noItem(n, key)
	}
	return found, err
}

// noItem is like the function noItem, but looks up each namespace only once.
func (l *look) noItem(n store.Namespace, key string) error {
	name := n.Encode()
	id, ok := l.spaceIDs[name]
	if !ok {
		var err error
		if id, err = spaceID(l.c, name); err != nil {
			return err
		}
		if l.spaceIDs == nil {
			l.spaceIDs = map[string]int64{}
		}
		l.spaceIDs[name] = id
	}
	if id < 0 {
		return nil
	}
	return noItemIn(l.c, id, n, key)
}

const (
	getFrom = "SELECT " + recordColumns + " FROM store_space s CROSS JOIN store_record r ON r.space=s.id AND r.key=? LEFT JOIN store_life l ON l.seq=r.seq WHERE s.name=?"
	getNow  = getFrom + " ORDER BY r.seq DESC LIMIT 1"
	getThen = getFrom + " AND r.updated<=? AND r.seq<? ORDER BY r.seq DESC LIMIT 1"
)

// isLive is the condition for live records.
//
// A record whose lifetime is damaged counts as live, so that reading it reports the
// damage.
const isLive = "(l.expires IS NULL OR l.expires>? OR " + lifeIsDamaged + ")"

func (l *look) search(q *store.Query) ([]store.Found, error) {
	scope, err := l.scope(q.Prefix)
	if err != nil || scope.empty {
		return nil, err
	}
	var seqs []int64
	ranks := map[int64]store.Ranked{}
	l.passed, l.decision = false, nil
	if q.ByNewest() {
		seqs, err = l.newest(q, scope)
	} else {
		if scope.few, err = l.passing(q, scope); err != nil {
			return nil, err
		}
		l.passed = scope.few != nil
		var near, matching []store.Candidate
		if q.Vector != nil {
			if near, err = l.nearest(q, scope); err != nil {
				return nil, err
			}
		}
		if len(q.Terms) > 0 {
			if matching, err = l.matching(q, scope); err != nil {
				return nil, err
			}
		}
		for _, r := range q.Rank(near, matching) {
			seqs = append(seqs, r.Seq)
			ranks[r.Seq] = r
		}
	}
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	records, err := l.records(seqs)
	if err != nil {
		return nil, err
	}
	found := make([]store.Found, len(seqs))
	for i, seq := range seqs {
		found[i] = store.Found{Record: records[seq], Ranked: ranks[seq]}
	}
	return found, nil
}

// records reads records that must exist.
func (l *look) records(seqs []int64) (map[int64]*store.Record, error) {
	records := make(map[int64]*store.Record, len(seqs))
	of := make(map[*store.Record]int64, len(seqs))
	err := l.c.Each("SELECT "+recordColumns+" FROM json_each(?) j CROSS JOIN "+recordTables+" WHERE r.seq=j.value", []any{list(seqs)},
		func(scan func(...any) error) error {
			r, err := scanRecord(scan)
			if err == nil {
				records[r.Seq], of[r.Record] = r.Record, r.space
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	for _, seq := range seqs {
		if records[seq] == nil {
			return nil, missingRecord(seq)
		}
	}
	for r, space := range of {
		if r.Namespace, err = l.spaces.of(space); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// A scope is the set of items that a search considers: all items under a prefix.
type scope struct {
	empty bool
	name  string  // encoded prefix
	id    int64   // ID of the prefix's namespace
	past  []int64 // for a past state: the live records, newest first
	few   []int64 // the items that pass a selective filter, newest first; nil if unknown
}

func (l *look) scope(prefix store.Namespace) (scope, error) {
	s := scope{name: prefix.Encode()}
	var err error
	if l.past {
		s.past, _, err = l.then(s.name)
		s.empty = len(s.past) == 0
		return s, err
	}
	s.id, err = spaceID(l.c, s.name)
	s.empty = s.id < 0
	return s, err
}

// reaches returns a GoneError if a batch with Until may need the end of an item that has
// been compacted.
func (l *look) reaches() error {
	if l.batch.Until <= 1 {
		return nil
	}
	_, compacted, err := storeState(l.c)
	if err == nil && l.batch.Until <= compacted {
		err = &store.GoneError{Version: l.batch.Until - 1}
	}
	return err
}

// lost returns a GoneError if a batch with Until needs records that may have been
// removed, among the keys that meet a condition.
func (l *look) lost(where string, args ...any) error {
	if l.batch.Until == 0 {
		return nil
	}
	keep, before := int64(math.MaxInt64), int64(math.MinInt64)
	if n := l.batch.Limits.Keep; n > 0 {
		keep = int64(n)
	}
	if t := l.batch.Limits.Before; !t.IsZero() {
		before = t.UnixMicro()
	}
	var space int64
	var key string
	found, err := l.c.Row(`SELECT o.space, o.key FROM (SELECT min(r.seq) seq, count(*) n FROM store_record r WHERE `+where+` GROUP BY r.space, r.key HAVING min(r.seq)>=?) m
		CROSS JOIN store_record o WHERE o.seq=m.seq AND o.kind<>? AND (o.kind<>? OR o.created<>o.updated OR o.updated<? OR m.n>=?) LIMIT 1`,
		append(args, l.batch.Until, saved.ItemNumber(store.Forgotten), saved.ItemPut, before, keep), &space, &key)
	if err != nil || !found {
		return err
	}
	n, err := l.spaces.of(space)
	if err != nil {
		return err
	}
	return &store.GoneError{Version: l.batch.Until - 1, Namespace: n, Key: key}
}

// then returns the records under a name that were live at the look's time, newest first,
// and the IDs of their namespaces. It scans all versions.
func (l *look) then(name string) (seqs, ids []int64, err error) {
	from, to := saved.Span(name)
	branches, end := saved.Span(store.Namespace{store.BranchRoot}.Encode())
	if name != "" {
		branches, end = to, to
	}
	if err := l.lost("r.space IN (SELECT id FROM store_space WHERE name>=? AND name<? AND NOT (name>=? AND name<?))", from, to, branches, end); err != nil {
		return nil, nil, err
	}
	err = l.c.Each(`SELECT r.seq, r.space FROM (
			SELECT max(seq) seq FROM store_record
			WHERE space IN (SELECT id FROM store_space WHERE name>=? AND name<?) AND updated<=? AND seq<? GROUP BY space, key
		) m CROSS JOIN `+recordTables+` WHERE r.seq=m.seq AND r.kind=? AND `+isLive+" ORDER BY r.seq DESC", []any{from, to, l.upto, l.until, saved.ItemPut, l.at},
		func(scan func(...any) error) error {
			var seq, id int64
			err := scan(&seq, &id)
			seqs, ids = append(seqs, seq), append(ids, id)
			return err
		})
	return seqs, ids, err
}

// newest returns the newest records of a search without a query, newest first.
func (l *look) newest(q *store.Query, s scope) (seqs []int64, err error) {
	if q.Filter().Op == "" {
		return l.newestOfAll(q, s)
	}
	if seqs, ok, err := l.newestRare(q, s); err != nil || ok {
		return seqs, err
	}
	skip, visited, slow := q.Offset, 0, false
	visit := func(seq int64, value, meta []byte) error {
		passes, err := l.passes(q, value, meta)
		visited++
		switch {
		case err != nil:
			return err
		case visited > max(l.limits.few, 0) && !l.past && !slow:
			return errMany
		case len(seqs) == q.Limit:
			return io.EOF
		case !passes:
		case skip > 0:
			skip--
		default:
			seqs = append(seqs, seq)
		}
		return nil
	}
	if l.past {
		return seqs, l.values(s.past, visit)
	}
	scan := func() error {
		return stopped(l.c.Each("SELECT u.seq, r.seq, r.value, r.meta, r.sum FROM store_under u LEFT JOIN store_record r ON r.seq=u.seq LEFT JOIN store_life l ON l.seq=u.seq WHERE u.space=? AND "+isLive+" ORDER BY u.seq DESC",
			[]any{-s.id, l.at}, l.visitValues(visit)))
	}
	if err := scan(); !errors.Is(err, errMany) {
		return seqs, err
	}
	d, err := l.decide(q, s)
	if err != nil {
		return nil, err
	}
	if d == nil {
		seqs, skip, slow = nil, q.Offset, true
		err = scan()
		return seqs, err
	}
	l.decision, l.passed = d, true
	seqs, _, err = l.newestAmong(q, s, d.newest())
	return seqs, err
}

// errMany ends the scan of a search without a query: too many items do not pass its filter.
var errMany = errors.New("many items")

// passes reports whether an item passes the filter. There may be many items to examine,
// so it returns an error if the context has ended.
func (l *look) passes(q *store.Query, value, meta []byte) (bool, error) {
	l.looked++
	if l.looked%pageSize == 0 {
		if err := l.ended(); err != nil {
			return false, err
		}
	}
	return l.passed || q.Match(value, meta), nil
}

// filters reports whether items must be checked against a search's filter.
func (l *look) filters(q *store.Query) bool { return q.Filter().Op != "" && !l.passed }

// newestOfAll is like newest, but without a filter, so it reads no values.
func (l *look) newestOfAll(q *store.Query, s scope) (seqs []int64, err error) {
	if l.past {
		rest := s.past[min(q.Offset, len(s.past)):]
		return slices.Clone(rest[:min(q.Limit, len(rest))]), nil
	}
	err = l.c.Each("SELECT u.seq FROM store_under u LEFT JOIN store_life l ON l.seq=u.seq WHERE u.space=? AND "+isLive+" ORDER BY u.seq DESC LIMIT ?+0 OFFSET ?",
		[]any{-s.id, l.at, q.Limit, q.Offset}, func(scan func(...any) error) error {
			var seq int64
			err := scan(&seq)
			seqs = append(seqs, seq)
			return err
		})
	return seqs, err
}

// values calls visit for the values of records, in the order of seqs, until visit returns
// io.EOF.
func (l *look) values(seqs []int64, visit func(seq int64, value, meta []byte) error) error {
	for page := range slices.Chunk(seqs, pageSize) {
		err := l.c.Each("SELECT j.value, r.seq, r.value, r.meta, r.sum FROM json_each(?) j LEFT JOIN store_record r ON r.seq=j.value ORDER BY j.id", []any{list(page)}, l.visitValues(visit))
		if err != nil {
			return stopped(err)
		}
	}
	return nil
}

func (l *look) visitValues(visit func(seq int64, value, meta []byte) error) func(scan func(...any) error) error {
	return func(scan func(...any) error) error {
		var seq, there int64
		var value, meta []byte
		var sum int64
		if err := scan(&seq, &there, &value, &meta, &sum); err != nil {
			return err
		}
		if err := l.verifyValue(seq, there != 0, value, meta, sum); err != nil {
			return err
		}
		return visit(seq, value, meta)
	}
}

func missingRecord(seq int64) error {
	return fmt.Errorf("%w: missing store record %d", database.ErrDamaged, seq)
}

// verifyValue checks a value that is examined before its record is read, if the record is
// read at all.
func (l *look) verifyValue(seq int64, there bool, value, meta []byte, have int64) error {
	if !there {
		return missingRecord(seq)
	}
	if !database.Intact(have, bodySum(seq, meta, value)) {
		return database.Changed("value of store record %d", seq)
	}
	return nil
}

// pageSize is the number of rows read at a time where the number needed is unknown.
const pageSize = 256

// stopped returns nil for an io.EOF that ended a loop.
func stopped(err error) error {
	if err == io.EOF { //nolint:errorlint // an io.EOF inside another error is a failed read, not the end of the loop
		return nil
	}
	return err
}

func (l *look) namespaces(prefix store.Namespace) ([]store.Namespace, error) {
	var ids []int64
	var err error
	if l.past {
		_, ids, err = l.then(prefix.Encode())
		slices.Sort(ids)
		ids = slices.Compact(ids)
	} else {
		from, to := saved.Span(prefix.Encode())
		err = l.c.Each(`SELECT id FROM store_space s WHERE name>=? AND name<? AND EXISTS
			(SELECT 1 FROM store_key u LEFT JOIN store_life l ON l.seq=u.seq WHERE u.space=s.id AND `+isLive+")", []any{from, to, l.at},
			func(scan func(...any) error) error {
				var id int64
				err := scan(&id)
				ids = append(ids, id)
				return err
			})
	}
	if err != nil {
		return nil, err
	}
	namespaces := make([]store.Namespace, len(ids))
	for i, id := range ids {
		if namespaces[i], err = l.spaces.of(id); err != nil {
			return nil, err
		}
	}
	return namespaces, nil
}
