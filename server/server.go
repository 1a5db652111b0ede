package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/config"
	"github.com/treadle-go/treadle/server/internal/runs"
	"github.com/treadle-go/treadle/server/internal/webhooks"
	"github.com/treadle-go/treadle/store"
)

// A Database stores all data of a server. *sqlite.DB and *postgres.DB implement it.
type Database interface {
	checkpoint.Saver
	Ledger() ledger.Backend
	Store(*store.Options) (*store.Store, error)
}

// Options configures a server. The zero value and a nil *Options mean the defaults.
type Options struct {
	// Auth authenticates and authorizes callers; nil means that every caller may do everything.
	Auth *Auth
	// Store configures the store shared by graphs and clients.
	Store *store.Options
	// Embedders maps names to the embedders that the configuration file may refer to, as in
	// {"store": {"index": {"embed": "openai:text-embedding-3-small"}}}.
	Embedders map[string]store.Embedder
	// Workers is the maximum number of concurrent runs; 0 means 256. If it is negative, the
	// server accepts runs and leaves them to other processes.
	Workers int
	// Execute lists the graphs whose runs this process executes; nil means all. The process
	// accepts runs of other graphs and leaves them to other processes.
	Execute []string
	// Priority, if not nil, returns the priority of a run among the runs waiting for a worker:
	// -5 starts first, 5 last. Runs with the same priority start in the order they are due. A
	// running run keeps its worker.
	//
	// The server calls Priority for the first run on a thread without a priority and stores the
	// result with the thread, where later runs find it. It also calls Priority for each run
	// without a thread. It may call Priority more than once for the same run. An error, or a
	// result out of range, fails the request that creates the run. All processes of a cluster
	// need the same function.
	Priority func(context.Context, *PriorityContext) (int, error)
	// Revision is the program's deploy number, which must increase with each deploy. A process
	// does not execute runs on a thread that a process with a greater revision has changed, so
	// an old program never reads state that only a newer program understands.
	Revision int
	// Bus connects the processes that serve the same database; nil means a single process.
	Bus bus.Bus
	// MaxRunTime limits the duration of a run; 0 means an hour.
	MaxRunTime time.Duration
	// MaxBody limits the size of a request body in bytes; 0 means 10 MiB.
	MaxBody int64
	// MemoryLimit limits the size of the server's caches in bytes: the states of recent
	// threads, the events of recent runs, and database rows. The caches keep the most recently
	// used data, for a few minutes only. Sizes are estimates. Runs and requests use additional
	// memory. 0 means a sixteenth of the memory available to the process, at least 16 MiB and
	// at most 128 MiB.
	MemoryLimit int64
	// RateLimit limits the requests of each caller; nil means no limit.
	RateLimit *RateLimit
	// CORS configures which web pages may call the server; nil means none.
	CORS *CORS
	// Hosts lists further values of the Host header, such as "agents.example.com" or
	// "*.example.com", that a server without Auth accepts on a loopback address; "*" means all.
	// The server always accepts localhost and IP addresses. A reverse proxy on the same machine
	// that forwards its clients' Host header needs an entry here, or Auth.
	Hosts []string
	// MCP configures the endpoint /mcp; nil means that it offers only the assistants, without
	// sessions.
	MCP *MCP
	// Webhooks configures where runs may send their results; nil means any public address.
	Webhooks *Webhooks
	// Context, if not nil, derives the context of each request and each run. Set it to the
	// Context method of an oteltreadle.Telemetry to trace both. For a run, [UserFrom] returns
	// the run's user.
	Context func(context.Context) context.Context
	// Spans makes the server store the model and tool calls of its runs, with their inputs and
	// outputs, for the studio and GET /threads/{thread_id}/runs/{run_id}/spans; nil means that
	// it stores none. See docs/privacy.md.
	Spans *SpanOptions
	// NoTextIndex indexes only the names of threads for POST /search/threads, not the words of
	// their states and inputs. It is always set if the checkpoints are encrypted: the database
	// implements [checkpoint.Encrypter], or the saver of [checkpoint.Encrypted] is one of its
	// fields.
	NoTextIndex bool
	// Start, if not nil, is called with the server's store before the first run, to start
	// background work such as memory.Reflector.Open. [Server.Drain] calls stop, which may be
	// nil, after the runs have ended.
	Start func(ctx context.Context, s *store.Store) (stop func(context.Context) error, err error)
	// Studio serves the studio, a web page to run and inspect graphs, at /studio/. The studio
	// has the permissions of its user's key.
	Studio bool
	// Logger receives the server's log; nil means slog.Default().
	Logger *slog.Logger

	extras config.Extras
}

