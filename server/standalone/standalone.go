package standalone

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/internal/dburl"
	"github.com/treadle-go/treadle/internal/envfile"
	"github.com/treadle-go/treadle/internal/near"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/internal/config"
	"github.com/treadle-go/treadle/server/natsbus"
	"github.com/treadle-go/treadle/sqlite"
)

// Main serves graphs until the process receives SIGINT or SIGTERM. It is the only call that a
// main function needs. It returns when every run has finished its current step or, after the
// grace period, was stopped mid-step. Unfinished runs continue when the program is started
// again.
//
// The program has these commands:
//
//	serve      serve the graphs (default)
//	dev        serve for development: allow local web pages and webhooks to private
//	           addresses, and log each request
//	openapi    print the API description
//
// and these flags. Parentheses contain the environment variable that sets the default, and the
// default:
//
//	--config FILE    configuration file (treadle.json or langgraph.json, if present)
//	--host HOST      address to listen on (HOST, 127.0.0.1)
//	--port PORT      port to listen on; 0 selects a free port (PORT, 2024)
//	--allow A,B      additional hosts and origins that may call the server (ALLOW_HOSTS)
//	--db FILE        database file, or postgres://… (DATABASE_URI, treadle.db)
//	--nats URLS      NATS servers that connect processes on one Postgres (NATS_URL)
//	--role ROLE      all, api, or worker (ROLE, all)
//	--graphs A,B     graphs whose runs this process executes (EXECUTE_GRAPHS, all)
//	--revision N     deploy number, see server.Options (DEPLOY_REVISION, 0)
//	--log FORMAT     auto, json, text, or pretty (LOG_FORMAT, auto: pretty on a terminal, else text)
//	--log-requests   log each request
//	--studio         serve the studio at /studio/; on in dev
//	--spans          store the model and tool calls of runs, see server.Options.Spans; on in dev
//	--memory SIZE    server.Options.MemoryLimit, such as 64MiB or 1GiB (MEMORY_LIMIT, a share of the memory)
//	--grace TIME     time for runs to finish their step at shutdown (30s)
//
// The dev command ignores HOST and has a grace period of 1s. docs/server.md lists the keys of
// the configuration file. Its key "env" sets variables before the flags are parsed, but after
// the graphs have been built.
func Main(opts *server.Options, graphs ...treadle.AnyGraph) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runCommand(ctx, os.Args[1:], os.Stdout, os.Stderr, opts, graphs, (*settings).openAny)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // it is a main function
	}
}

// Serve is like [Main], but for a program that parses its own arguments first: it serves until
// ctx ends, and writes to out.
func Serve(ctx context.Context, args []string, out io.Writer, opts *server.Options, graphs ...treadle.AnyGraph) error {
	return runCommand(ctx, args, out, out, opts, graphs, (*settings).openAny)
}

// ServeFile is like [Serve], but supports only SQLite. A program that uses it instead of Main
// or Serve is a few megabytes smaller, because it omits the Postgres and NATS clients.
func ServeFile(ctx context.Context, args []string, out io.Writer, opts *server.Options, graphs ...treadle.AnyGraph) error {
	return runCommand(ctx, args, out, out, opts, graphs, (*settings).openFile)
}

// commands lists the commands of Main, the default first.
var commands = []string{"serve", "dev", "openapi"}

// settings holds the command and flags of Main.
type settings struct {
	command                  string
	config, host, db, format string
	nats, role, graphs       string
	allow                    string
	port, revision           int
	requests, studio, spans  bool
	grace                    time.Duration
	memory                   byteSize
	database                 dburl.Name // parsed from db
}

