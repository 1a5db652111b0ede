package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/words"
)

// The words of a thread are the terms of a row of kind Texts: hashes of stems. No text is stored
// but the title. The row is derived from the thread's state, which only the process that has the
// graph can read, so a change to the thread stores a row of kind Unindexed in its transaction,
// and the process that sees it calls IndexThread.

const (
	// maxTextTerms is the maximum number of different words of a thread that are indexed.
	maxTextTerms = 4096
	// maxPrefix is the maximum length of prefixes of words in a title, in characters.
	maxPrefix = 24
	// maxQueryWords is the maximum number of words in a query; the rest is ignored.
	maxQueryWords = 16
	// maxTitle is the maximum size of a title in bytes.
	maxTitle = 512
	// textGrace is the time that other processes leave a thread to the process that changed it.
	textGrace = 10 * time.Second
	// textRetry is the wait after a failure to index a thread.
	textRetry = time.Minute
)

// ThreadText is the text of a thread.
type ThreadText struct {
	Title string
	Texts []string // the most important first
	// Partial means that Texts lacks some of the thread's text.
	Partial bool
}

// textDoc is the document of a row of kind Texts.
type textDoc struct {
	Title   string `json:"title,omitempty"`
	Partial bool   `json:"partial,omitempty"`
}

func textTerm(word string) uint64 { return term("text", words.Stem(word)) }

// textTerms returns the terms of a thread's text. It reports false if there are too many.
func (t *ThreadText) textTerms() (terms []uint64, all bool) {
	set := map[uint64]bool{}
	add := func(n uint64) bool {
		if !set[n] && len(set) < maxTextTerms {
			set[n] = true
			terms = append(terms, n)
		}
		return set[n]
	}
	all = true
	words.Each(t.Title, func(w string) {
		n := 0
		for i, r := range w {
			n++
			if n >= 2 && n <= maxPrefix {
				add(textTerm(w[:i+utf8.RuneLen(r)]))
			}
		}
		add(textTerm(w))
	})
	for _, text := range t.Texts {
		words.Each(text, func(w string) { all = add(textTerm(w)) && all })
		if !all {
			break
		}
	}
	return terms, all
}

// queryWords returns the words of a query, without duplicates.
func queryWords(text string) []string {
	var all []string
	seen := map[string]bool{}
	words.Each(text, func(w string) {
		if !seen[w] && len(all) < maxQueryWords {
			seen[w] = true
			all = append(all, w)
		}
	})
	return all
}

// inTitle reports whether all words of a query are words, or prefixes of words, of a title.
func inTitle(query []string, title string) bool {
	t := ThreadText{Title: title}
	terms, _ := t.textTerms()
	have := map[uint64]bool{}
	for _, n := range terms {
		have[n] = true
	}
	for _, w := range query {
		if !have[textTerm(w)] {
			return false
		}
	}
	return true
}

// A textMark is what this process knows about the row of kind Unindexed of a thread. While
// the row exists and no process has started to index the thread, the end of a further run need not
// store it again: what is indexed of a run is stored before its end.
type textMark struct {
	at        time.Time
	committed bool
}

// textMarks are the marks of this process.
type textMarks struct {
	mu  sync.Mutex
	all map[uuid.UUID]*textMark
}

const (
	// markAge is the lifetime of a mark. Other processes index a thread only when its
	// mark is older, and may delete the mark then.
	markAge = textGrace / 2
	// maxMarks limits the marks in memory.
	maxMarks = 10_000
)

// set replaces the mark of a thread by one that is not committed yet.
func (m *textMarks) set(thread uuid.UUID) *textMark {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= maxMarks {
		m.all = map[uuid.UUID]*textMark{}
	}
	mark := &textMark{at: time.Now()}
	m.all[thread] = mark
	return mark
}

// commit confirms a mark, unless the thread has been read to be indexed in the meantime.
func (m *textMarks) commit(thread uuid.UUID, mark *textMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mark != nil && m.all[thread] == mark {
		mark.committed = true
	}
}

// drop removes the mark of a thread. It runs before the thread is read for indexing.
func (m *textMarks) drop(thread uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, thread)
}

// stored reports whether the mark of a thread is stored and no process has started to index it.
func (m *textMarks) stored(thread uuid.UUID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark := m.all[thread]
	return mark != nil && mark.committed && time.Since(mark.at) < markAge
}

