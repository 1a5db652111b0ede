package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// textSearch is the body of a search of threads by text.
type textSearch struct {
	Text     string        `json:"text"`
	IDs      []string      `json:"ids"`
	Graph    string        `json:"graph_id"`
	Status   string        `json:"status"`
	Metadata ledger.Object `json:"metadata"`
	Limit    *int          `json:"limit"`
	Cursor   string        `json:"cursor"`
}

// textMatches is a page of the threads that a search has found.
type textMatches struct {
	Threads []*ledger.ThreadMatch `json:"threads"`
	Next    *string               `json:"next_cursor"`
	Pending int                   `json:"pending"` // threads whose last change is not indexed yet
	Text    bool                  `json:"text"`    // false if only names are indexed
}

const (
	// maxSearchText is the maximum size of the text of a search in bytes.
	maxSearchText = 1000
	// maxSearchIDs is the maximum number of IDs in a search.
	maxSearchIDs = 100
	// maxPendingTexts is the maximum of textMatches.Pending.
	maxPendingTexts = 1000
)

// threadStatuses and runStatuses list the values that searches accept.
var (
	threadStatuses = []ledger.ThreadStatus{ledger.Idle, ledger.Busy, ledger.Interrupted, ledger.Failed}
	runStatuses    = []ledger.RunStatus{ledger.Pending, ledger.Running, ledger.Success, ledger.Error, ledger.TimedOut, ledger.RunCanceled}
)

// searchPage checks the limit and the cursor of a search.
func searchPage(limit *int, cursor string) (int, *ledger.Position, error) {
	n := 20
	if limit != nil {
		n = *limit
	}
	if n < 1 || n > 100 {
		return 0, nil, invalid("limit", "want a number from 1 to 100, not %d", n)
	}
	after, err := parseCursor(cursor)
	return n, after, err
}

// searchText finds threads by the words of their titles, inputs, and states.
func (s threadAPI) searchText(c *call) error {
	var b textSearch
	if err := c.decode(&b); err != nil {
		return err
	}
	limit, after, err := searchPage(b.Limit, b.Cursor)
	if err != nil {
		return err
	}
	if b.Status != "" && !slices.Contains(threadStatuses, ledger.ThreadStatus(b.Status)) {
		return invalid("status", "want one of %v, not %q", threadStatuses, b.Status)
	}
	if len(b.Text) > maxSearchText {
		return invalid("text", "want at most %d bytes, not %d", maxSearchText, len(b.Text))
	}
	value := map[string]any{"metadata": map[string]any(orObject(b.Metadata)), "status": b.Status}
	f, err := c.allow(value)
	if err != nil {
		return err
	}
	q := &ledger.ThreadSearch{Filter: searchFilter(value, b.Metadata, f), Text: strings.TrimSpace(b.Text), Status: ledger.ThreadStatus(b.Status), After: after, Limit: limit}
	if b.Graph != "" {
		contains := ledger.Object{"graph_id": b.Graph}
		for k, v := range q.Contains {
			if _, ok := contains[k]; !ok {
				contains[k] = v
			}
		}
		q.Contains = contains
	}
	if len(b.IDs) > maxSearchIDs {
		return invalid("ids", "want at most %d, not %d", maxSearchIDs, len(b.IDs))
	}
	for i, text := range b.IDs {
		id, err := parseID(fmt.Sprintf("ids[%d]", i), text)
		if err != nil {
			return err
		}
		q.IDs = append(q.IDs, id)
	}
	found, err := s.ledger.SearchThreads(c.r.Context(), q)
	if err != nil {
		return err
	}
	pending, err := s.ledger.CountUnindexed(c.r.Context(), maxPendingTexts)
	if err != nil {
		return err
	}
	for _, t := range found.Threads {
		t.TTL = nil
	}
	if found.Threads == nil {
		found.Threads = []*ledger.ThreadMatch{}
	}
	return c.json(http.StatusOK, textMatches{found.Threads, cursorOf(found.Next), pending, !s.texts.NamesOnly})
}

// runSearch is the body of a search of runs.
type runSearch struct {
	Status    statusList `json:"status"`
	Graph     string     `json:"graph_id"`
	Assistant string     `json:"assistant_id"`
	Thread    string     `json:"thread_id"`
	Of        string     `json:"thread_status"`
	Since     string     `json:"since"`
	Until     string     `json:"until"`
	Error     string     `json:"error"`
	Limit     *int       `json:"limit"`
	Cursor    string     `json:"cursor"`
}

