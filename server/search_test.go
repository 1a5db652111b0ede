package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// threadsFound is the response of a search of threads.
type threadsFound struct {
	Threads []struct {
		ID        string `json:"thread_id"`
		Title     string
		Matched   string
		Status    string
		Truncated bool
		Metadata  map[string]any
	}
	Next    *string `json:"next_cursor"`
	Pending int
	Text    bool
}

// search searches threads when all are indexed.
func (c *client) search(body string) (found threadsFound) {
	c.t.Helper()
	for began := time.Now(); ; pause(c.t) {
		c.ok("POST", "/search/threads", body, &found)
		if found.Pending == 0 {
			return found
		}
		if time.Since(began) > tooLong {
			c.t.Fatalf("%d threads are not indexed", found.Pending)
		}
	}
}

// titles returns the titles of the threads that a search finds.
func (c *client) titles(body string) string {
	c.t.Helper()
	var titles []string
	for _, t := range c.search(body).Threads {
		titles = append(titles, t.Title)
	}
	return strings.Join(titles, ", ")
}

func TestThreadsAreFoundByText(t *testing.T) {
	c := startGraphs(t, openFile(t), nil, weatherAgent(t, "weather", nil, false), weatherAgent(t, "other", nil, false))
	first, run := c.say("weather", "Is it nice in Bergen?")
	second, _ := c.say("other", "Is it nice in Turin?")
	c.ok("POST", "/threads", `{"metadata":{"thread_name":"My holidays","color":"blue"}}`, nil)
	for body, want := range map[string]string{
		`{"text":"bergen"}`:                         "Is it nice in Bergen?",
		`{"text":"NICE"}`:                           "Is it nice in Turin?, Is it nice in Bergen?",
		`{"text":"umbrella"}`:                       "Is it nice in Turin?, Is it nice in Bergen?", // a response
		`{"text":"oslo","graph_id":"other"}`:        "Is it nice in Turin?",                        // an argument of a tool
		`{"text":"holi"}`:                           "My holidays",
		`{"text":"holiday","metadata":{"color":1}}`: "",
		`{"metadata":{"color":"blue"}}`:             "My holidays",
		`{"status":"idle","graph_id":"weather"}`:    "Is it nice in Bergen?",
		`{}`:                                        "My holidays, Is it nice in Turin?, Is it nice in Bergen?",
	} {
		if got := c.titles(body); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	if got := c.search(`{"text":"bergen nice"}`); len(got.Threads) != 1 || got.Threads[0].ID != first || got.Threads[0].Matched != "title" || got.Threads[0].Status != "idle" || !got.Text {
		t.Errorf("got %+v", got)
	}
	if got := c.titles(`{"ids":["` + second + `","` + uuid.NewString() + `"]}`); got != "Is it nice in Turin?" {
		t.Errorf("by IDs: got %q", got)
	}
	var listed []struct{ Title *string }
	c.ok("POST", "/threads/search", `{"metadata":{"graph_id":"weather"},"select":["thread_id","title"]}`, &listed)
	if len(listed) != 1 || listed[0].Title == nil || *listed[0].Title != "Is it nice in Bergen?" {
		t.Errorf("title in a list: got %+v", listed)
	}
	listed = nil
	c.ok("POST", "/threads/search", `{"metadata":{"graph_id":"weather"}}`, &listed)
	if listed[0].Title != nil {
		t.Errorf("title that was not selected: %q", *listed[0].Title)
	}
	page := c.search(`{"text":"nice","limit":1}`)
	if len(page.Threads) != 1 || page.Threads[0].ID != second || page.Next == nil {
		t.Fatalf("first page: %+v", page)
	}
	if page = c.search(`{"text":"nice","limit":1,"cursor":"` + *page.Next + `"}`); len(page.Threads) != 1 || page.Threads[0].ID != first || page.Next != nil {
		t.Errorf("second page: %+v", page)
	}

	// Changes to a thread change what it is found by.
	c.ok("PATCH", "/threads/"+first, `{"metadata":{"title":"Fjords"}}`, nil)
	c.ok("POST", "/threads/"+second+"/state", `{"values":{"messages":[{"role":"user","content":"and Palermo?"}]}}`, nil)
	for text, want := range map[string]string{"fjord": "Fjords", "bergen": "Fjords", "palermo": "Is it nice in Turin?"} {
		if got := c.titles(`{"text":"` + text + `"}`); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	c.ok("DELETE", run, "", nil)
	c.ok("DELETE", "/threads/"+second, "", nil)
	for text, want := range map[string]string{"bergen": "", "fjord": "Fjords", "palermo": "", "turin": ""} {
		if got := c.titles(`{"text":"` + text + `"}`); got != want {
			t.Errorf("%s after deletions: got %q, want %q", text, got, want)
		}
	}
}

func TestSearchRejectsInvalidRequests(t *testing.T) {
	c := serve(t, nil)
	for _, path := range []string{"/search/threads", "/search/runs"} {
		for _, body := range []string{`{"limit":0}`, `{"limit":101}`, `{"cursor":"x"}`, `{"status":"gone"}`, `{"text":1,"error":1}`, `{"ids":["x"],"thread_status":"gone"}`, `{"thread_id":"x","limit":"y"}`,
			`{"text":"` + strings.Repeat("x", 1001) + `","error":"` + strings.Repeat("x", 1001) + `"}`, `{"since":"today","status":1}`} {
			if status, _, raw := c.do("POST", path, body); status != http.StatusUnprocessableEntity {
				t.Errorf("%s %s: %d %s", path, body, status, raw)
			}
		}
	}
}

func TestSearchFindsOwnThreadsOnly(t *testing.T) {
	auth := &server.Auth{Authenticate: func(r *http.Request) (*server.User, error) {
		return &server.User{Identity: r.Header.Get("X-User")}, nil
	}, On: server.OwnerRules()}
	c := startGraphs(t, openFile(t), &server.Options{Auth: auth}, weatherAgent(t, "weather", nil, false))
	for _, name := range []string{"ann", "bob"} {
		c.head.Set("X-User", name)
		c.say("weather", "secret of "+name)
	}
	for _, body := range []string{`{"text":"secret"}`, `{}`, `{"text":"umbrella"}`, `{"text":"secret","metadata":{"owner":"ann"}}`} {
		if status, _, raw := c.do("POST", "/search/threads", body); status != http.StatusOK || bytes.Contains(raw, []byte("of ann")) {
			t.Errorf("%s: %d %s", body, status, raw)
		}
	}
	if got := c.titles(`{"text":"secret"}`); got != "secret of bob" {
		t.Errorf("got %q", got)
	}
	var runs struct {
		Runs []struct{ Thread struct{ Title string } }
	}
	c.ok("POST", "/search/runs", `{}`, &runs)
	if len(runs.Runs) != 1 || runs.Runs[0].Thread.Title != "secret of bob" {
		t.Errorf("got %+v", runs)
	}
}

// No word of an encrypted thread is in an index that is not encrypted.
func TestEncryptedThreadsAreFoundByNameOnly(t *testing.T) {
	db := openFile(t)
	c := startGraphs(t, seal(t, db), nil, weatherAgent(t, "weather", nil, false))
	thread, _ := c.say("weather", "secret")
	const withTitle = `{"select":["thread_id","title"]}`
	var listed []struct{ Title *string }
	c.ok("POST", "/threads/search", withTitle, &listed)
	if len(listed) != 1 || listed[0].Title != nil {
		t.Errorf("got %+v", listed)
	}
	c.ok("PATCH", "/threads/"+thread, `{"metadata":{"title":"Public name"}}`, nil)
	if got := c.search(`{"text":"public"}`); len(got.Threads) != 1 || got.Text {
		t.Errorf("got %+v", got)
	}
	c.ok("POST", "/threads/search", withTitle, &listed)
	if listed[0].Title == nil || *listed[0].Title != "Public name" {
		t.Errorf("got %+v", listed)
	}
	for _, text := range []string{"secret", "umbrella", "oslo"} {
		if got := c.titles(`{"text":"` + text + `"}`); got != "" {
			t.Errorf("%s: found %q", text, got)
		}
	}
	for r, err := range db.Ledger().Find(t.Context(), &ledger.Query{Kind: ledger.Texts, IDs: []uuid.UUID{uuid.MustParse(thread)}}) {
		if err != nil || bytes.Contains(r.Doc, []byte("secret")) || len(r.Terms) > 20 {
			t.Errorf("stored %s with %d terms, %v", r.Doc, len(r.Terms), err)
		}
	}
	var info struct{ Treadle map[string]map[string]bool }
	c.ok("GET", "/info", "", &info)
	if indexed, ok := info.Treadle["search"]["text"]; !ok || indexed {
		t.Errorf("info: %v", info.Treadle)
	}
}

func TestRunsOfAllThreadsAreFound(t *testing.T) {
	b := treadle.New[llm.Chat]("broken")
	treadle.AddNode(b, "fail", func(_ context.Context, in llm.Chat) (treadle.Update, error) {
		return nil, errors.New("upstream refused: " + in.Messages[0].Text())
	})
	b.Sequence(treadle.Start, "fail", treadle.End)
	c := startGraphs(t, openFile(t), nil, weatherAgent(t, "weather", nil, false), treadle.Must(b.Compile(nil)))
	good, _ := c.say("weather", "Hi")
	bad, _ := c.say("broken", "no quota")
	c.say("broken", "no disk")
	c.search(`{}`)
	type found struct {
		Runs []struct {
			ID      string `json:"run_id"`
			Thread  string `json:"thread_id"`
			Graph   string `json:"graph_id"`
			Status  string
			Created time.Time  `json:"created_at"`
			Ended   *time.Time `json:"ended_at"`
			Error   *ledger.Failure
			Of      struct{ Title, Status string } `json:"thread"`
		}
		Next *string `json:"next_cursor"`
	}
	var all found
	c.ok("POST", "/search/runs", "", &all)
	if len(all.Runs) != 3 || all.Runs[2].Thread != good || all.Runs[2].Status != "success" || all.Runs[2].Error != nil || all.Runs[2].Of.Title != "Hi" || all.Runs[2].Ended == nil {
		t.Fatalf("got %+v", all)
	}
	if r := all.Runs[1]; r.Thread != bad || r.Status != "error" || r.Graph != "broken" || r.Error == nil || !strings.Contains(r.Error.Message, "no quota") || r.Of.Status != "error" {
		t.Errorf("failed run: %+v", r)
	}
	for body, want := range map[string]int{
		`{"status":"error"}`:                                               2,
		`{"status":["success","error"]}`:                                   3,
		`{"status":["running","pending"]}`:                                 0,
		`{"error":"Refused"}`:                                              2,
		`{"error":"refused quota"}`:                                        1,
		`{"graph_id":"weather"}`:                                           1,
		`{"assistant_id":"broken"}`:                                        2,
		`{"thread_id":"` + good + `"}`:                                     1,
		`{"thread_status":"idle"}`:                                         1,
		`{"since":"` + all.Runs[1].Created.Format(time.RFC3339Nano) + `"}`: 2,
		`{"until":"` + all.Runs[1].Created.Format(time.RFC3339Nano) + `"}`: 1,
	} {
		var got found
		c.ok("POST", "/search/runs", body, &got)
		if len(got.Runs) != want || got.Next != nil {
			t.Errorf("%s: got %d runs, want %d", body, len(got.Runs), want)
		}
	}
	var page found
	c.ok("POST", "/search/runs", `{"limit":2}`, &page)
	c.say("weather", "newer")
	if len(page.Runs) != 2 || page.Next == nil {
		t.Fatalf("first page: %+v", page)
	}
	next := *page.Next
	page = found{}
	c.ok("POST", "/search/runs", `{"limit":2,"cursor":"`+next+`"}`, &page)
	if len(page.Runs) != 1 || page.Runs[0].Thread != good || page.Next != nil {
		t.Errorf("second page: %+v", page)
	}
}

// A countedFile is a SQLite database that counts the threads and texts that its ledger reads.
type countedFile struct {
	*sqlite.DB
	rows countedRows
}

// Ledger implements [server.Database].
func (f *countedFile) Ledger() ledger.Backend { return &f.rows }

type countedRows struct {
	ledger.Backend
	read atomic.Int64
}

// Get implements [ledger.Backend].
func (c *countedRows) Get(ctx context.Context, kind ledger.Kind, id uuid.UUID) (*ledger.Row, error) {
	row, err := c.Backend.Get(ctx, kind, id)
	if row != nil {
		c.count(row)
	}
	return row, err
}

// Find implements [ledger.Backend].
func (c *countedRows) Find(ctx context.Context, q *ledger.Query) iter.Seq2[*ledger.Row, error] {
	return func(yield func(*ledger.Row, error) bool) {
		for row, err := range c.Backend.Find(ctx, q) {
			if err == nil {
				c.count(row)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

func (c *countedRows) count(row *ledger.Row) {
	if row.Kind == ledger.Threads || row.Kind == ledger.Texts {
		c.read.Add(1)
	}
}

// The cost of a search is the number of rows it reads, which depends on the page and the rarest
// word, not on the number of threads. The test logs times, but does not check them.
func TestTextSearchOfTenThousandThreads(t *testing.T) {
	const threads = 10_000
	db := openFile(t)
	file := &countedFile{DB: db, rows: countedRows{Backend: db.Ledger()}}
	fillThreads(t, ledger.New(db.Ledger(), &ledger.Options{TextChanged: func(uuid.UUID) {}}), threads)
	c := serveOn(t, file, &server.Options{Workers: -1})
	for _, x := range []struct {
		name, body  string
		found, read int
	}{
		{"rare word", `{"text":"needle"}`, 10, 20},
		{"common word", `{"text":"refund"}`, 20, 84},
		{"beginning of a title's word", `{"text":"thr"}`, 20, 84},
		{"common words", `{"text":"refund order customer"}`, 20, 84},
		{"rare and common words", `{"text":"refund needle order"}`, 10, 20},
		{"unknown word", `{"text":"nowhere"}`, 0, 0},
		{"threads of an owner", `{"text":"refund","metadata":{"owner":"7"}}`, 20, 84},
		{"100 threads", `{"text":"refund","limit":100}`, 100, 404},
	} {
		var took []time.Duration
		for range 20 {
			var found threadsFound
			before, began := file.rows.read.Load(), time.Now()
			c.ok("POST", "/search/threads", x.body, &found)
			took = append(took, time.Since(began))
			if read := int(file.rows.read.Load() - before); len(found.Threads) != x.found || read < x.found || read > x.read || found.Pending != 0 {
				t.Fatalf("%s: found %d threads and read %d rows, want %d and at most %d; %d threads are not indexed", x.name, len(found.Threads), read, x.found, x.read, found.Pending)
			}
		}
		slices.Sort(took)
		t.Logf("%s: %v (%v to %v)", x.name, took[len(took)/2], took[0], took[len(took)-1])
	}
}

// fillThreads creates and indexes n threads of 30 words, or with TREADLE_SOAK of 240. Ten of
// them contain the word needle.
func fillThreads(t *testing.T, l *ledger.Ledger, n int) {
	t.Helper()
	vocabulary := strings.Fields("order refund invoice shipping address payment delay customer broken replace manual account cancel upgrade berlin")
	pairs := 15
	if os.Getenv("TREADLE_SOAK") != "" {
		pairs = 120
	}
	var group sync.WaitGroup
	for worker := range 10 {
		group.Go(func() {
			for i := worker; i < n; i += 10 {
				var text strings.Builder
				for w := range pairs {
					_, _ = fmt.Fprintf(&text, "%s topic%d ", vocabulary[(i+w)%len(vocabulary)], (i*7+w*13)%997)
				}
				if i%(n/10) == 0 {
					text.WriteString("needle")
				}
				thread := &ledger.Thread{Metadata: ledger.Object{"owner": fmt.Sprint(i % 50), "graph_id": "agent"}}
				err := l.CreateThread(t.Context(), thread)
				if err != nil {
					t.Error(err)
					return
				}
				u, err := l.UnindexedThread(t.Context(), thread.ID)
				if err == nil {
					err = l.IndexThread(t.Context(), u, &ledger.ThreadText{Title: fmt.Sprint("Thread ", i), Texts: []string{text.String()}})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
