package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/bounded"
	"github.com/treadle-go/treadle/ledger"
)

// threadJSON is a thread with its values, as sent to clients.
type threadJSON struct {
	*ledger.Thread
	Values    json.RawMessage            `json:"values"`
	Extracted map[string]json.RawMessage `json:"extracted,omitempty"`
	Title     *string                    `json:"title,omitempty"` // only in a search that selects it
}

// ttlBody is the lifetime of a thread in minutes. A plain number means the strategy "delete".
type ttlBody struct {
	TTL      float64 `json:"ttl"`
	Strategy string  `json:"strategy"`
}

// UnmarshalJSON also accepts a number.
func (b *ttlBody) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] != '{' {
		return json.Unmarshal(raw, &b.TTL)
	}
	type plain ttlBody
	return json.Unmarshal(raw, (*plain)(b))
}

// maxMinutes is the maximum lifetime: a hundred years.
const maxMinutes = 100 * 365 * 24 * 60

// ttl returns the lifetime of a thread, starting now.
func (b *ttlBody) ttl() (*ledger.TTL, error) {
	if b == nil {
		return nil, nil
	}
	switch {
	case b.TTL <= 0 || b.TTL > maxMinutes:
		return nil, invalid("ttl", "want minutes above 0 and up to %d, not %v", maxMinutes, b.TTL)
	case b.Strategy == "":
		b.Strategy = "delete"
	case b.Strategy != "delete" && b.Strategy != "keep_latest":
		return nil, invalid("ttl.strategy", `want "delete" or "keep_latest", not %q`, b.Strategy)
	}
	return &ledger.TTL{Strategy: b.Strategy, Minutes: b.TTL, Expires: time.Now().Add(time.Duration(b.TTL * float64(time.Minute))).UTC()}, nil
}

// ttl returns the lifetime of a new thread, from the request or else from the configuration.
func (s *Server) ttl(b *ttlBody) (*ledger.TTL, error) {
	if b == nil && s.o.extras.ThreadTTL != nil {
		b = &ttlBody{TTL: s.o.extras.ThreadTTL.Minutes, Strategy: s.o.extras.ThreadTTL.Strategy}
	}
	return b.ttl()
}

type threadBody struct {
	ID         *string         `json:"thread_id"`
	Metadata   ledger.Object   `json:"metadata"`
	IfExists   string          `json:"if_exists"`
	TTL        *ttlBody        `json:"ttl"`
	Supersteps json.RawMessage `json:"supersteps"`
}

func (s threadAPI) create(c *call) error {
	var b threadBody
	if err := c.decode(&b); err != nil {
		return err
	}
	b.Metadata = unforged(b.Metadata)
	id, err := newID("thread_id", b.ID)
	if err = errors.Join(err, checkIfExists(b.IfExists)); err != nil {
		return err
	}
	value := map[string]any{"thread_id": id.String(), "metadata": map[string]any(orObject(b.Metadata)), "if_exists": b.IfExists}
	f, err := c.allow(value)
	if err != nil {
		return err
	}
	t := &ledger.Thread{ID: id, Metadata: metadataOf(value, orObject(b.Metadata)), Config: ledger.Object{}}
	if t.TTL, err = s.ttl(b.TTL); err != nil {
		return err
	}
	steps := len(b.Supersteps) > 0 && string(b.Supersteps) != "null" && string(b.Supersteps) != "[]"
	if steps && s.runner.Graph(t.Graph()) == nil {
		return fail(http.StatusBadRequest, "supersteps: metadata.graph_id must name the graph: %q is not served", t.Graph())
	}
	err = s.ledger.CreateThread(c.r.Context(), t)
	if errors.Is(err, ledger.ErrExists) {
		old, getErr := s.ledger.Thread(c.r.Context(), id, f)
		if b.IfExists != "do_nothing" || getErr != nil {
			return fail(http.StatusConflict, "Thread %s already exists", id)
		}
		return s.show(c, old)
	}
	if err != nil {
		return err
	}
	if steps {
		if err := s.applySupersteps(c, t, b.Supersteps); err != nil {
			return errors.Join(err, s.runner.DeleteThread(c.r.Context(), id, nil))
		}
	}
	return s.show(c, t)
}

// applySupersteps writes the initial state of a new thread.
func (s threadAPI) applySupersteps(c *call, t *ledger.Thread, steps json.RawMessage) error {
	th, err := s.runner.Thread(t, nil)
	if err != nil {
		return err
	}
	edited, err := s.runner.Edit(c.r.Context(), t.ID, nil, th, func() error {
		_, err := th.BulkUpdateJSON(c.r.Context(), steps)
		return err
	})
	if isMistake(err) {
		return fail(http.StatusUnprocessableEntity, "supersteps: %v", err)
	}
	if err != nil {
		return err
	}
	*t = *edited
	return nil
}