// flags returns the flags with their defaults.
func (s *settings) flags() (*flag.FlagSet, error) {
	host, grace := env("HOST", "127.0.0.1"), 30*time.Second
	if s.command == "dev" {
		host, grace = "127.0.0.1", time.Second
	}
	port, err := envNumber("PORT", 2024)
	if err != nil {
		return nil, err
	}
	revision, err := envNumber("DEPLOY_REVISION", 0)
	if err != nil {
		return nil, err
	}
	fs := flag.NewFlagSet(s.command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&s.config, "config", "", "configuration `FILE` (default treadle.json or langgraph.json, if present)")
	fs.StringVar(&s.host, "host", host, "`HOST` to listen on")
	fs.IntVar(&s.port, "port", port, "`PORT` to listen on; 0 selects a free port")
	fs.StringVar(&s.allow, "allow", env("ALLOW_HOSTS", ""), "additional hosts and origins, `A,B`, that may call a server without Auth on a loopback address, such as agents.test or https://app.test")
	fs.StringVar(&s.db, "db", env("DATABASE_URI", "treadle.db"), "database `FILE`, or postgres://… for several processes")
	fs.StringVar(&s.nats, "nats", env("NATS_URL", ""), "NATS `ADDRESSES`, such as nats://a,nats://b, to connect processes on one Postgres")
	fs.StringVar(&s.role, "role", env("ROLE", "all"), "`ROLE` of this process: all, api (executes no runs), or worker (serves no clients)")
	fs.StringVar(&s.graphs, "graphs", env("EXECUTE_GRAPHS", ""), "graphs whose runs this process executes, `A,B`; empty means all")
	fs.IntVar(&s.revision, "revision", revision, "deploy number `N`; older processes do not continue threads changed by newer ones")
	fs.StringVar(&s.format, "log", env("LOG_FORMAT", "auto"), "log `FORMAT`: auto, json, text, or pretty")
	fs.BoolVar(&s.requests, "log-requests", s.command == "dev", "log each request")
	fs.BoolVar(&s.studio, "studio", s.command == "dev", "serve the studio, a web page to run and inspect the graphs, at /studio/")
	fs.BoolVar(&s.spans, "spans", s.command == "dev", "store the model and tool calls of runs, with what was sent and received")
	if err := s.memory.Set(env("MEMORY_LIMIT", "")); err != nil {
		return nil, fmt.Errorf("MEMORY_LIMIT: %w", err)
	}
	fs.Var(&s.memory, "memory", "memory limit of the server's caches, a `SIZE` such as 64MiB or 1GiB (default a share of the machine's memory)")
	fs.DurationVar(&s.grace, "grace", grace, "`TIME` for runs to finish their step at shutdown")
	return fs, nil
}

// parse parses the arguments.
func (s *settings) parse(args []string) error {
	s.command = commands[0]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		s.command, args = args[0], args[1:]
	}
	if s.command == "help" {
		return flag.ErrHelp
	}
	if !slices.Contains(commands, s.command) {
		return fmt.Errorf("unknown command %q: use %s%s", s.command, strings.Join(commands, ", "), near.Hint(s.command, commands))
	}
	fs, err := s.flags()
	if err != nil {
		return err
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: see --help", err)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: see --help", fs.Arg(0))
	}
	if !slices.Contains(roles, s.role) {
		return fmt.Errorf("--role: unknown role %q: use %s%s", s.role, strings.Join(roles, ", "), near.Hint(s.role, roles))
	}
	if s.database, err = dburl.Parse(s.db); err != nil {
		return fmt.Errorf("--db: %w", err)
	}
	if !s.database.Postgres && (s.nats != "" || s.role != "all") {
		return errors.New("--nats and --role require a shared database: --db postgres://…")
	}
	return nil
}

// roles lists the valid values of --role.
var roles = []string{"all", "api", "worker"}

// usage writes the help text.
func usage(out io.Writer) error {
	s := &settings{command: commands[0]}
	fs, err := s.flags()
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `Usage: %s [command] [flags]

Commands:
  serve     serve the graphs (default)
  dev       serve for development: allow local web pages and private webhooks, and log requests
  openapi   print the API description

Flags:
`, filepath.Base(os.Args[0]))
	fs.VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		if def := shownDefault(f); def != "" {
			text += fmt.Sprintf(" (default %s)", def)
		}
		fmt.Fprintf(&b, "  %-18s %s\n", strings.TrimSpace("--"+f.Name+" "+kind), text)
	})
	_, err = io.WriteString(out, b.String())
	return err
}

// byteSize is a flag for a number of bytes. 0 means unset.
type byteSize int64

// Set implements [flag.Value].
func (b *byteSize) Set(text string) error {
	if text == "" {
		*b = 0
		return nil
	}
	digits, shift := text, 0
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			digits, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("invalid size %q: want a number of bytes, or a number with KiB, MiB, or GiB", text)
	}
	*b = byteSize(n << shift)
	return nil
}

// String implements [flag.Value].
func (b *byteSize) String() string {
	if b == nil || *b == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*b), 10)
}

// shownDefault returns a flag's default for the help text, without secrets: the environment
// sets the defaults, so the defaults of --db and --nats can contain passwords.
func shownDefault(f *flag.Flag) string {
	switch f.Name {
	case "db":
		name, err := dburl.Parse(f.DefValue)
		if err != nil {
			return "DATABASE_URI, which is invalid"
		}
		return name.Shown
	case "nats":
		var out []string
		for address := range strings.SplitSeq(f.DefValue, ",") {
			if u, err := url.Parse(strings.TrimSpace(address)); err == nil && u.Host != "" {
				out = append(out, u.Scheme+"://"+u.Host)
			}
		}
		return strings.Join(out, ",")
	}
	if f.DefValue == "false" {
		return ""
	}
	return f.DefValue
}

func env(name, def string) string { return cmp.Or(os.Getenv(name), def) }

