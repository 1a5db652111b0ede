package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
)

// Texts configures the index of the texts of threads.
type Texts struct {
	// NamesOnly indexes only names that clients give to threads. It is set if the texts are
	// encrypted.
	NamesOnly bool

	mu      sync.Mutex
	changed map[uuid.UUID]struct{}
	wake    chan struct{}
}

// NewTexts returns the configuration of an index.
func NewTexts() *Texts {
	return &Texts{changed: map[uuid.UUID]struct{}{}, wake: make(chan struct{}, 1)}
}

const (
	// textDelay is the time that a changed thread waits before it is indexed: for other threads, and
	// for further runs of its own.
	textDelay = time.Second
	// textSweep is the interval at which the threads that other processes left are indexed, at
	// most textBatch in one query.
	textSweep = 5 * time.Second
	textBatch = 100
	// maxChanged is the maximum number of changed threads to remember. The others are indexed
	// like those that other processes left.
	maxChanged = 10_000
	// maxText limits the text of a thread that is read, in bytes. Newer text comes first.
	maxText = 1 << 20
	// textRuns is the number of recent runs whose inputs are indexed.
	textRuns = 20
	// textsTogether is the number of texts that are stored at the same time. Databases with group
	// commits then write the pages of words that the texts share only once.
	textsTogether = 8
	// elsewhere is the time that a thread of an unserved graph waits for a process that
	// serves it.
	elsewhere = time.Minute
)

// Changed is called after the text of a thread may have changed.
func (t *Texts) Changed(thread uuid.UUID) {
	t.mu.Lock()
	if len(t.changed) < maxChanged {
		t.changed[thread] = struct{}{}
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *Texts) take() map[uuid.UUID]struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.changed
	t.changed = map[uuid.UUID]struct{}{}
	return all
}

// indexTexts indexes threads until ctx ends.
func (r *Runner) indexTexts(ctx context.Context) {
	sweep := time.NewTicker(textSweep)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			r.indexLeft(ctx)
		case <-r.o.Texts.wake:
			select {
			case <-ctx.Done():
				return
			case <-time.After(textDelay):
			}
			r.indexChanged(ctx, slices.Collect(maps.Keys(r.o.Texts.take())))
		}
	}
}

// indexChanged indexes threads that this process changed.
func (r *Runner) indexChanged(ctx context.Context, changed []uuid.UUID) {
	for ids := range slices.Chunk(changed, textsTogether) {
		var all []*ledger.UnindexedText
		for _, id := range ids {
			u, err := r.ledger.UnindexedThread(ctx, id)
			if err != nil {
				r.textFailed(ctx, slog.LevelDebug, id, err)
			} else if u != nil {
				all = append(all, u)
			}
		}
		for i, err := range r.indexAll(ctx, all) { // indexLeft tries again
			r.textFailed(ctx, slog.LevelDebug, all[i].Thread, err)
		}
	}
}

func (r *Runner) textFailed(ctx context.Context, level slog.Level, thread uuid.UUID, err error) {
	if err != nil && ctx.Err() == nil {
		r.logger.Log(ctx, level, "failed to index thread, retrying later", "thread", thread, "error", err)
	}
}

// indexLeft indexes the threads that the processes that changed them did not index.
func (r *Runner) indexLeft(ctx context.Context) {
	for {
		left, err := r.ledger.UnindexedThreads(ctx, textBatch)
		if err != nil {
			r.missed(ctx, "threads to index", err)
			return
		}
		for all := range slices.Chunk(left, textsTogether) {
			for i, err := range r.indexAll(ctx, all) {
				r.textFailed(ctx, slog.LevelWarn, all[i].Thread, err)
				if err != nil && ctx.Err() == nil {
					err = r.ledger.IndexThread(ctx, all[i], nil)
				}
				if err != nil {
					return
				}
			}
		}
		if len(left) < textBatch {
			return
		}
	}
}

// indexAll indexes threads, and returns the error of each.
func (r *Runner) indexAll(ctx context.Context, all []*ledger.UnindexedText) []error {
	texts, errs := make([]*ledger.ThreadText, len(all)), make([]error, len(all))
	for i, u := range all {
		texts[i], errs[i] = r.readText(ctx, u)
	}
	var storing sync.WaitGroup
	for i, u := range all {
		if errs[i] == nil {
			storing.Go(func() { errs[i] = r.ledger.IndexThread(ctx, u, texts[i]) })
		}
	}
	storing.Wait()
	return errs
}

// errElsewhere is returned for a thread whose state only another process can read.
var errElsewhere = errors.New("graph is not served by this process")

