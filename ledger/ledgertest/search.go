package ledgertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// searches test the ledger's searches and spans, whose rows are more, and larger, than others.
var searches = []test{
	{"spans of a run", func(f *fixture) { newSearching(f).testSpans() }},
	{"spans are deleted with their run", func(f *fixture) { newSearching(f).testSpansEnd() }},
	{"threads by text", func(f *fixture) { newSearching(f).testText() }},
	{"threads by text in pages", func(f *fixture) { newSearching(f).testTextPages() }},
	{"threads by text among many", func(f *fixture) { newSearching(f).testManyTexts() }},
	{"texts are up to date", func(f *fixture) { newSearching(f).testTextChanges() }},
	{"runs of all threads", func(f *fixture) { newSearching(f).testRuns() }},
}

// searching is a ledger on the tested backend.
type searching struct {
	*fixture
	l      *ledger.Ledger
	worker uuid.UUID
}

func newSearching(f *fixture) *searching {
	s := &searching{f, ledger.New(f.Backend, &ledger.Options{TextChanged: func(uuid.UUID) {}}), uuid.New()}
	_, err := s.l.Beat(s.Context(), s.worker, "test")
	s.must(err)
	return s
}

func (s *searching) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// thread creates a thread with a text.
func (s *searching) thread(title, text string, metadata ledger.Object) uuid.UUID {
	s.Helper()
	t := &ledger.Thread{Metadata: metadata}
	s.must(s.l.CreateThread(s.Context(), t))
	s.index(t.ID, &ledger.ThreadText{Title: title, Texts: []string{text}})
	return t.ID
}

// index indexes a thread, which must have changed.
func (s *searching) index(thread uuid.UUID, text *ledger.ThreadText) {
	s.Helper()
	u, err := s.l.UnindexedThread(s.Context(), thread)
	s.must(err)
	if u == nil {
		s.Fatal("the thread does not have to be indexed")
	}
	s.must(s.l.IndexThread(s.Context(), u, text))
}

// run creates and ends a run.
func (s *searching) run(thread uuid.UUID, graph string, status ledger.RunStatus, failure string) *ledger.Run {
	s.Helper()
	run := s.started(thread, graph)
	e := &ledger.End{Run: run, Worker: s.worker, Status: status}
	if failure != "" {
		e.Failure = &ledger.Failure{Class: "NodeError", Message: failure}
	}
	_, err := s.l.Finish(s.Context(), e)
	s.must(err)
	return run
}

// started creates a running run.
func (s *searching) started(thread uuid.UUID, graph string) *ledger.Run {
	s.Helper()
	made, err := s.l.CreateRun(s.Context(), &ledger.NewRun{Worker: s.worker, Run: &ledger.Run{Thread: thread, Graph: graph, Assistant: uuid.NewSHA1(uuid.Nil, []byte(graph))}})
	s.must(err)
	if !made.Claimed {
		s.Fatal("the run does not start")
	}
	return made.Run
}

func span(run *ledger.Run, n int) *ledger.Span {
	return &ledger.Span{
		SpanID:     fmt.Sprintf("%016x", n),
		Kind:       "tool",
		Name:       fmt.Sprint("tool ", n),
		Status:     ledger.SpanRunning,
		Thread:     run.Thread,
		Run:        run.ID,
		RunAttempt: run.Attempt,
		Started:    start.Add(time.Duration(n) * time.Second),
		HasContent: true,
		Input:      json.RawMessage(`{"n":` + fmt.Sprint(n) + `}`),
	}
}

func (s *searching) page(run *ledger.Run, q ledger.SpanQuery) *ledger.SpanPage {
	s.Helper()
	stored, err := s.l.Run(s.Context(), run.Thread, run.ID, nil)
	s.must(err)
	p, err := s.l.RunSpans(s.Context(), stored, q)
	s.must(err)
	return p
}

const spanAge = 24 * 365 * 100 * time.Hour

