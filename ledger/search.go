package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/words"
)

// Searches return pages by position, not by offset, so that rows inserted in the meantime
// neither repeat nor hide others. A search that finds little reads at most searchRows rows and
// returns the position to continue at.
const (
	searchRows  = 2000
	searchBatch = 64
)

// ThreadSearch selects threads, newest first.
type ThreadSearch struct {
	Filter
	// Text is words that a thread must contain; see ThreadText. "" means all threads.
	Text   string
	IDs    []uuid.UUID // any of these; nil means all
	Status ThreadStatus
	After  *Position // nil means from the newest
	Limit  int       // the maximum number of threads; 0 means 20
}

// ThreadMatch is a thread that a search has found.
type ThreadMatch struct {
	*Thread
	Title   string `json:"title"`     // as of when the thread was last indexed
	Matched string `json:"matched"`   // "title", "text", or "" if the search has no text
	Partial bool   `json:"truncated"` // not all of the thread's text is indexed
}

// ThreadMatches is the result of a search.
type ThreadMatches struct {
	Threads []*ThreadMatch
	Next    *Position // where to continue; nil if there are no more
	Read    int       // the number of candidates that were read
}

// SearchThreads finds threads by their text. See Options.TextChanged.
func (l *Ledger) SearchThreads(ctx context.Context, q *ThreadSearch) (*ThreadMatches, error) {
	query := queryWords(q.Text)
	rows := Query{Kind: Threads, Open: q.Status == Busy, After: q.After}
	if q.Status == Interrupted || q.Status == Failed {
		rows.Terms = []uint64{statusTerm(q.Status)}
	}
	if q.Text != "" {
		if len(query) == 0 {
			return &ThreadMatches{}, nil // only punctuation
		}
		rows = Query{Kind: Texts, After: q.After}
		for _, w := range query {
			rows.Terms = append(rows.Terms, textTerm(w))
		}
		slices.Sort(rows.Terms)
		rows.Terms = slices.Compact(rows.Terms)
	}
	rows.IDs = q.IDs
	found := &ThreadMatches{}
	scan := &scan[*ThreadMatch]{limit: q.Limit, match: func(batch []*Row) ([]*ThreadMatch, error) { return l.matchThreads(ctx, q, query, batch) }}
	err := scan.run(ctx, l.b, rows, filterTerms(&q.Filter))
	found.Threads, found.Next, found.Read = scan.found, scan.next, scan.read
	return found, err
}

// matchThreads returns the threads of rows, which are of kind Threads, or of kind Texts if the
// search has a text. The result has an element per row, which is nil if the row does not match.
func (l *Ledger) matchThreads(ctx context.Context, q *ThreadSearch, query []string, rows []*Row) ([]*ThreadMatch, error) {
	threads, texts := map[uuid.UUID]*Row{}, map[uuid.UUID]*Row{}
	known, other, kind := threads, texts, Texts
	if q.Text != "" {
		known, other, kind = texts, threads, Threads
	}
	for _, r := range rows {
		known[r.ID] = r
	}
	if err := l.rowsOf(ctx, kind, rows, other); err != nil {
		return nil, err
	}
	out := make([]*ThreadMatch, len(rows))
	for i, r := range rows {
		row := threads[r.ID]
		if row == nil {
			continue // deleted in the meantime
		}
		d, err := decodeThread(row)
		if err != nil {
			return nil, err
		}
		if q.Status != "" && d.Status != q.Status || !q.Filter.Match(d.Metadata) {
			continue
		}
		text, err := decodeText(texts[r.ID])
		if err != nil {
			return nil, err
		}
		m := &ThreadMatch{Thread: d.Thread, Title: text.Title, Partial: text.Partial}
		if q.Text != "" {
			m.Matched = "text"
			if inTitle(query, text.Title) {
				m.Matched = "title"
			}
		}
		out[i] = m
	}
	return out, nil
}

// rowsOf adds the rows of a kind that have the IDs of other rows.
func (l *Ledger) rowsOf(ctx context.Context, kind Kind, of []*Row, to map[uuid.UUID]*Row) error {
	ids := make([]uuid.UUID, len(of))
	for i, r := range of {
		ids[i] = r.ID
	}
	for r, err := range l.b.Find(ctx, &Query{Kind: kind, IDs: ids}) {
		if err != nil {
			return err
		}
		to[r.ID] = r
	}
	return nil
}

// scan collects the matches among rows, in batches.
type scan[T comparable] struct {
	limit int
	match func([]*Row) ([]T, error) // an element per row; zero if the row does not match
	stop  func(*Row) bool           // reports that a row and all following ones do not match; may be nil

	found []T
	next  *Position
	read  int
	last  *Row // of the last match
	batch []*Row
}

