package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// tty is a pseudoterminal that runs the command.
type tty struct {
	t       *testing.T
	cmd     *exec.Cmd
	master  *os.File
	state   string // the user's state directory
	columns int    // where the screen wraps; 0 if it does not
	read    sync.WaitGroup

	mu   sync.Mutex
	more sync.Cond
	got  bytes.Buffer
	over bool // the command's end is closed
}

// openPTY returns both ends of a new pseudoterminal with 60 lines.
func openPTY(t *testing.T, columns int) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: 60}); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// inTTY starts the command in a terminal with 80 columns. Longer lines, such as
// lines with file names, are not wrapped on the screen that end returns.
func inTTY(t *testing.T, env string, args ...string) *tty {
	t.Helper()
	c := inTTYOf(t, 80, env, args...)
	c.columns = 0
	return c
}

// inTTYOf starts the command in a terminal with the given number of columns.
func inTTYOf(t *testing.T, columns int, env string, args ...string) *tty {
	t.Helper()
	c := &tty{t: t, cmd: command(t, args...), state: t.TempDir(), columns: columns}
	c.more.L = &c.mu
	var slave *os.File
	c.master, slave = openPTY(t, columns)
	t.Cleanup(func() {
		if err := c.master.Close(); err != nil {
			t.Error(err)
		}
	})
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that ^C is its SIGINT
	c.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "XDG_STATE_HOME="+c.state, env)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	c.read.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := c.master.Read(buf)
			c.mu.Lock()
			c.got.Write(buf[:n])
			c.over = err != nil // EIO when the command's end is closed
			c.more.Broadcast()
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	return c
}

// expect waits until text has been written.
func (c *tty) expect(text string) {
	c.t.Helper()
	c.expectTimes(1, text)
}

// expectTimes waits until text has been written n times.
func (c *tty) expectTimes(n int, text string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for strings.Count(c.got.String(), text) < n {
		if c.over {
			c.t.Fatalf("output ended without %q:\n%.500q", text, c.got.String())
		}
		c.more.Wait()
	}
}

func (c *tty) send(keys string) {
	c.t.Helper()
	if _, err := c.master.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// mode returns the flags of the terminal.
func (c *tty) mode() [4]uint32 {
	c.t.Helper()
	m, err := unix.IoctlGetTermios(int(c.master.Fd()), unix.TCGETS)
	if err != nil {
		c.t.Fatal(err)
	}
	return [4]uint32{m.Iflag, m.Oflag, m.Cflag, m.Lflag}
}

// end waits until the command ends and returns its exit code, its output, and the
// final screen.
func (c *tty) end() (code int, raw, shown string) {
	c.t.Helper()
	code = ended(c.t, c.cmd)
	c.read.Wait()
	raw = c.got.String()
	s := &screen{columns: c.columns}
	if _, err := s.Write(c.got.Bytes()); err != nil {
		c.t.Error(err)
	}
	if s.hidden || s.unwrapped {
		c.t.Error("cursor hidden or wrapping disabled at the end")
	}
	return code, raw, strings.ReplaceAll(masked(s.String()), c.state, "STATE")
}

var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

const question = "What should the jokes be about? [gophers] "

// approvalQuestion follows demoWinner.
const approvalQuestion = "yes, no, or another (and how) [yes] "

// The joke writer on a screen of 80 columns: until it asks, and after the answer yes.
const (
	demoWrites = `
Writing jokes about gophers

  ✓ brainstorm                      0.0s  gophers at work, gophers in love, gop…
  ✓ write  gophers at work          0.0s  We put gophers in charge of the stand…
  ✓ write  gophers in love          0.0s  I told my date that I write Go and th…
  ✓ write  gophers on holiday       0.0s  I booked a quiet week without gophers…
  ✓ write  gophers in production    0.0s  We shipped gophers on a Friday. The d…
  ✓ judge                           0.0s  The loudest laugh went to gophers in…
  ? approve                         0.0s  waits for an answer
` + demoWinner + approvalQuestion
	demoPublishes = `
Publishing it

  ✓ approve                     0.0s
  ✓ publish                     0.0s
`
	demoResumes = `Resuming thread "jokes", 4 jokes saved

  No node runs again: the thread waits for an answer.
` + demoWinner + approvalQuestion
)

// demoEnd returns the end of the output if the thread is saved.
func demoEnd(file string) string {
	return "\nTo inspect them\n\n  treadle threads show jokes --db " + file + "\n"
}

func TestJokesAsksForTopicInTerminal(t *testing.T) {
	for _, test := range []struct {
		name, env string
		keys      string
		answers   string
	}{
		{"enter", "", "\n", ""},
		{"a topic", "", "gophers\n", "gophers"},
		{"end of input", "", "\x04", ""},
		{"without color", "NO_COLOR=1", "\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := inTTY(t, test.env, "jokes", "--pace", "0s")
			c.expect("[gophers]")
			c.send(test.keys)
			c.expect("(and how)")
			c.send("\n")
			code, raw, shown := c.end()
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
			diff(t, shown, strings.TrimRight(question+test.answers, " ")+"\n"+strings.TrimRight(demoWrites, " ")+"\n"+demoPublishes+demoReport+demoEnd("STATE/treadle/demo.db"))
			if got, want := colors.MatchString(raw), test.env == ""; got != want {
				t.Errorf("colors: %v, want %v", got, want)
			}
		})
	}
}

