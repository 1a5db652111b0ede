package items

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

// A look executes the reads of a batch in one snapshot.
type look struct {
	ctx     context.Context
	q       database.Querier
	p       *prepared
	at      int64 // the time at which items must be live
	past    bool  // whether it reads a past state
	upto    int64 // only records written up to this time
	until   int64 // only records with smaller numbers
	refresh []refresh
}

// A refresh changes the expiration time of a record.
type refresh struct{ seq, expires int64 }

func newLook(ctx context.Context, q database.Querier, p *prepared) *look {
	l := &look{ctx: ctx, q: q, p: p, at: p.batch.Now.UnixMicro(), past: p.batch.Past(), upto: math.MaxInt64, until: math.MaxInt64}
	if !p.batch.AsOf.IsZero() {
		l.at = p.batch.AsOf.UnixMicro()
		l.upto = l.at
	}
	if p.batch.Until != 0 {
		l.until = p.batch.Until
	}
	return l
}

func (l *look) all() (*store.Results, error) {
	b := l.p.batch
	out := &store.Results{
		Gets:       make([]*store.Record, len(b.Gets)),
		Searches:   make([][]store.Found, len(b.Searches)),
		Namespaces: make([][]store.Namespace, len(b.Namespaces)),
	}
	err := l.reaches()
	if err != nil {
		return nil, err
	}
	for i, g := range b.Gets {
		if out.Gets[i], err = l.get(g.Namespace, g.Key); err != nil {
			return nil, err
		}
		l.keep(out.Gets[i], g.Refresh)
	}
	for i, q := range b.Searches {
		if out.Searches[i], err = l.search(q); err != nil {
			return nil, err
		}
		for _, f := range out.Searches[i] {
			l.keep(f.Record, q.Refresh)
		}
	}
	for i, prefix := range b.Namespaces {
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
	if expires := l.p.batch.Now.Add(r.TTL); !expires.Equal(r.Expires) {
		r.Expires = expires
		l.refresh = append(l.refresh, refresh{r.Seq, expires.UnixMicro()})
	}
}

const (
	getFrom = "SELECT " + recordColumns + " FROM " + recordTables + " WHERE r.name = $1 AND r.key = $2"
	getNow  = getFrom + " ORDER BY r.seq DESC LIMIT 1"
	getThen = getFrom + " AND r.updated <= $3 AND r.seq < $4 ORDER BY r.seq DESC LIMIT 1"
)

// get returns the record of a key that is live at the look's time, or nil.
func (l *look) get(n store.Namespace, key string) (*store.Record, error) {
	query, args := getNow, []any{database.Bytea(n.Encode()), database.Bytea(key)}
	if l.past {
		if err := l.lost("r.name = $5 AND r.key = $6", args...); err != nil {
			return nil, err
		}
		query, args = getThen, append(args, l.upto, l.until)
	}
	found, err := l.records(query, args...)
	if err != nil || len(found) == 0 || !found[0].Live(fromMicros(l.at)) {
		return nil, err
	}
	return found[0], nil
}

func (l *look) records(query string, args ...any) ([]*store.Record, error) {
	return records(l.ctx, l.q, l.p.backend.db.In(query), args...)
}

// planned is like records, but for searches. The best plan depends on the arguments, such
// as the number of items under a prefix and the rarity of a value, so every call is
// planned, as it is behind a pooler.
func (l *look) planned(query string, args ...any) ([]*store.Record, error) {
	return l.records(query, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
}

// each calls do for each row of a search query.
func (l *look) each(query string, args, dest []any, do func() error) error {
	return database.Each(l.ctx, l.q, l.p.backend.db.In(query), append([]any{pgx.QueryExecModeCacheDescribe}, args...), dest, do)
}

func (l *look) search(q *store.Query) ([]store.Found, error) {
	s, err := l.scope(q)
	if err != nil {
		return nil, err
	}
	if q.ByNewest() {
		newest, err := l.newest(q, s)
		found := make([]store.Found, len(newest))
		for i, r := range newest {
			found[i].Record = r
		}
		return found, err
	}
	var near, matching []store.Candidate
	if q.Vector != nil {
		if near, err = l.nearest(q, s); err != nil {
			return nil, err
		}
	}
	if len(q.Terms) > 0 {
		if matching, err = l.matching(q, s); err != nil {
			return nil, err
		}
	}
	return l.found(q.Rank(near, matching))
}

// found reads the records of ranked results.
func (l *look) found(ranked []store.Ranked) ([]store.Found, error) {
	if len(ranked) == 0 {
		return nil, nil
	}
	seqs := make([]int64, len(ranked))
	for i, r := range ranked {
		seqs[i] = r.Seq
	}
	all, err := l.records("SELECT "+recordColumns+" FROM "+recordTables+" WHERE r.seq = ANY ($1)", seqs)
	if err != nil {
		return nil, err
	}
	bySeq := make(map[int64]*store.Record, len(all))
	for _, r := range all {
		bySeq[r.Seq] = r
	}
	found := make([]store.Found, len(ranked))
	for i, r := range ranked {
		if bySeq[r.Seq] == nil {
			return nil, fmt.Errorf("%w: missing store record %d", database.ErrDamaged, r.Seq)
		}
		found[i] = store.Found{Record: bySeq[r.Seq], Ranked: r}
	}
	return found, nil
}

// A scope is the set of items that a search considers: all items under a prefix.
type scope struct {
	from, to  []byte  // range of encoded namespaces
	past      []int64 // for a past state: the live records, newest first
	narrowing         // condition implied by the filter: see filter.go
}

func (l *look) scope(q *store.Query) (scope, error) {
	var s scope
	s.from, s.to = saved.Span(q.Prefix.Encode())
	var err error
	if l.past {
		s.past, _, err = l.then(s)
	} else {
		s.narrowing = l.p.narrow(q.Filter())
	}
	return s, err
}

// isLive is the condition for live records. Argument 1 is the look's time.
const isLive = "(l.expires IS NULL OR l.expires > $1)"

// reaches returns a GoneError if a batch with Until may need the end of an item that has
// been compacted.
func (l *look) reaches() error {
	until := l.p.batch.Until
	if until <= 1 {
		return nil
	}
	var compacted int64
	err := l.q.QueryRow(l.ctx, l.p.backend.db.In("SELECT compacted FROM {schema}.store_state")).Scan(&compacted)
	if err == nil && until <= compacted {
		err = &store.GoneError{Version: until - 1}
	}
	return err
}

// lost returns a GoneError if a batch with Until needs records that may have been
// removed, among the keys that meet a condition.
func (l *look) lost(where string, args ...any) error {
	b := l.p.batch
	if b.Until == 0 {
		return nil
	}
	keep, before := int64(math.MaxInt64), int64(math.MinInt64)
	if b.Limits.Keep > 0 {
		keep = int64(b.Limits.Keep)
	}
	if !b.Limits.Before.IsZero() {
		before = b.Limits.Before.UnixMicro()
	}
	var encoded, key []byte
	var gone error
	err := l.each(`SELECT o.name, o.key FROM (
			SELECT min(r.seq) AS seq, count(*) AS n FROM {schema}.store_record r WHERE `+where+` GROUP BY r.name, r.key HAVING min(r.seq) >= $1
		) m JOIN {schema}.store_record o ON o.seq = m.seq
		WHERE o.kind <> $2 AND (o.kind <> `+strconv.Itoa(saved.ItemPut)+` OR o.created <> o.updated OR o.updated < $3 OR m.n >= $4) LIMIT 1`,
		append([]any{b.Until, saved.ItemNumber(store.Forgotten), before, keep}, args...), []any{&encoded, &key}, func() error {
			n, err := store.DecodeNamespace(string(encoded))
			if err != nil {
				return unreadable("namespace", err)
			}
			gone = &store.GoneError{Version: b.Until - 1, Namespace: n, Key: string(key)}
			return nil
		})
	if err != nil {
		return err
	}
	return gone
}

// then returns the records in scope that were live at the look's time, newest first, and
// their namespaces. It scans all versions.
func (l *look) then(s scope) (seqs []int64, names []string, err error) {
	branches, end := saved.Span(store.Namespace{store.BranchRoot}.Encode())
	if len(s.from) > 0 {
		branches, end = s.to, s.to
	}
	if err := l.lost("r.name >= $5 AND r.name < $6 AND NOT (r.name >= $7 AND r.name < $8)", s.from, s.to, branches, end); err != nil {
		return nil, nil, err
	}
	var seq int64
	var encoded []byte
	err = l.each(`SELECT r.seq, r.name FROM (
			SELECT max(seq) AS seq FROM {schema}.store_record WHERE name >= $2 AND name < $3 AND updated <= $5 AND seq < $6 GROUP BY name, key
		) m JOIN `+recordTables+` ON r.seq = m.seq WHERE r.kind = $4 AND `+isLive+" ORDER BY r.seq DESC",
		[]any{l.at, s.from, s.to, saved.ItemPut, l.upto, l.until}, []any{&seq, &encoded}, func() error {
			seqs, names = append(seqs, seq), append(names, string(encoded))
			return nil
		})
	return seqs, names, err
}

// Page sizes for queries where the number of rows needed is unknown.
const (
	smallPage = 256
	largePage = 4096
)

// newest returns the newest records of a search without a query, newest first.
func (l *look) newest(q *store.Query, s scope) (found []*store.Record, err error) {
	if q.Filter().Op == "" {
		return l.newestOfAll(q, s)
	}
	skip := q.Offset
	take := func(page []*store.Record) (done bool) {
		for _, r := range page {
			switch {
			case len(found) == q.Limit:
				return true
			case !q.Match(r.Value, r.Meta):
			case skip > 0:
				skip--
			default:
				found = append(found, r)
			}
		}
		return len(found) == q.Limit
	}
	if l.past {
		for seqs := range slices.Chunk(s.past, smallPage) {
			page, err := l.bySeq(seqs)
			if err != nil || take(page) {
				return found, err
			}
		}
		return found, nil
	}
	before := int64(1<<63 - 1)
	for size := smallPage; ; size = min(4*size, largePage) {
		page, err := l.planned("SELECT "+itemColumns+" FROM "+itemTables+" WHERE i.name >= $2 AND i.name < $3 AND i.seq < $4 AND "+
			isLive+s.narrowed(6)+" ORDER BY i.seq DESC LIMIT $5", append([]any{l.at, s.from, s.to, before, size}, s.args...)...)
		if err != nil || take(page) || len(page) < size {
			return found, err
		}
		before = page[size-1].Seq
	}
}

// newestOfAll is like newest, but without a filter.
func (l *look) newestOfAll(q *store.Query, s scope) ([]*store.Record, error) {
	if l.past {
		rest := s.past[min(q.Offset, len(s.past)):]
		return l.bySeq(rest[:min(q.Limit, len(rest))])
	}
	return l.planned("SELECT "+itemColumns+" FROM "+itemTables+" WHERE i.name >= $2 AND i.name < $3 AND "+
		isLive+" ORDER BY i.seq DESC LIMIT $4 OFFSET $5", l.at, s.from, s.to, q.Limit, q.Offset)
}

// bySeq reads the records with the given numbers, newest first.
func (l *look) bySeq(seqs []int64) ([]*store.Record, error) {
	return l.records("SELECT "+recordColumns+" FROM "+recordTables+" WHERE r.seq = ANY ($1) ORDER BY r.seq DESC", seqs)
}

func (l *look) namespaces(prefix store.Namespace) ([]store.Namespace, error) {
	var s scope
	s.from, s.to = saved.Span(prefix.Encode())
	var names []string
	var err error
	if l.past {
		_, names, err = l.then(s)
		slices.Sort(names)
		names = slices.Compact(names)
	} else {
		var encoded []byte
		err = l.each("SELECT DISTINCT i.name FROM {schema}.store_item i LEFT JOIN {schema}.store_life l ON l.seq = i.seq WHERE i.name >= $2 AND i.name < $3 AND "+isLive,
			[]any{l.at, s.from, s.to}, []any{&encoded}, func() error {
				names = append(names, string(encoded))
				return nil
			})
	}
	if err != nil {
		return nil, err
	}
	namespaces := make([]store.Namespace, len(names))
	for i, n := range names {
		if namespaces[i], err = store.DecodeNamespace(n); err != nil {
			return nil, unreadable("namespace", err)
		}
	}
	return namespaces, nil
}