// show responds with a thread.
func (s threadAPI) show(c *call, t *ledger.Thread) error {
	out, err := s.withValues(c, t, nil)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, out)
}

// withValues adds the values of a thread's state, unless fields excludes them.
func (s threadAPI) withValues(c *call, t *ledger.Thread, fields []string) (*threadJSON, error) {
	out := &threadJSON{Thread: t, Values: json.RawMessage("null")}
	if t.Graph() == "" || len(fields) > 0 && !slices.Contains(fields, "values") {
		return out, nil
	}
	th, err := s.runner.Thread(t, nil)
	if err != nil { // a graph of another release
		return out, nil //nolint:nilerr // the thread is there, its state cannot be read
	}
	snap, err := th.State(c.r.Context())
	if err != nil {
		return nil, err
	}
	if !snap.ID.IsZero() {
		out.Values, err = json.Marshal(snap.State)
	}
	return out, err
}

// named returns the thread named in the path, if the caller may read it.
func (s threadAPI) named(c *call) (*ledger.Thread, *ledger.Filter, error) {
	id, err := c.id("thread_id")
	if err != nil {
		return nil, nil, err
	}
	f, err := c.allow(map[string]any{"thread_id": id.String()})
	if err != nil {
		return nil, nil, err
	}
	t, err := s.ledger.Thread(c.r.Context(), id, f)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil, fail(http.StatusNotFound, "Thread with ID %s not found", id)
	}
	return t, f, err
}

// storageJSON is the storage used by a thread's state.
type storageJSON struct {
	Thread      uuid.UUID       `json:"thread_id"`
	Bytes       int64           `json:"total_bytes"`
	Checkpoints checkpointsJSON `json:"checkpoints"`
}

type checkpointsJSON struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

func (s threadAPI) storage(c *call) error {
	t, _, err := s.named(c)
	if err != nil {
		return err
	}
	count, bytes, err := s.runner.Storage(c.r.Context(), t.ID)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, storageJSON{t.ID, bytes, checkpointsJSON{count, bytes}})
}

func (s threadAPI) get(c *call) error {
	t, _, err := s.named(c)
	if err != nil {
		return err
	}
	if !slices.Contains(c.query().list("include"), "ttl") {
		t.TTL = nil
	}
	return s.show(c, t)
}

func (s threadAPI) patch(c *call) error {
	var b threadBody
	if err := c.decode(&b); err != nil {
		return err
	}
	b.Metadata = unforged(b.Metadata)
	id, err := c.id("thread_id")
	if err != nil {
		return err
	}
	ttl, err := b.TTL.ttl()
	if err != nil {
		return err
	}
	value := map[string]any{"thread_id": id.String(), "metadata": map[string]any(orObject(b.Metadata))}
	f, err := c.allow(value)
	if err != nil {
		return err
	}
	add := metadataOf(value, b.Metadata)
	t, err := s.ledger.PatchThread(c.r.Context(), id, f, false, func(t *ledger.Thread) error {
		t.Metadata = maps.Clone(orObject(t.Metadata))
		maps.Copy(t.Metadata, add)
		if ttl != nil {
			t.TTL = ttl
		}
		return nil
	})
	if errors.Is(err, ledger.ErrNotFound) {
		return fail(http.StatusNotFound, "Thread with ID %s not found", id)
	}
	if err != nil {
		return err
	}
	if strings.Contains(c.r.Header.Get("Prefer"), "return=minimal") {
		return c.none()
	}
	return s.show(c, t)
}

// signalBody is a signal. A missing value means null.
type signalBody struct {
	Value json.RawMessage `json:"value"`
}

// signal sends a signal to the thread.
func (s threadAPI) signal(c *call) error {
	t, _, err := s.named(c)
	if err != nil {
		return err
	}
	var b signalBody
	if err := c.decode(&b); err != nil {
		return err
	}
	if b.Value == nil {
		b.Value = json.RawMessage("null")
	}
	if err := bounded.JSON(b.Value); err != nil {
		return invalid("value", "%v", err)
	}
	if s.runner.Graph(t.Graph()) == nil {
		return fail(http.StatusConflict, "Thread %s has not run yet, or its graph is not served: run it first", t.ID)
	}
	err = s.runner.Signal(c.r.Context(), t, c.r.PathValue("name"), b.Value)
	if _, misfit := errors.AsType[*treadle.AnswerError](err); misfit {
		return fail(http.StatusUnprocessableEntity, "%v", err)
	}
	if errors.Is(err, checkpoint.ErrNotFound) {
		return fail(http.StatusConflict, "Thread %s has not run yet: run it first", t.ID)
	}
	if err != nil {
		return err
	}
	return c.none()
}