// markText stores that the text of a thread has changed. The caller passes the result to
// textChanged after the commit.
func (l *Ledger) markText(tx Tx, thread uuid.UUID) (*textMark, error) {
	if l.o.TextChanged == nil {
		return nil, nil
	}
	version := uuid.New()
	return l.marks.set(thread), tx.Put(&Row{Kind: Unindexed, ID: thread, Created: tx.Now(), Due: tx.Now().Add(textGrace), Doc: version[:]})
}

// markEnd is like markText, for the end of a run.
func (l *Ledger) markEnd(tx Tx, thread uuid.UUID) (*textMark, error) {
	if l.marks.stored(thread) {
		return nil, nil
	}
	return l.markText(tx, thread)
}

// textChanged calls Options.TextChanged.
func (l *Ledger) textChanged(thread uuid.UUID, mark *textMark) {
	if l.o.TextChanged != nil {
		l.marks.commit(thread, mark)
		l.o.TextChanged(thread)
	}
}

// UnindexedText is a thread whose text has changed since it was indexed.
type UnindexedText struct {
	Thread  uuid.UUID
	Since   time.Time
	version string
}

// UnindexedThread returns a thread whose text has changed, or nil if it has not.
func (l *Ledger) UnindexedThread(ctx context.Context, thread uuid.UUID) (*UnindexedText, error) {
	l.marks.drop(thread)
	r, err := l.b.Get(ctx, Unindexed, thread)
	if r == nil || err != nil {
		return nil, err
	}
	return &UnindexedText{thread, r.Created, string(r.Doc)}, nil
}

// UnindexedThreads returns threads whose text has changed a while ago, and that no process has
// indexed since.
func (l *Ledger) UnindexedThreads(ctx context.Context, limit int) (all []*UnindexedText, err error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	for r, err := range l.b.Find(ctx, &Query{Kind: Unindexed, DueBy: now, Order: DueFirst, Limit: limit}) {
		if err != nil {
			return nil, err
		}
		l.marks.drop(r.ID)
		all = append(all, &UnindexedText{r.ID, r.Created, string(r.Doc)})
	}
	return all, nil
}

// CountUnindexed returns the number of threads whose text has changed since it was indexed, at
// most limit.
func (l *Ledger) CountUnindexed(ctx context.Context, limit int) (n int, err error) {
	for _, err := range l.b.Find(ctx, &Query{Kind: Unindexed, Order: DueFirst, Limit: limit}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// IndexThread stores the words of a thread's text, which must have been read after u. If the
// text has changed since, the thread stays unindexed. Without a text, IndexThread only makes
// another attempt due later.
func (l *Ledger) IndexThread(ctx context.Context, u *UnindexedText, t *ThreadText) error {
	var doc []byte
	var terms []uint64
	if t != nil { // before the transaction, because splitting a long text takes time
		var all bool
		var err error
		title := strings.ToValidUTF8(t.Title[:min(len(t.Title), maxTitle)], "")
		terms, all = (&ThreadText{Title: title, Texts: t.Texts}).textTerms()
		if doc, err = json.Marshal(textDoc{title, t.Partial || !all}); err != nil {
			return fmt.Errorf("ledger: encode text of thread %s: %w", u.Thread, err)
		}
	}
	return l.b.Update(ctx, u.Thread, func(tx Tx) error {
		mark, err := tx.Get(Unindexed, u.Thread)
		if err != nil || mark == nil {
			return err
		}
		if t == nil {
			mark.Due = tx.Now().Add(textRetry)
			return tx.Put(mark)
		}
		r, err := tx.Get(Threads, u.Thread)
		if err != nil {
			return err
		}
		if string(mark.Doc) == u.version || r == nil {
			if err := tx.Delete(Unindexed, u.Thread); err != nil {
				return err
			}
		}
		if r == nil {
			return nil // deleted with its text
		}
		d, err := decodeThread(r)
		if err != nil {
			return err
		}
		// The terms of the metadata let a query select by both.
		return tx.Put(&Row{Kind: Texts, ID: r.ID, Created: r.Created, Terms: metadataTerms(slices.Clip(terms), d.Metadata), Doc: doc})
	})
}

// decodeText decodes the document of a row of kind Texts, which may be nil.
func decodeText(r *Row) (d textDoc, err error) {
	if r == nil {
		return d, nil
	}
	if err := json.Unmarshal(r.Doc, &d); err != nil {
		return d, fmt.Errorf("ledger: decode text of thread %s: %w", r.ID, err)
	}
	return d, nil
}