// envNumber is like env, but returns a number.
func envNumber(name string, def int) (int, error) {
	n, err := strconv.Atoi(env(name, strconv.Itoa(def)))
	if err != nil {
		return 0, fmt.Errorf("%s is %q: want a number", name, os.Getenv(name))
	}
	return n, nil
}

// configure parses the arguments and reads the configuration file. It parses the arguments
// twice, because the file can set the environment variables that provide the defaults.
func (s *settings) configure(args []string) (conf *file, notice string, err error) {
	if err := s.parse(args); errors.Is(err, flag.ErrHelp) {
		return nil, "", err
	}
	if conf, err = readFile(cmp.Or(s.config, envfile.Find("."))); err != nil {
		return nil, "", err
	}
	if notice, err = conf.setEnv(); err != nil {
		return nil, "", err
	}
	return conf, notice, s.parse(args)
}

// runCommand implements [Main], [Serve], and [ServeFile].
func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer, opts *server.Options, graphs []treadle.AnyGraph, open opener) error {
	var set settings
	conf, notice, err := set.configure(args)
	if errors.Is(err, flag.ErrHelp) {
		return usage(stdout)
	}
	if err != nil {
		return err
	}
	var o server.Options // a copy, which options completes
	if opts != nil {
		o = *opts
	}
	extras, err := set.options(conf, &o, stderr, graphs)
	if err != nil {
		return err
	}
	if set.command == "openapi" {
		return printDescription(stdout, &o, extras)
	}
	if notice != "" {
		o.Logger.InfoContext(ctx, "notice", "text", notice)
	}
	if len(conf.ignored) > 0 {
		o.Logger.WarnContext(ctx, "ignoring configuration keys", "file", conf.name, "keys", strings.Join(conf.ignored, ","))
	}
	return set.serve(ctx, &o, extras, graphs, open)
}

// options completes the program's options from the flags and the configuration file. It returns
// the settings that are not part of the options.
func (s *settings) options(conf *file, opts *server.Options, stderr io.Writer, graphs []treadle.AnyGraph) (*config.Extras, error) {
	if opts.Logger == nil {
		format := s.format
		if s.command == "dev" && format == "auto" {
			format = "pretty"
		}
		var err error
		if opts.Logger, err = newLogger(format, stderr); err != nil {
			return nil, err
		}
	}
	extras, err := conf.apply(opts, graphs)
	if err != nil {
		return nil, err
	}
	if s.graphs != "" {
		opts.Execute = strings.Split(s.graphs, ",")
	}
	if s.revision != 0 {
		opts.Revision = s.revision
	}
	if s.memory != 0 {
		opts.MemoryLimit = int64(s.memory)
	}
	switch s.role {
	case "api":
		opts.Workers = -1
	case "worker":
		extras.Quiet = true
	}
	if s.command == "dev" && opts.CORS == nil {
		opts.CORS = &server.CORS{Pattern: localOrigins}
	}
	s.applyAllowed(opts)
	extras.LogRequests = s.requests
	opts.Studio = opts.Studio || s.studio
	if s.spans && opts.Spans == nil {
		opts.Spans = &server.SpanOptions{}
	}
	if s.command != "dev" {
		return extras, nil
	}
	hooks := server.Webhooks{}
	if opts.Webhooks != nil {
		hooks = *opts.Webhooks
	}
	hooks.AllowPrivate = true
	opts.Webhooks = &hooks
	return extras, nil
}

// localOrigins matches the origins of pages served by this machine, on any port.
var localOrigins = regexp.MustCompile(`^https?://(([a-z0-9-]+\.)*localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?$`)

// applyAllowed adds the hosts and origins from --allow to the options.
func (s *settings) applyAllowed(opts *server.Options) {
	var origins []string
	opts.Hosts = slices.Clone(opts.Hosts)
	for entry := range strings.SplitSeq(s.allow, ",") {
		entry = strings.TrimSpace(entry)
		switch {
		case strings.Contains(entry, "://"):
			origins = append(origins, strings.TrimSuffix(entry, "/"))
		case entry != "":
			opts.Hosts = append(opts.Hosts, entry)
		}
	}
	if len(origins) > 0 {
		cors := server.CORS{}
		if opts.CORS != nil {
			cors = *opts.CORS
		}
		cors.Origins = append(slices.Clone(cors.Origins), origins...)
		opts.CORS = &cors
	}
}

func printDescription(out io.Writer, opts *server.Options, extras *config.Extras) error {
	config.Server.Extend(opts, extras)
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(config.Server.OpenAPI(opts))
}

