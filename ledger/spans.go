package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// A Span records one call of a model, tool, or retriever by a run.
type Span struct {
	SpanID  string     `json:"span_id"`        // 16 hexadecimal digits, unique within the run
	TraceID string     `json:"trace_id"`       // 32 hexadecimal digits
	Parent  *string    `json:"parent_span_id"` // the stored span that contains this one
	Kind    string     `json:"kind"`           // "model", "tool", or "retriever"
	Name    string     `json:"name"`
	Status  SpanStatus `json:"status"`

	Provider   string      `json:"provider,omitempty"`
	Thread     uuid.UUID   `json:"thread_id"`
	Run        uuid.UUID   `json:"run_id"`
	RunAttempt int         `json:"run_attempt"`
	Graph      string      `json:"graph"`
	Node       string      `json:"node"`
	Step       int         `json:"step"`
	Task       string      `json:"task_id"`
	Attempt    int         `json:"node_attempt"`
	Namespace  string      `json:"checkpoint_ns"`
	Checkpoint *string     `json:"checkpoint_id"` // the checkpoint that the step started from
	Path       []SpanPlace `json:"path"`          // outermost first

	Started    time.Time     `json:"started_at"`
	Ended      *time.Time    `json:"ended_at"`
	FirstChunk *time.Time    `json:"first_chunk_at"`
	Attempts   []SpanAttempt `json:"attempts"`

	ToolCall   string          `json:"tool_call_id,omitempty"`
	Parameters Object          `json:"parameters,omitempty"`
	Usage      json.RawMessage `json:"usage,omitempty"`
	Model      string          `json:"response_model,omitempty"`
	Finish     string          `json:"finish_reason,omitempty"`
	Error      *Failure        `json:"error"`
	Cut        []SpanCut       `json:"cut"`         // what size limits removed
	HasContent bool            `json:"has_content"` // Input and Output are stored

	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
}

// SpanStatus is the status of a span.
type SpanStatus string

// The statuses of a span. A running span is unfinished if the attempt of the run that it belongs
// to has ended.
const (
	SpanRunning     SpanStatus = "running"
	SpanSuccess     SpanStatus = "success"
	SpanError       SpanStatus = "error"
	SpanInterrupted SpanStatus = "interrupted" // waits for an answer
	SpanCanceled    SpanStatus = "canceled"
	SpanUnfinished  SpanStatus = "unfinished" // never stored
)

// SpanPlace is a node that contains a call.
type SpanPlace struct {
	Graph string `json:"graph"`
	Node  string `json:"node"`
	Step  int    `json:"step"`
	Task  string `json:"task_id"`
}

// SpanAttempt is an attempt within a span.
type SpanAttempt struct {
	Attempt int        `json:"attempt"`
	Started time.Time  `json:"started_at"`
	Ended   *time.Time `json:"ended_at"`
	Error   *string    `json:"error"`
	Wait    int64      `json:"wait_ms"` // before the attempt
}

// SpanCut is a part of a span that was not stored.
type SpanCut struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

// SpansOmitted counts what limits left out of a run.
type SpansOmitted struct {
	Spans int   `json:"spans"`
	Bytes int64 `json:"bytes"` // of content
}

// spanContent is the body of a span's row.
type spanContent struct {
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
}

// omittedMark starts the document of the row that counts a run's omitted spans.
var omittedMark = []byte(`{"omitted":`)

type omittedDoc struct {
	Omitted SpansOmitted `json:"omitted"`
}

// spanRow returns the ID of a span's row.
func spanRow(run uuid.UUID, span string) uuid.UUID { return uuid.NewSHA1(run, []byte("span "+span)) }

// omittedRow returns the ID of the row that counts a run's omitted spans.
func omittedRow(run uuid.UUID) uuid.UUID { return uuid.NewSHA1(run, []byte("omitted spans")) }

// spanTerms returns the terms of the rows of a run's spans. Their parent is the thread.
func spanTerms(run uuid.UUID) []uint64 { return []uint64{term("spans", string(run[:]))} }

func (s *Span) row(expires time.Time) (*Row, error) {
	summary := *s
	summary.Input, summary.Output = nil, nil
	doc, err := json.Marshal(&summary)
	if err != nil {
		return nil, fmt.Errorf("ledger: encode span %s: %w", s.SpanID, err)
	}
	r := &Row{
		Kind:    Spans,
		ID:      spanRow(s.Run, s.SpanID),
		Parent:  s.Thread,
		Created: s.Started,
		Due:     expires,
		Terms:   spanTerms(s.Run),
		Doc:     doc,
	}
	if s.HasContent {
		if r.Body, err = json.Marshal(spanContent{s.Input, s.Output}); err != nil {
			return nil, fmt.Errorf("ledger: encode span %s: %w", s.SpanID, err)
		}
	}
	return r, nil
}

func decodeSpan(r *Row) (*Span, error) {
	s := &Span{}
	if err := json.Unmarshal(r.Doc, s); err != nil {
		return nil, fmt.Errorf("ledger: decode span %s: %w", r.ID, err)
	}
	if r.Body != nil {
		var c spanContent
		if err := json.Unmarshal(r.Body, &c); err != nil {
			return nil, fmt.Errorf("ledger: decode span %s: %w", r.ID, err)
		}
		s.Input, s.Output = c.Input, c.Output
	}
	return s, nil
}