func (s *searching) testSpans() {
	thread := s.thread("", "", nil)
	other := s.run(thread, "g", ledger.Success, "")
	run := s.started(thread, "g")
	var all []*ledger.Span
	for n := range 30 {
		all = append(all, span(run, n))
	}
	s.must(s.l.SaveSpans(s.Context(), run, all, &ledger.SpansOmitted{Spans: 3, Bytes: 1 << 40}, spanAge))
	s.must(s.l.SaveSpans(s.Context(), other, []*ledger.Span{span(other, 1)}, nil, spanAge))
	ended := *all[7]
	ended.Status, ended.Output = ledger.SpanSuccess, json.RawMessage(`"out"`)
	s.must(s.l.SaveSpans(s.Context(), run, []*ledger.Span{&ended}, nil, spanAge))
	var ids []string
	for q := (ledger.SpanQuery{Limit: 7, Content: true}); ; {
		p := s.page(run, q)
		for _, found := range p.Spans {
			ids = append(ids, found.SpanID)
			want := ledger.SpanRunning
			if found.SpanID == ended.SpanID {
				want = ledger.SpanSuccess
				if string(found.Output) != `"out"` {
					s.Errorf("output: %s", found.Output)
				}
			}
			if found.Status != want || !strings.HasPrefix(string(found.Input), `{"n":`) {
				s.Errorf("got %+v", found)
			}
		}
		if p.Omitted != (ledger.SpansOmitted{Spans: 3, Bytes: 1 << 40}) {
			s.Errorf("omitted %+v", p.Omitted)
		}
		q.After = p.Next
		if p.Next == nil {
			break
		}
	}
	if len(ids) != 30 || !slices.IsSorted(ids) {
		s.Errorf("got %v", ids)
	}
	if p := s.page(run, ledger.SpanQuery{Content: true, Bytes: 1}); len(p.Spans) != 1 || p.Next == nil {
		s.Errorf("a page of one byte has %d spans", len(p.Spans))
	}
	if p := s.page(run, ledger.SpanQuery{}); len(p.Spans) != 30 || p.Spans[0].Input != nil {
		s.Errorf("got %d spans", len(p.Spans))
	}
	if p := s.page(other, ledger.SpanQuery{}); len(p.Spans) != 1 || p.Spans[0].Status != ledger.SpanUnfinished {
		s.Errorf("other run: %+v", p)
	}
}

func (s *searching) testSpansEnd() {
	count := func() (n int) {
		return len(s.find(&ledger.Query{Kind: ledger.Spans, Order: ledger.DueFirst}))
	}
	var runs []*ledger.Run
	for n := range 4 {
		run := s.started(s.thread("", "", nil), "g")
		age := spanAge
		if n == 3 {
			age = -spanAge
		}
		s.must(s.l.SaveSpans(s.Context(), run, []*ledger.Span{span(run, 1), span(run, 2)}, &ledger.SpansOmitted{Spans: 1}, age))
		runs = append(runs, run)
	}
	check := func(what string, want int) {
		s.Helper()
		if n := count(); n != want {
			s.Errorf("%s: %d rows are left, want %d", what, n, want)
		}
	}
	check("before", 12)
	if c, err := s.l.Contents(s.Context(), runs[1].Thread); err != nil || c.Spans != 3 {
		s.Errorf("contents: %+v, %v", c, err)
	}
	_, err := s.l.Finish(s.Context(), &ledger.End{Run: runs[0], Worker: s.worker, Status: ledger.RunCanceled, Delete: true})
	s.must(err)
	check("after a rollback", 9)
	_, err = s.l.DeleteThread(s.Context(), runs[1].Thread, nil)
	s.must(err)
	check("after the thread was deleted", 6)
	for _, run := range runs[:2] { // a call may end after its run was deleted
		s.must(s.l.SaveSpans(s.Context(), run, []*ledger.Span{span(run, 1)}, nil, spanAge))
	}
	check("after a late span", 6)
	n, err := s.l.ExpireSpans(s.Context(), 2)
	s.must(err)
	if n != 2 {
		s.Errorf("expired %d spans", n)
	}
	_, err = s.l.ExpireSpans(s.Context(), 10)
	s.must(err)
	check("after spans expired", 3)
	if _, err := s.l.RunSpan(s.Context(), runs[2], "00000000000000ff"); !errors.Is(err, ledger.ErrNotFound) {
		s.Errorf("unknown span: %v", err)
	}
	if got, err := s.l.RunSpan(s.Context(), runs[2], span(runs[2], 2).SpanID); err != nil || got.Name != "tool 2" || string(got.Input) != `{"n":2}` {
		s.Errorf("got %+v, %v", got, err)
	}
}

// matches returns the titles of the threads that a search finds, as words.
func (s *searching) matches(q ledger.ThreadSearch) string {
	s.Helper()
	found, err := s.l.SearchThreads(s.Context(), &q)
	s.must(err)
	var titles []string
	for _, t := range found.Threads {
		titles = append(titles, t.Title+" ("+t.Matched+")")
	}
	return strings.Join(titles, ", ")
}