func TestJokesDoesNotAskForGivenTopic(t *testing.T) {
	c := inTTY(t, "", "jokes", "--pace", "0s", "--topic", "gophers", "--db", ":memory:")
	c.expect("(and how)")
	c.send("y\n")
	code, _, shown := c.end()
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	diff(t, shown, strings.TrimPrefix(demoWrites, "\n")+"y\n"+demoPublishes+demoReport)
}

func TestJokesOmitsEscapeCodesInDumbTerminal(t *testing.T) {
	c := inTTY(t, "TERM=dumb", "jokes", "--db", ":memory:")
	c.expect("?")
	c.send("\n")
	c.expect("(and how)")
	c.send("\n")
	code, raw, shown := c.end()
	if code != 0 || strings.Contains(raw, "\x1b") {
		t.Errorf("exit code %d after %q", code, raw)
	}
	diff(t, shown, strings.TrimRight(question, " ")+"\n\n"+strings.Replace(demoLines, "yes (no terminal to ask)", strings.TrimRight(approvalQuestion, " "), 1))
}

func TestJokesFollowsAnswer(t *testing.T) {
	for _, test := range []struct {
		name      string
		lines     []string // each is typed after a prompt
		want      string   // what follows the question, up to the graph
		published string
	}{
		{"no", []string{"No"}, `No

Dropping it

  ✓ approve                     0.0s
`, "nothing"},
		{"invalid answer first", []string{"perhaps", "YES"}, `perhaps
Answer yes or no, or for example "another, shorter".
Publish this joke? ` + approvalQuestion + "YES\n" + demoPublishes, "gophers in production"},
		{"another", []string{"another, with a cat", "y"}, `another, with a cat

Writing another one

  ✓ approve                     0.0s
  ✓ rewrite                     0.0s  They sent it back with a note: with a cat…
  ✓ judge                       0.0s  The new one about gophers in production i…
  ? approve                     0.0s  waits for an answer

The winner: gophers in production

     They sent it back with a note: with a cat. We published the note, and it
     got a raise.

Publish this joke? ` + approvalQuestion + "y\n" + demoPublishes, "gophers in production"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := inTTY(t, "", "jokes", "--pace", "0s", "--topic", "gophers", "--db", ":memory:")
			for i, line := range test.lines {
				c.expectTimes(i+1, "(and how) [yes] ")
				c.send(line + "\n")
			}
			code, _, shown := c.end()
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
			before, rest, _ := strings.Cut(shown, "\nThe graph\n")
			diff(t, before, strings.TrimPrefix(demoWrites, "\n")+test.want)
			_, published, _ := strings.Cut(rest, "\nPublished: ")
			published, _, _ = strings.Cut(published, "\n")
			diff(t, published, test.published)
		})
	}
}

