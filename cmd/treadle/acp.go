package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/cmd/treadle/internal/editor"
)

func newACP(s *streams, version string) *cobra.Command {
	var url, assistant, key string
	var pkg, flags []string
	cmd := &cobra.Command{
		Use:   "acp [package] [-- flags of the program]",
		Short: "Use an agent from an editor over ACP",
		Long: `Connect an editor that speaks ACP, the Agent Client Protocol, to an agent. The editor
starts this command and talks to it over standard input and output.

With --url, the agent is an assistant of a running server. Otherwise, the program is
found, built, and served as by treadle dev, on a free port and until the editor exits.
Sessions are threads: they are saved, and the editor can load them later.`,
		Example: `  treadle acp --url http://127.0.0.1:2024 --assistant helper
  treadle acp ./cmd/shop`,
		Args: func(cmd *cobra.Command, args []string) error {
			pkg = args
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				pkg, flags = args[:at], args[at:]
			}
			switch {
			case url != "" && len(args) > 0:
				return errors.New("acp takes a package or --url, not both")
			case len(pkg) > 1:
				return fmt.Errorf("acp takes one package, not %d: put the program's flags after --", len(pkg))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM)
			defer stop()
			opts := &editor.Options{Assistant: assistant, Version: version, Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
			in, out := cmd.InOrStdin(), s.out.w
			if url != "" {
				return serveEditor(ctx, url, key, in, out, opts)
			}
			// Standard output belongs to the editor.
			d := &devServer{streams: &streams{out: &writer{w: cmd.ErrOrStderr()}}, stderr: cmd.ErrOrStderr(), host: "127.0.0.1", pkg: pkg, args: append([]string{"--log-requests=false"}, flags...)}
			return d.serve(ctx, func(ctx context.Context, url string) error {
				if d.program == nil && opts.Assistant == "" {
					opts.Assistant = "agent" // of the demo graphs
				}
				return serveEditor(ctx, url, key, in, out, opts)
			})
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "URL of a running server")
	cmd.Flags().StringVar(&assistant, "assistant", "", "assistant ID or graph name (default: the only assistant)")
	cmd.Flags().StringVar(&key, "api-key", os.Getenv("TREADLE_API_KEY"), "API key for the server (TREADLE_API_KEY)")
	cmd.Flag("api-key").DefValue = ""
	return cmd
}

// serveEditor connects the editor to a server.
func serveEditor(ctx context.Context, url, key string, in io.Reader, out io.Writer, opts *editor.Options) error {
	c, err := client.New(url, &client.Options{APIKey: key})
	if err != nil {
		return err
	}
	opts.Client = c
	return editor.Serve(ctx, in, out, opts)
}

// serve builds and serves the program once, without watching its files, while use runs.
func (d *devServer) serve(ctx context.Context, use func(ctx context.Context, url string) error) (err error) {
	pkg, err := findProgram(ctx, strings.Join(d.pkg, ""))
	if err != nil {
		return err
	}
	if err := d.takePort(ctx); err != nil {
		return err
	}
	url := "http://" + net.JoinHostPort(d.host, strconv.Itoa(d.port)) + mountPrefix(d.configFile())
	if pkg == "" {
		return d.serveDemo(ctx, url, use)
	}
	if d.program, err = newProgram(pkg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.program.close()) }()
	if output, _, err := d.program.build(ctx); err != nil {
		return fmt.Errorf("%w:\n%s", err, strings.TrimSpace(output))
	}
	d.ready = make(chan readiness)
	if err := d.start(ctx, ""); err != nil {
		return err
	}
	defer d.stop()
	select {
	case <-d.ready:
	case <-d.child.ended():
		return fmt.Errorf("program ended: %s", d.child.reason())
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-d.child.ended():
			cancel(fmt.Errorf("program ended: %s", d.child.reason()))
		case <-ctx.Done():
		}
	}()
	err = use(ctx, url)
	if err != nil {
		err = cmp.Or(context.Cause(ctx), err)
	}
	cancel(nil)
	<-gone
	return err
}

// serveDemo serves the demo graphs while use runs.
func (d *devServer) serveDemo(ctx context.Context, url string, use func(ctx context.Context, url string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel() // a server that fails ends the wait below
		served <- d.runDemo(ctx)
	}()
	if awaitOK(ctx, url) {
		err := use(ctx, url)
		cancel()
		return cmp.Or(err, demoEnded(<-served))
	}
	return demoEnded(<-served)
}

func demoEnded(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil // the normal end
	}
	return err
}