// serve opens the database, listens, and serves.
func (s *settings) serve(ctx context.Context, opts *server.Options, extras *config.Extras, graphs []treadle.AnyGraph, open opener) error {
	log := opts.Logger
	began := time.Now()
	name := s.database.Shown
	log.InfoContext(ctx, "opening database", "database", name)
	db, err := open(s, ctx, opts, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := db.Close(); err != nil {
			log.ErrorContext(ctx, "failed to close database", "error", err)
		}
	}()
	if file := s.database.Open; !s.database.Postgres && file != ":memory:" {
		release, alone, err := lockFile(file + ".lock")
		if err != nil {
			return fmt.Errorf("--db: %w", err)
		}
		defer release()
		extras.Alone = alone
		if !alone {
			log.InfoContext(ctx, "another process also serves this database")
		}
	}
	defer reserveHeap()()
	defer limitHeap()()
	log.InfoContext(ctx, "searching for unfinished runs")
	config.Server.Extend(opts, extras)
	srv, err := server.New(db, graphs, opts)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(s.host, strconv.Itoa(s.port)))
	if err != nil {
		return errors.Join(fmt.Errorf("--host, --port: %w", err), srv.Drain(ctx))
	}
	address := "http://" + listener.Addr().String() + extras.Prefix
	attrs := []any{"address", address, "docs", address + "/docs", "database", name, "graphs", names(graphs), "took", time.Since(began).Round(time.Millisecond).String()}
	if opts.Studio && !extras.Disabled["ui"] {
		attrs = append(attrs, "studio", address+"/studio/")
	}
	log.InfoContext(ctx, "serving", attrs...)
	served, stop := context.WithCancel(ctx)
	var idle sync.WaitGroup
	idle.Go(func() { releaseIdle(served, func() int64 { return config.Server.Usage(srv).Cache }) })
	defer idle.Wait()
	defer stop()
	return serve(ctx, srv, withComponents(srv, extras), listener, s.grace, log)
}

func names(graphs []treadle.AnyGraph) string {
	var out []string
	for _, g := range graphs {
		out = append(out, g.Name())
	}
	return strings.Join(out, ",")
}

// withComponents returns a handler that also serves the components of the configuration file.
func withComponents(srv http.Handler, extras *config.Extras) http.Handler {
	if extras.Components == nil || extras.Quiet {
		return srv
	}
	scripts := http.StripPrefix(extras.Prefix, extras.Components)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, extras.Prefix+"/ui/") {
			scripts.ServeHTTP(w, r)
		} else {
			srv.ServeHTTP(w, r)
		}
	})
}

// serve serves requests until ctx ends, then drains.
func serve(ctx context.Context, srv *server.Server, h http.Handler, l net.Listener, grace time.Duration, log *slog.Logger) error {
	hs := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.InfoContext(ctx, "shutting down", "runs", config.Server.Usage(srv).Runs)
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := srv.Drain(end)
	if errors.Is(err, context.DeadlineExceeded) {
		log.WarnContext(ctx, "grace period expired; unfinished runs resume after a restart")
		err = nil
	}
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if closeErr := hs.Shutdown(last); closeErr != nil {
		_ = hs.Close() // close remaining connections
	}
	return err
}

// closer is a database that can be closed.
type closer interface {
	server.Database
	Close() error
}

// opener opens the database named by --db.
type opener func(s *settings, ctx context.Context, opts *server.Options, log *slog.Logger) (closer, error)

// openFile opens an SQLite database.
func (s *settings) openFile(_ context.Context, _ *server.Options, log *slog.Logger) (closer, error) {
	if s.database.Postgres {
		return nil, errors.New("--db: this program supports only SQLite files: use standalone.Main for Postgres")
	}
	db, err := sqlite.Open(s.database.Open, &sqlite.Options{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("--db: %w", err)
	}
	return db, nil
}

// openAny opens an SQLite file, or a Postgres database and the bus that connects its processes.
func (s *settings) openAny(ctx context.Context, opts *server.Options, log *slog.Logger) (closer, error) {
	if !s.database.Postgres {
		return s.openFile(ctx, opts, log)
	}
	db, err := postgres.Open(ctx, s.database.Open, &postgres.Options{Logger: log, Migrate: true})
	if err != nil {
		return nil, fmt.Errorf("--db: %w", err)
	}
	if s.nats == "" {
		opts.Bus = db.Bus()
		return db, nil
	}
	if opts.Bus, err = natsbus.Open(ctx, s.nats, &natsbus.Options{Logger: log}); err != nil {
		return nil, errors.Join(fmt.Errorf("--nats: %w", err), db.Close())
	}
	return &connected{db, opts.Bus}, nil
}

// connected is a database with a bus that closes with it.
type connected struct {
	*postgres.DB
	bus bus.Bus
}

// Close closes the bus and the database.
func (c *connected) Close() error { return errors.Join(c.bus.Close(), c.DB.Close()) }