// settle sets the status of a running span whose attempt of the run has ended.
func (s *Span) settle(run *Run) {
	if s.Status == SpanRunning && (run.Status != Running || run.Attempt != s.RunAttempt) {
		s.Status = SpanUnfinished
	}
}

// SaveSpans stores spans of a run, replacing earlier versions of the same spans, until age has
// passed since they started. omitted, if not nil, replaces the counts of the run's omitted
// spans. If the run no longer exists or is temporary, SaveSpans stores nothing.
func (l *Ledger) SaveSpans(ctx context.Context, run *Run, spans []*Span, omitted *SpansOmitted, age time.Duration) error {
	rows := make([]*Row, 0, len(spans)+1)
	for _, s := range spans {
		r, err := s.row(s.Started.Add(age))
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	if omitted != nil {
		doc, err := json.Marshal(omittedDoc{*omitted})
		if err != nil {
			return fmt.Errorf("ledger: encode omitted spans: %w", err)
		}
		rows = append(rows, &Row{
			Kind:    Spans,
			ID:      omittedRow(run.ID),
			Parent:  run.Thread,
			Created: run.Created,
			Due:     time.Now().Add(age),
			Terms:   spanTerms(run.ID),
			Doc:     doc,
		})
	}
	// The thread's lock orders this after or before a deletion of the thread or the run.
	return l.update(ctx, run.lock(), hint{run.ID}, func(tx Tx) error {
		r, err := tx.Get(Runs, run.ID)
		if r == nil || err != nil || run.Temporary {
			return err
		}
		for _, r := range rows {
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// SpanQuery selects spans of a run, in the order in which they started.
type SpanQuery struct {
	After   *Position // nil means from the first
	Limit   int       // the maximum number; 0 means no limit
	Content bool      // include Input and Output
	Bytes   int       // stop after content of that size; 0 means no limit
}

// SpanPage is the result of [Ledger.RunSpans].
type SpanPage struct {
	Spans   []*Span
	Next    *Position // the position to continue after; nil if there are no more spans
	Omitted SpansOmitted
}

// RunSpans returns spans of a run.
func (l *Ledger) RunSpans(ctx context.Context, run *Run, q SpanQuery) (*SpanPage, error) {
	p := &SpanPage{}
	if r, err := l.b.Get(ctx, Spans, omittedRow(run.ID)); err != nil {
		return nil, err
	} else if r != nil {
		var d omittedDoc
		if err := json.Unmarshal(r.Doc, &d); err != nil {
			return nil, fmt.Errorf("ledger: decode omitted spans of run %s: %w", run.ID, err)
		}
		p.Omitted = d.Omitted
	}
	rows := &Query{Kind: Spans, Parent: run.Thread, Terms: spanTerms(run.ID), Order: OldestFirst, After: q.After, Bodies: q.Content}
	if q.Limit > 0 {
		rows.Limit = q.Limit + 2 // the next span, and the counts
	}
	size := 0
	var last *Row
	for r, err := range l.b.Find(ctx, rows) {
		if err != nil {
			return nil, err
		}
		if bytes.HasPrefix(r.Doc, omittedMark) {
			continue
		}
		if q.Limit > 0 && len(p.Spans) == q.Limit || q.Bytes > 0 && size >= q.Bytes {
			p.Next = &Position{At: last.Created, ID: last.ID}
			break
		}
		s, err := decodeSpan(r)
		if err != nil {
			return nil, err
		}
		s.settle(run)
		p.Spans = append(p.Spans, s)
		last, size = r, size+len(r.Doc)+len(r.Body)
	}
	return p, nil
}

// RunSpan returns a span with its content. It returns ErrNotFound if the run has no such span.
func (l *Ledger) RunSpan(ctx context.Context, run *Run, span string) (*Span, error) {
	r, err := l.b.Get(ctx, Spans, spanRow(run.ID, span))
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("%w: span %s", ErrNotFound, span)
	}
	s, err := decodeSpan(r)
	if err == nil {
		s.settle(run)
	}
	return s, err
}

// dropSpans deletes the spans of a run that is deleted.
func dropSpans(tx Tx, run *Run) error {
	if run.Temporary || run.Attempt == 0 { // it has none
		return nil
	}
	return deleteAll(tx, &Query{Kind: Spans, Parent: run.Thread, Terms: spanTerms(run.ID)})
}

// ExpireSpans deletes spans whose age has passed and returns their number. It deletes at most
// limit spans.
func (l *Ledger) ExpireSpans(ctx context.Context, limit int) (n int, err error) {
	err = l.b.Update(ctx, sweepLock, func(tx Tx) error {
		rows, err := tx.Find(&Query{Kind: Spans, DueBy: tx.Now(), Order: DueFirst, Limit: limit})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := tx.Delete(Spans, r.ID); err != nil {
				return err
			}
		}
		n = len(rows)
		return nil
	})
	return n, err
}
