package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strconv"
	"time"
)

// The methods in this file call routes that only servers of this module have: [Client.Info] has the
// flags "search" and "spans". Other servers return an error that matches [ErrNotFound].

// A Span is a recorded call of a model, tool, or retriever by a run. The server's documentation
// describes the fields in full.
type Span struct {
	ID         string    `json:"span_id"`
	Trace      string    `json:"trace_id"`
	Parent     string    `json:"parent_span_id"` // the recorded span that contains this one; "" if none does
	Kind       string    `json:"kind"`           // "model", "tool", or "retriever"
	Name       string    `json:"name"`
	Status     string    `json:"status"`      // "running", "success", "error", "interrupted", "canceled", or "unfinished", which means that its process died
	RunAttempt int       `json:"run_attempt"` // counts the processes that have executed the run
	Graph      string    `json:"graph"`
	Node       string    `json:"node"`
	Step       int       `json:"step"`
	Task       string    `json:"task_id"`
	Namespace  string    `json:"checkpoint_ns"`
	Checkpoint string    `json:"checkpoint_id"` // the checkpoint that the step started from
	Started    time.Time `json:"started_at"`
	Ended      time.Time `json:"ended_at"` // zero if the span has not ended
	// Attempts are the requests that the call took, if it was retried.
	Attempts []struct {
		Started time.Time `json:"started_at"`
		Ended   time.Time `json:"ended_at"`
		Error   string    `json:"error"`
	} `json:"attempts"`
	ToolCall   string          `json:"tool_call_id"` // the ID that the model gave the call
	Parameters map[string]any  `json:"parameters"`   // of the request, such as the temperature
	Usage      json.RawMessage `json:"usage"`        // nil if unknown
	Error      *Failure        `json:"error"`
	Cut        []struct {
		Path  string `json:"path"`
		Bytes int    `json:"bytes"`
	} `json:"cut"` // what the server's limits removed
	HasContent bool            `json:"has_content"` // Input and Output were recorded
	Input      json.RawMessage `json:"input"`       // nil unless requested
	Output     json.RawMessage `json:"output"`
}

// Spans yields the recorded calls of a run, in the order in which they started. With content, each
// includes its Input and Output. The server records calls only if its Options.Spans is set.
func (s Runs) Spans(ctx context.Context, thread, run string, content bool) iter.Seq2[Span, error] {
	return pages(func(cursor string) ([]Span, string, error) {
		query := url.Values{"content": {strconv.FormatBool(content)}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		p, err := object[struct {
			Spans []Span `json:"spans"`
			Next  string `json:"next_cursor"`
		}](ctx, s.c, get(pathOf("threads", thread, "runs", run, "spans"), query))
		if err != nil {
			return nil, "", err
		}
		return p.Spans, p.Next, nil
	})
}

// Span returns a recorded call with its Input and Output.
func (s Runs) Span(ctx context.Context, thread, run, span string) (*Span, error) {
	return object[Span](ctx, s.c, get(pathOf("threads", thread, "runs", run, "spans", span), nil))
}

// ThreadFind selects threads in [Threads.Find]. Empty fields select all threads.
type ThreadFind struct {
	// Text is words that the thread's title, inputs, or state contain. In the title, beginnings
	// of words match too.
	Text     string         `json:"text,omitempty"`
	IDs      []string       `json:"ids,omitempty"` // any of these, at most 100
	Graph    string         `json:"graph_id,omitempty"`
	Status   string         `json:"status,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// ThreadMatch is a thread that [Threads.Find] has found, without its Values.
type ThreadMatch struct {
	Thread
	Title   string `json:"title"`     // its name, or its first message
	Matched string `json:"matched"`   // "title" or "text"; "" without ThreadFind.Text
	Partial bool   `json:"truncated"` // the thread is so long that not all of its text is indexed
}

// Find yields the threads that contain a text, newest first. The server indexes a change to a
// thread within about a second.
func (t Threads) Find(ctx context.Context, opts *ThreadFind) iter.Seq2[ThreadMatch, error] {
	return pages(func(cursor string) ([]ThreadMatch, string, error) {
		body := struct {
			ThreadFind
			page
		}{*orEmpty(opts), page{100, cursor}}
		p, err := object[struct {
			Threads []ThreadMatch `json:"threads"`
			Next    string        `json:"next_cursor"`
		}](ctx, t.c, read("/search/threads", body))
		if err != nil {
			return nil, "", err
		}
		return p.Threads, p.Next, nil
	})
}

// RunFind selects runs in [Runs.Find]. Zero fields select all runs.
type RunFind struct {
	Status    []string  `json:"status,omitempty"` // any of these
	Graph     string    `json:"graph_id,omitempty"`
	Assistant string    `json:"assistant_id,omitempty"` // an assistant ID or a graph name
	Thread    string    `json:"thread_id,omitempty"`
	Of        string    `json:"thread_status,omitempty"` // the current status of the thread
	Since     time.Time `json:"since,omitzero"`          // created at or after this time
	Until     time.Time `json:"until,omitzero"`          // created before this time
	Error     string    `json:"error,omitempty"`         // words of the run's error
}

// RunMatch is a run that [Runs.Find] has found, without its Kwargs.
type RunMatch struct {
	Run
	Graph   string    `json:"graph_id"`
	Started time.Time `json:"started_at"` // zero if the run has not started
	Ended   time.Time `json:"ended_at"`   // zero if the run has not ended
	Error   *Failure  `json:"error"`
	Latest  bool      `json:"latest"` // no run of the thread is newer
	Of      struct {
		Title       string `json:"title"`
		Status      string `json:"status"`
		NeedsAnswer bool   `json:"needs_answer"` // an interrupt waits for an answer
	} `json:"thread"` // the thread now
}

// Find yields the runs of all threads, newest first. Runs without a thread are not found.
func (s Runs) Find(ctx context.Context, opts *RunFind) iter.Seq2[RunMatch, error] {
	return pages(func(cursor string) ([]RunMatch, string, error) {
		body := struct {
			RunFind
			page
		}{*orEmpty(opts), page{100, cursor}}
		p, err := object[struct {
			Runs []RunMatch `json:"runs"`
			Next string     `json:"next_cursor"`
		}](ctx, s.c, read("/search/runs", body))
		if err != nil {
			return nil, "", err
		}
		return p.Runs, p.Next, nil
	})
}

// page selects a page of a search.
type page struct {
	Limit  int    `json:"limit"`
	Cursor string `json:"cursor,omitempty"`
}

// pages yields the elements of all pages. next returns a page and the cursor of the following one,
// which is "" for the last page.
func pages[T any](next func(cursor string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			all, more, err := next(cursor)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, v := range all {
				if !yield(v, nil) {
					return
				}
			}
			cursor = more
			if cursor == "" {
				return
			}
		}
	}
}