func (s *searching) testText() {
	many := ledger.Object{"owner": "eve"}
	for n := range 100 {
		many[fmt.Sprint(n)] = n
	}
	s.thread("Refund for Berlin", "I was charged twice", ledger.Object{"owner": "ann"})
	s.thread("Crème brûlée", "the recipes say 3 eggs, refunds excluded", ledger.Object{"owner": "bob"})
	s.thread("Many", "twice charged", many)
	asleep := s.thread("Trip", "charge me twice for Berlin", ledger.Object{"owner": "ann", "graph_id": "agent"})
	_, err := s.l.PatchThread(s.Context(), asleep, nil, false, func(t *ledger.Thread) error {
		t.Status = ledger.Interrupted
		return nil
	})
	s.must(err)
	owner := func(name string) ledger.Filter {
		return ledger.Filter{Auth: []ledger.Condition{{Key: "owner", Values: []any{name}}}}
	}
	for _, c := range []struct {
		q    ledger.ThreadSearch
		want string
	}{
		{ledger.ThreadSearch{Text: "refund"}, "Crème brûlée (text), Refund for Berlin (title)"},
		{ledger.ThreadSearch{Text: "REFUNDS"}, "Crème brûlée (text), Refund for Berlin (title)"},
		{ledger.ThreadSearch{Text: "ref"}, "Refund for Berlin (title)"},
		{ledger.ThreadSearch{Text: "berlin ref"}, "Refund for Berlin (title)"},
		{ledger.ThreadSearch{Text: "eg"}, ""},
		{ledger.ThreadSearch{Text: "creme brul"}, "Crème brûlée (title)"},
		{ledger.ThreadSearch{Text: "twice berlin"}, "Trip (text), Refund for Berlin (text)"},
		{ledger.ThreadSearch{Text: "twice berlin", Status: ledger.Interrupted}, "Trip (text)"},
		{ledger.ThreadSearch{Text: "charged", Filter: owner("ann")}, "Trip (text), Refund for Berlin (text)"},
		{ledger.ThreadSearch{Text: "charged", Filter: owner("eve")}, "Many (text)"},
		{ledger.ThreadSearch{Text: "charged", Filter: owner("bob")}, ""},
		{ledger.ThreadSearch{Text: "charged", Filter: ledger.Filter{Contains: ledger.Object{"graph_id": "agent"}}}, "Trip (text)"},
		{ledger.ThreadSearch{Text: "nowhere"}, ""},
		{ledger.ThreadSearch{Text: "?!"}, ""},
		{ledger.ThreadSearch{Filter: owner("ann")}, "Trip (), Refund for Berlin ()"},
		{ledger.ThreadSearch{Status: ledger.Interrupted}, "Trip ()"},
		{ledger.ThreadSearch{IDs: []uuid.UUID{asleep, uuid.New()}}, "Trip ()"},
		{ledger.ThreadSearch{IDs: []uuid.UUID{asleep}, Text: "berlin"}, "Trip (text)"},
		{ledger.ThreadSearch{IDs: []uuid.UUID{asleep}, Text: "eggs"}, ""},
		{ledger.ThreadSearch{IDs: []uuid.UUID{asleep}, Filter: owner("bob")}, ""},
		{ledger.ThreadSearch{IDs: []uuid.UUID{}}, ""},
	} {
		if got := s.matches(c.q); got != c.want {
			s.Errorf("%+v: got %q, want %q", c.q, got, c.want)
		}
	}
}

// testTextPages checks that a search reads only the rows of the rarest word.
func (s *searching) testTextPages() {
	want := map[string]bool{}
	for n := range 60 {
		text, title := "the common words of every thread", fmt.Sprint("t", n)
		if n%10 == 0 {
			text += " rare"
			want[title] = true
		}
		s.thread(title, text, ledger.Object{"owner": fmt.Sprint(n % 3)})
	}
	got := map[string]bool{}
	read := 0
	for q := (ledger.ThreadSearch{Text: "common rare words", Limit: 4}); ; {
		found, err := s.l.SearchThreads(s.Context(), &q)
		s.must(err)
		for _, t := range found.Threads {
			if got[t.Title] {
				s.Errorf("%s is on two pages", t.Title)
			}
			got[t.Title] = true
		}
		read += found.Read
		s.thread("inserted", "common rare words", nil) // newer than the page, so it appears on none
		q.After = found.Next
		if found.Next == nil {
			break
		}
	}
	if len(got) != 6 || !got["t0"] || !got["t50"] || got["inserted"] {
		s.Errorf("found %v", got)
	}
	if read > 12 {
		s.Errorf("read %d candidates for 6 threads", read)
	}
	found, err := s.l.SearchThreads(s.Context(), &ledger.ThreadSearch{Text: "common", Limit: 10, Filter: ledger.Filter{Contains: ledger.Object{"owner": "1"}}})
	s.must(err)
	if len(found.Threads) != 10 || found.Read > 22 {
		s.Errorf("found %d threads of an owner and read %d candidates", len(found.Threads), found.Read)
	}
}

