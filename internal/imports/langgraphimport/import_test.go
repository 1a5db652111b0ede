package langgraphimport

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// tests end the Postgres server before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// recorded returns a copy of the SQLite file that package parity has recorded. The
// tests there continue the threads; these tests cover the import itself.
func recorded(t testing.TB) string {
	t.Helper()
	return unpackedFile(t, "../../test/system/parity/fixtures/import/langgraph.sqlite.gz")
}

// unpackedFile returns a decompressed copy of a file.
func unpackedFile(t testing.TB, name string) string {
	t.Helper()
	packed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "langgraph.sqlite")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// with returns a copy of the recorded file with only some threads, after executing
// the statements.
func with(t testing.TB, threads string, statements ...string) string {
	t.Helper()
	file := recorded(t)
	statements = append([]string{"DELETE FROM checkpoints WHERE thread_id NOT LIKE '" + threads + "'", "DELETE FROM writes WHERE thread_id NOT LIKE '" + threads + "'"}, statements...)
	change(t, file, append(statements, "VACUUM")...)
	return file
}

func copied(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.sqlite")
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func change(t testing.TB, file string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// recordedThreads returns the threads of a file.
func recordedThreads(t testing.TB, file string) map[string][]*rawPoint {
	t.Helper()
	src, err := openSource(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := src.close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	names, err := src.threads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]*rawPoint{}
	for _, name := range names {
		err := src.thread(t.Context(), name, nil, func(p *rawPoint) { all[name] = append(all[name], p) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func openTarget(t testing.TB) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "treadle.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func imported(t testing.TB, file string, to Target) *Report {
	t.Helper()
	r, err := Run(t.Context(), Options{From: file, To: to})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// convert converts a thread.
func convert(name string, raws []*rawPoint) ([]*checkpoint.Put, []Problem) {
	c := newConversion(name)
	for _, raw := range raws {
		c.add(raw)
	}
	return c.convert()
}

// history returns the checkpoint IDs of a thread's root graph, newest first.
func history(t testing.TB, to checkpoint.Saver, thread string) (ids []string) {
	t.Helper()
	for cp, err := range to.List(t.Context(), checkpoint.Query{Thread: thread}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, cp.ID.String())
	}
	return ids
}

func TestSecondImportStoresNothing(t *testing.T) {
	file, to := with(t, "interrupt_nested%"), openTarget(t)
	first := imported(t, file, to)
	if first.Threads == 0 || first.Checkpoints == 0 || first.Items != 3 || first.Unchanged != 0 {
		t.Fatalf("first import: %+v", first)
	}
	before := history(t, to, "interrupt_nested@1")
	again := imported(t, file, to)
	if want := (&Report{Unchanged: first.Threads, SameItems: first.Items, Expired: first.Expired}); !cmp.Equal(want, again) {
		t.Errorf("second import: %s", cmp.Diff(want, again))
	}
	if d := cmp.Diff(before, history(t, to, "interrupt_nested@1")); d != "" {
		t.Errorf("history changed: %s", d)
	}
	s, err := to.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := s.History(t.Context(), store.Namespace{"users", "8", "notes"}, "a/b"); err != nil || len(changes) != 1 {
		t.Errorf("item has %d versions, want 1: %v", len(changes), err)
	}
}

func TestSecondImportAddsNewData(t *testing.T) {
	// The file contains the first checkpoints of a thread, and later all of them.
	file, to := with(t, "interrupt_single@4"), openTarget(t)
	early := copied(t, file)
	change(t, early, "DELETE FROM checkpoints WHERE json_extract(metadata, '$.step') > 1",
		"DELETE FROM writes WHERE checkpoint_id NOT IN (SELECT checkpoint_id FROM checkpoints)")
	first := imported(t, early, to)
	if first.Checkpoints != 3 {
		t.Fatalf("first import stored %d checkpoints", first.Checkpoints)
	}
	second := imported(t, file, to)
	if second.Threads != 1 || second.Checkpoints != 2 || len(second.Problems) > 0 {
		t.Errorf("second import: %+v", second)
	}
	if got := history(t, to, "interrupt_single@4"); len(got) != 5 {
		t.Errorf("history: %q", got)
	}
}

func TestImportKeepsContinuedThread(t *testing.T) {
	file, to := with(t, "interrupt_single@1"), openTarget(t)
	imported(t, file, to)
	head, err := to.Get(t.Context(), checkpoint.Key{Thread: "interrupt_single@1"})
	if err != nil {
		t.Fatal(err)
	}
	key := head.Key
	key.ID = checkpoint.NewID(head.Step+1, head.ID)
	if err := to.Put(t.Context(), &checkpoint.Put{Key: key, Parent: head.ID, Head: head.ID, Step: head.Step + 1, Source: checkpoint.Loop, Control: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	r := imported(t, file, to)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "it has continued in the target") || r.Checkpoints != 0 {
		t.Errorf("second import: %+v", r)
	}
	if now, err := to.Get(t.Context(), checkpoint.Key{Thread: "interrupt_single@1"}); err != nil || now.ID != key.ID {
		t.Errorf("head %v, want %v: %v", now, key.ID, err)
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	file := with(t, "interrupt_single@1")
	r := imported(t, file, nil)
	if r.Threads != 1 || r.Checkpoints != 3 || r.Items != 3 {
		t.Errorf("%+v", r)
	}
}

func TestImportDoesNotWriteSource(t *testing.T) {
	file := with(t, "interrupt_single@1", "PRAGMA journal_mode=WAL") // as SqliteSaver leaves it
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(file), 0o500); err != nil { //nolint:gosec // prevents new files
		t.Fatal(err)
	}
	defer func() {
		if err := os.Chmod(filepath.Dir(file), 0o700); err != nil { //nolint:gosec // a directory
			t.Error(err)
		}
	}()
	imported(t, file, openTarget(t))
	after, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("file changed: %v", err)
	}
	files, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(files) != 1 {
		t.Errorf("files in the directory: %v: %v", files, err)
	}
}

func TestImportReadsWriteAheadLog(t *testing.T) {
	file := with(t, "interrupt_single@1")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, s := range []string{"PRAGMA journal_mode=WAL", "UPDATE checkpoints SET thread_id = 'other'", "UPDATE writes SET thread_id = 'other'"} {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	to := openTarget(t)
	imported(t, file, to)
	if got := history(t, to, "other"); len(got) != 3 {
		t.Errorf("thread in the log has %d checkpoints, want 3", len(got))
	}
}

// Before LangGraph stored task paths, only IDs identify the node of a task.
func TestImportWithoutTaskPaths(t *testing.T) {
	file := with(t, "%@1")
	whole := recordedThreads(t, file)
	change(t, file, "ALTER TABLE writes DROP COLUMN task_path")
	bare := recordedThreads(t, file)
	compared := 0
	for name, raws := range whole {
		if strings.HasPrefix(name, "func_") || strings.HasPrefix(name, "task_in_node") || strings.HasPrefix(name, "update_") ||
			strings.Contains(name, "skip") || strings.Contains(name, "update") || strings.HasPrefix(name, "b0") {
			continue // only paths identify edits and calls
		}
		want, _ := convert(name, raws)
		got, problems := convert(name, bare[name])
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: with paths (-), without (+), %v:\n%s", name, problems, d)
		}
		compared++
	}
	if compared < 50 {
		t.Errorf("only %d threads compared", compared)
	}
}

func TestImportReportsDamagedCheckpoints(t *testing.T) {
	const thread = "interrupt_nested@1"
	file := with(t, thread)
	for _, test := range []struct {
		name, statement string
		want            string // of the problem
		left            int    // checkpoints of the root graph
	}{
		{"older checkpoint", "UPDATE checkpoints SET checkpoint = x'c1' WHERE checkpoint_ns = '' AND json_extract(metadata, '$.step') = 0",
			"unreadable checkpoint omitted: invalid first byte 0xc1 of a value", 2},
		{"latest checkpoint", "UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 50) WHERE checkpoint_ns = '' AND json_extract(metadata, '$.step') = 1",
			"thread not imported: unreadable latest checkpoint: truncated data", 0},
		{"metadata", "UPDATE checkpoints SET metadata = '{' WHERE checkpoint_ns = '' AND json_extract(metadata, '$.step') = 0",
			"unreadable checkpoint omitted: metadata: truncated data", 2},
		{"latest checkpoint of a subgraph", "UPDATE checkpoints SET checkpoint = x'01' WHERE checkpoint_ns != '' AND json_extract(metadata, '$.step') = 1",
			"subgraph omitted, which restarts it: unreadable latest checkpoint: value is a int64, not a LangGraph checkpoint", 3},
		{"write", "UPDATE writes SET value = x'' WHERE checkpoint_ns = '' AND channel = '__interrupt__'",
			"thread not imported: unreadable latest checkpoint: write of task", 0},
		{"ID", "UPDATE checkpoints SET checkpoint_id = '1f' WHERE checkpoint_ns = '' AND json_extract(metadata, '$.step') = -1",
			`unreadable checkpoint omitted: ID "1f" is not a UUID`, 2},
		{"pickle", "UPDATE checkpoints SET type = 'pickle' WHERE checkpoint_ns = '' AND json_extract(metadata, '$.step') = 0",
			"pickle, which only Python can read", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, to := copied(t, file), openTarget(t)
			change(t, file, test.statement)
			r := imported(t, file, to)
			if len(r.Problems) == 0 || r.Problems[0].Thread != thread || r.Problems[0].Checkpoint == "" || !strings.Contains(r.Problems[0].Text, test.want) {
				t.Errorf("reported %+v, want %s", r.Problems, test.want)
			}
			if got := history(t, to, thread); len(got) != test.left {
				t.Errorf("%d checkpoints stored, want %d", len(got), test.left)
			}
		})
	}
}

// A checkpoint with any byte changed is converted or reported.
func TestImportSurvivesChangedBytes(t *testing.T) {
	threads := recordedThreads(t, recorded(t))
	for _, name := range []string{"messages@1", "interrupt_nested_deep@1", "interrupt_sends@1", "func_two_questions@2", "nested_lasting_interrupt@1"} {
		raws := threads[name]
		if len(raws) == 0 {
			t.Fatalf("no thread %s", name)
		}
		flip := func(data []byte) {
			for i := 0; i < len(data); i += 9 {
				old := data[i]
				for _, b := range []byte{old ^ 1, 0x91} {
					data[i] = b
					puts, _ := convert(name, slices.Clone(raws))
					for _, p := range puts {
						if !json.Valid(p.Control) {
							t.Errorf("%s: control %s", name, p.Control)
						}
					}
				}
				data[i] = old
			}
		}
		last := raws[len(raws)-1]
		flip(last.body.data)
		flip(last.meta)
		for i := range last.writes {
			flip(last.writes[i].value.data)
		}
	}
}

// database is a target that can be closed.
type database interface {
	Target
	io.Closer
}

func TestImportIntoEveryDatabase(t *testing.T) {
	file := with(t, "%nested%@1")
	sqliteTarget := openTarget(t)
	imported(t, file, sqliteTarget)
	for name, open := range map[string]func(t *testing.T) (database, error){
		"sqlite": func(t *testing.T) (database, error) {
			return sqlite.Open(filepath.Join(t.TempDir(), "to.db"), nil)
		},
		"postgres": func(t *testing.T) (database, error) {
			return postgres.Open(t.Context(), pgtest.URL(t), &postgres.Options{Migrate: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			to, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := to.Close(); err != nil {
					t.Error(err)
				}
			})
			r := imported(t, file, to)
			if r.Threads < 5 || len(r.Problems) > 0 {
				t.Fatalf("%+v", r)
			}
			for thread, err := range sqliteTarget.Threads(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(history(t, sqliteTarget, thread.Name), history(t, to, thread.Name)); d != "" {
					t.Errorf("%s: %s", thread.Name, d)
				}
			}
			if again := imported(t, file, to); again.Unchanged != r.Threads || again.Checkpoints > 0 {
				t.Errorf("second import: %+v", again)
			}
		})
	}
}

func TestImportRejectsOtherDatabases(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.sqlite")
	change(t, other, "CREATE TABLE x(y)")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"):  "file does not exist",
		t.TempDir():                         "is a directory",
		other:                               "no tables of LangGraph's savers or stores",
		text:                                "not a database",
		"postgres://u:secret@127.0.0.1:1/x": "open postgres://u@127.0.0.1:1/x",
	} {
		_, err := Run(t.Context(), Options{From: from})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", from, err, want)
		}
	}
}

func TestImportedItemsKeepTimes(t *testing.T) {
	file, to := with(t, "interrupt_single@1"), openTarget(t)
	change(t, file, "UPDATE store SET created_at = '2026-01-02 03:04:05', updated_at = '2026-02-03 04:05:06.123456' WHERE key = 'name'",
		`INSERT INTO store (prefix, key, value) VALUES ('bad', 'list', '[1]'), ('bad', 'cut', '{"a":'), ('a..b', 'x', '{}')`)
	r := imported(t, file, to)
	var items []string
	for _, p := range r.Problems {
		if p.Item != "" {
			items = append(items, p.Item+": "+p.Text)
		}
	}
	slices.Sort(items)
	want := []string{"a..b x: item omitted: ", "bad cut: item omitted: unreadable value: truncated data", "bad list: item omitted: "}
	if !slices.EqualFunc(items, want, strings.HasPrefix) {
		t.Errorf("reported %q", items)
	}
	if r.Items != 3 || r.Expired != 1 {
		t.Errorf("%d items, %d expired items", r.Items, r.Expired)
	}
	s, err := to.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	it, err := s.Get(t.Context(), store.Namespace{"users", "7"}, "name", nil)
	if err != nil {
		t.Fatal(err)
	}
	if string(it.Value) != `{"text":"Ann","n":2}` || !it.Created.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || !it.Updated.Equal(time.Date(2026, 2, 3, 4, 5, 6, 123456000, time.UTC)) {
		t.Errorf("%s, created %v, updated %v", it.Value, it.Created, it.Updated)
	}
	long, err := s.Get(t.Context(), store.Namespace{"short"}, "long", &store.GetOptions{NoRefresh: true})
	if err != nil || long.TTL != 60*24*365*100*time.Minute || long.Expires.Before(time.Now()) {
		t.Errorf("item with a TTL: %+v, %v", long, err)
	}
	if _, err := s.Get(t.Context(), store.Namespace{"short"}, "gone", nil); err == nil {
		t.Error("expired item was imported")
	}
	// An item that changed in Treadle is not replaced.
	if err := s.Put(t.Context(), store.Namespace{"users", "7"}, "name", json.RawMessage(`{"text":"Bob"}`), nil); err != nil {
		t.Fatal(err)
	}
	again := imported(t, file, to)
	if !slices.ContainsFunc(again.Problems, func(p Problem) bool {
		return p.Item == "users.7 name" && strings.Contains(p.Text, "it has changed in the target")
	}) {
		t.Errorf("second import: %+v", again.Problems)
	}
}

// rawCheckpoint returns a stored checkpoint in the older JSON format.
func rawCheckpoint(id, parent, body, meta string, writes ...rawWrite) *rawPoint {
	return &rawPoint{id: id, parent: parent, body: typed{"json", []byte(body)}, meta: []byte(meta), writes: writes}
}

const (
	firstID  = "1f1e1d6d-7232-6f33-bfff-f573312f7504"
	secondID = "1f1e1d6d-7237-6921-8000-bc8eeccc6f45"
)

func TestUnsavedDeltaChannelIsReported(t *testing.T) {
	_, problems := convert("t", []*rawPoint{rawCheckpoint(firstID, "", `{"v": 4, "channel_values": {}, "channel_versions": {"log": "0002.0.5"}, "versions_seen": {}}`,
		`{"source": "loop", "step": 0, "counters_since_delta_snapshot": {"log": [1, 1]}}`)})
	if len(problems) != 1 || problems[0].Field != "log" || problems[0].Checkpoint != firstID || !strings.Contains(problems[0].Text, "DeltaChannel") {
		t.Errorf("%+v", problems)
	}
}

// Before format 4, sends were writes of the parent's tasks, and before format 3,
// edge channels had other names.
func TestImportReadsOldFormats(t *testing.T) {
	send := `{"lc": 2, "type": "constructor", "id": ["langgraph", "constants", "Send"], "args": null, "kwargs": {"node": "work", "arg": {"n": 1}}}`
	puts, problems := convert("t", []*rawPoint{
		rawCheckpoint(firstID, "", `{"v": 1, "channel_values": {"start:plan": "__start__", "log": ["in"]}, "channel_versions": {"start:plan": 2, "log": 2}, "versions_seen": {}}`,
			`{"source": "loop", "step": 0, "writes": {"x": 1}, "user": "Ann"}`,
			rawWrite{task: "8b4bb7a3-0000-5000-8000-000000000000", channel: "log", value: typed{"json", []byte(`["plan"]`)}},
			rawWrite{task: "8b4bb7a3-0000-5000-8000-000000000000", idx: 1, channel: "__pregel_tasks", value: typed{"json", []byte(send)}}),
		rawCheckpoint(secondID, firstID, `{"v": 1, "channel_values": {"log": ["in", "plan"], "branch:plan:choose:rest": "plan"}, "channel_versions": {"log": 3, "branch:plan:choose:rest": 3, "start:plan": 2},
			"versions_seen": {"plan": {"start:plan": 2}}}`, `{"source": "loop", "step": 1}`),
	})
	if len(puts) != 2 || len(problems) > 0 {
		t.Fatalf("%d checkpoints, %+v", len(puts), problems)
	}
	for i, want := range []string{
		`{"next":["plan"]}`,
		`{"next":["rest"],"sends":[{"node":"work","input":{"n":1}}],"last":["plan"],"results":[{"node":"plan","writes":[{"field":"log","n":1}]}]}`,
	} {
		if got := string(puts[i].Control); got != want {
			t.Errorf("control %s, want %s", got, want)
		}
	}
	if got := string(puts[0].Metadata); got != `{"user":"Ann"}` {
		t.Errorf("metadata %s", got)
	}
}

// The writes of a removed checkpoint are not read, except for the sends of its tasks.
func TestMissingParentIsListed(t *testing.T) {
	file := with(t, "interrupt_single@4", "DELETE FROM checkpoints WHERE json_extract(metadata, '$.step') = 0")
	to := openTarget(t)
	r := imported(t, file, to)
	if len(r.Problems) != 1 || r.Problems[0].Field != "parent" || !strings.Contains(r.Problems[0].Text, "is not in the database") {
		t.Errorf("reported %+v", r.Problems)
	}
}

func TestSendTimeoutsAreImported(t *testing.T) {
	policy := `{"lc": 2, "type": "constructor", "id": ["langgraph", "types", "TimeoutPolicy"], "args": null, "kwargs": {"run_timeout": %s, "idle_timeout": %s}}`
	send := func(node, run, idle string) string {
		return fmt.Sprintf(`{"lc": 2, "type": "constructor", "id": ["langgraph", "types", "Send"], "args": ["%s", 1, `+policy+`], "kwargs": {}}`, node, run, idle)
	}
	puts, problems := convert("t", []*rawPoint{rawCheckpoint(firstID, "", `{"v": 4, "channel_values": {"__pregel_tasks": [`+send("a", "2.5", "null")+","+send("b", "null", "1.0")+`, 7]},
		"channel_versions": {"__pregel_tasks": 2}, "versions_seen": {}}`, `{"source": "loop", "step": 0}`)})
	want := `{"sends":[{"node":"a","input":1,"timeout":{"Run":2500000000,"Idle":0,"HeartbeatOnly":false}},{"node":"b","input":1}]}`
	if len(puts) != 1 || string(puts[0].Control) != want {
		t.Errorf("control %s, want %s", puts[0].Control, want)
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Field+": "+p.Text)
	}
	if want := []string{"__pregel_tasks: json.Number among the sends omitted", "input of b: idle timeout of the Send omitted"}; !slices.Equal(texts, want) {
		t.Errorf("reported %q, want %q", texts, want)
	}
}

