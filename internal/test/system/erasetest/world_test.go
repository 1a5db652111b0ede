package erasetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/store"
)

// secrets are words of Ann's texts that nothing else has, in the forms in which an
// index of words and JSON have them too. They are compared in lower case.
var secrets = []string{"zebrapox", "zébrule", "zebrule", `z\u00e9brule`}

const (
	annText = "Ann has Zebrapox, says Dr. Zébrule."
	bobText = "Bob grows harmless tulips."
	// shared is a text that both have.
	shared = "The meeting about quokkas is in Reykjavik."
)

// database is a database of any kind with a ledger.
type database interface {
	backends.Database
	checkpoint.Scrubber
	Ledger() ledger.Backend
}

// world is a program with everything that it stores of people.
type world struct {
	testing.TB
	db        database
	saver     checkpoint.Saver
	store     *store.Store
	ledger    *ledger.Ledger
	graph     *treadle.Graph[note, note]
	reflector *memory.Reflector[memory.Session, []memory.ItemChange]
	worker    uuid.UUID
}

// note is the state of the graph.
type note struct {
	Texts reduce.List[string]
	Last  string
}

var journal = store.Namespace{"pending"}

// newWorld opens a world on a database. With keys, threads and items are encrypted.
func newWorld(t testing.TB, db database, keys ...checkpoint.EncryptionKey) *world {
	t.Helper()
	w := &world{TB: t, db: db, saver: db, ledger: ledger.New(db.Ledger(), &ledger.Options{TextChanged: func(uuid.UUID) {}}), worker: uuid.Must(uuid.NewV7())}
	var err error
	if len(keys) > 0 {
		w.saver, err = checkpoint.Encrypted(db, keys...)
		w.ok(err)
	}
	w.store, err = db.Store(&store.Options{Keys: keys, Embedder: store.NewHashEmbedder(16), Fields: []string{"content.content", "kind", "content"}})
	w.ok(err)
	b := treadle.New[note]("notes")
	treadle.AddNode(b, "think", func(_ context.Context, n note) (struct{ Last string }, error) {
		return struct{ Last string }{"thought of " + n.Texts[len(n.Texts)-1]}, nil
	}, treadle.Cache(0))
	treadle.AddNode(b, "ask", func(ctx context.Context, n note) (struct{ Texts reduce.List[string] }, error) {
		answer, err := treadle.Interrupt[string](ctx, "Is this so? "+n.Last)
		return struct{ Texts reduce.List[string] }{reduce.List[string]{answer}}, err
	})
	b.Edge(treadle.Start, "think")
	b.Edge("think", "ask")
	b.Edge("ask", treadle.End)
	w.graph, err = b.Compile(&treadle.Options{Saver: w.saver, Cache: db.Cache()})
	w.ok(err)
	manager := w.manager("nobody")
	w.reflector, err = memory.OpenReflector(t.Context(), w.store, journal, manager.ReflectOn, nil)
	w.ok(err)
	t.Cleanup(func() { w.ok(w.reflector.Close(context.WithoutCancel(t.Context()))) })
	_, err = w.ledger.Beat(t.Context(), w.worker, "test")
	w.ok(err)
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func namespaceOf(person string) store.Namespace { return store.Namespace{"memories", person} }

func (w *world) manager(person string) *memory.StoreManager {
	w.Helper()
	m, err := memory.NewStoreManager(llmtest.NewScript(), &memory.StoreManagerOptions{Store: w.store, Namespace: namespaceOf(person)})
	w.ok(err)
	return m
}

// settle stores everything that there can be of a person and returns the id of the
// thread of the server. Each text is stored with the one that both people have.
func (w *world) settle(person, text string) uuid.UUID {
	w.Helper()
	ctx := w.Context()
	_, err := w.ledger.Beat(ctx, w.worker, "test")
	w.ok(err)
	quoted := fmt.Sprintf("%s <b>%q</b> %s", text, text, shared)

	// Memories with a history, deleted and expiring ones, and counts of their uses.
	m := w.manager(person)
	for i := range 12 {
		w.ok(m.Put(ctx, fmt.Sprint("key ", i%5), fmt.Sprint(quoted, " ", i, strings.Repeat(" "+text, i%4*20)), nil))
	}
	w.ok(m.Put(ctx, "shared", shared, nil))
	w.ok(m.Delete(ctx, "key 1"))
	w.ok(m.Forget(ctx, "key 2"))
	w.ok(w.store.Put(ctx, append(namespaceOf(person), "notes"), "short", map[string]string{"content": text}, &store.PutOptions{TTL: time.Hour, Meta: map[string]string{"about": text}}))
	// What a fork has learned, under a namespace that the store itself does not have.
	fork, err := w.store.Fork(ctx, store.Latest, store.BranchInfo{})
	w.ok(err)
	w.ok(fork.Put(ctx, store.Namespace{"forks", person}, "k", map[string]string{"content": quoted}, nil))
	w.ok(fork.Put(ctx, namespaceOf(person), "key 0", map[string]string{"content": quoted}, nil))
	w.ok(fork.Delete(ctx, namespaceOf(person), "key 0", nil))
	recall, err := memory.NewRecaller(&memory.RecallerOptions{Store: w.store, Namespace: namespaceOf(person)})
	w.ok(err)
	r, err := recall.Recall(ctx, llm.User(text))
	w.ok(err)
	if len(r.Memories) == 0 {
		w.Fatalf("nothing of %s comes to mind", person)
	}

	// Conversations that wait for reflection.
	_, err = w.reflector.Submit(ctx, "thread/"+person, memory.Session{Vars: map[string]string{"user_id": person}, Messages: llm.Messages{llm.User(quoted)}}, time.Hour)
	w.ok(err)

	// Threads: of the program, and of the server.
	served := &ledger.Thread{Metadata: ledger.Object{"user_id": person, "title": text}}
	w.ok(w.ledger.CreateThread(ctx, served))
	for _, id := range []string{person + " 1", person + " 2", served.ID.String()} {
		thread := w.graph.Thread(id)
		for i := range 3 {
			_, err := thread.Run(ctx, note{Texts: reduce.List[string]{fmt.Sprint(quoted, i), shared}})
			if _, asked := errors.AsType[*treadle.InterruptError](err); !asked {
				w.Fatal("no question was asked: ", err)
			}
			if i < 2 {
				_, err = thread.Resume(ctx, "yes: "+quoted)
				w.ok(err)
			}
		}
	}

	// Runs with inputs, webhooks, wake-ups, signals and events.
	for i := range 3 {
		c, err := w.ledger.CreateRun(ctx, &ledger.NewRun{Worker: w.worker, Run: &ledger.Run{
			Thread: served.ID, Graph: "notes", Kwargs: w.json(map[string]string{"input": quoted}), Metadata: ledger.Object{"said": text}, Key: fmt.Sprint(text, i), Webhook: "http://localhost/" + text}})
		w.ok(err)
		w.ok(w.ledger.SaveSpans(ctx, c.Run, []*ledger.Span{{SpanID: fmt.Sprintf("%016x", i), Name: "tool", Thread: served.ID, Run: c.Run.ID, Started: time.Now(),
			Error: &ledger.Failure{Message: text}, HasContent: true, Input: w.json(quoted), Output: w.json(text)}}, nil, time.Hour))
		w.ok(w.ledger.Append(ctx, &ledger.Events{Thread: served.ID, Run: c.Run.ID, First: uint64(i*2 + 1), Last: uint64(i*2 + 2), Data: w.json(quoted)}))
		_, err = w.ledger.Finish(ctx, &ledger.End{Run: c.Run, Worker: w.worker, Status: ledger.Success, Interrupts: w.json(map[string]string{"t": quoted}), Small: ledger.Object{"last": text},
			Seq: uint64(i*2 + 2), Wake: time.Now().Add(time.Hour), Signals: []string{text},
			Hook: func(*ledger.Run) *ledger.Hook { return &ledger.Hook{URL: "http://localhost/", Body: w.json(quoted)} }})
		w.ok(err)
	}
	u, err := w.ledger.UnindexedThread(ctx, served.ID)
	w.ok(err)
	if u != nil { // with encryption, no text is indexed
		w.ok(w.ledger.IndexThread(ctx, u, &ledger.ThreadText{Title: quoted, Texts: []string{text}}))
	}
	w.ok(w.ledger.CreateCron(ctx, &ledger.Cron{Thread: &served.ID, Schedule: "* * * * *", Payload: w.json(quoted)}))
	w.ok(w.ledger.CreateCron(ctx, &ledger.Cron{Schedule: "* * * * *", Payload: w.json(quoted), Metadata: ledger.Object{"user_id": person}}))
	w.ok(w.ledger.CreateCron(ctx, &ledger.Cron{Schedule: "* * * * *", Payload: w.json(quoted), UserID: &person}))
	w.ok(w.ledger.CreateAssistant(ctx, &ledger.Assistant{Graph: "notes", Name: text, Context: ledger.Object{"prompt": quoted}, Metadata: ledger.Object{"user_id": person}}))
	_, err = w.ledger.CreateRun(ctx, &ledger.NewRun{Run: &ledger.Run{ // it waits, and has no thread
		Temporary: true, Thread: uuid.Must(uuid.NewV7()), Graph: "notes", Kwargs: w.json(map[string]string{"input": quoted}), Metadata: ledger.Object{"user_id": person}}})
	w.ok(err)
	return served.ID
}

func (w *world) json(v any) json.RawMessage {
	w.Helper()
	raw, err := json.Marshal(v)
	w.ok(err)
	return raw
}

// erasure erases a person from the world.
func (w *world) erasure(person string) *memory.Erasure {
	return &memory.Erasure{
		Person: person, Namespaces: []store.Namespace{namespaceOf(person), {"forks", person}}, Threads: []string{person + " 1", person + " 2"}, Metadata: map[string]any{"user_id": person},
		Saver: w.saver, Cache: w.db.Cache(), Store: w.store, Ledger: w.ledger, Reflectors: []*memory.Reflector[memory.Session, []memory.ItemChange]{w.reflector},
	}
}

// what is found of a person that has settled. How many bytes a thread has depends on the
// database.
var settled = memory.Holdings{Items: 9, Changes: 17, Pending: 1, SavedThreads: 3, Threads: 1, Runs: 4, Spans: 3, Crons: 3, Webhooks: 3, Assistants: 1, Events: 6}

// wantFound compares a report with the data of a person whose work has settled.
func (w *world) wantFound(what string, found memory.Holdings) {
	w.Helper()
	if found.SavedBytes == 0 || found.Uses == 0 {
		w.Errorf("%s: %d bytes and %d counts of uses", what, found.SavedBytes, found.Uses)
	}
	found.SavedBytes, found.Uses = 0, 0
	if found != settled {
		w.Errorf("%s:\ngot  %v\nwant %v", what, found, settled)
	}
}

// wantBob checks that nothing of Bob is missing.
func (w *world) wantBob(thread uuid.UUID) {
	w.Helper()
	ctx := w.Context()
	found, err := w.erasure("bob").DryRun(ctx)
	w.ok(err)
	w.wantFound("data of Bob", found.Found)
	items, err := w.store.Search(ctx, namespaceOf("bob"), &store.SearchOptions{Query: "quokkas tulips", Limit: 20, Ranking: store.Keyword})
	w.ok(err)
	if len(items) != 5 { // keys 0, 3, 4, the shared one and the short one
		w.Errorf("search finds %d items of Bob", len(items))
	}
	item, err := w.store.Get(ctx, namespaceOf("bob"), "shared", nil)
	w.ok(err)
	if !strings.Contains(string(item.Value), shared) {
		w.Errorf("shared text: %s", item.Value)
	}
	history, err := w.store.History(ctx, namespaceOf("bob"), "key 1")
	w.ok(err)
	if len(history) != 4 {
		w.Errorf("deleted memory of Bob has %d changes", len(history))
	}
	for _, id := range []string{"bob 1", "bob 2", thread.String()} {
		snap, err := w.graph.Thread(id).State(ctx)
		w.ok(err)
		var n note
		w.ok(snap.State.Read(&n))
		if len(n.Texts) != 8 || !slices.Contains(n.Texts, shared) || len(snap.Pauses) != 1 {
			w.Errorf("thread %s has %q and %d questions", id, n.Texts, len(snap.Pauses))
		}
	}
}
