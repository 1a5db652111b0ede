package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// tty is a pseudo terminal with the command at its far end.
type tty struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	read   sync.WaitGroup

	mu   sync.Mutex
	more sync.Cond
	got  bytes.Buffer
	over bool // the far end is closed
}

// openPTY returns the two ends of a new terminal of 80 by 60.
func openPTY(t *testing.T) (master, slave *os.File) {
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
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 80, Row: 60}); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// inTTY starts the command in a terminal.
func inTTY(t *testing.T, env string, args ...string) *tty {
	t.Helper()
	c := &tty{t: t, cmd: command(t, args...)}
	c.more.L = &c.mu
	var slave *os.File
	c.master, slave = openPTY(t)
	t.Cleanup(func() {
		if err := c.master.Close(); err != nil {
			t.Error(err)
		}
	})
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that ^C is its SIGINT
	c.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", env)
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
			c.over = err != nil // EIO when the far end is closed
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
	c.mu.Lock()
	defer c.mu.Unlock()
	for !strings.Contains(c.got.String(), text) {
		if c.over {
			c.t.Fatalf("it ended without %q:\n%.500q", text, c.got.String())
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

// end waits for the command's end and returns its exit code, all that it wrote,
// and what is then on the screen.
func (c *tty) end() (code int, raw, shown string) {
	c.t.Helper()
	code = ended(c.t, c.cmd)
	c.read.Wait()
	raw = c.got.String()
	s := &screen{}
	if _, err := s.Write(c.got.Bytes()); err != nil {
		c.t.Error(err)
	}
	if s.hidden || s.unwrapped {
		c.t.Error("the cursor is hidden, or lines do not wrap, when all is over")
	}
	return code, raw, masked(s.String())
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

const question = "What shall the jokes be about? [gophers] "

// demoScreen is what the demo about gophers leaves on a screen of 80 columns.
const demoScreen = `
Writing jokes about gophers

  ✓ brainstorm                      0.0s  gophers at work, gophers in love, gop…
  ✓ write  gophers at work          0.0s  We put gophers in charge of the stand…
  ✓ write  gophers in love          0.0s  I told my date that I write Go and th…
  ✓ write  gophers on holiday       0.0s  I booked a quiet week without gophers…
  ✓ write  gophers in production    0.0s  We shipped gophers on a Friday. The d…
  ✓ judge                           0.0s  The loudest laugh went to gophers in…
` + demoReport

func TestTerminalIsAskedForTheTopic(t *testing.T) {
	for _, test := range []struct {
		name, env string
		keys      []string // each is typed when it has been asked for
		answers   string
	}{
		{"enter", "", []string{"\n"}, ""},
		{"a topic", "", []string{"gophers\n"}, "gophers"},
		{"end of input", "", []string{"\x04"}, ""},
		{"a bad topic first", "", []string{"\x02\n", "gophers\n"}, "^B\nA topic is one line of plain text.\n" + question + "gophers"},
		{"without colour", "NO_COLOR=1", []string{"\n"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := inTTY(t, test.env, "demo", "--pace", "0s")
			for i, keys := range test.keys {
				c.expect([]string{"[gophers]", "plain text.\r\nWhat shall"}[i])
				c.send(keys)
			}
			code, raw, shown := c.end()
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
			diff(t, shown, strings.TrimRight(question+test.answers, " ")+"\n"+demoScreen)
			if got, want := colours.MatchString(raw), test.env == ""; got != want {
				t.Errorf("colours: %v, want %v", got, want)
			}
		})
	}
}

func TestTerminalIsNotAskedForAGivenTopic(t *testing.T) {
	c := inTTY(t, "", "demo", "--pace", "0s", "--topic", "gophers")
	code, _, shown := c.end()
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	diff(t, shown, strings.TrimPrefix(demoScreen, "\n"))
}

func TestDumbTerminalGetsNoEscapeCodes(t *testing.T) {
	c := inTTY(t, "TERM=dumb", "demo")
	c.expect("?")
	c.send("\n")
	code, raw, shown := c.end()
	if code != 0 || strings.Contains(raw, "\x1b") {
		t.Errorf("exit code %d after %q", code, raw)
	}
	diff(t, shown, strings.TrimRight(question, " ")+"\n\n"+demoLines)
}

func TestCtrlCAtTheQuestionExitsWith130(t *testing.T) {
	c := inTTY(t, "NO_COLOR=1", "demo")
	c.expect(question)
	c.send("\x03")
	code, _, shown := c.end()
	if code != 130 {
		t.Errorf("exit code %d", code)
	}
	diff(t, shown, question+"^C\ntreadle: interrupted\n")
}

func TestCtrlCWhileANodeRunsExitsWith130(t *testing.T) {
	c := inTTY(t, "NO_COLOR=1", "demo", "--topic", "gophers", "--pace", "1h")
	c.expect("s  gophers\r\n") // the model's first word
	c.send("\x03")
	code, _, shown := c.end()
	if code != 130 {
		t.Errorf("exit code %d", code)
	}
	diff(t, shown, `Writing jokes about gophers

  ✗ brainstorm                  0.0s  gophers
treadle: interrupted
`)
}

// A terminal at one end only is no conversation.
func TestOneEndedTerminalGetsPlainLines(t *testing.T) {
	master, slave := openPTY(t)
	defer master.Close()
	defer slave.Close()
	cmd := command(t, "demo")
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = slave, &stdout
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	diff(t, masked(stdout.String()), demoLines)
}