// testManyTexts checks that the number of rows that a search reads depends on the rarest word and
// the page, not on the number of threads.
func (s *searching) testManyTexts() {
	n := 100
	if os.Getenv("TREADLE_SOAK") != "" {
		n = 10_000
	}
	fillTexts(s.T, s.l, n)
	owner := ledger.Filter{Auth: []ledger.Condition{{Key: "owner", Values: []any{"7"}}}}
	for _, c := range []struct {
		q           ledger.ThreadSearch
		found, read int
	}{
		{ledger.ThreadSearch{Text: "needle"}, 10, 10},
		{ledger.ThreadSearch{Text: "refund needle order customer"}, 10, 10},
		{ledger.ThreadSearch{Text: "refund order"}, 20, 42},
		{ledger.ThreadSearch{Text: "thr"}, 20, 42},
		{ledger.ThreadSearch{Text: "nowhere refund"}, 0, 0},
		{ledger.ThreadSearch{Text: "refund", Filter: owner}, min(20, n/50), 42},
	} {
		began := time.Now()
		got, err := s.l.SearchThreads(s.Context(), &c.q)
		took := time.Since(began)
		s.must(err)
		s.Logf("%q among %d threads: %d found, %d read, %v", c.q.Text, n, len(got.Threads), got.Read, took)
		if len(got.Threads) != c.found || got.Read > c.read {
			s.Errorf("%q: found %d threads and read %d candidates, want %d and at most %d", c.q.Text, len(got.Threads), got.Read, c.found, c.read)
		}
	}
}