// run reads rows with the given terms, or moreTerm instead, in the order of q.
func (s *scan[T]) run(ctx context.Context, b Backend, q Query, terms []uint64) error {
	if s.limit <= 0 {
		s.limit = 20
	}
	err := eachRow(ctx, b, q, terms, func(r *Row) error {
		if s.stop != nil && s.stop(r) {
			return errEnough
		}
		s.batch = append(s.batch, r)
		if len(s.batch) < min(searchBatch, s.limit+1) {
			return nil
		}
		return s.flush()
	})
	if err == nil || err == errEnough && s.next == nil { //nolint:errorlint // not wrapped
		err = s.flush()
	}
	if err == errEnough { //nolint:errorlint // not wrapped
		err = nil
	}
	return err
}

// flush matches the rows of the batch. It returns errEnough when the page is complete.
func (s *scan[T]) flush() error {
	var zero T
	batch := s.batch
	if len(batch) == 0 || s.next != nil {
		return nil
	}
	s.batch = nil
	s.read += len(batch)
	found, err := s.match(batch)
	if err != nil {
		return err
	}
	for i, m := range found {
		if m == zero {
			continue
		}
		if len(s.found) == s.limit {
			s.next = &Position{At: s.last.Created, ID: s.last.ID}
			return errEnough
		}
		s.found, s.last = append(s.found, m), batch[i]
	}
	if s.read >= searchRows {
		end := batch[len(batch)-1]
		s.next = &Position{At: end.Created, ID: end.ID}
		return errEnough
	}
	return nil
}

// RunSearch selects runs of all threads, newest first. Temporary runs are not found.
type RunSearch struct {
	Filter                // of the thread
	Status    []RunStatus // any of these; nil means all
	Graph     string
	Assistant uuid.UUID
	Thread    uuid.UUID
	Since     time.Time // created at or after this time
	Until     time.Time // created before this time
	Error     string    // words that the run's failure must contain
	// ThreadStatus is the current status of the run's thread; "" means any.
	ThreadStatus ThreadStatus
	After        *Position // nil means from the newest
	Limit        int       // the maximum number of runs; 0 means 20
}

// RunMatch is a run that a search has found, without its Kwargs, and its thread.
type RunMatch struct {
	*Run
	Title  string // of the thread
	Status ThreadStatus
	Asks   bool // whether an interrupt of the thread waits for an answer
	Latest bool // whether no run of the thread is newer
}

// RunMatches is the result of a search.
type RunMatches struct {
	Runs []*RunMatch
	Next *Position // where to continue; nil if there are no more
	Read int       // the number of runs that were read
}

func runStatusTerm(s RunStatus) uint64 { return term("run status", string(s)) }

func runErrorTerm(word string) uint64 { return term("run error", words.Stem(word)) }

// failedTerm is the term of runs that failed, timed out, or were canceled.
var failedTerm = term("run failed", "")

// maxErrorTerms is the maximum number of different words of an error that are indexed.
const maxErrorTerms = 128

func (r *Run) failed() bool { return failedStatus(r.Status) }

func failedStatus(s RunStatus) bool { return s == Error || s == TimedOut || s == RunCanceled }

// searchTerms returns the terms that SearchRuns selects by. The success of a run, which is the
// usual end, adds no term.
func (r *Run) searchTerms() []uint64 {
	terms := []uint64{term("run graph", r.Graph), assistantTerm(r.Assistant)}
	if !r.failed() {
		return terms
	}
	terms = append(terms, failedTerm, runStatusTerm(r.Status))
	if r.Failure == nil {
		return terms
	}
	seen := map[uint64]bool{}
	words.Each(r.Failure.Class+" "+r.Failure.Message, func(w string) {
		if n := runErrorTerm(w); !seen[n] && len(seen) < maxErrorTerms {
			seen[n] = true
			terms = append(terms, n)
		}
	})
	return terms
}