func (s threadAPI) remove(c *call) error {
	id, err := c.id("thread_id")
	if err != nil {
		return err
	}
	f, err := c.allow(map[string]any{"thread_id": id.String()})
	if err != nil {
		return err
	}
	if err := s.runner.DeleteThread(c.r.Context(), id, f); err != nil {
		if errors.Is(err, ledger.ErrNotFound) {
			return fail(http.StatusNotFound, "Thread with ID %s not found", id)
		}
		return err
	}
	return c.none()
}

func (s threadAPI) copy(c *call) error {
	id, err := c.id("thread_id")
	if err != nil {
		return err
	}
	from := map[string]any{"thread_id": id.String()}
	seen, err := c.may("threads", "read", from)
	if err != nil {
		return err
	}
	old, err := s.ledger.Thread(c.r.Context(), id, seen)
	if errors.Is(err, ledger.ErrNotFound) {
		return fail(http.StatusConflict, "Thread with ID %s not found", id)
	}
	if err != nil {
		return err
	}
	t := &ledger.Thread{ID: uuid.Must(uuid.NewV7()), Metadata: orObject(unforged(old.Metadata)), Config: ledger.Object{}, Small: old.Small, Revision: old.Revision}
	if t.TTL, err = s.ttl(nil); err != nil {
		return err
	}
	value := map[string]any{"thread_id": t.ID.String(), "metadata": map[string]any(t.Metadata)}
	if _, err := c.allow(value); err != nil {
		return err
	}
	t.Metadata = metadataOf(value, t.Metadata)
	// Copy the state first: a thread without its state would be data loss, but state without
	// its thread is invisible.
	if err := s.runner.CopyState(c.r.Context(), old.ID, t.ID); err != nil {
		return err
	}
	if err := s.ledger.CreateThread(c.r.Context(), t); err != nil {
		return err
	}
	return s.show(c, t)
}

type threadSearch struct {
	searchBody
	IDs     []string                   `json:"ids"`
	Values  map[string]json.RawMessage `json:"values"`
	Status  string                     `json:"status"`
	Extract map[string]string          `json:"extract"`
	// Questions asks for the header X-Questions: the number of questions of all threads, not
	// only of those that are found. A plus sign means that not all threads were counted.
	Questions bool `json:"questions"`
}

func (s threadAPI) query(c *call) (*ledger.ThreadQuery, *threadSearch, error) {
	var b threadSearch
	if err := c.decode(&b); err != nil {
		return nil, nil, err
	}
	p, err := b.page("thread_id", "status", "created_at", "updated_at", "state_updated_at")
	if err != nil {
		return nil, nil, err
	}
	q := &ledger.ThreadQuery{Status: ledger.ThreadStatus(b.Status), Page: p}
	for i, text := range b.IDs {
		id, err := parseID(fmt.Sprintf("ids[%d]", i), text)
		if err != nil {
			return nil, nil, err
		}
		q.IDs = append(q.IDs, id)
	}
	if b.IDs != nil && len(b.IDs) == 0 {
		q.Match = func(*ledger.Thread) (bool, error) { return false, nil }
	}
	value := map[string]any{"metadata": map[string]any(orObject(b.Metadata)), "status": b.Status}
	f, err := c.allow(value)
	if err != nil {
		return nil, nil, err
	}
	q.Filter = searchFilter(value, b.Metadata, f)
	if len(b.Values) > 0 {
		want := ledger.Object{}
		for name, raw := range b.Values {
			var v any
			if err := decodeJSON(raw, &v); err != nil {
				return nil, nil, err
			}
			want[name] = v
		}
		q.Match = func(t *ledger.Thread) (bool, error) { return s.hasValues(c, t, want) }
	}
	if len(b.Extract) > 10 {
		return nil, nil, invalid("extract", "want at most 10 paths, not %d", len(b.Extract))
	}
	for name, path := range b.Extract {
		if _, err := parseExtract(path); err != nil {
			return nil, nil, invalid("extract."+name, "%v", err)
		}
	}
	return q, &b, nil
}

// hasValues reports whether a thread's state contains values. It first checks the values that
// the ledger has.
func (s threadAPI) hasValues(c *call, t *ledger.Thread, want ledger.Object) (bool, error) {
	rest := ledger.Object{}
	for name, v := range want {
		have, known := t.Small[name]
		if !known {
			rest[name] = v
			continue
		}
		one := ledger.Filter{Contains: ledger.Object{name: v}}
		if !one.Match(ledger.Object{name: have}) {
			return false, nil
		}
	}
	if len(rest) == 0 {
		return true, nil
	}
	out, err := s.withValues(c, t, nil)
	if err != nil {
		return false, err
	}
	var values ledger.Object
	if err := json.Unmarshal(out.Values, &values); err != nil || values == nil {
		return false, nil //nolint:nilerr // a state that is not an object has no fields
	}
	f := ledger.Filter{Contains: rest}
	return f.Match(values), nil
}