// statusList is a list of statuses. A single status may be a string.
type statusList []string

// UnmarshalJSON also accepts a string.
func (l *statusList) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*l = statusList{""}
		return json.Unmarshal(raw, &(*l)[0])
	}
	return json.Unmarshal(raw, (*[]string)(l))
}

// runMatch is a run that a search has found.
type runMatch struct {
	ID        uuid.UUID        `json:"run_id"`
	Thread    uuid.UUID        `json:"thread_id"`
	Assistant uuid.UUID        `json:"assistant_id"`
	Graph     string           `json:"graph_id"`
	Status    ledger.RunStatus `json:"status"`
	Created   time.Time        `json:"created_at"`
	Updated   time.Time        `json:"updated_at"`
	Started   *time.Time       `json:"started_at"`
	Ended     *time.Time       `json:"ended_at"`
	Attempt   int              `json:"attempt"`
	Metadata  ledger.Object    `json:"metadata"`
	Strategy  ledger.Strategy  `json:"multitask_strategy"`
	Error     *ledger.Failure  `json:"error"`
	Latest    bool             `json:"latest"` // whether no run of the thread is newer
	Of        runThread        `json:"thread"`
}

// runThread describes the thread of a run that a search has found.
type runThread struct {
	Title  string              `json:"title"`
	Status ledger.ThreadStatus `json:"status"`
	Asks   bool                `json:"needs_answer"` // whether an interrupt waits for an answer
}

// runPage is a page of the runs that a search has found.
type runPage struct {
	Runs []runMatch `json:"runs"`
	Next *string    `json:"next_cursor"`
}

// query checks the body and converts it.
func (b *runSearch) query() (*ledger.RunSearch, error) {
	q := &ledger.RunSearch{Graph: b.Graph, Error: b.Error}
	var err error
	if q.Limit, q.After, err = searchPage(b.Limit, b.Cursor); err != nil {
		return nil, err
	}
	for _, status := range b.Status {
		if !slices.Contains(runStatuses, ledger.RunStatus(status)) {
			return nil, invalid("status", "want any of %v, not %q", runStatuses, status)
		}
		q.Status = append(q.Status, ledger.RunStatus(status))
	}
	if b.Thread != "" {
		if q.Thread, err = parseID("thread_id", b.Thread); err != nil {
			return nil, err
		}
	}
	if q.ThreadStatus = ledger.ThreadStatus(b.Of); b.Of != "" && !slices.Contains(threadStatuses, q.ThreadStatus) {
		return nil, invalid("thread_status", "want one of %v, not %q", threadStatuses, b.Of)
	}
	if len(b.Error) > maxSearchText {
		return nil, invalid("error", "want at most %d bytes, not %d", maxSearchText, len(b.Error))
	}
	if q.Since, err = searchTime("since", b.Since); err != nil {
		return nil, err
	}
	q.Until, err = searchTime("until", b.Until)
	return q, err
}

// searchTime parses a time in a search. It returns the zero time for "".
func searchTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, invalid(field, "%q is not a time such as 2026-01-31T12:00:00Z", text)
	}
	return t, nil
}

// search finds runs of all threads.
func (s runAPI) search(c *call) error {
	var b runSearch
	if err := c.decode(&b); err != nil {
		return err
	}
	q, err := b.query()
	if err != nil {
		return err
	}
	if b.Assistant != "" {
		// A client may name a graph in place of its default assistant, as when it creates a run.
		if q.Assistant, err = uuid.Parse(b.Assistant); err != nil {
			q.Assistant = defaultAssistantID(b.Assistant)
		}
	}
	f, err := c.allow(map[string]any{"thread_id": b.Thread, "status": []string(b.Status)})
	if err != nil {
		return err
	}
	if f != nil {
		q.Filter = *f
	}
	found, err := s.ledger.SearchRuns(c.r.Context(), q)
	if err != nil {
		return err
	}
	page := runPage{Runs: []runMatch{}, Next: cursorOf(found.Next)}
	for _, r := range found.Runs {
		page.Runs = append(page.Runs, runMatch{r.ID, r.Thread, r.Assistant, r.Graph, r.Run.Status, r.Created, r.Updated, timeOrNil(r.Started), timeOrNil(r.Ended),
			r.Attempt, orObject(r.Metadata), r.Strategy, r.Failure, r.Latest, runThread{r.Title, r.Status, r.Asks}})
	}
	return c.json(http.StatusOK, page)
}

// timeOrNil returns nil for the zero time.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
