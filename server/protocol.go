package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// channels lists the channels that a protocol v2 client can subscribe to, in addition to
// "custom:<name>".
var channels = []string{"values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"}

// subscription selects the events of a thread that a client receives.
type subscription struct {
	Channels   []string   `json:"channels"`
	Namespaces [][]string `json:"namespaces"`
	Depth      *int       `json:"depth"`
	Since      *uint64    `json:"since"`
}

// check validates the fields.
func (s *subscription) check() error {
	if len(s.Channels) == 0 {
		return fail(http.StatusBadRequest, "channels: want some of %s, custom:<name>", strings.Join(channels, ", "))
	}
	for _, ch := range s.Channels {
		name, custom := strings.CutPrefix(ch, "custom:")
		if !slices.Contains(channels, ch) && (!custom || name == "") {
			return fail(http.StatusBadRequest, "channels: want some of %s, custom:<name>, not %q", strings.Join(channels, ", "), ch)
		}
	}
	if s.Depth != nil && *s.Depth < 0 {
		return fail(http.StatusBadRequest, "depth: want 0 or more, not %d", *s.Depth)
	}
	return nil
}

// wants reports whether the subscription includes an event.
func (s *subscription) wants(e *runs.Entry) bool {
	return e.Protocol == runs.V2 && s.hasChannel(e) && s.hasNamespace(e.NS)
}

func (s *subscription) hasChannel(e *runs.Entry) bool {
	channel := e.Name
	if channel == "input.requested" {
		channel = "input"
	}
	if slices.Contains(s.Channels, channel) {
		return true
	}
	if channel != "custom" || !slices.ContainsFunc(s.Channels, func(ch string) bool { return strings.HasPrefix(ch, "custom:") }) {
		return false
	}
	var named struct {
		Name string `json:"name"`
	}
	return json.Unmarshal(e.Data(), &named) == nil && slices.Contains(s.Channels, "custom:"+named.Name)
}

// hasNamespace reports whether ns starts with a subscribed namespace and is not deeper below it
// than the subscribed depth.
func (s *subscription) hasNamespace(ns []string) bool {
	if len(s.Namespaces) == 0 {
		return true
	}
	return slices.ContainsFunc(s.Namespaces, func(prefix []string) bool {
		return isPrefix(prefix, ns) && (s.Depth == nil || len(ns)-len(prefix) <= *s.Depth)
	})
}

// isPrefix reports whether ns starts with prefix. A part of the prefix without a colon matches
// every task of that node.
func isPrefix(prefix, ns []string) bool {
	if len(prefix) > len(ns) {
		return false
	}
	for i, part := range prefix {
		node, _, _ := strings.Cut(ns[i], ":")
		if part != ns[i] && part != node {
			return false
		}
	}
	return true
}

// writeHead writes an entry as a protocol v2 event, up to its data. eventTail follows the data.
func writeHead(buf *bytes.Buffer, e *runs.Entry) {
	seq := strconv.FormatUint(e.Seq, 10)
	buf.WriteString(`{"type":"event","event_id":"` + seq + `","seq":` + seq + `,"method":"` + e.Name + `","params":{"namespace":`)
	if len(e.NS) == 0 {
		buf.WriteString("[]")
	} else {
		raw, _ := json.Marshal(e.NS) // strings always encode
		buf.Write(raw)
	}
	buf.WriteString(`,"timestamp":` + strconv.FormatInt(e.Time.UnixMilli(), 10))
	if e.Node != "" {
		raw, _ := json.Marshal(e.Node)
		buf.WriteString(`,"node":`)
		buf.Write(raw)
	}
	buf.WriteString(`,"data":`)
}

// eventTail follows the data of an event.
var eventTail = []byte("}}")

// observed is a thread whose events a client reads. The thread may not exist yet.
type observed struct {
	c      *call
	id     uuid.UUID
	filter *ledger.Filter
	thread *ledger.Thread // nil if the thread does not exist yet
	run    uuid.UUID      // the last run checked that the client may read
	hidden uuid.UUID      // the last run checked that does not belong to the thread
}

