package parity_test

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/imports/langgraphimport"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// savedThread is a thread that LangGraph's savers have stored: a script, up to an
// operation.
type savedThread struct {
	Thread string `json:"thread"`
	Script string `json:"script"`
	Cut    int    `json:"cut"`

	Incomplete bool `json:"incomplete"` // part of it cannot be converted
}

// memory is a target of an import.
type memory struct {
	*checkpoint.Memory
	items store.Backend
}

func (m *memory) Store(o *store.Options) (*store.Store, error) { return store.New(m.items, o) }

// TestImportedThreadsContinue imports threads that LangGraph has stored, with its SQLite
// saver and its Postgres saver, and plays the rest of their scripts: each operation
// gives what it gives in Python.
func TestImportedThreadsContinue(t *testing.T) {
	for name, from := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return unpacked(t, "langgraph.sqlite") },
		"postgres": func(t *testing.T) string { return loadPostgres(t, "postgres.json") },
	} {
		t.Run(name, func(t *testing.T) {
			to := &memory{checkpoint.NewMemory(), store.NewMemoryBackend()}
			report, err := langgraphimport.Run(t.Context(), langgraphimport.Options{From: from(t), To: to})
			if err != nil {
				t.Fatal(err)
			}
			threads := savedThreads(t)
			checkProblems(t, threads, report.Problems)
			if report.Threads != len(threads) {
				t.Errorf("%d threads are imported, want %d", report.Threads, len(threads))
			}
			scripts := map[string]*script{}
			for _, s := range append(loadScripts(t), messagesScript(t)) {
				scripts[s.Graph] = s
			}
			table := &threadLedger{needed: map[string]map[place]bool{}}
			for _, saved := range threads {
				if saved.Incomplete {
					continue
				}
				t.Run(saved.Thread, func(t *testing.T) { goOn(t, to.Memory, scripts[saved.Script], saved, table) })
			}
		})
	}
}

func savedThreads(t *testing.T) (all []savedThread) {
	readJSON(t, "fixtures/import/threads.json", &all)
	if len(all) < 20 {
		t.Fatalf("only %d threads", len(all))
	}
	return all
}

// checkProblems checks that exactly what cannot be converted is reported.
func checkProblems(t *testing.T, threads []savedThread, problems []langgraphimport.Problem) {
	got := map[string]bool{}
	for _, p := range problems {
		if p.Checkpoint == "" || p.Field == "" || p.Text == "" {
			t.Errorf("problem does not say where it is: %+v", p)
		}
		got[p.Thread] = true
	}
	for _, saved := range threads {
		if got[saved.Thread] != saved.Incomplete {
			t.Errorf("%s: reported as incomplete: %t, want %t: %+v", saved.Thread, got[saved.Thread], saved.Incomplete, problems)
		}
	}
}

func messagesScript(t *testing.T) *script {
	s := &script{}
	readJSON(t, "fixtures/import/messages.json", s)
	return s
}

// unpacked returns the name of a recorded file without its compression.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.Open("fixtures/import/" + name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(t.TempDir(), filepath.Base(name))
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// goOn plays the rest of a script on an imported thread.
func goOn(t *testing.T, saver *checkpoint.Memory, s *script, saved savedThread, table *threadLedger) {
	if err := saver.CopyThread(t.Context(), saved.Thread, "t1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := saver.DeleteThread(context.WithoutCancel(t.Context()), "t1"); err != nil {
			t.Error(err)
		}
	})
	tr := newTrace()
	build := scripted[s.Graph]
	if s.Graph == "messages" {
		build = refunds
	}
	g, err := build(tr, &treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := &player{t: t, graph: g, saver: saver, ids: identities{ours: map[string]string{}, theirs: map[string]string{}}}
	noteAnswers(s)
	for _, o := range s.Ops[:saved.Cut] {
		for _, name := range o.Entered {
			tr.done(name) // in Python
		}
	}
	p.adopt(s.Ops[:saved.Cut])
	for i, o := range s.Ops {
		if i < saved.Cut {
			continue
		}
		got, steps := p.do(o)
		got["entered"] = tr.take(s.Unordered)
		if !s.Unordered {
			steps = nil
		}
		want := o.recorded()
		if s.Unordered {
			want, got = inOrder(want), inOrder(got)
		}
		if s.Graph == "messages" {
			want, got = rewrite(want, withoutEmpty).(map[string]any), rewrite(got, withoutEmpty).(map[string]any)
		}
		if !table.compare(t, s.at(i), want, got, steps, &p.ids) {
			return
		}
	}
}

// withoutEmpty removes the empty fields of messages, which Python writes, and makes
// lists of single messages.
func withoutEmpty(v any) any {
	m, ok := v.(map[string]any)
	if one, single := m["messages"].(map[string]any); single {
		m["messages"] = []any{one} // an update in Go is always a list
	}
	if _, has := m["content"]; !ok || !has {
		return v
	}
	delete(m, "$type") // of a recorded input
	for k, v := range m {
		list, isList := v.([]any)
		object, isObject := v.(map[string]any)
		if k != "content" && (v == nil || isList && len(list) == 0 || isObject && len(object) == 0) {
			delete(m, k)
		}
	}
	return m
}

