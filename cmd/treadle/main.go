// Treadle runs and draws graphs from the command line:
//
//	treadle demo                       a joke writer, live, without a key or a service
//	treadle threads list               what is in an SQLite file of threads
//	treadle draw essay --format svg    a picture of a graph
//	treadle version
//
// The exit code is 0 if all went well, 1 if what was asked for failed, 2 if it
// was not asked for properly, and 130 after Ctrl-C.
package main

import (
	"bufio"
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

// The exit codes; 130 is what a shell reports for a process that SIGINT ended.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not caught and ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &writer{w: stdout}
	started := false
	root := newRoot(&streams{in: stdin, out: out, term: terminalOf(stdin, stdout)})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	err := root.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		started, err = true, out.err
	}
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "treadle: interrupted")
		if s, ok := errors.AsType[*stoppedError](err); ok {
			fmt.Fprintln(stderr, "To go on:", s.goOn)
		}
		return exitInterrupted
	case !started: // cobra did not get as far as the command: it could not read the arguments
		fmt.Fprintf(stderr, "treadle: %s\nRun 'treadle --help' for usage.\n", printable(strings.TrimSpace(err.Error())))
		return exitUsage
	}
	fmt.Fprintln(stderr, "treadle:", said(err))
	return exitFailed
}

// streams are what a command reads from and writes to.
type streams struct {
	in   io.Reader
	out  *writer
	term *terminal // nil unless both are one

	lines *bufio.Reader // of in, once it is read: what is typed ahead stays for the next question
}

// writer remembers the first error, so that a full disk fails the command and
// not each line has to ask.
type writer struct {
	w    io.Writer
	used bool // something has been written
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
and every step is kept in a checkpoint.`,
		Example: `  treadle demo                          chat with an agent
  treadle jokes                         watch a graph run
  treadle jokes --topic owls | cat      the same for a log: plain lines
  treadle threads list                  see what they have kept
  treadle draw                          draw the graph of the jokes in the terminal
  treadle draw essay --depth 1 -o essay.svg`,
		Version:       versionOf(debug.ReadBuildInfo()),
		SilenceErrors: true, // run prints them, once
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("treadle {{.Version}}\n")
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(newDemo(s), newDraw(s), newTeller(s), newThreads(s), newVersion(s, root.Version))
	return root
}

// newHelp is cobra's help command, but for one that fails if there is nothing
// to help with.
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
		Short: "Say more about a command",
		Args: func(_ *cobra.Command, args []string) error {
			_, err := find(args)
			return err
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, err := find(args)
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag() // else these are missing in the list of flags
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		},
	}
}