func (s threadAPI) search(c *call) error {
	q, b, err := s.query(c)
	if err != nil {
		return err
	}
	q.Ahead = 1 // detects a next page; counting all would read all
	found, total, err := s.ledger.Threads(c.r.Context(), q)
	if err != nil {
		return err
	}
	out := make([]*threadJSON, len(found))
	for i, t := range found {
		t.TTL = nil
		fields := b.Select
		if len(b.Extract) > 0 {
			fields = nil
		}
		if out[i], err = s.withValues(c, t, fields); err != nil {
			return err
		}
		if len(b.Extract) > 0 {
			out[i].Extracted = extract(out[i], b.Extract)
		}
	}
	if slices.Contains(b.Select, "title") {
		if err := s.addTitles(c, out); err != nil {
			return err
		}
	}
	if b.Questions {
		count, err := s.questions(c)
		if err != nil {
			return err
		}
		c.w.Header().Set("X-Questions", count)
	}
	fields := b.Select
	if len(fields) > 0 && len(b.Extract) > 0 {
		fields = append(slices.Clone(fields), "extracted")
	}
	return list(c, out, total, q.Page, fields)
}

const (
	// countedThreads is the number of interrupted threads whose questions are counted.
	countedThreads = 100
	// maxCountPages limits the reads that look for a first question: a page may contain only
	// threads that wait for no answer.
	maxCountPages = 10
)

// questions counts the questions of the interrupted threads that the caller may read.
func (s threadAPI) questions(c *call) (string, error) {
	value := map[string]any{"metadata": map[string]any{}, "status": string(ledger.Interrupted)}
	f, err := c.allow(value)
	if err != nil {
		return "", err
	}
	q := &ledger.ThreadSearch{Filter: searchFilter(value, nil, f), Status: ledger.Interrupted, Limit: countedThreads}
	count := 0
	for range maxCountPages {
		found, err := s.ledger.SearchThreads(c.r.Context(), q)
		if err != nil {
			return "", err
		}
		for _, t := range found.Threads {
			n, err := t.Questions()
			if err != nil {
				return "", err
			}
			count += n
		}
		if q.After = found.Next; count > 0 || q.After == nil {
			break
		}
	}
	if q.After != nil {
		return strconv.Itoa(count) + "+", nil
	}
	return strconv.Itoa(count), nil
}

// addTitles adds the titles of threads: "" until a thread is indexed, and none if only names
// are indexed and the thread has no name.
func (s threadAPI) addTitles(c *call, threads []*threadJSON) error {
	if len(threads) == 0 {
		return nil
	}
	q := &ledger.ThreadSearch{Limit: len(threads)}
	byID := map[uuid.UUID]*threadJSON{}
	for _, t := range threads {
		q.IDs = append(q.IDs, t.ID)
		byID[t.ID] = t
	}
	found, err := s.ledger.SearchThreads(c.r.Context(), q)
	if err != nil {
		return err
	}
	for _, t := range found.Threads {
		if t.Title != "" || !s.texts.NamesOnly {
			byID[t.ID].Title = &t.Title
		}
	}
	return nil
}

func (s threadAPI) count(c *call) error {
	q, _, err := s.query(c)
	if err != nil {
		return err
	}
	q.Page = ledger.Page{Limit: 1}
	_, total, err := s.ledger.Threads(c.r.Context(), q)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, total)
}

type pruneBody struct {
	IDs      []string `json:"thread_ids"`
	Strategy string   `json:"strategy"`
}

func (s threadAPI) prune(c *call) error {
	var b pruneBody
	if err := c.decode(&b); err != nil {
		return err
	}
	if b.Strategy == "" {
		b.Strategy = "delete"
	}
	if b.Strategy != "delete" && b.Strategy != "keep_latest" {
		return invalid("strategy", `want "delete" or "keep_latest", not %q`, b.Strategy)
	}
	if b.IDs == nil {
		return invalid("thread_ids", "required")
	}
	pruned := 0
	for i, text := range b.IDs {
		id, err := parseID(fmt.Sprintf("thread_ids[%d]", i), text)
		if err != nil {
			return err
		}
		f, err := c.allow(map[string]any{"thread_id": id.String()})
		if err != nil {
			return err
		}
		t, err := s.ledger.Thread(c.r.Context(), id, f)
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		if err == nil && b.Strategy == "delete" {
			err = s.runner.DeleteThread(c.r.Context(), id, f)
		} else if err == nil {
			err = s.runner.KeepLatest(c.r.Context(), t)
		}
		if err != nil {
			return err
		}
		pruned++
	}
	return c.json(http.StatusOK, map[string]int{"pruned_count": pruned})
}