// adopt pairs the open questions of the thread with the ones that Python showed
// last.
func (p *player) adopt(ops []*op) {
	snap, err := p.graph.open(checkpoint.ID{}).untyped().State(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, o := range slices.Backward(ops) {
		out, _ := o.Output.(map[string]any)
		asked, ok := out["__interrupt__"].([]any)
		if !ok {
			continue
		}
		for _, a := range asked {
			theirs := a.(map[string]any)
			for _, task := range snap.Tasks {
				for _, q := range task.Pauses {
					id := theirs["id"].(string)
					if p.ids.theirs[q.ID] == "" && p.ids.ours[id] == "" && fmt.Sprint(p.json(q.Value)) == fmt.Sprint(theirs["value"]) {
						p.ids.ours[id], p.ids.theirs[q.ID] = q.ID, id
					}
				}
			}
		}
		return
	}
}

type turned struct{ Messages llm.Messages }

// refunds is the graph of the script "messages".
var refunds = threadOf(func(tr *trace, b *treadle.Builder[llm.Chat]) {
	in(b,
		stepOf("model", func(_ context.Context, s llm.Chat) (turned, error) {
			tr.enter("model")
			m := llm.Message{Role: llm.RoleAI, ID: fmt.Sprint("a", len(s.Messages)), Usage: &llm.Usage{Input: 7, Output: 3, Total: 10},
				Metadata:  map[string]any{"model_name": "m"},
				ToolCalls: []llm.ToolCall{{ID: fmt.Sprint("call", len(s.Messages)), Name: "refund", Args: json.RawMessage(`{"order": 42}`)}}}
			return turned{llm.Messages{m}}, nil
		}),
		stepOf("tool", func(ctx context.Context, s llm.Chat) (turned, error) {
			tr.enter("tool")
			call := s.Messages[len(s.Messages)-1].ToolCalls[0]
			var args struct{ Order int }
			if err := json.Unmarshal(call.Args, &args); err != nil {
				return turned{}, err
			}
			answer, err := treadle.Interrupt[string](ctx, map[string]int{"refund": args.Order})
			text := "refused"
			if answer == "yes" {
				text = "refunded"
			}
			return turned{llm.Messages{{Role: llm.RoleTool, ID: "t" + call.ID, Name: "refund", ToolCallID: call.ID, Content: text, Status: "success"}}}, err
		}),
		stepOf("done", func(_ context.Context, s llm.Chat) (turned, error) {
			tr.enter("done")
			n := len(s.Messages)
			return turned{llm.Messages{{Role: llm.RoleAI, ID: fmt.Sprint("d", n), Blocks: []llm.Block{{Type: llm.BlockText, Text: fmt.Sprint(n, " messages")}}}}}, nil
		}),
	)
})

// loadPostgres returns the URL of a database with the tables of LangGraph's Postgres
// saver and store.
func loadPostgres(t *testing.T, file string) string {
	url := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	for statement := range strings.SplitSeq(postgresTables, ";") {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var tables map[string]struct {
		Columns []string
		Rows    [][]json.RawMessage
	}
	readJSON(t, unpacked(t, file), &tables)
	for name, table := range tables {
		rows := make([][]any, len(table.Rows))
		for i, row := range table.Rows {
			for _, raw := range row {
				rows[i] = append(rows[i], cell(t, raw))
			}
		}
		places := make([]string, len(table.Columns))
		for i := range places {
			places[i] = fmt.Sprint("$", i+1)
		}
		batch := &pgx.Batch{}
		for _, row := range rows {
			batch.Queue("INSERT INTO "+name+" ("+strings.Join(table.Columns, ",")+") VALUES ("+strings.Join(places, ",")+")", row...)
		}
		if err := conn.SendBatch(t.Context(), batch).Close(); err != nil {
			t.Fatal(err)
		}
	}
	return url
}

// cell returns a recorded value for the driver.
func cell(t *testing.T, raw json.RawMessage) any {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	switch v := v.(type) {
	case map[string]any:
		if text, ok := v["b"].(string); ok && len(v) == 1 {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		return string(raw)
	case float64:
		return int64(v)
	}
	return v
}

const postgresTables = `
CREATE TABLE checkpoints (thread_id text NOT NULL, checkpoint_ns text NOT NULL DEFAULT '', checkpoint_id text NOT NULL, parent_checkpoint_id text,
	type text, checkpoint jsonb NOT NULL, metadata jsonb NOT NULL DEFAULT '{}', PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE checkpoint_blobs (thread_id text NOT NULL, checkpoint_ns text NOT NULL DEFAULT '', channel text NOT NULL, version text NOT NULL,
	type text NOT NULL, blob bytea, PRIMARY KEY (thread_id, checkpoint_ns, channel, version));
CREATE TABLE checkpoint_writes (thread_id text NOT NULL, checkpoint_ns text NOT NULL DEFAULT '', checkpoint_id text NOT NULL, task_id text NOT NULL,
	idx integer NOT NULL, channel text NOT NULL, type text, blob bytea NOT NULL, task_path text NOT NULL DEFAULT '', PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value jsonb NOT NULL, created_at timestamptz, updated_at timestamptz,
	expires_at timestamptz, ttl_minutes integer, PRIMARY KEY (prefix, key))`
