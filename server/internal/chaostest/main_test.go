package chaostest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/internal/natstest"
	"github.com/treadle-go/treadle/server/internal/runs"
	"github.com/treadle-go/treadle/server/standalone"
)

// The environment of a server process.
const (
	envServe = "TREADLE_CHAOS_SERVE" // its arguments, separated by blanks
	envSink  = "TREADLE_CHAOS_SINK"  // the address of the sink
)

func TestMain(m *testing.M) {
	natstest.Serve()
	if args := os.Getenv(envServe); args != "" {
		if err := serve(strings.Fields(args)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	// Most tests mostly wait, so more of them run concurrently than there are processors.
	if err := flag.Set("test.parallel", strconv.Itoa(16)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pgtest.Main(m)
}

// soak reports whether the tests break more than in CI.
func soak() bool { return os.Getenv("TREADLE_SOAK") != "" }

// serve runs a server and, at another address, its report.
func serve(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go killtest.EndWithParent()
	signal.Ignore(syscall.SIGXFSZ) // so that a write beyond the limit of /limit fails
	if err := serveReport(ctx); err != nil {
		return err
	}
	sink := &sinkClient{url: os.Getenv(envSink)}
	g, err := newGraph(sink)
	if err != nil {
		return err
	}
	talk, err := newTalk()
	if err != nil {
		return err
	}
	return standalone.Serve(ctx, args, os.Stdout, &server.Options{Webhooks: &server.Webhooks{AllowPrivate: true}}, g, talk)
}

// report contains the state that a process reports about itself.
type report struct {
	PID    int         `json:"pid"`
	Worker uuid.UUID   `json:"worker"`
	Runs   []uuid.UUID `json:"runs"` // that it executes
}

// serveReport serves the process's report, and writes its address to the log.
func serveReport(ctx context.Context) error {
	var runner atomic.Pointer[runs.Runner]
	runs.Observe = func(r *runs.Runner) { runner.Store(r) }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) {
		out := report{PID: os.Getpid()}
		if r := runner.Load(); r != nil {
			out.Worker, out.Runs = r.Worker(), r.Executing()
		}
		_ = json.NewEncoder(w).Encode(out) // the test may have gone
	})
	// /limit bounds the size of the files that the process writes.
	mux.HandleFunc("POST /limit", func(w http.ResponseWriter, r *http.Request) {
		var now syscall.Rlimit
		err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &now)
		now.Cur = now.Max
		if n, parseErr := strconv.ParseUint(r.FormValue("bytes"), 10, 63); parseErr == nil {
			now.Cur = n
		}
		if err == nil {
			err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &now)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "{\"msg\":\"reporting\",\"address\":\"http://%s\"}\n", l.Addr())
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = hs.Serve(l) }() // it ends with the process
	return nil
}