// query returns the rows to read.
func (q *RunSearch) query() Query {
	rows := Query{Kind: Runs, Parent: q.Thread, After: q.After}
	if !q.Until.IsZero() && (q.After == nil || q.Until.Before(q.After.At)) {
		rows.After = &Position{At: ceil(q.Until)} // no ID is smaller than the zero ID
	}
	if q.Graph != "" {
		rows.Terms = append(rows.Terms, term("run graph", q.Graph))
	}
	if q.Assistant != uuid.Nil {
		rows.Terms = append(rows.Terms, assistantTerm(q.Assistant))
	}
	rows.Open = len(q.Status) > 0
	failed := len(q.Status) > 0
	for _, s := range q.Status {
		rows.Open = rows.Open && (s == Pending || s == Running)
		failed = failed && failedStatus(s)
	}
	switch {
	case failed && len(q.Status) == 1:
		rows.Terms = append(rows.Terms, runStatusTerm(q.Status[0]))
	case failed:
		rows.Terms = append(rows.Terms, failedTerm)
	}
	for _, w := range queryWords(q.Error) {
		rows.Terms = append(rows.Terms, runErrorTerm(w))
	}
	slices.Sort(rows.Terms)
	rows.Terms = slices.Compact(rows.Terms)
	return rows
}

// SearchRuns finds runs of all threads.
func (l *Ledger) SearchRuns(ctx context.Context, q *RunSearch) (*RunMatches, error) {
	if strings.TrimSpace(q.Error) != "" && len(queryWords(q.Error)) == 0 {
		return &RunMatches{}, nil // only punctuation
	}
	since := micros(q.Since)
	scan := &scan[*RunMatch]{
		limit: q.Limit,
		match: func(batch []*Row) ([]*RunMatch, error) { return l.matchRuns(ctx, q, batch) },
		stop:  func(r *Row) bool { return r.Created.Before(since) },
	}
	err := scan.run(ctx, l.b, q.query(), nil)
	return &RunMatches{scan.found, scan.next, scan.read}, err
}

// matchRuns returns an element per row, which is nil if the run does not match.
func (l *Ledger) matchRuns(ctx context.Context, q *RunSearch, rows []*Row) ([]*RunMatch, error) {
	out := make([]*RunMatch, len(rows))
	var of []*Row // the threads of the runs, as rows with their IDs
	for i, r := range rows {
		run, err := decodeRun(r)
		if err != nil {
			return nil, err
		}
		if run.Temporary || len(q.Status) > 0 && !slices.Contains(q.Status, run.Status) {
			continue
		}
		out[i] = &RunMatch{Run: run}
		of = append(of, &Row{ID: run.Thread})
	}
	threads, texts, latest := map[uuid.UUID]*Row{}, map[uuid.UUID]*Row{}, map[uuid.UUID]uuid.UUID{}
	if err := l.rowsOf(ctx, Threads, of, threads); err != nil {
		return nil, err
	}
	if err := l.rowsOf(ctx, Texts, of, texts); err != nil {
		return nil, err
	}
	for i, m := range out {
		if m == nil {
			continue
		}
		row := threads[m.Thread]
		if row == nil {
			out[i] = nil // deleted in the meantime
			continue
		}
		d, err := decodeThread(row)
		if err != nil {
			return nil, err
		}
		text, err := decodeText(texts[m.Thread])
		if err != nil {
			return nil, err
		}
		if q.ThreadStatus != "" && d.Thread.Status != q.ThreadStatus || !q.Filter.Match(d.Metadata) {
			out[i] = nil
			continue
		}
		if m.Latest, err = l.isLatest(ctx, m.Run, latest); err != nil {
			return nil, err
		}
		m.Status, m.Title = d.Thread.Status, text.Title
		if m.Status == Interrupted {
			questions, err := d.Thread.Questions()
			if err != nil {
				return nil, err
			}
			m.Asks = questions > 0
		}
	}
	return out, nil
}

// isLatest reports whether a run is the newest of its thread. latest caches the newest runs by thread.
func (l *Ledger) isLatest(ctx context.Context, run *Run, latest map[uuid.UUID]uuid.UUID) (bool, error) {
	if _, ok := latest[run.Thread]; !ok {
		for r, err := range l.b.Find(ctx, &Query{Kind: Runs, Parent: run.Thread, Limit: 1}) {
			if err != nil {
				return false, err
			}
			latest[run.Thread] = r.ID
		}
	}
	return latest[run.Thread] == run.ID, nil
}

// Questions returns the number of interrupts that wait for an answer, not for a time or a signal.
func (t *Thread) Questions() (int, error) {
	var byTask map[string][]struct {
		Kind string `json:"kind"`
	}
	if len(t.Interrupts) == 0 {
		return 0, nil
	}
	if err := json.Unmarshal(t.Interrupts, &byTask); err != nil {
		return 0, fmt.Errorf("ledger: decode interrupts of thread %s: %w", t.ID, err)
	}
	n := 0
	for _, pending := range byTask {
		for _, i := range pending {
			if i.Kind == "" {
				n++
			}
		}
	}
	return n, nil
}