// LangGraph 0.2 with a later langgraph-checkpoint writes format 2 and old task IDs.
func TestTaskIDsDoNotDependOnFormat(t *testing.T) {
	whole := recordedThreads(t, versionFile(t, "0.2.60"))["fail"]
	want, _ := convert("fail", whole)
	for _, p := range whole {
		p.body.data = bytes.Replace(p.body.data, []byte("\xa1v\x01"), []byte("\xa1v\x02"), 1)
	}
	got, problems := convert("fail", whole)
	if d := cmp.Diff(want, got); d != "" || len(problems) > 0 {
		t.Errorf("format 1 (-), format 2 (+), %+v:\n%s", problems, d)
	}
}

func TestItemTimesAreKeptOrListed(t *testing.T) {
	file, to := with(t, "interrupt_single@1"), openTarget(t)
	change(t, file, "DELETE FROM store", `INSERT INTO store (prefix, key, value, created_at, updated_at, expires_at) VALUES
		('a', 'odd', '{}', 'yesterday', '2026-01-02 03:04:05', NULL), ('a', 'once', '{}', '2026-01-02 03:04:05', '2026-01-02 03:04:05', '2999-01-02 03:04:05')`)
	r := imported(t, file, to)
	if len(r.Problems) != 1 || r.Problems[0].Item != "a odd" || !strings.Contains(r.Problems[0].Text, `invalid time "yesterday" omitted`) {
		t.Errorf("reported %+v", r.Problems)
	}
	s, err := to.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	it, err := s.Get(t.Context(), store.Namespace{"a"}, "once", &store.GetOptions{NoRefresh: true})
	if err != nil || it.Expires.Year() != 2999 {
		t.Errorf("item expires at %v: %v", it.Expires, err)
	}
}
