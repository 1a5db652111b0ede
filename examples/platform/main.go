// Platform serves the graphs used to compare servers of LangGraph's API.
//
//	go run ./examples/platform --port 2024 --db platform.db
//
// With --auth, callers must authenticate; see auth.go. The other flags are those of
// [standalone.Main].
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/standalone"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	graphs, err := platform.All()
	if err != nil {
		return err
	}
	// Tests use webhooks with private addresses, and browser tests use another origin.
	o := &server.Options{Webhooks: &server.Webhooks{AllowPrivate: true}, CORS: &server.CORS{Origins: []string{"*"}}}
	isAuth := func(arg string) bool { return arg == "--auth" || arg == "-auth" }
	if slices.ContainsFunc(args, isAuth) {
		o.Auth = auth()
		args = slices.DeleteFunc(slices.Clone(args), isAuth)
	}
	return standalone.Serve(ctx, args, os.Stderr, o, graphs...)
}