// However the process ended, the next one asks the same question and repeats no finished
// task.
func TestJokesResumesAtQuestion(t *testing.T) {
	for _, test := range []struct {
		name string
		stop func(*tty)
		code int
		said string // after the question
	}{
		{"kill -9", func(c *tty) {
			if err := c.cmd.Process.Kill(); err != nil {
				c.t.Fatal(err)
			}
		}, -1, "\n"},
		{"Ctrl-C", func(c *tty) { c.send("\x03") }, 130, "^C\ntreadle: interrupted\nTo continue: treadle jokes --db FILE --thread jokes\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "it's my.db")
			quoted := "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
			args := []string{"jokes", "--pace", "0s", "--db", file, "--thread", "jokes"}
			c := inTTY(t, "", append(args, "--topic", "gophers")...)
			c.expect("[yes]")
			waits := result{Stdout: `THREAD  GRAPH  CHECKPOINTS    SIZE  LAST CHANGE  STATUS
jokes   jokes            5  0.0 kB  just now     waiting for an answer
`}
			diff(t, onFile(t, file, "list"), waits) // while the command has the file open
			test.stop(c)
			code, _, shown := c.end()
			diff(t, code, test.code)
			diff(t, strings.ReplaceAll(shown, quoted, "FILE"), strings.TrimRight(strings.TrimPrefix(demoWrites, "\n")+test.said, " \n")+"\n")
			diff(t, onFile(t, file, "list"), waits)
			c = inTTY(t, "", args...)
			c.expect("[yes]")
			c.send("yes\n")
			code, _, shown = c.end()
			diff(t, code, 0)
			diff(t, strings.ReplaceAll(shown, quoted, "FILE"), demoResumes+"yes\n"+demoPublishes+demoReport+demoEnd("FILE"))
		})
	}
}

// Without --thread, a new run continues the unfinished thread.
func TestJokesFindsUnfinishedThread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	run := func(stop string, args ...string) string {
		t.Helper()
		c := inTTY(t, "NO_COLOR=1", append([]string{"jokes", "--pace", "0s", "--db", file}, args...)...)
		c.expect("[yes]")
		c.send(stop)
		_, raw, _ := c.end()
		first, _, _ := strings.Cut(raw, "\r\n")
		return first
	}
	const ctrlC, enter = "\x03", "\n"
	diff(t, []string{
		run(ctrlC, "--topic", "owls"),
		run(ctrlC, "--topic", "cats"), // another topic is another thread
		run(enter),
		run(enter, "--topic", "cats"),
		run(enter, "--topic", "dogs"),
	}, []string{
		"Writing jokes about owls",
		"Writing jokes about cats",
		`Resuming thread "jokes", 4 jokes saved`,
		`Resuming thread "jokes-2", 4 jokes saved`,
		"Writing jokes about dogs",
	})
}

func TestCtrlCAtQuestionExitsWith130(t *testing.T) {
	c := inTTY(t, "NO_COLOR=1", "jokes")
	c.expect(question)
	c.send("\x03")
	code, _, shown := c.end()
	if code != 130 {
		t.Errorf("exit code %d", code)
	}
	diff(t, shown, question+"^C\ntreadle: interrupted\n")
}

func TestCtrlCDuringNodeExitsWith130(t *testing.T) {
	c := inTTY(t, "NO_COLOR=1", "jokes", "--topic", "gophers", "--pace", "1h")
	c.expect("s  gophers\r\n") // the model's first word
	c.send("\x03")
	code, _, shown := c.end()
	if code != 130 {
		t.Errorf("exit code %d", code)
	}
	diff(t, shown, `Writing jokes about gophers

  ✗ brainstorm                  0.0s  gophers
treadle: interrupted
To continue: treadle jokes --db STATE/treadle/demo.db --thread jokes
`)
}

// If only the input is a terminal, the output is plain lines.
func TestOutputToFileIsPlainLines(t *testing.T) {
	master, slave := openPTY(t, 80)
	defer master.Close()
	defer slave.Close()
	cmd := command(t, "jokes")
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = slave, &stdout
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	diff(t, masked(stdout.String()), demoLines)
}
