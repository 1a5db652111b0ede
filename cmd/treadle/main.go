// Treadle runs, inspects, and draws graphs from the command line:
//
//	treadle demo                       chat with an assistant, without a key or a service
//	treadle jokes                      watch a graph run
//	treadle threads list               list the threads in an SQLite file
//	treadle import --from x --db y     import threads from LangGraph for Python
//	treadle export --db y              export store items as JSON Lines
//	treadle erase --db y --user ann    erase everything stored about a person
//	treadle draw essay --format svg    draw a graph
//	treadle encoder                    install the sentence encoder for semantic search
//	treadle serve                      serve the demo graphs over HTTP
//	treadle new shop                   create a module that serves an agent
//	treadle dev                        serve it, and restart it when a file changes
//	treadle acp                        use it from an editor
//	treadle version                    print the version
//
// The exit code is 0 after success, 1 after a failure, 2 after a usage error, and 130 after
// Ctrl-C.
//
// The assistant and the graphs are in package internal/demo. This package contains the
// commands, and shows runs in a terminal or as plain lines.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes. A shell reports 130 for a process ended by SIGINT.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not caught and ends the process immediately
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run implements main and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &writer{w: stdout}
	started := false
	term := terminalOf(stdin, stdout)
	s := &streams{in: newInput(stdin, term), out: out, term: term}
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	cmd, err := root.ExecuteContextC(ctx)
	s.in.close() // before the messages below, which need the terminal in its normal mode
	if err == nil && out.err != nil {
		started, err = true, out.err
	}
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled), errors.Is(err, errInterrupted):
		fmt.Fprintln(stderr, "treadle: interrupted")
		if s, ok := errors.AsType[*stoppedError](err); ok {
			fmt.Fprintln(stderr, "To continue:", s.command)
		}
		return exitInterrupted
	case !started: // cobra could not parse the arguments
		fmt.Fprintf(stderr, "treadle: %s\nRun '%s -h' for usage.\n", printable(strings.TrimSpace(err.Error())), cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintln(stderr, "treadle:", errorText(err))
	return exitFailed
}

// streams holds the input and output of a command.
type streams struct {
	in   *input
	out  *writer
	term *terminal // nil unless both are the same terminal
}

// writer keeps the first error, so that run can report it and print statements need not check
// it.
type writer struct {
	w    io.Writer
	used bool // something was written
	err  error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.used = true
	n, err := w.w.Write(p)
	w.err = err
	return n, err
}

func newRoot(s *streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "treadle",
		Short: "Durable, stateful agents as graphs",
		Long: `Treadle runs agents as graphs: nodes are plain functions, the state is typed,
and every step is saved in a checkpoint.`,
		Example: `  treadle demo                          chat with an agent
  treadle jokes                         watch a graph run
  treadle jokes --topic owls | cat      the same as plain lines, for a log
  treadle threads list                  list the saved threads
  treadle draw jokes                    draw a graph in the terminal
  treadle draw essay --depth 1 -o essay.svg
  treadle new shop                      create a module that serves an agent
  treadle dev                           serve it, and restart it when a file changes`,
		Version:       versionOf(debug.ReadBuildInfo()),
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("treadle {{.Version}}\n")
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(newACP(s, root.Version), newDemo(s), newDev(s), newDraw(s), newEncoder(s), newErase(s), newExport(s), newImport(s), newJokes(s), newNew(s), newServe(), newThreads(s), newVersion(s, root.Version))
	return root
}

// newHelp returns a help command that, unlike cobra's, fails for unknown commands.
func newHelp(root *cobra.Command) *cobra.Command {
	find := func(args []string) (*cobra.Command, error) {
		cmd, rest, err := root.Find(args)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("unknown command %q for %q", rest[0], cmd.CommandPath())
		}
		return cmd, err
	}
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show help for a command",
		Args: func(_ *cobra.Command, args []string) error {
			_, err := find(args)
			return err
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, err := find(args)
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag() // otherwise these flags are not listed
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		},
	}
}
