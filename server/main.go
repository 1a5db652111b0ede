package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/sqlite"
)

// Main serves graphs until the process is told to end (SIGINT, SIGTERM). It is all
// that the main function of a program that serves graphs has to call. It returns when
// every run has ended its step or, after the grace, was cut off; such runs go on when
// the program is started again.
//
// The program has these flags. In brackets are the environment variable that sets the
// default, and the default:
//
//	--host HOST      the address to listen at (HOST, 127.0.0.1)
//	--port PORT      the port; 0 takes a free one (PORT, 2024)
//	--db FILE        the database (DATABASE_URI, treadle.db)
//	--log FORMAT     json or text (LOG_FORMAT, text)
//	--grace TIME     how long runs may take to end their step at shutdown (30s)
func Main(o *Options, graphs ...treadle.AnyGraph) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Serve(ctx, os.Args[1:], os.Stderr, o, graphs...)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // it is a main function
	}
}

// settings are the flags of Main.
type settings struct {
	host, db, format string
	port             int
	grace            time.Duration
}

func (s *settings) parse(args []string, out io.Writer) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.SetOutput(out)
	port, err := strconv.Atoi(env("PORT", "2024"))
	if err != nil {
		return fmt.Errorf("PORT is no number: %q", os.Getenv("PORT"))
	}
	fs.StringVar(&s.host, "host", env("HOST", "127.0.0.1"), "the address to listen at")
	fs.IntVar(&s.port, "port", port, "the port; 0 takes a free one")
	fs.StringVar(&s.db, "db", env("DATABASE_URI", "treadle.db"), "the database: a file")
	fs.StringVar(&s.format, "log", env("LOG_FORMAT", "text"), "the form of the log: json or text")
	fs.DurationVar(&s.grace, "grace", 30*time.Second, "how long runs may take to end their step at shutdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: see --help", fs.Arg(0))
	}
	return nil
}

func env(name, def string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return def
}

// Serve is [Main] for a program that reads its own arguments first: it serves until
// ctx ends, and logs to out.
func Serve(ctx context.Context, args []string, out io.Writer, o *Options, graphs ...treadle.AnyGraph) error {
	var set settings
	if err := set.parse(args, out); err != nil {
		return err
	}
	if o == nil {
		o = &Options{}
	}
	opts := *o
	if opts.Logger == nil {
		var err error
		if opts.Logger, err = newLogger(set.format, out); err != nil {
			return err
		}
	}
	log := opts.Logger
	began := time.Now()
	db, err := openDatabase(set.db, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := db.Close(); err != nil {
			log.ErrorContext(ctx, "the database is not closed", "error", err)
		}
	}()
	if !strings.HasPrefix(set.db, ":memory:") {
		release, alone, err := lockFile(set.db + ".lock")
		if err != nil {
			return fmt.Errorf("--db: %w", err)
		}
		defer release()
		opts.alone = alone
		if !alone {
			log.InfoContext(ctx, "another process serves this database too")
		}
	}
	srv, err := New(db, graphs, &opts)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(set.host, strconv.Itoa(set.port)))
	if err != nil {
		return errors.Join(err, srv.Drain(ctx))
	}
	log.InfoContext(ctx, "serving", "address", "http://"+listener.Addr().String(), "database", set.db, "graphs", names(graphs), "took", time.Since(began).Round(time.Millisecond).String())
	return serve(ctx, srv, listener, set.grace, log)
}

func names(graphs []treadle.AnyGraph) string {
	var out []string
	for _, g := range graphs {
		out = append(out, g.Name())
	}
	return strings.Join(out, ",")
}

// serve answers requests until ctx ends, then drains.
func serve(ctx context.Context, srv *Server, l net.Listener, grace time.Duration, log *slog.Logger) error {
	hs := &http.Server{Handler: srv, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.InfoContext(ctx, "shutting down", "runs", srv.runner.Active())
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := srv.Drain(end)
	if errors.Is(err, context.DeadlineExceeded) {
		log.WarnContext(ctx, "some runs were cut off; they go on when the server is started again")
		err = nil
	}
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if closeErr := hs.Shutdown(last); closeErr != nil {
		_ = hs.Close() // connections that do not end by themselves
	}
	return err
}

func newLogger(format string, out io.Writer) (*slog.Logger, error) {
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(out, nil)), nil
	case "text", "":
		return slog.New(slog.NewTextHandler(out, nil)), nil
	}
	return nil, fmt.Errorf("--log %q: want json or text", format)
}

// openDatabase opens what --db names.
func openDatabase(name string, log *slog.Logger) (*sqlite.DB, error) {
	if strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://") {
		return nil, errors.New("--db: the server does not run on Postgres yet; name a file")
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "sqlite://"), "file:")
	db, err := sqlite.Open(name, &sqlite.Options{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("--db: %w", err)
	}
	return db, nil
}
