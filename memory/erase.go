package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/store"
)

// An Erasure describes the data that belongs to a person and where it is stored.
// [Erasure.Run] erases the data, and [Erasure.DryRun] only counts it.
//
// All other data is kept, including texts shared by two people, with one exception: cached
// node results do not belong to a particular person, so all of them are removed, and the
// nodes run again when needed.
type Erasure struct {
	// Person is the person's ID. It selects conversations pending in a Reflector if the ID
	// is the value of a variable of their namespace ([Session].Vars), and crons created by
	// the server user with this ID.
	Person string
	// Namespaces lists store prefixes, such as {"memories", "ann"}. All items under them
	// are removed, with their history, index entries, and use counts.
	Namespaces []store.Namespace
	// Threads lists thread IDs in the Saver and the Ledger.
	Threads []string
	// Metadata selects threads, crons, assistants, and stateless runs of the Ledger whose
	// metadata contains all these values, such as {"user_id": "ann"}.
	Metadata map[string]any

	// Saver stores the checkpoints of the threads.
	Saver checkpoint.Saver
	// Cache stores the cached node results; nil means the Saver's cache, if any. KeepCache
	// leaves the cache unchanged.
	Cache     checkpoint.Cache
	KeepCache bool
	// Store contains the Namespaces and the Journals.
	Store *store.Store
	// Ledger stores the threads, runs, crons, webhooks, and events of a server. Log stores
	// the events of a server whose bus has a log; see [bus.Bus].
	Ledger *ledger.Ledger
	Log    bus.Log
	// Reflectors lists every [Reflector] of this process that handles the person's
	// conversations, such as one for a profile and one for a collection. A Reflector that
	// is not listed writes the person's data back when it runs.
	Reflectors []*Reflector[Session, []ItemChange]
	// Journals lists the namespaces of durable Reflectors that this process has not opened;
	// see [OpenReflector]. A prefix selects all journals under it. If another process has
	// such a Reflector open, it discards conversations whose journal entry is gone.
	Journals []store.Namespace
	// Files lists the databases other than the Saver's that contain the Store, the Ledger,
	// or the Cache. After the erasure, they are scrubbed like the Saver; see
	// [checkpoint.Scrubber].
	Files []checkpoint.Scrubber

	// Wait is the maximum time to wait for canceled runs of the Ledger to end; 0 means 10
	// s.
	Wait time.Duration
}