// observe returns the thread named in the path, if the caller may read it.
func (s protocolAPI) observe(c *call) (*observed, error) {
	id, err := c.id("thread_id")
	if err != nil {
		return nil, err
	}
	o := &observed{c: c, id: id}
	if o.filter, err = c.may("threads", "read", map[string]any{"thread_id": id.String()}); err != nil {
		return nil, err
	}
	o.thread, err = s.ledger.Thread(c.r.Context(), id, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return o, nil
	}
	if err == nil && !o.filter.Match(o.thread.Metadata) {
		err = fail(http.StatusNotFound, "Thread with ID %s not found", id)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// errHidden is returned when a client may not read a thread.
var errHidden = errors.New("thread hidden from caller")

// sees reports whether the caller may read an entry. It returns errHidden if the caller may not
// read the thread: a thread that did not exist when the stream was opened may now belong to
// another user. Entries are found by thread ID, so sees omits entries of runs that do not
// belong to the thread, such as runs of a deleted thread with the same ID.
func (o *observed) sees(e *runs.Entry) (bool, error) {
	switch {
	case o.filter == nil, e.Run == o.run:
		return true, nil
	case e.Run == o.hidden:
		return false, nil
	}
	ctx := o.c.r.Context()
	run, err := o.c.s.ledger.Run(ctx, o.id, e.Run, o.filter)
	if err == nil && !run.Temporary {
		o.run = e.Run
		return true, nil
	}
	if _, err := o.c.s.ledger.Thread(ctx, o.id, o.filter); err != nil {
		return false, errHidden
	}
	o.hidden = e.Run
	return false, nil
}

// last returns the sequence number of the thread's last event.
func (o *observed) last() uint64 {
	seq := o.c.s.runner.LastSeq(o.id)
	if o.thread != nil {
		seq = max(seq, o.thread.Seq)
	}
	return seq
}

// record makes later runs of the thread record all of their events. It applies while the client
// reads and, if the thread exists, permanently.
func (o *observed) record() (done func(), err error) {
	done = o.c.s.runner.Watch(o.id)
	if o.thread == nil || o.thread.V2 {
		return done, nil
	}
	_, err = o.c.s.ledger.PatchThread(o.c.r.Context(), o.id, o.filter, false, func(t *ledger.Thread) error {
		t.V2 = true
		return nil
	})
	if err != nil && !errors.Is(err, ledger.ErrNotFound) { // deleted concurrently
		done()
		return nil, err
	}
	return done, nil
}

// streamEvents streams the events of a thread until the client disconnects.
func (s protocolAPI) streamEvents(c *call) error {
	var sub subscription
	if err := c.decode(&sub); err != nil {
		return err
	}
	if err := sub.check(); err != nil {
		return err
	}
	after, err := lastEventID(c.r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	if sub.Since != nil {
		after = *sub.Since
	}
	o, err := s.observe(c)
	if err != nil {
		return err
	}
	done, err := o.record()
	if err != nil {
		return err
	}
	defer done()
	e := c.events()
	var buf bytes.Buffer
	_, err = e.follow(c.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return s.runner.ReadThread(ctx, o.id, after)
	}, func(entry *runs.Entry) bool {
		shown, err := o.sees(entry)
		if shown && sub.wants(entry) {
			buf.Reset()
			writeHead(&buf, entry)
			e.frame(entry.Name, nil, strconv.FormatUint(entry.Seq, 10), buf.Bytes(), entry.Data(), eventTail)
		}
		return err == nil
	})
	s.runs().cut(c, err)
	return ignored(err)
}

// streamThread streams the frames of all runs of a thread until the client disconnects. Without
// a Last-Event-ID, it starts with the next event.
func (s protocolAPI) streamThread(c *call) error {
	q := c.query()
	modes, err := threadStreamModes(q)
	if err != nil {
		return err
	}
	last := c.r.Header.Get("Last-Event-ID")
	after, err := lastEventID(last)
	if err != nil {
		return err
	}
	o, err := s.observe(c)
	if err != nil {
		return err
	}
	if last == "" {
		after = o.last()
	}
	e := c.events()
	_, err = e.follow(c.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return s.runner.ReadThread(ctx, o.id, after)
	}, func(entry *runs.Entry) bool {
		shown, err := o.sees(entry)
		if shown {
			e.threadFrame(entry, modes)
		}
		return err == nil
	})
	s.runs().cut(c, err)
	return ignored(err)
}

// threadStreamModes returns the modes of a thread's stream. LangGraph's server reads only
// stream_modes, a comma-separated list. Its SDKs send stream_mode (by default run_modes) even
// if the caller adds stream_modes, so stream_modes takes precedence.
func threadStreamModes(q query) ([]string, error) {
	for _, name := range []string{"stream_modes", "stream_mode"} {
		modes := q.list(name)
		if len(modes) == 1 {
			modes = strings.Split(modes[0], ",")
		}
		for _, mode := range modes {
			if !slices.Contains(threadModes, mode) {
				return nil, invalid(name, "want some of %s, not %q", strings.Join(threadModes, ", "), mode)
			}
		}
		if len(modes) > 0 {
			return modes, nil
		}
	}
	return threadModes[:1], nil
}

// threadModes lists the modes of a thread's stream, the default first. The last mode never has
// frames.
var threadModes = []string{"run_modes", "lifecycle", "state_update"}

// threadFrame adds the frame of an entry. The end of a run gets its own frame, because the
// stream continues after it.
func (e *events) threadFrame(entry *runs.Entry, modes []string) {
	runModes, lifecycle := slices.Contains(modes, "run_modes"), slices.Contains(modes, "lifecycle")
	id := strconv.FormatUint(entry.Seq, 10)
	switch {
	case entry.End != nil:
		if (runModes || lifecycle) && !entry.End.Lost {
			e.frame("metadata", nil, id, []byte(`{"status":"run_done","run_id":"`+entry.Run.String()+`"}`))
		}
	case entry.Protocol == runs.Classic && (runModes || lifecycle && entry.Name == "metadata"):
		e.frame(entry.Name, entry.NS, id, entry.Data())
	}
}