func (s *searching) testTextChanges() {
	id := s.thread("Old", "apples", nil)
	patch := func() {
		_, err := s.l.PatchThread(s.Context(), id, nil, false, func(*ledger.Thread) error { return nil })
		s.must(err)
	}
	patch()
	if n, err := s.l.CountUnindexed(s.Context(), 10); n != 1 || err != nil {
		s.Errorf("%d threads to index, %v", n, err)
	}
	stale, err := s.l.UnindexedThread(s.Context(), id)
	s.must(err)
	patch() // after the text was read
	s.must(s.l.IndexThread(s.Context(), stale, &ledger.ThreadText{Title: "Stale", Texts: []string{"pears"}}))
	if n, err := s.l.CountUnindexed(s.Context(), 10); n != 1 || err != nil {
		s.Errorf("%d threads to index after a stale text, %v", n, err)
	}
	s.index(id, &ledger.ThreadText{Title: "New", Texts: []string{strings.Repeat("pears ", 10), "plums"}})
	for text, want := range map[string]string{"apples": "", "old": "", "stale": "", "pears": "New (text)", "new": "New (title)"} {
		if got := s.matches(ledger.ThreadSearch{Text: text}); got != want {
			s.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if left, err := s.l.UnindexedThreads(s.Context(), 10); len(left) != 0 || err != nil {
		s.Errorf("%v is left to index, %v", left, err)
	}
	var large strings.Builder
	for n := range 10_000 {
		fmt.Fprintf(&large, "word%d ", n)
	}
	patch()
	s.index(id, &ledger.ThreadText{Title: "Large", Texts: []string{large.String()}})
	found, err := s.l.SearchThreads(s.Context(), &ledger.ThreadSearch{Text: "word17"})
	s.must(err)
	if len(found.Threads) != 1 || !found.Threads[0].Partial {
		s.Errorf("large text: %+v", found)
	}
	if got := s.matches(ledger.ThreadSearch{Text: "word9999"}); got != "" {
		s.Errorf("found %q by the last word", got)
	}
	s.run(id, "g", ledger.Success, "")
	_, err = s.l.DeleteThread(s.Context(), id, nil)
	s.must(err)
	for _, kind := range []ledger.Kind{ledger.Texts, ledger.Unindexed} {
		if r := s.get(kind, id); r != nil {
			s.Errorf("the deleted thread has %+v", r)
		}
	}
	if got := s.matches(ledger.ThreadSearch{Text: "word17"}); got != "" {
		s.Errorf("found the deleted thread %q", got)
	}
}

func (s *searching) testRuns() {
	ann, bob := s.thread("Trip", "", ledger.Object{"owner": "ann"}), s.thread("", "", ledger.Object{"owner": "bob"})
	names := map[uuid.UUID]string{}
	var made []*ledger.Run
	add := func(name string, run *ledger.Run) {
		names[run.ID] = name
		made = append(made, run)
	}
	add("a", s.run(ann, "one", ledger.Success, ""))
	add("b", s.run(ann, "two", ledger.Error, "rate limit exceeded by gpt-4o"))
	add("c", s.run(bob, "one", ledger.Error, "limits of memory exceeded"))
	add("d", s.run(bob, "two", ledger.TimedOut, "took too long"))
	add("e", s.run(bob, "one", ledger.Success, ""))
	add("f", s.started(ann, "one"))
	search := func(q ledger.RunSearch) string {
		s.Helper()
		var out []string
		for {
			found, err := s.l.SearchRuns(s.Context(), &q)
			s.must(err)
			for _, r := range found.Runs {
				out = append(out, names[r.ID])
				if latest := r.ID == made[4].ID || r.ID == made[5].ID; r.Latest != latest {
					s.Errorf("run %s: latest is %v, want %v", names[r.ID], r.Latest, latest)
				}
				if title := map[uuid.UUID]string{ann: "Trip", bob: ""}[r.Thread]; r.Title != title {
					s.Errorf("title %q, want %q", r.Title, title)
				}
			}
			q.After = found.Next
			if found.Next == nil {
				return strings.Join(out, "")
			}
		}
	}
	status := func(all ...ledger.RunStatus) []ledger.RunStatus { return all }
	for _, c := range []struct {
		q    ledger.RunSearch
		want string
	}{
		{ledger.RunSearch{}, "fedcba"},
		{ledger.RunSearch{Limit: 1}, "fedcba"},
		{ledger.RunSearch{Limit: 2, Graph: "one"}, "feca"},
		{ledger.RunSearch{Assistant: made[1].Assistant}, "db"},
		{ledger.RunSearch{Thread: ann}, "fba"},
		{ledger.RunSearch{Status: status(ledger.Error)}, "cb"},
		{ledger.RunSearch{Status: status(ledger.Error, ledger.TimedOut), Limit: 1}, "dcb"},
		{ledger.RunSearch{Status: status(ledger.Success)}, "ea"},
		{ledger.RunSearch{Status: status(ledger.Running)}, "f"},
		{ledger.RunSearch{Status: status(ledger.Running, ledger.Error)}, "fcb"},
		{ledger.RunSearch{Status: status(ledger.Error), Graph: "one"}, "c"},
		{ledger.RunSearch{Error: "exceeded limit"}, "cb"},
		{ledger.RunSearch{Error: "rate Limits"}, "b"},
		{ledger.RunSearch{Error: "NodeError", Graph: "two"}, "db"},
		{ledger.RunSearch{Error: "..."}, ""},
		{ledger.RunSearch{Since: made[2].Created, Until: made[4].Created}, "dc"},
		{ledger.RunSearch{Until: made[2].Created, Limit: 1}, "ba"},
		{ledger.RunSearch{Filter: ledger.Filter{Contains: ledger.Object{"owner": "bob"}}}, "edc"},
	} {
		if got := search(c.q); got != c.want {
			s.Errorf("%+v: got %q, want %q", c.q, got, c.want)
		}
	}
	// A search by the status of threads reports which of them wait for an answer.
	asks := func(interrupts string) string {
		s.Helper()
		_, err := s.l.PatchThread(s.Context(), bob, nil, false, func(t *ledger.Thread) error {
			t.Status, t.Interrupts = ledger.Interrupted, json.RawMessage(interrupts)
			return nil
		})
		s.must(err)
		found, err := s.l.SearchRuns(s.Context(), &ledger.RunSearch{ThreadStatus: ledger.Interrupted})
		s.must(err)
		var out []string
		for _, r := range found.Runs {
			out = append(out, fmt.Sprint(names[r.ID], r.Asks))
		}
		return strings.Join(out, " ")
	}
	for interrupts, want := range map[string]string{
		`{"task":[{"id":"1","value":2}]}`:                                "etrue dtrue ctrue",
		`{"task":[{"id":"1","kind":"sleep"}]}`:                           "efalse dfalse cfalse",
		`{"a":[{"id":"1","kind":"signal"}],"b":[{"id":"2","value":""}]}`: "etrue dtrue ctrue",
		`{}`: "efalse dfalse cfalse",
	} {
		if got := asks(interrupts); got != want {
			s.Errorf("interrupts %s: got %q, want %q", interrupts, got, want)
		}
	}
	_, err := s.l.DeleteThread(s.Context(), bob, nil)
	s.must(err)
	if got := search(ledger.RunSearch{}); got != "fba" {
		s.Errorf("after a thread was deleted: %q", got)
	}
}
