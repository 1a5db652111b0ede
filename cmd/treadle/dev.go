package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/internal/envfile"
)

func newDev(s *streams) *cobra.Command {
	d := &devServer{streams: s}
	var open bool
	cmd := &cobra.Command{
		Use:   "dev [package] [-- flags of the program]",
		Short: "Serve your program and restart it when a file changes",
		Long: `Build a program that calls standalone.Main, serve its graphs for development, and
rebuild and restart it when a file of its module changes. Threads are kept, and runs
interrupted by a restart continue. If a build fails, the errors are shown and the
previous program keeps running.

The default package is the one in this directory, or the only program in ./cmd.
Outside of a module, the demo graphs are served. Go files, embedded files, go.mod,
treadle.json, and the environment file that it names are watched; the program gets
the variables in that file.`,
		Example: `  treadle dev
  treadle dev ./cmd/shop --port 8123
  treadle dev -- --db /tmp/try.db --log json`,
		Args: func(cmd *cobra.Command, args []string) error {
			d.pkg, d.args = args, nil
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				d.pkg, d.args = args[:at], args[at:]
			}
			if len(d.pkg) > 1 {
				return fmt.Errorf("dev takes one package, not %d: put the program's flags after --", len(d.pkg))
			}
			for _, arg := range d.args {
				name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
				if strings.HasPrefix(arg, "-") && slices.Contains([]string{"host", "port", "config"}, name) {
					return fmt.Errorf("%s is a flag of treadle dev: put it before --", arg)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM)
			defer stop()
			d.stderr = cmd.ErrOrStderr()
			d.open = open
			if !cmd.Flags().Changed("open") {
				d.open = s.term != nil
			}
			err := d.run(ctx)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil // the normal end
			}
			return err
		},
	}
	cmd.Flags().StringVar(&d.host, "host", "127.0.0.1", "listen address")
	cmd.Flags().IntVar(&d.port, "port", 2024, "port; 0 selects a free one")
	cmd.Flags().StringVar(&d.allow, "allow", "", "additional hosts and origins that may call the server, such as agents.test,https://app.test")
	cmd.Flags().StringVar(&d.config, "config", "", "configuration file (default treadle.json or langgraph.json, if present)")
	cmd.Flags().BoolVar(&open, "open", false, "open the studio in a browser (default in a terminal: true)")
	return cmd
}

// devServer builds, serves, and restarts a program.
type devServer struct {
	*streams
	stderr io.Writer
	pkg    []string // the package named by the user, if any
	args   []string // arguments of the program
	host   string
	port   int
	allow  string
	config string
	open   bool

	program *program
	child   *child
	ready   chan readiness // readiness of the child
	saved   time.Time      // time of the first change since the last start
}

// quiet is the delay between the last change and a build: editors and formatters save a file
// more than once.
const quiet = 60 * time.Millisecond

func (d *devServer) say(format string, args ...any) {
	fmt.Fprintln(d.stderr, d.term.paint(faint, "treadle:"), fmt.Sprintf(format, args...))
}

// run builds and serves until ctx ends.
func (d *devServer) run(ctx context.Context) (err error) {
	pkg, err := findProgram(ctx, strings.Join(d.pkg, ""))
	if err != nil {
		return err
	}
	if pkg == "" {
		return d.runDemo(ctx)
	}
	if d.program, err = newProgram(pkg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.program.close()) }()
	if err := d.takePort(ctx); err != nil {
		return err
	}
	w, err := newWatcher(ctx, d.configFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	d.ready = make(chan readiness)
	defer d.stop()
	d.say("building %s", pkg)
	if err := d.rebuild(ctx, w, change{source: true}); err != nil {
		return err
	}
	return d.watch(ctx, w)
}

// takePort checks that the port is free. The program keeps its port across restarts, even if
// the port is 0, which selects a free one.
func (d *devServer) takePort(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(d.host, strconv.Itoa(d.port)))
	if err != nil {
		return fmt.Errorf("%w: stop the other program, or use --port", err)
	}
	d.port = l.Addr().(*net.TCPAddr).Port
	return l.Close()
}

// change describes the files saved since the program was built.
type change struct {
	file   string // the first saved file, or ""
	config bool   // the configuration, or the environment file that it names
	source bool   // any other file
}

