package chaostest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/internal/killtest"
	"github.com/treadle-go/treadle/internal/natstest"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/server"
)

// The environment of a process that is a server.
const (
	envServe   = "TREADLE_CHAOS_SERVE"   // the arguments, parted by blanks
	envEffects = "TREADLE_CHAOS_EFFECTS" // the address of the database that effects go to
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
	pgtest.Main(m)
}

// serve is a server.
func serve(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go killtest.EndWithParent()
	pool, err := pgxpool.New(ctx, os.Getenv(envEffects))
	if err != nil {
		return err
	}
	defer pool.Close()
	g, err := newGraph(pool)
	if err != nil {
		return err
	}
	talk, err := newTalk()
	if err != nil {
		return err
	}
	return server.Serve(ctx, args, os.Stdout, nil, g, talk)
}