// A Server is an HTTP handler that serves graphs.
type Server struct {
	o        Options
	ledger   *ledger.Ledger
	runner   *runs.Runner
	store    *store.Store
	log      *slog.Logger
	router   *router
	hooks    *webhooks.Sender
	metrics  *metrics
	endpoint *mcpServer
	limit    *limiter
	memory   *budget.Budget
	texts    *runs.Texts

	encrypted bool                        // the checkpoints are
	noContent bool                        // stored calls have no contents, because checkpoints or items are encrypted
	stop      func(context.Context) error // the function returned by Options.Start; runs once
}

func init() { //nolint:gochecknoinits // sets the functions of config.Server, which only package standalone calls
	config.Server.Extend = func(options any, e *config.Extras) { options.(*Options).extras = *e }
	config.Server.OpenAPI = func(options any) map[string]any { return (&Server{o: *options.(*Options)}).openAPI() }
	config.Server.Usage = func(server any) config.Usage {
		s := server.(*Server)
		return config.Usage{Runs: s.runner.Active(), Cache: s.memory.Used()}
	}
}

// New returns a server for graphs. Call [Server.Drain] when it is no longer needed.
func New(db Database, graphs []treadle.AnyGraph, opts *Options) (*Server, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := opts.check(db, graphs); err != nil {
		return nil, err
	}
	saver, ok := db.(runs.Saver)
	if !ok {
		return nil, fmt.Errorf("server: %T must implement checkpoint.Fencer, RunDeleter, Copier, Pruner, and Sizer", db)
	}
	s := &Server{o: *opts, log: opts.Logger}
	s.setDefaults()
	if err := s.openStorage(db, saver); err != nil {
		return nil, err
	}
	s.endpoint = s.mcp().open(opts.MCP)
	s.hooks = newSender(opts.Webhooks)
	s.metrics = newMetrics(s)
	s.limit = newLimiter(opts.RateLimit)
	ctx := context.Background()
	for _, g := range graphs {
		if err := s.defaultAssistant(ctx, g.Name()); err != nil {
			return nil, err
		}
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if err := s.startRunner(saver, graphs); err != nil {
		return nil, errors.Join(fmt.Errorf("server: %w", err), s.stop(ctx))
	}
	s.router = newRouter(s.routes())
	return s, nil
}

// check returns an error if a server cannot be created with these options.
func (o *Options) check(db Database, graphs []treadle.AnyGraph) error {
	if db == nil {
		return errors.New("server: nil database")
	}
	if len(graphs) == 0 {
		return errors.New("server: no graphs")
	}
	if o.Auth != nil {
		for name, scheme := range o.Auth.Schemes {
			if scheme.v1()[""] != nil {
				return fmt.Errorf("server: Auth.Schemes[%q]: unknown type %q: want apiKey, http, or openIdConnect", name, scheme.Type)
			}
		}
	}
	for _, name := range o.Execute {
		if !slices.ContainsFunc(graphs, func(g treadle.AnyGraph) bool { return g.Name() == name }) {
			return fmt.Errorf("server: Execute: graph %q is not served", name)
		}
	}
	if o.MemoryLimit < 0 {
		return fmt.Errorf("server: invalid Options.MemoryLimit %d: want a number of bytes, or 0 for the default", o.MemoryLimit)
	}
	return nil
}

func (s *Server) setDefaults() {
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.o.MaxBody == 0 {
		s.o.MaxBody = 10 << 20
	}
	if s.o.extras.ClientTime == 0 {
		s.o.extras.ClientTime = clientTime
	}
}

// openStorage opens the store and the ledger.
func (s *Server) openStorage(db Database, saver runs.Saver) (err error) {
	s.memory = budget.New(cmp.Or(s.o.MemoryLimit, budget.Default()))
	var items store.Options
	if s.o.Store != nil {
		items = *s.o.Store
	}
	items.Logger = cmp.Or(items.Logger, s.log)
	s.store, err = db.Store(&items)
	if err != nil {
		return err
	}
	rows := db.Ledger()
	if b, ok := rows.(ledger.MemorySharer); ok {
		b.ShareMemory(s.memory)
	}
	s.texts = runs.NewTexts()
	s.encrypted = encrypts(saver)
	s.texts.NamesOnly = s.o.NoTextIndex || s.encrypted
	s.noContent = s.encrypted || len(items.Keys) > 0
	s.ledger = ledger.New(rows, &ledger.Options{
		Revision:    s.o.Revision,
		Priorities:  s.o.Priority != nil,
		TextChanged: s.texts.Changed,
		TaskEnded:   s.a2a().taskEnded,
		Memory:      s.memory,
	})
	return nil
}

// startRunner starts to execute runs.
func (s *Server) startRunner(saver runs.Saver, graphs []treadle.AnyGraph) error {
	name, _ := os.Hostname()
	_, err := runs.New(runs.Options{
		Ready:      func(r *runs.Runner) { s.runner = r },
		Ledger:     s.ledger,
		Saver:      saver,
		Store:      s.store,
		Graphs:     graphs,
		Logger:     s.log,
		Name:       name,
		Workers:    s.o.Workers,
		MaxTime:    s.o.MaxRunTime,
		Send:       s.sendHook,
		Pushes:     s.a2a().pushes,
		Ended:      s.metrics.ended,
		Cron:       s.cronRun,
		Alone:      s.o.extras.Alone,
		Bus:        s.o.Bus,
		Claims:     s.o.Execute,
		Context:    s.runContext,
		Memory:     s.memory,
		Spans:      s.spanOptions(),
		Texts:      s.texts,
		SweepEvery: s.o.extras.Sweep,
		SweepLimit: s.o.extras.SweepLimit,
		SweepStore: s.o.extras.StoreSweep,
	})
	return err
}

// start calls Options.Start.
func (s *Server) start(ctx context.Context) error {
	s.stop = func(context.Context) error { return nil }
	if s.o.Start == nil {
		return nil
	}
	stop, err := s.o.Start(ctx, s.store)
	if err != nil && stop != nil {
		err = errors.Join(err, stop(ctx))
	}
	if err != nil {
		return fmt.Errorf("server: Options.Start: %w", err)
	}
	if stop != nil {
		var once sync.Once
		s.stop = func(ctx context.Context) (err error) {
			once.Do(func() { err = stop(ctx) })
			return err
		}
	}
	return nil
}

// runContext returns the context of a run, which carries the run's user.
func (s *Server) runContext(ctx context.Context, k *runs.Kwargs) context.Context {
	if s.o.Auth != nil {
		ctx = WithUser(ctx, storedUser(k.Configurable()))
	}
	if s.o.Context != nil {
		ctx = s.o.Context(ctx)
	}
	return ctx
}

// Drain stops the server. It starts no more runs, and stops each active run after its current
// step; another process, or this one after a restart, continues them. If ctx ends first, Drain
// aborts the current steps. Streams are closed. Finally, Drain stops the work started by
// [Options].Start.
func (s *Server) Drain(ctx context.Context) error {
	err := s.runner.Drain(ctx)
	s.endpoint.close()
	return errors.Join(err, s.stop(ctx))
}

// assistantSpace is the UUID namespace of default assistant IDs.
var assistantSpace = uuid.MustParse("6ba7b821-9dad-11d1-80b4-00c04fd430c8")

// defaultAssistantID returns the ID of a graph's default assistant.
func defaultAssistantID(graph string) uuid.UUID { return uuid.NewSHA1(assistantSpace, []byte(graph)) }

// defaultAssistant creates a graph's default assistant if it does not exist. A description from
// the configuration file replaces the existing one.
func (s *Server) defaultAssistant(ctx context.Context, graph string) error {
	a := &ledger.Assistant{ID: defaultAssistantID(graph), Graph: graph, Name: graph,
		Config: ledger.Object{}, Context: ledger.Object{}, Metadata: ledger.Object{"created_by": "system"}}
	text := s.o.extras.Descriptions[graph]
	if text != "" {
		a.Description = &text
	}
	err := s.ledger.CreateAssistant(ctx, a)
	if !errors.Is(err, ledger.ErrExists) {
		return err
	}
	old, err := s.ledger.Assistant(ctx, a.ID, nil)
	if err != nil || text == "" || old.Description != nil && *old.Description == text {
		return err
	}
	_, err = s.ledger.PatchAssistant(ctx, a.ID, nil, func(a *ledger.Assistant) error {
		a.Description = &text
		return nil
	})
	return err
}