// readText returns the text of a thread, or nil if another process has to read it.
func (r *Runner) readText(ctx context.Context, u *ledger.UnindexedText) (*ledger.ThreadText, error) {
	t, err := r.ledger.Thread(ctx, u.Thread, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return &ledger.ThreadText{}, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := r.textOf(ctx, t)
	switch {
	case !errors.Is(err, errElsewhere):
		return text, err
	case time.Since(u.Since) < elsewhere:
		return nil, nil
	}
	return text, nil
}

// givenName returns the name that a client gave to a thread, in the metadata that user interfaces
// use.
func givenName(t *ledger.Thread) string {
	for _, key := range []string{"thread_name", "title"} {
		if name, _ := t.Metadata[key].(string); strings.TrimSpace(name) != "" {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// textOf returns the title and texts of a thread. The error matches errElsewhere if the text lacks
// the thread's state.
func (r *Runner) textOf(ctx context.Context, t *ledger.Thread) (*ledger.ThreadText, error) {
	text := &ledger.ThreadText{Title: givenName(t)}
	if r.o.Texts.NamesOnly || t.Graph() == "" {
		return text, nil
	}
	if r.graphs[t.Graph()] == nil {
		text.Partial = true
		return text, errElsewhere
	}
	th, err := r.Thread(t, nil)
	if err != nil {
		return nil, err
	}
	snap, err := th.State(pregel.WithMemory(ctx, &pregel.Memory{Heads: r.heads}))
	if err != nil {
		return nil, err
	}
	c := &collector{left: maxText}
	if !snap.ID.IsZero() {
		c.state(snap.State)
	}
	text.Title = cmp.Or(text.Title, c.title())
	inputs, err := r.ledger.Runs(ctx, t.ID, nil, "", ledger.Page{Limit: textRuns})
	if err != nil {
		return nil, err
	}
	for _, run := range inputs {
		var k struct {
			Input any `json:"input"`
		}
		if json.Unmarshal(run.Kwargs, &k) == nil {
			c.value(k.Input)
		}
	}
	text.Texts, text.Partial = c.texts, c.left <= 0
	return text, nil
}

// collector collects the texts of a state.
type collector struct {
	left  int // bytes
	texts []string

	message string // the text of the first user message
	any     string // the first other text
}

// maxDerived is the length of a title that is derived from a message, in characters, as in the
// studio.
const maxDerived = 100

// title returns the first user message, or else another text of the state, on one line.
func (c *collector) title() string {
	line := strings.Join(strings.Fields(cmp.Or(c.message, c.any)), " ")
	if runes := []rune(line); len(runes) > maxDerived {
		return string(runes[:maxDerived])
	}
	return line
}

func (c *collector) add(s string) {
	if c.left <= 0 || s == "" {
		return
	}
	if len(s) > c.left {
		s = s[:c.left]
	}
	c.left -= len(s)
	c.texts = append(c.texts, s)
}

// state collects the texts of a state: messages, newest first, and then all other strings.
func (c *collector) state(rec treadle.Record) {
	var rest []any
	for _, name := range rec.Names() {
		v, _ := rec.Get(name)
		switch v := v.(type) {
		case llm.Messages:
			c.messages(v, name == "messages")
		case []llm.Message:
			c.messages(v, name == "messages")
		default:
			rest = append(rest, v)
		}
	}
	for _, v := range rest {
		raw, err := json.Marshal(v)
		if err != nil || len(raw) <= len(`""`) {
			continue
		}
		var tree any
		if json.Unmarshal(raw, &tree) != nil {
			continue
		}
		if s, ok := tree.(string); ok && c.any == "" && strings.TrimSpace(s) != "" {
			c.any = s
		}
		if list, ok := tree.([]any); ok && c.message == "" {
			c.message = firstHuman(list)
		}
		c.value(tree)
	}
}

func (c *collector) messages(all []llm.Message, main bool) {
	for _, m := range all {
		if m.Role == llm.RoleHuman && (c.message == "" || main) {
			c.message = cmp.Or(m.Text(), c.message)
			break
		}
	}
	if c.message == "" && len(all) > 0 {
		c.message = all[0].Text()
	}
	for _, m := range slices.Backward(all) {
		c.add(m.Text())
		for _, call := range m.ToolCalls {
			c.add(call.Name)
			var args any
			if json.Unmarshal(call.Args, &args) == nil {
				c.value(args)
			}
		}
	}
}

// firstHuman returns the text of the first user message of a list of messages, or "".
func firstHuman(list []any) string {
	for _, e := range list {
		m, _ := e.(map[string]any)
		if kind, _ := m["type"].(string); kind == "human" {
			s, _ := m["content"].(string)
			return s
		}
	}
	return ""
}

// messageKeys lists the keys of a message that contain no text.
var messageKeys = []string{"id", "type", "role", "tool_call_id", "additional_kwargs", "response_metadata", "usage_metadata", "mime_type", "data", "url", "base64"}

// value collects the strings of a JSON value, without keys.
func (c *collector) value(v any) {
	switch v := v.(type) {
	case string:
		c.add(v)
	case []any:
		for _, e := range slices.Backward(v) {
			c.value(e)
		}
	case map[string]any:
		_, message := v["content"]
		_, block := v["type"].(string)
		data := !message && !block // any key may contain text
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if data || !slices.Contains(messageKeys, key) {
				c.value(v[key])
			}
		}
	}
}