// Erased is the report of an erasure. It contains counts, the person's ID, and thread IDs,
// but none of the erased texts, so it can be kept as proof.
type Erased struct {
	Person  string    `json:"person,omitempty"`
	DryRun  bool      `json:"dry_run,omitempty"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Threads []string  `json:"threads,omitempty"` // the threads that were found, and those of Erasure.Threads
	// Found counts the data that was found and, unless DryRun is set, erased. After an
	// interrupted call, it counts the data that the interrupted call left.
	Found Holdings `json:"found"`
	// Left counts the remaining data: data that could not be erased, and data that was
	// repeatedly written back during the erasure. It is empty if the call returned no
	// error.
	Left Holdings `json:"left"`
	// CacheCleared reports whether all cached node results were removed.
	CacheCleared bool `json:"cache_cleared,omitempty"`
	// Scrubbed reports whether the databases have also removed the erased data from their
	// files.
	Scrubbed bool `json:"scrubbed,omitempty"`
}

// Holdings counts the data stored about a person.
type Holdings struct {
	Items   int `json:"items"`   // in the store, including deleted items with a history
	Changes int `json:"changes"` // all versions of these items, including deletion records
	Uses    int `json:"uses"`    // use counts and ratings of memories
	Pending int `json:"pending"` // conversations that a Reflector has queued or is processing

	SavedThreads int   `json:"saved_threads"` // in the saver
	SavedBytes   int64 `json:"saved_bytes"`   // size of their checkpoints and pending writes

	Threads    int `json:"threads"` // in the ledger
	Runs       int `json:"runs"`    // including their inputs
	Spans      int `json:"spans"`   // recorded model and tool calls of the runs
	Crons      int `json:"crons"`
	Webhooks   int `json:"webhooks"`
	Assistants int `json:"assistants"`
	Events     int `json:"events"`     // in the ledger
	LogEvents  int `json:"log_events"` // in the Log
}

func (h *Holdings) add(o Holdings) {
	h.Items, h.Changes, h.Uses, h.Pending = h.Items+o.Items, h.Changes+o.Changes, h.Uses+o.Uses, h.Pending+o.Pending
	h.SavedThreads, h.SavedBytes = h.SavedThreads+o.SavedThreads, h.SavedBytes+o.SavedBytes
	h.Threads, h.Runs, h.Crons, h.Webhooks = h.Threads+o.Threads, h.Runs+o.Runs, h.Crons+o.Crons, h.Webhooks+o.Webhooks
	h.Spans += o.Spans
	h.Assistants, h.Events, h.LogEvents = h.Assistants+o.Assistants, h.Events+o.Events, h.LogEvents+o.LogEvents
}

// String returns the counts in words, or "nothing" if all counts are zero.
func (h Holdings) String() string {
	var parts []string
	add := func(n int, one, many string) {
		if n == 1 {
			parts = append(parts, "1 "+one)
		} else if n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(h.Items, "item", "items")
	add(h.Changes, "version", "versions")
	add(h.Uses, "count of uses", "counts of uses")
	add(h.Pending, "pending conversation", "pending conversations")
	add(h.SavedThreads, "saved thread", "saved threads")
	add(int(h.SavedBytes), "byte of checkpoints", "bytes of checkpoints")
	add(h.Threads, "thread of the server", "threads of the server")
	add(h.Runs, "run", "runs")
	add(h.Spans, "recorded call", "recorded calls")
	add(h.Crons, "cron", "crons")
	add(h.Webhooks, "webhook", "webhooks")
	add(h.Assistants, "assistant", "assistants")
	add(h.Events, "event", "events")
	add(h.LogEvents, "event of the log", "events of the log")
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// String returns the report as a few lines of text.
func (r *Erased) String() string {
	var b strings.Builder
	verb := "erased"
	if r.DryRun {
		verb = "would erase"
	}
	fmt.Fprintf(&b, "%s: %v\n", verb, r.Found)
	if r.CacheCleared {
		b.WriteString("cleared: the cached results of all nodes\n")
	}
	if r.Left != (Holdings{}) {
		fmt.Fprintf(&b, "left: %v\n", r.Left)
	}
	if r.Scrubbed {
		b.WriteString("scrubbed: the files of the databases\n")
	}
	return b.String()
}

// errLeft is returned when data was written back during the erasure.
var errLeft = errors.New("data of the person is still being written: end the runs and erase again")

// Run erases everything that belongs to the person and returns a report. It first cancels
// the person's runs in the Ledger, then cancels pending conversations, and then removes
// threads and items. It repeats these steps until it finds nothing, at most three times.
// Finally, it scrubs the files.
//
// If Run fails or its process is killed, call it again to erase the remaining data. If some
// data cannot be erased, Run still erases everything else and returns the report together
// with an error that lists the causes.
//
// A run on an erased thread that was not canceled fails with [checkpoint.ErrConflict] when
// it saves its next step. Run does not prevent programs from starting a thread with the
// same ID or from writing to the namespaces. Before calling it, stop accepting requests
// from the person, and end runs that do not use the Ledger.
func (e *Erasure) Run(ctx context.Context) (*Erased, error) { return e.run(ctx, false) }

// DryRun counts the data that Run would erase.
func (e *Erasure) DryRun(ctx context.Context) (*Erased, error) { return e.run(ctx, true) }

// erasePasses is the maximum number of passes when data is written back.
const erasePasses = 3

func (e *Erasure) run(ctx context.Context, dry bool) (*Erased, error) {
	namespaces, err := e.check()
	if err != nil {
		return nil, fmt.Errorf("memory: erase: %w", err)
	}
	r := &Erased{Person: e.Person, DryRun: dry, Began: time.Now().UTC()}
	x := &eraser{Erasure: e, dry: dry, namespaces: namespaces, threads: map[string]bool{}}
	for _, t := range e.Threads {
		x.threads[t] = true
	}
	clean := false
	for n := 0; n < erasePasses && !clean && ctx.Err() == nil; n++ {
		found := x.pass(ctx)
		r.Found.add(found)
		clean = dry || found == (Holdings{})
	}
	if !clean && ctx.Err() == nil {
		x.dry = true
		if r.Left = x.pass(ctx); r.Left != (Holdings{}) && len(x.failed) == 0 {
			x.fail("", errLeft)
		}
	}
	r.Threads = slices.Sorted(maps.Keys(x.threads))
	if !dry {
		r.CacheCleared = x.clearCache(ctx)
		r.Scrubbed = x.scrub(ctx)
	}
	r.Ended = time.Now().UTC()
	x.fail("", ctx.Err())
	return r, errors.Join(x.failed...)
}

// check validates the erasure and returns its outermost namespaces.
func (e *Erasure) check() ([]store.Namespace, error) {
	switch {
	case len(e.Namespaces)+len(e.Threads)+len(e.Metadata) == 0:
		return nil, errors.New("no data selected: set Namespaces, Threads, or Metadata")
	case len(e.Namespaces) > 0 && e.Store == nil:
		return nil, errors.New("field Namespaces requires Store")
	case len(e.Threads) > 0 && e.Saver == nil && e.Ledger == nil:
		return nil, errors.New("field Threads requires Saver or Ledger")
	case len(e.Metadata) > 0 && e.Ledger == nil:
		return nil, errors.New("field Metadata requires Ledger")
	case e.Log != nil && e.Ledger == nil:
		return nil, errors.New("field Log requires Ledger")
	case len(e.Journals) > 0 && e.Store == nil:
		return nil, errors.New("field Journals requires Store")
	case len(e.Journals)+len(e.Reflectors) > 0 && e.Person == "":
		return nil, errors.New("fields Reflectors and Journals require Person, whose ID selects pending conversations")
	case slices.Contains(e.Reflectors, nil):
		return nil, errors.New("field Reflectors contains nil")
	case slices.ContainsFunc(e.Journals, func(n store.Namespace) bool { return len(n) == 0 }):
		return nil, errors.New("empty namespace in Journals")
	case slices.Contains(e.Threads, ""):
		return nil, errors.New("empty thread ID")
	}
	if slices.ContainsFunc(e.Namespaces, func(n store.Namespace) bool { return len(n) == 0 }) {
		return nil, errors.New("empty namespace: would select all items")
	}
	return outermost(e.Namespaces), nil
}

// outermost returns the namespaces that no other namespace contains, without duplicates.
func outermost(namespaces []store.Namespace) (all []store.Namespace) {
	for _, n := range namespaces {
		if !slices.ContainsFunc(namespaces, func(o store.Namespace) bool { return len(o) < len(n) && n.HasPrefix(o) }) &&
			!slices.ContainsFunc(all, func(o store.Namespace) bool { return slices.Equal(o, n) }) {
			all = append(all, n)
		}
	}
	return all
}

// eraser is the state of a running erasure.
type eraser struct {
	*Erasure
	dry        bool
	namespaces []store.Namespace
	threads    map[string]bool // IDs of all threads found
	failed     []error
}

// fail records an error, once.
func (x *eraser) fail(what string, err error) {
	if err == nil {
		return
	}
	if what != "" {
		err = fmt.Errorf("%s: %w", what, err)
	}
	err = fmt.Errorf("memory: erase: %w", err)
	if !slices.ContainsFunc(x.failed, func(o error) bool { return o.Error() == err.Error() }) {
		x.failed = append(x.failed, err)
	}
}

// pass erases, or counts, the existing data. Runs end before the data that they write is
// erased. The ledger row of a thread is deleted last, so that a call after a crash finds
// the thread again.
func (x *eraser) pass(ctx context.Context) Holdings {
	var h Holdings
	if x.Ledger != nil {
		x.findThreads(ctx)
		h.Runs += x.temporaryRuns(ctx)
		if !x.dry {
			x.endRuns(ctx)
		}
	}
	h.Pending = x.pending(ctx)
	for _, thread := range slices.Sorted(maps.Keys(x.threads)) {
		x.thread(ctx, thread, &h)
	}
	if x.Ledger != nil {
		h.Crons += x.crons(ctx)
		h.Assistants = x.assistants(ctx)
	}
	for _, n := range x.namespaces {
		items, changes := x.items(ctx, n)
		h.Items, h.Changes = h.Items+items, h.Changes+changes
		if counts(n) {
			uses, _ := x.items(ctx, usesOf(n))
			h.Uses += uses
		}
		if sleeps(n) {
			x.items(ctx, sleepOf(n)) // which notes Consolidate has compared, without their texts
		}
		if t := latchSpace(n); len(t.Encode()) <= store.MaxNamespace {
			x.items(ctx, t)
		}
	}
	return h
}

// items erases a prefix of the store and returns its counts.
func (x *eraser) items(ctx context.Context, n store.Namespace) (items, changes int) {
	items, changes, err := x.Store.Count(ctx, n)
	x.fail(fmt.Sprintf("count the items under %v", n), err)
	// Items that cannot be counted may still be removable. An empty prefix is left
	// untouched.
	if !x.dry && (changes > 0 || err != nil) {
		x.fail(fmt.Sprintf("items under %v", n), x.Store.ForgetAll(ctx, n))
	}
	return items, changes
}

// filter returns a filter for the metadata.
func (x *eraser) filter() ledger.Filter { return ledger.Filter{Contains: x.Metadata} }

func (x *eraser) findThreads(ctx context.Context) {
	if len(x.Metadata) == 0 {
		return
	}
	threads, _, err := x.Ledger.Threads(ctx, &ledger.ThreadQuery{Filter: x.filter()})
	x.fail("find the threads", err)
	for _, t := range threads {
		x.threads[t.ID.String()] = true
	}
}

// threadID returns the ledger ID of a thread. It reports false if the ledger cannot contain
// the thread.
func (x *eraser) threadID(thread string) (uuid.UUID, bool) {
	id, err := uuid.Parse(thread)
	return id, x.Ledger != nil && err == nil && id.String() == thread
}

// thread erases a thread from every place where it may exist.
func (x *eraser) thread(ctx context.Context, thread string, h *Holdings) {
	fail := func(err error) { x.fail("thread "+thread, err) }
	id, served := x.threadID(thread)
	if served {
		c, err := x.Ledger.Contents(ctx, id)
		fail(err)
		h.Spans += c.Spans
		h.Runs, h.Crons, h.Webhooks, h.Events = h.Runs+c.Runs, h.Crons+c.Crons, h.Webhooks+c.Webhooks, h.Events+c.Events
		if !x.dry && (c.Events > 0 || err != nil) {
			fail(x.Ledger.DropEvents(ctx, id))
		}
		if x.Log != nil {
			n, err := x.logged(ctx, id)
			fail(err)
			h.LogEvents += n
			if !x.dry && (n > 0 || err != nil) {
				fail(x.Log.Drop(ctx, id))
			}
		}
	}
	if x.Saver != nil {
		there, bytes, err := x.size(ctx, thread)
		if err != nil && x.dry {
			fail(err) // a damaged thread can be deleted
		}
		if there {
			h.SavedThreads, h.SavedBytes = h.SavedThreads+1, h.SavedBytes+bytes
			if !x.dry {
				fail(x.Saver.DeleteThread(ctx, thread))
			}
		}
	}
	if !served {
		return
	}
	_, err := x.Ledger.Thread(ctx, id, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return
	}
	fail(err)
	h.Threads++
	if !x.dry {
		if _, err := x.Ledger.DeleteThread(ctx, id, nil); !errors.Is(err, ledger.ErrNotFound) {
			fail(err)
		}
	}
}

// logged returns the number of a thread's events in the log.
func (x *eraser) logged(ctx context.Context, id uuid.UUID) (n int, err error) {
	for e, err := range x.Log.Read(ctx, id, 0, false) {
		if err != nil {
			return n, err
		}
		n += int(e.Last - e.First + 1)
	}
	return n, nil
}

// size reports whether the saver has the thread, and its size in bytes.
func (x *eraser) size(ctx context.Context, thread string) (there bool, bytes int64, err error) {
	if s, ok := x.Saver.(checkpoint.Sizer); ok {
		bytes, err = s.Size(ctx, thread)
	} else {
		_, err = x.Saver.Get(ctx, checkpoint.Key{Thread: thread})
	}
	if errors.Is(err, checkpoint.ErrNotFound) {
		return false, 0, nil
	}
	return true, bytes, err
}

// endRuns cancels the unfinished runs of all threads and waits for them to end.
func (x *eraser) endRuns(ctx context.Context) {
	busy := map[uuid.UUID]bool{}
	for thread := range x.threads {
		id, ok := x.threadID(thread)
		if !ok {
			continue
		}
		t, err := x.Ledger.Thread(ctx, id, nil)
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		x.fail("thread "+thread, err)
		if err != nil || t.Status != ledger.Busy {
			continue
		}
		var open []uuid.UUID
		for _, status := range []ledger.RunStatus{ledger.Pending, ledger.Running} {
			runs, err := x.Ledger.Runs(ctx, id, nil, status, ledger.Page{})
			x.fail("thread "+thread, err)
			for _, run := range runs {
				open = append(open, run.ID)
			}
		}
		_, _, err = x.Ledger.Cancel(ctx, id, open, ledger.CancelRun, nil)
		x.fail("thread "+thread, err)
		busy[id] = true
	}
	x.await(ctx, busy, func(id uuid.UUID) (bool, error) {
		t, err := x.Ledger.Thread(ctx, id, nil)
		return err == nil && t.Status == ledger.Busy, err
	})
}

// defaultEraseWait exceeds a worker's lease duration, within which the worker notices the
// cancellation.
const defaultEraseWait = 10 * time.Second

// await waits until none of ids is busy.
func (x *eraser) await(ctx context.Context, ids map[uuid.UUID]bool, busy func(uuid.UUID) (bool, error)) {
	patience := cmp.Or(x.Wait, defaultEraseWait)
	for start, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		for id := range ids {
			b, err := busy(id)
			if err != nil && !errors.Is(err, ledger.ErrNotFound) {
				x.fail(id.String(), err)
			}
			if !b {
				delete(ids, id)
			}
		}
		if len(ids) == 0 {
			return
		}
		if time.Since(start) > patience || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	for id := range ids {
		x.fail("", fmt.Errorf("run of %s did not end within %v of its cancellation: the ledger rejects its results, but it may still write to the store: erase again after its process has ended", id, patience))
	}
}

// temporaryRuns cancels the unfinished stateless runs and returns their number. Their rows
// are deleted when they end.
func (x *eraser) temporaryRuns(ctx context.Context) (n int) {
	if len(x.Metadata) == 0 {
		return 0
	}
	f := x.filter()
	var open []*ledger.Run
	for run, err := range x.Ledger.OpenRuns(ctx, &f) {
		if err != nil {
			x.fail("find the runs without a thread", err)
			break
		}
		if run.Temporary {
			open = append(open, run)
		}
	}
	if x.dry {
		return len(open)
	}
	running := map[uuid.UUID]bool{}
	for _, run := range open {
		x.threads[run.Thread.String()] = true // for its events, and for its checkpoints while it runs
		_, _, err := x.Ledger.Cancel(ctx, uuid.Nil, []uuid.UUID{run.ID}, ledger.CancelRun, nil)
		if !errors.Is(err, ledger.ErrNotFound) {
			x.fail("run "+run.ID.String(), err)
		}
		running[run.ID] = true
	}
	x.await(ctx, running, func(id uuid.UUID) (bool, error) {
		_, err := x.Ledger.Run(ctx, uuid.Nil, id, nil)
		return err == nil, err
	})
	return len(open)
}

// crons erases the person's crons that do not belong to one of the person's threads.
func (x *eraser) crons(ctx context.Context) (n int) {
	f := x.filter()
	crons, _, err := x.Ledger.Crons(ctx, &ledger.CronQuery{})
	x.fail("find the crons", err)
	for _, c := range crons {
		if c.Thread != nil && x.threads[c.Thread.String()] {
			continue // counted with its thread
		}
		if (x.Person == "" || c.UserID == nil || *c.UserID != x.Person) && (len(x.Metadata) == 0 || !f.Match(c.Metadata)) {
			continue
		}
		n++
		if !x.dry {
			if err := x.Ledger.DeleteCron(ctx, c.ID, nil); !errors.Is(err, ledger.ErrNotFound) {
				x.fail("cron "+c.ID.String(), err)
			}
		}
	}
	return n
}

func (x *eraser) assistants(ctx context.Context) int {
	if len(x.Metadata) == 0 {
		return 0
	}
	assistants, _, err := x.Ledger.Assistants(ctx, &ledger.AssistantQuery{Filter: x.filter()})
	x.fail("find the assistants", err)
	for _, a := range assistants {
		if !x.dry {
			if err := x.Ledger.DeleteAssistant(ctx, a.ID, nil); !errors.Is(err, ledger.ErrNotFound) {
				x.fail("assistant "+a.ID.String(), err)
			}
		}
	}
	return len(assistants)
}

// pending erases the conversations that wait for a Reflector. Journals come last: by then,
// the listed Reflectors have removed their entries. A dry run skips these entries, so that
// it counts each conversation once.
func (x *eraser) pending(ctx context.Context) (n int) {
	var counted []*journal[Session]
	for i, r := range x.Reflectors {
		if slices.Contains(x.Reflectors[:i], r) {
			continue
		}
		dropped, err := r.drop(ctx, x.dry, x.owns)
		if errors.Is(err, ErrClosed) && r.journal != nil { // the journal keeps its work
			dropped, err = r.journal.drop(ctx, x.dry, false, func(_ store.Namespace, key string, s Session) bool { return x.owns(key, s) })
		} else if errors.Is(err, ErrClosed) {
			dropped, err = 0, nil
		}
		x.fail("pending conversations", err)
		n += dropped
		if x.dry && r.journal != nil && r.journal.store == x.Store {
			counted = append(counted, r.journal)
		}
	}
	for _, prefix := range outermost(x.Journals) {
		dropped, err := (&journal[Session]{x.Store, prefix}).drop(ctx, x.dry, true, func(n store.Namespace, key string, s Session) bool {
			return x.owns(key, s) && !slices.ContainsFunc(counted, func(j *journal[Session]) bool { return slices.Equal(j.namespace, n) })
		})
		x.fail("pending conversations", err)
		n += dropped
	}
	return n
}

// owns reports whether a pending conversation belongs to the person, by a variable of its
// namespace or by its thread. The key begins with the thread; see sessionKey.
func (x *eraser) owns(key string, s Session) bool {
	for _, v := range s.Vars {
		if v == x.Person {
			return true
		}
	}
	thread, _, more := strings.Cut(key, "/")
	if unescaped, err := url.PathUnescape(thread); more && err == nil {
		thread = unescaped
	}
	return x.threads[key] || x.threads[thread] || x.threads[s.Source.Thread]
}

// clearCache clears the cache and reports whether there was a cache to clear.
func (x *eraser) clearCache(ctx context.Context) bool {
	cache := x.Cache
	if c, ok := x.Saver.(checkpoint.Cacher); ok && cache == nil {
		cache = c.Cache()
	}
	if cache == nil || x.KeepCache {
		return false
	}
	err := cache.Clear(ctx)
	x.fail("cache", err)
	return err == nil
}

// scrub scrubs the databases and reports whether all of them were scrubbed.
func (x *eraser) scrub(ctx context.Context) bool {
	files := x.Files
	if s, ok := x.Saver.(checkpoint.Scrubber); ok {
		files = append(slices.Clip(files), s)
	}
	ok := len(files) > 0
	for _, f := range files {
		err := f.Scrub(ctx)
		x.fail("files", err)
		ok = ok && err == nil
	}
	return ok
}
