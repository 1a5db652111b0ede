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

// Erasure says what belongs to a person, and where it is stored. [Erasure.Run] erases
// it, [Erasure.DryRun] only counts it.
//
// Everything that belongs to somebody else stays, texts that two people share included,
// with one exception: the results that nodes have cached belong to nobody in particular,
// so all of them are removed; the nodes run again when they are needed.
type Erasure struct {
	// Person is the id of the person. It selects the conversations that are pending in a
	// Reflector, if it is the value of a variable of their namespace ([Session].Vars), and
	// the crons that a user of the server with this id has made.
	Person string
	// Namespaces are prefixes in the store, such as {"memories", "ann"}: all items under
	// them are removed with their history, their index entries, and the counts of their uses.
	Namespaces []store.Namespace
	// Threads are ids of threads in the Saver, and in the Ledger.
	Threads []string
	// Metadata selects the threads, crons, assistants and runs without a thread of the
	// Ledger whose metadata has all these values, such as {"user_id": "ann"}.
	Metadata map[string]any

	// Saver has the checkpoints of the threads.
	Saver checkpoint.Saver
	// Cache has the cached results of nodes; nil means the Saver's, if it has one.
	// KeepCache leaves it as it is.
	Cache     checkpoint.Cache
	KeepCache bool
	// Store has the Namespaces, and the Journal.
	Store *store.Store
	// Ledger has the threads, runs, crons, webhooks and events of a server. Log has the
	// events of a server whose bus has a log: see [bus.Bus].
	Ledger *ledger.Ledger
	Log    bus.Log
	// Reflectors lists every [Reflector] of this process that handles the person's
	// conversations, such as one for a profile and one for a collection. A missing
	// Reflector writes the person's data back when it runs.
	Reflectors []*Reflector[Session, []ItemChange]
	// Journals lists the namespaces of durable Reflectors that this process has not
	// opened: see [OpenReflector]. A prefix selects all journals under it. A process that
	// has such a Reflector open discards the conversations whose journal entry is gone.
	Journals []store.Namespace
	// Files are databases other than the Saver's, if the Store, the Ledger or the Cache is
	// in one. When all is erased, they are scrubbed as the Saver is: see
	// [checkpoint.Scrubber].
	Files []checkpoint.Scrubber

	// Wait is how long runs of the Ledger that were told to end are waited for; 0 means
	// 10 s.
	Wait time.Duration
}