// watch rebuilds after changes.
func (d *devServer) watch(ctx context.Context, w *watcher) error {
	due := time.NewTimer(time.Hour)
	due.Stop()
	defer due.Stop()
	var now change
	for {
		select {
		case <-ctx.Done():
			d.say("stopping")
			return nil
		case ev, ok := <-w.events():
			if !ok {
				return errors.New("file watcher closed")
			}
			file := w.changed(ev)
			if file == "" {
				continue
			}
			if now.file == "" {
				now.file, d.saved = file, time.Now()
			}
			now.config = now.config || w.isConfig(file)
			now.source = now.source || !w.isConfig(file)
			due.Reset(quiet)
		case err := <-w.errors():
			d.say("changes may be missed: %v", err)
			now = change{cmp.Or(now.file, "a file"), true, true}
			due.Reset(quiet)
		case <-due.C:
			if err := d.rebuild(ctx, w, now); err != nil {
				return err
			}
			now = change{}
		case <-d.child.ended():
			d.say("program ended: %s; waiting for changes", d.child.reason())
			d.child.forget()
			d.child = nil
		case r := <-d.ready:
			d.announce(ctx, r)
		}
	}
}

// rebuild builds the program, and restarts it if the binary or its configuration has changed. A
// failed build is not an error: the user sees it and fixes it.
func (d *devServer) rebuild(ctx context.Context, w *watcher, now change) error {
	if now.file != "" {
		d.say("%s changed", w.relative(now.file))
	}
	if now.source || d.program.file == "" {
		fresh, err := d.build(ctx)
		if err != nil || !fresh && d.child != nil && !now.config {
			return ctx.Err()
		}
	}
	w.addConfig(d.configFile())
	d.stop()
	if err := d.start(ctx, now.file); err != nil {
		d.say("%v", err)
		return nil
	}
	if !now.source {
		return nil
	}
	if err := w.follow(ctx, d.program.pkg); err != nil && ctx.Err() == nil {
		d.say("embedded files are not watched: %v", err)
	}
	return nil
}

// build builds the program and reports the result to the user. It returns whether the program
// differs from the previous build.
func (d *devServer) build(ctx context.Context) (fresh bool, err error) {
	began := time.Now()
	output, fresh, err := d.program.build(ctx)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		fmt.Fprint(d.stderr, output)
		if d.child != nil {
			d.say("%v; the previous program keeps running", err)
		} else {
			d.say("%v; waiting for changes", err)
		}
		return false, err
	case !fresh:
		d.say("program unchanged")
	default:
		d.say("built in %.1fs", time.Since(began).Seconds())
	}
	return fresh, nil
}

// configFile returns the configuration file that the program reads, or "" if there is none.
func (d *devServer) configFile() string { return cmp.Or(d.config, envfile.Find(".")) }

// environment returns the program's environment: the command's own, and the variables of the
// configuration that it lacks.
func (d *devServer) environment() ([]string, error) {
	config := d.configFile()
	env, err := envfile.Of(config)
	if err != nil {
		return nil, err
	}
	vars, err := env.Load(filepath.Dir(config))
	if errors.Is(err, fs.ErrNotExist) { // the program reports it
		err = nil
	}
	list := os.Environ()
	for name, value := range vars {
		if _, ok := os.LookupEnv(name); !ok {
			list = append(list, name+"="+value)
		}
	}
	return list, err
}

// start starts the program.
func (d *devServer) start(ctx context.Context, file string) error {
	env, err := d.environment()
	if err != nil {
		return err
	}
	args := []string{"dev", "--host", d.host, "--port", strconv.Itoa(d.port)}
	args = append(args, d.flags()...)
	d.child, err = startChild(ctx, d.program.file, append(args, d.args...), env, d.out.w, d.stderr)
	if err != nil {
		return err
	}
	d.child.await(ctx, d.host, d.port, readiness{file: file}, d.ready)
	return nil
}

// flags returns the command's flags that are passed to the program, if they are set.
func (d *devServer) flags() (args []string) {
	if d.config != "" {
		args = append(args, "--config="+d.config)
	}
	if d.allow != "" {
		args = append(args, "--allow="+d.allow)
	}
	return args
}

// stop ends the program if it is running.
func (d *devServer) stop() {
	if d.child == nil {
		return
	}
	if err := d.child.stop(); err != nil {
		d.say("%v", err)
	}
	d.child = nil
}

// announce prints the address of the program.
func (d *devServer) announce(ctx context.Context, r readiness) {
	url := "http://" + net.JoinHostPort(d.host, strconv.Itoa(d.port)) + mountPrefix(d.configFile())
	if r.file != "" {
		d.say("restarted at %s, %.1fs after the change", d.term.paint(cyan, url), time.Since(d.saved).Seconds())
		return
	}
	page := pageOf(ctx, url)
	d.say("serving at %s", d.term.paint(cyan, url))
	d.say("open %s", d.term.paint(cyan, page))
	if d.open {
		d.open = false
		if err := openBrowser(ctx, page); err != nil {
			d.say("failed to open the browser: %v", err)
		}
	}
}
