package ledger

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// The rows of runs and threads are written several times per run, in transactions that block
// others, so they are encoded by hand. The output equals the output of encoding/json; a test
// compares the two.

// docWriter writes a JSON object. It keeps the first error.
type docWriter struct {
	b   []byte
	err error
}

func newDoc() *docWriter { return &docWriter{b: append(make([]byte, 0, 1024), '{')} }

// end closes the object.
func (w *docWriter) end() ([]byte, error) { return append(w.b, '}'), w.err }

// key starts a member. Keys must not need escaping.
func (w *docWriter) key(k string) {
	if len(w.b) > 1 {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), k...), '"', ':')
}

func (w *docWriter) str(k, v string) {
	w.key(k)
	w.quote(v)
}

func (w *docWriter) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			w.any(s)
			return
		}
	}
	w.b = append(append(append(w.b, '"'), s...), '"')
}

func (w *docWriter) id(k string, v uuid.UUID) { w.str(k, v.String()) }

func (w *docWriter) time(k string, v time.Time) {
	w.key(k)
	if y := v.Year(); y < 0 || y > 9999 {
		w.any(v) // reports an error
		return
	}
	w.b = append(v.AppendFormat(append(w.b, '"'), time.RFC3339Nano), '"')
}

// The following methods omit zero values, except object, raw, and member.

func (w *docWriter) optional(k, v string) {
	if v != "" {
		w.str(k, v)
	}
}

func (w *docWriter) set(k string, v bool) {
	if v {
		w.key(k)
		w.b = append(w.b, "true"...)
	}
}

func (w *docWriter) when(k string, v time.Time) {
	if !v.IsZero() {
		w.time(k, v)
	}
}

func (w *docWriter) count(k string, v int) {
	if v != 0 {
		w.key(k)
		w.b = strconv.AppendInt(w.b, int64(v), 10)
	}
}

func (w *docWriter) number(k string, v uint64) {
	if v != 0 {
		w.key(k)
		w.b = strconv.AppendUint(w.b, v, 10)
	}
}

func (w *docWriter) object(k string, v Object) {
	w.key(k)
	w.value(v)
}

func (w *docWriter) raw(k string, v json.RawMessage) {
	w.key(k)
	if string(v) == "{}" {
		w.b = append(w.b, v...)
		return
	}
	w.any(v)
}

// member writes a member with encoding/json, for rare values.
func (w *docWriter) member(k string, v any) {
	w.key(k)
	w.any(v)
}

// any writes a value with encoding/json.
func (w *docWriter) any(v any) {
	raw, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.b = append(w.b, raw...)
}

// value writes a value of an Object.
func (w *docWriter) value(v any) {
	switch v := v.(type) {
	case nil:
		w.b = append(w.b, "null"...)
	case bool:
		w.b = strconv.AppendBool(w.b, v)
	case string:
		w.quote(v)
	case Object: // nil encodes as {}
		w.members(v)
	case map[string]any:
		if v == nil {
			w.b = append(w.b, "null"...)
			return
		}
		w.members(v)
	default:
		w.any(v)
	}
}

func (w *docWriter) members(v map[string]any) {
	w.b = append(w.b, '{')
	for i, k := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.quote(k)
		w.b = append(w.b, ':')
		w.value(v[k])
	}
	w.b = append(w.b, '}')
}

// encode returns the document of a run's row, which decodes into a runDoc.
func (r *Run) encode() ([]byte, error) {
	w := newDoc()
	w.id("run_id", r.ID)
	w.id("thread_id", r.Thread)
	w.id("assistant_id", r.Assistant)
	w.time("created_at", r.Created)
	w.time("updated_at", r.Updated)
	w.str("status", string(r.Status))
	w.object("metadata", r.Metadata)
	w.str("multitask_strategy", string(r.Strategy))
	w.optional("graph", r.Graph)
	w.set("temporary", r.Temporary)
	w.set("resumable", r.Resumable)
	w.when("due", r.Due)
	w.when("started", r.Started)
	w.when("ended", r.Ended)
	if r.Worker != uuid.Nil {
		w.id("worker", r.Worker)
	}
	w.count("attempt", r.Attempt)
	w.optional("order", string(r.Order))
	w.optional("head", r.Head)
	if r.Failure != nil {
		w.member("failure", r.Failure)
	}
	w.optional("key", r.Key)
	w.optional("webhook", r.Webhook)
	w.count("revision", r.revision)
	w.count("priority", r.priority)
	if r.Task != uuid.Nil {
		w.id("task", r.Task)
	}
	w.set("waits", r.Waits)
	return w.end()
}

// encode returns the document of a thread's row.
func (d *threadDoc) encode() ([]byte, error) {
	t, w := d.Thread, newDoc()
	w.id("thread_id", t.ID)
	w.time("created_at", t.Created)
	w.time("updated_at", t.Updated)
	w.time("state_updated_at", t.StateUpdated)
	w.object("metadata", t.Metadata)
	w.str("status", string(t.Status))
	w.object("config", t.Config)
	w.key("error")
	if t.Error == nil {
		w.value(nil)
	} else {
		w.any(t.Error)
	}
	w.raw("interrupts", t.Interrupts)
	if t.TTL != nil {
		w.member("ttl", t.TTL)
	}
	w.number("epoch", d.Epoch)
	w.number("seq", d.Seq)
	w.set("v2", d.V2)
	if len(d.Small) > 0 {
		w.object("small", d.Small)
	}
	w.count("revision", d.Revision)
	w.when("wake", d.Wake)
	if len(d.Signals) > 0 {
		w.member("signals", d.Signals)
	}
	if len(d.Came) > 0 {
		w.member("came", d.Came)
	}
	w.when("asked", d.Asked)
	w.when("queued", d.Queued)
	w.optional("rest", string(d.Rest))
	if d.Running != uuid.Nil {
		w.id("running", d.Running)
	}
	w.count("pending", d.Pending)
	w.when("first", d.First)
	w.optional("waiting", d.Waiting)
	if d.Priority != nil {
		w.member("priority", *d.Priority)
	}
	if len(d.Pushes) > 0 {
		w.member("pushes", d.Pushes)
	}
	if d.Task != uuid.Nil {
		w.id("task", d.Task)
	}
	return w.end()
}