// Erased is the report of an erasure. It has counts, the id of the person and the ids of
// threads, and none of the texts that were erased, so it can be kept as a proof.
type Erased struct {
	Person  string    `json:"person,omitempty"`
	DryRun  bool      `json:"dry_run,omitempty"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Threads []string  `json:"threads,omitempty"` // those that were found, and those that were given
	// Found is what there was and, unless DryRun is set, what was erased. If an earlier
	// call was interrupted, it is what that one had left.
	Found Holdings `json:"found"`
	// Left is what is still there: what could not be erased, and what somebody wrote again
	// and again while it was being erased. It is empty if the error of the call is nil.
	Left Holdings `json:"left"`
	// CacheCleared says that all cached results of nodes were removed.
	CacheCleared bool `json:"cache_cleared,omitempty"`
	// Scrubbed says that the databases have removed what was erased from their files too.
	Scrubbed bool `json:"scrubbed,omitempty"`
}

// Holdings is what there is of a person.
type Holdings struct {
	Items   int `json:"items"`   // of the store, those that were deleted and have a history included
	Changes int `json:"changes"` // all versions of these items, and the records of their deletion
	Uses    int `json:"uses"`    // counts of uses of memories
	Pending int `json:"pending"` // conversations that wait for a Reflector, or are in its hands

	SavedThreads int   `json:"saved_threads"` // of the saver
	SavedBytes   int64 `json:"saved_bytes"`   // of their checkpoints and pending writes

	Threads    int `json:"threads"` // of the ledger
	Runs       int `json:"runs"`    // with their inputs
	Crons      int `json:"crons"`
	Webhooks   int `json:"webhooks"`
	Assistants int `json:"assistants"`
	Events     int `json:"events"`     // of the ledger
	LogEvents  int `json:"log_events"` // of the Log
}

func (h *Holdings) add(o Holdings) {
	h.Items, h.Changes, h.Uses, h.Pending = h.Items+o.Items, h.Changes+o.Changes, h.Uses+o.Uses, h.Pending+o.Pending
	h.SavedThreads, h.SavedBytes = h.SavedThreads+o.SavedThreads, h.SavedBytes+o.SavedBytes
	h.Threads, h.Runs, h.Crons, h.Webhooks = h.Threads+o.Threads, h.Runs+o.Runs, h.Crons+o.Crons, h.Webhooks+o.Webhooks
	h.Assistants, h.Events, h.LogEvents = h.Assistants+o.Assistants, h.Events+o.Events, h.LogEvents+o.LogEvents
}

// String returns the counts in words, "nothing" if there are none.
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

// String returns the report as a few lines.
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

// errLeft is the error of an erasure during which somebody wrote.
var errLeft = errors.New("somebody writes for the person: end their runs, and erase again")

// Run erases everything that belongs to the person and returns what it was. Runs of the
// Ledger are told to end first, then pending conversations are cancelled, then threads
// and items are removed. This is repeated until nothing is found, at most three times.
// At last the files are scrubbed.
//
// If Run fails or its process is killed, call it again: it erases what is left. The
// report is returned together with an error, which says what could not be erased and
// why; everything else is erased all the same.
//
// A run on an erased thread that was not told to end fails with
// [checkpoint.ErrConflict] when it stores its next step. Nothing keeps a program from
// beginning a thread with the same id, or from writing to the namespaces. So stop
// accepting requests of the person before, and end what runs without the Ledger.
func (e *Erasure) Run(ctx context.Context) (*Erased, error) { return e.run(ctx, false) }

// DryRun returns what Run would erase.
func (e *Erasure) DryRun(ctx context.Context) (*Erased, error) { return e.run(ctx, true) }

// erasePasses is how often what comes back is erased again.
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

// check returns the namespaces without those that others include.
func (e *Erasure) check() ([]store.Namespace, error) {
	switch {
	case len(e.Namespaces)+len(e.Threads)+len(e.Metadata) == 0:
		return nil, errors.New("nothing says what belongs to the person: give Namespaces, Threads or Metadata")
	case len(e.Namespaces) > 0 && e.Store == nil:
		return nil, errors.New("there are Namespaces and no Store")
	case len(e.Threads) > 0 && e.Saver == nil && e.Ledger == nil:
		return nil, errors.New("there are Threads and neither a Saver nor a Ledger")
	case len(e.Metadata) > 0 && e.Ledger == nil:
		return nil, errors.New("there is Metadata and no Ledger, whose threads it selects")
	case e.Log != nil && e.Ledger == nil:
		return nil, errors.New("there is a Log and no Ledger, whose threads it has the events of")
	case len(e.Journals) > 0 && e.Store == nil:
		return nil, errors.New("Journals requires Store")
	case len(e.Journals)+len(e.Reflectors) > 0 && e.Person == "":
		return nil, errors.New("Reflectors and Journals require Person, whose ID selects pending conversations")
	case slices.Contains(e.Reflectors, nil):
		return nil, errors.New("Reflectors contains nil")
	case slices.ContainsFunc(e.Journals, func(n store.Namespace) bool { return len(n) == 0 }):
		return nil, errors.New("empty namespace in Journals")
	case slices.Contains(e.Threads, ""):
		return nil, errors.New("a thread has no id")
	}
	if slices.ContainsFunc(e.Namespaces, func(n store.Namespace) bool { return len(n) == 0 }) {
		return nil, errors.New("a namespace is empty: it would select the items of everybody")
	}
	return outermost(e.Namespaces), nil
}

// outermost returns the namespaces that no other one includes.
func outermost(namespaces []store.Namespace) (all []store.Namespace) {
	for _, n := range namespaces {
		if !slices.ContainsFunc(namespaces, func(o store.Namespace) bool { return len(o) < len(n) && n.HasPrefix(o) }) &&
			!slices.ContainsFunc(all, func(o store.Namespace) bool { return slices.Equal(o, n) }) {
			all = append(all, n)
		}
	}
	return all
}

// eraser is an erasure under way.
type eraser struct {
	*Erasure
	dry        bool
	namespaces []store.Namespace
	threads    map[string]bool // the ids of all that were found
	failed     []error
}

// fail notes an error, once.
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

// pass erases, or counts, what there is at the moment. Runs end before what they write
// to is erased. Of a thread of the ledger the row goes last, so that a call after a
// crash finds it again.
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
	}
	return h
}

// items erases a prefix of the store.
func (x *eraser) items(ctx context.Context, n store.Namespace) (items, changes int) {
	items, changes, err := x.Store.Count(ctx, n)
	x.fail(fmt.Sprintf("count the items under %v", n), err)
	// What cannot be counted may still be removed. What is not there leaves no mark.
	if !x.dry && (changes > 0 || err != nil) {
		x.fail(fmt.Sprintf("the items under %v", n), x.Store.ForgetAll(ctx, n))
	}
	return items, changes
}

// filter selects by the metadata.
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

// threadID returns the id that a thread has in the ledger, if it may be there.
func (x *eraser) threadID(thread string) (uuid.UUID, bool) {
	id, err := uuid.Parse(thread)
	return id, x.Ledger != nil && err == nil && id.String() == thread
}

// thread erases a thread. What one place lacks, another may still have.
func (x *eraser) thread(ctx context.Context, thread string, h *Holdings) {
	fail := func(err error) { x.fail("thread "+thread, err) }
	id, served := x.threadID(thread)
	if served {
		c, err := x.Ledger.Contents(ctx, id)
		fail(err)
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

// logged counts the events that the log has of a thread.
func (x *eraser) logged(ctx context.Context, id uuid.UUID) (n int, err error) {
	for e, err := range x.Log.Read(ctx, id, 0, false) {
		if err != nil {
			return n, err
		}
		n += int(e.Last - e.First + 1)
	}
	return n, nil
}

// size returns whether the saver has a thread, and how many bytes.
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

// endRuns tells the open runs of all threads to end, and waits for them.
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

// defaultEraseWait is longer than the lease of a worker, within which it sees the order.
const defaultEraseWait = 10 * time.Second

// await waits until none of ids is busy any more.
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
		x.fail("", fmt.Errorf("a run of %s was told to end and has not within %v: what it stores is refused, but it may still write to the store: erase again when its process has ended", id, patience))
	}
}

// temporaryRuns ends the runs without a thread that are open. Their rows go with them.
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
		x.threads[run.Thread.String()] = true // its events, and its checkpoints as long as it runs
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

// crons erases the crons that belong to no thread of the person.
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

// pending erases the conversations that wait for a reflector. Journals come last: the
// reflectors listed have removed their entries by then, and a dry run leaves these
// entries out, so that it counts each conversation once.
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

// owns reports whether a pending conversation belongs to the person: by a variable of
// its namespace, or by its thread. The key begins with the thread: see sessionKey.
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

// clearCache reports whether there was a cache to clear.
func (x *eraser) clearCache(ctx context.Context) bool {
	cache := x.Cache
	if c, ok := x.Saver.(checkpoint.Cacher); ok && cache == nil {
		cache = c.Cache()
	}
	if cache == nil || x.KeepCache {
		return false
	}
	err := cache.Clear(ctx)
	x.fail("the cache", err)
	return err == nil
}

// scrub reports whether all databases have been scrubbed.
func (x *eraser) scrub(ctx context.Context) bool {
	files := x.Files
	if s, ok := x.Saver.(checkpoint.Scrubber); ok {
		files = append(slices.Clip(files), s)
	}
	ok := len(files) > 0
	for _, f := range files {
		err := f.Scrub(ctx)
		x.fail("the files", err)
		ok = ok && err == nil
	}
	return ok
}
