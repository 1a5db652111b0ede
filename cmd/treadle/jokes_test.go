package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// demoGraph is the joke writer's graph as text.
const demoGraph = `               ╭───────────╮
               │ __start__ │
               ╰─────┬─────╯
                     │
                     ▼
               ┌────────────┐
               │ brainstorm │
               └─────┬──────┘
                     ┆
                     ▼
                 ┌───────┐
                 │ write │
                 └───┬───┘
                     │
                     ▼
                 ┌───────┐
                 │ judge │
                 └─┬─────┘
                   │   ▲
             ┌─────┘   └───┐
             ▼             │
       ┌───────────┐       │
       │  approve  │       │
       └─┬───┬───┬─┘       │
   ┌╌╌╌╌╌┘   ┆   └╌╌┐      │
  no        yes  another   │
   ┆         ┆      └╌╌┐   │
   ┆         ▼         ▼   │
   ┆  ┌─────────┐   ┌──────┴──┐
   ┆  │ publish │   │ rewrite │
   ┆  └────┬────┘   └─────────┘
   ┆   ┌───┘
   ▼   ▼
╭─────────╮
│ __end__ │
╰─────────╯
`

// The output of the joke writer about gophers: the question, which ends with the answer,
// the published joke, and the checkpoints.
const (
	demoWinner = `
The winner: gophers in production

     We shipped gophers on a Friday. The dashboard is green. The dashboard is
     always green.

Publish this joke? `
	demoJokes = `
The jokes

  1. gophers at work (7 laughs)
     We put gophers in charge of the stand-up. It ended early, and nobody knew
     what to do with the time.
  2. gophers in love (1 laugh)
     I told my date that I write Go and think about gophers. She returned an
     error. I did not check it.
  3. gophers on holiday (8 laughs)
     I booked a quiet week without gophers. On day two I paid extra for the
     upgrade.
  4. gophers in production (9 laughs)
     We shipped gophers on a Friday. The dashboard is green. The dashboard is
     always green.
`
	demoPublished = `
Published: gophers in production

     We shipped gophers on a Friday. The dashboard is green. The dashboard is
     always green.
`
	demoSteps = `
  step -1  input  next: __start__
  step  0  loop   next: brainstorm
  step  1  loop   next: write ×4
  step  2  loop   next: judge
  step  3  loop   next: approve
`
)

// demoReport is the output after the run.
var demoReport = "\nThe graph\n\n" + indent(demoGraph) + demoJokes + demoPublished + `
7 checkpoints on thread "jokes"
` + demoSteps + `  step  4  loop   next: publish
  step  5  loop   done
`

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ") + "\n"
}

// demoLines is the whole output without a terminal and without pauses.
var demoLines = `Writing jokes about gophers

  step 1: brainstorm: 12 tokens in 0.0s
  step 2: write (gophers at work): 20 tokens in 0.0s
  step 2: write (gophers in love): 21 tokens in 0.0s
  step 2: write (gophers on holiday): 16 tokens in 0.0s
  step 2: write (gophers in production): 15 tokens in 0.0s
  step 3: judge: 8 tokens in 0.0s
  step 4: approve: waits for an answer
` + demoWinner + "yes (no terminal to ask)\n" + demoPublishing + demoReport

// demoPublishing is the output while the joke is published.
const demoPublishing = `
Publishing it

  step 4: approve: done in 0.0s
  step 5: publish: done in 0.0s
`

func TestJokesPrintsPlainLinesWithoutTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	synctest.Test(t, func(t *testing.T) {
		diff(t, call(t.Context(), "jokes"), result{Stdout: demoLines})
	})
}

// The tasks of a step finish shortest first and are listed in the order of the step.
func TestJokesPacesItsWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := call(t.Context(), "jokes", "--pace", "100ms")
		want := strings.NewReplacer(
			"12 tokens in 0.0s", "12 tokens in 1.1s",
			"20 tokens in 0.0s", "20 tokens in 1.9s",
			"21 tokens in 0.0s", "21 tokens in 2.0s",
			"16 tokens in 0.0s", "16 tokens in 1.5s",
			"15 tokens in 0.0s", "15 tokens in 1.4s",
			"8 tokens in 0.0s", "8 tokens in 0.7s").Replace(demoLines)
		diff(t, got, result{Stdout: want})
	})
}

func TestJokesTakesAnyTopic(t *testing.T) {
	for _, test := range []struct{ topic, subject, joke string }{
		{"owls", "owls in love", "I told my date that I write Go and think about owls. She returned an error. I did not check it."},
		{"  owls ", "owls in love", "I told my date that I write Go and think about owls. She returned an error. I did not check it."},
		{"salt, pepper", "salt, pepper in production", "We shipped salt, pepper on a Friday. The dashboard is green. The dashboard is always green."},
		{"cats at work", "cats at work at work", "We put cats at work in charge of the stand-up. It ended early, and nobody knew what to do with the time."},
		{"100%s", "100%s at work", "We put 100%s in charge of the stand-up. It ended early, and nobody knew what to do with the time."},
		{"猫", "猫 on holiday", "I booked a quiet week without 猫. On day two I paid extra for the upgrade."},
	} {
		t.Run(test.topic, func(t *testing.T) {
			got := call(t.Context(), "jokes", "--topic", test.topic)
			if got.Code != 0 || got.Stderr != "" {
				t.Fatalf("got %+v", got)
			}
			_, published, _ := strings.Cut(got.Stdout, "Published: ")
			subject, rest, _ := strings.Cut(published, "\n")
			text, _, _ := strings.Cut(rest, "\n\n7 checkpoints")
			diff(t, []string{subject, strings.Join(strings.Fields(text), " ")}, []string{test.subject, test.joke})
		})
	}
}

func TestCanceledJokesExitsWith130(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		// A deadline is an ordinary error; only Ctrl-C cancels.
		got := call(ctx, "jokes", "--pace", "100ms")
		if got.Code != 1 || !strings.Contains(got.Stderr, context.DeadlineExceeded.Error()) {
			t.Errorf("after a deadline: %+v", got)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, stop)
		diff(t, call(ctx, "jokes", "--pace", "100ms"), result{`Writing jokes about gophers

  step 1: brainstorm: 12 tokens in 1.1s
  step 2: write (gophers at work): failed after 0.4s
  step 2: write (gophers in love): failed after 0.4s
  step 2: write (gophers on holiday): failed after 0.4s
  step 2: write (gophers in production): failed after 0.4s
`, "treadle: interrupted\n", 130})
	})
}

// Two of the four jokes are finished when the run stops, and they are not written again.
func TestJokesResumesStoppedRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(2700*time.Millisecond, stop)
		diff(t, call(ctx, "jokes", "--pace", "100ms", "--db", file), result{`Writing jokes about gophers

  step 1: brainstorm: 12 tokens in 1.1s
  step 2: write (gophers at work): failed after 1.6s
  step 2: write (gophers in love): failed after 1.6s
  step 2: write (gophers on holiday): 16 tokens in 1.5s
  step 2: write (gophers in production): 15 tokens in 1.4s
`, "treadle: interrupted\nTo continue: treadle jokes --db " + file + " --thread jokes\n", 130})
		diff(t, call(t.Context(), "jokes", "--db", file, "--thread", "jokes"), result{Stdout: `Resuming thread "jokes", 2 jokes saved

  step 2: write (gophers at work): 20 tokens in 0.0s
  step 2: write (gophers in love): 21 tokens in 0.0s
  step 2: write (gophers on holiday): saved earlier
  step 2: write (gophers in production): saved earlier
  step 3: judge: 8 tokens in 0.0s
  step 4: approve: waits for an answer
` + demoWinner + "yes (no terminal to ask)\n" + demoPublishing + demoReport + "\nTo inspect them\n\n  treadle threads show jokes --db " + file + "\n"})
	})
}

// screen emulates a terminal. It supports the codes that the live view and the line
// editor use, and rejects all others.
type screen struct {
	columns int // where lines wrap; 0 if they do not
	mu      sync.Mutex
	raw     bytes.Buffer
	text    [][]cell
	paint   paint
	y, x    int

	hidden, unwrapped bool
}

// cell is a character on the screen.
type cell struct {
	char  rune
	paint paint
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.Write(p)
	for text := []rune(string(p)); len(text) > 0; {
		n, err := s.put(text)
		if err != nil {
			return 0, err
		}
		text = text[n:]
	}
	return len(p), nil
}

// put shows the first character or code of text and returns its length.
func (s *screen) put(text []rune) (int, error) {
	for len(s.text) <= s.y {
		s.text = append(s.text, nil)
	}
	switch text[0] {
	case '\r':
		s.x = 0
		return 1, nil
	case '\n':
		s.y, s.x = s.y+1, 0
		return 1, nil
	case '\x1b':
		code, _, _ := strings.Cut(string(text[:min(len(text), 12)]), " ")
		end := strings.IndexFunc(code, func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' })
		if end < 0 {
			return 0, fmt.Errorf("unfinished code %q", code)
		}
		return end + 1, s.obey(code[1 : end+1])
	}
	if text[0] < ' ' && text[0] != '\t' {
		return 0, fmt.Errorf("unexpected character %q", text[0])
	}
	// A terminal wraps when the next character arrives, not when the line is full.
	if n := cells(text[0]); s.columns > 0 && !s.unwrapped && s.x+n > s.columns {
		s.y, s.x = s.y+1, 0
		for len(s.text) <= s.y {
			s.text = append(s.text, nil)
		}
	}
	line := &s.text[s.y]
	for len(*line) < s.x+cells(text[0]) {
		*line = append(*line, cell{char: ' '})
	}
	(*line)[s.x] = cell{text[0], s.paint}
	s.x++
	for range cells(text[0]) - 1 {
		(*line)[s.x] = cell{wide, s.paint}
		s.x++
	}
	return 1, nil
}

// wide marks the second column of a wide character.
const wide = '\ue000'

func (s *screen) obey(code string) error {
	n := 0
	switch {
	case code == "[0K":
		s.text[s.y] = s.text[s.y][:min(s.x, len(s.text[s.y]))]
		return nil
	case strings.HasSuffix(code, "G"), strings.HasSuffix(code, "B"):
		if _, err := fmt.Sscanf(code[1:], "%d", &n); err != nil {
			return fmt.Errorf("unexpected code %q", code)
		}
		if code[len(code)-1] == 'G' {
			s.x = n - 1
		} else {
			s.y += n
		}
		return nil
	}
	up := 0
	switch {
	case code == "[?25l", code == "[?25h":
		s.hidden = code == "[?25l"
	case code == "[?7l", code == "[?7h":
		s.unwrapped = code == "[?7l"
	case code == "[J":
		s.text = s.text[:s.y+1]
		s.text[s.y] = s.text[s.y][:min(s.x, len(s.text[s.y]))]
	case strings.HasSuffix(code, "m"):
		s.paint = paint(strings.TrimPrefix(code[1:len(code)-1], "0"))
	default:
		if n, err := fmt.Sscanf(code, "[%dA", &up); n != 1 || err != nil || up > s.y {
			return fmt.Errorf("unexpected code %q on line %d", code, s.y)
		}
		s.y -= up
	}
	return nil
}

// String returns the text on the screen.
func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, line := range s.text {
		var text strings.Builder
		for _, c := range line {
			if c.char != wide {
				text.WriteRune(c.char)
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// watchDemo runs a command on a screen, calls at with the screen's text at each of the
// times, and returns the screen and the command's error.
func watchDemo(t *testing.T, term *terminal, args string, at func(time.Duration, string), times ...time.Duration) (*screen, error) {
	t.Helper()
	s := &screen{}
	out := &writer{w: s}
	root := newRoot(&streams{in: newInput(strings.NewReader(""), term), out: out, term: term})
	root.SetArgs(strings.Fields(args))
	done := make(chan error, 1)
	start := time.Now()
	go func() { done <- root.ExecuteContext(t.Context()) }()
	for _, d := range times {
		<-time.After(d - time.Since(start))
		synctest.Wait()
		at(d, s.String())
	}
	err := <-done
	if out.err != nil {
		t.Error(out.err)
	}
	if s.hidden || s.unwrapped {
		t.Error("cursor hidden or wrapping disabled at the end")
	}
	return s, err
}

func sized(columns, rows int) func() (int, int) {
	return func() (int, int) { return columns, rows }
}

func TestLiveViewDrawsTasksInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Frames are drawn every 80ms and words arrive every 60ms. At the chosen
		// times, the last frame, at 320 and 1280ms, did not coincide with a word.
		got := map[time.Duration]string{}
		s, err := watchDemo(t, &terminal{size: sized(80, 60), color: true}, "jokes --db :memory: --topic gophers",
			func(at time.Duration, text string) { got[at] = text },
			350*time.Millisecond, 1300*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		got[0] = s.String()
		diff(t, got, map[time.Duration]string{
			350 * time.Millisecond: `Writing jokes about gophers

  ⠼ brainstorm                  0.3s  gophers at work, gophers in love,
`,
			// Eleven words each: the first immediately, and ten at intervals of 60ms.
			1300 * time.Millisecond: `Writing jokes about gophers

  ✓ brainstorm                      0.7s  gophers at work, gophers in love, gop…
  ⠦ write  gophers at work          0.6s  …arge of the stand-up. It ended early,
  ⠦ write  gophers in love          0.6s  … date that I write Go and think about
  ⠦ write  gophers on holiday       0.6s  …et week without gophers. On day two I
  ⠦ write  gophers in production    0.6s  …a Friday. The dashboard is green. The
`,
			0: `Writing jokes about gophers

  ✓ brainstorm                      0.7s  gophers at work, gophers in love, gop…
  ✓ write  gophers at work          1.1s  We put gophers in charge of the stand…
  ✓ write  gophers in love          1.2s  I told my date that I write Go and th…
  ✓ write  gophers on holiday       0.9s  I booked a quiet week without gophers…
  ✓ write  gophers in production    0.8s  We shipped gophers on a Friday. The d…
  ✓ judge                           0.4s  The loudest laugh went to gophers in…
  ? approve                         0.0s  waits for an answer
` + demoWinner + "yes, no, or another (and how) [yes]\n" + `
Publishing it

  ✓ approve                     0.0s
  ✓ publish                     0.0s
` + demoReport,
		})
	})
}

// The cursor cannot reach lines that have scrolled off the screen, so while the run
// is active only the lines that fit are drawn; at the end, all are.
func TestLiveViewFitsSmallTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got string
		s, err := watchDemo(t, &terminal{size: sized(40, 4)}, "jokes --db :memory: --topic gophers",
			func(_ time.Duration, text string) { got = text }, 1300*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, got, `Writing jokes about gophers

  ⠦ write  gophers in l…    0.6s  …about
  ⠦ write  gophers on h…    0.6s  …two I
  ⠦ write  gophers in p…    0.6s  …. The
`)
		end, _, _ := strings.Cut(s.String(), "\n\nThe winner")
		diff(t, end, `Writing jokes about gophers

  ✓ brainstorm              0.7s  gophe…
  ✓ write  gophers at w…    1.1s  We pu…
  ✓ write  gophers in l…    1.2s  I tol…
  ✓ write  gophers on h…    0.9s  I boo…
  ✓ write  gophers in p…    0.8s  We sh…
  ✓ judge                   0.4s  The l…
  ? approve                 0.0s  waits…`)
	})
}

// failing returns a graph whose second node fails.
func failing(t *testing.T) treadle.AnyGraph {
	type state struct {
		Topic string `json:"topic"`
	}
	b := treadle.New[state]("failing")
	treadle.AddNode(b, "good", func(context.Context, state) (*state, error) { return nil, nil })
	treadle.AddNode(b, "bad", func(context.Context, state) (*state, error) { return nil, errors.New("no paper left") })
	b.Sequence(treadle.Start, "good", "bad")
	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestViewsShowFailures(t *testing.T) {
	for _, test := range []struct {
		name string
		term *terminal
		want string
	}{
		{"lines", nil, `Writing jokes about owls

  step 1: good: done in 0.0s
  step 2: bad: failed after 0.0s
`},
		{"live", &terminal{size: sized(80, 24)}, `Writing jokes about owls

  ✓ good                        0.0s
  ✗ bad                         0.0s
`},
		{"dumb", &terminal{size: sized(80, 24), dumb: true}, `Writing jokes about owls

  step 1: good: done in 0.0s
  step 2: bad: failed after 0.0s
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &screen{}
			d := jokesRun{streams: &streams{out: &writer{w: s}, term: test.term}, graph: failing(t)}
			err := d.run(t.Context(), "", "owls")
			if ne, ok := errors.AsType[*treadle.NodeError](err); !ok || ne.Node != "bad" {
				t.Errorf("error: %v", err)
			}
			diff(t, s.String(), test.want)
		})
	}
}

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		s          string
		n          int
		head, tail string
	}{
		{"gophers", 7, "gophers", "gophers"},
		{"gophers", 6, "gophe…", "…phers"},
		{"go phers", 4, "go…", "…ers"},
		{"猫猫猫", 6, "猫猫猫", "猫猫猫"},
		{"猫猫猫", 5, "猫猫…", "…猫猫"},
		{"猫猫猫", 4, "猫…", "…猫"},
		{"gophers", 1, "…", "…"},
		{"gophers", -3, "…", "…"},
		{"", 0, "", ""},
	} {
		diff(t, []string{head(test.s, test.n), tail(test.s, test.n)}, []string{test.head, test.tail})
	}
}

func TestTally(t *testing.T) {
	for want, names := range map[string][]string{
		"":                nil,
		"a":               {"a"},
		"a ×2":            {"a", "a"},
		"a ×2, b, a":      {"a", "a", "b", "a"},
		"judge, write ×3": {"judge", "write", "write", "write"},
	} {
		diff(t, tally(names), want)
	}
}

func TestJokesRejectsInvalidTopic(t *testing.T) {
	var out bytes.Buffer
	term := &terminal{size: sized(80, 24), dumb: true}
	root := newRoot(&streams{in: newInput(strings.NewReader("\x02\nowls\nno\n"), term), out: &writer{w: &out}, term: term})
	root.SetArgs([]string{"jokes", "--db", ":memory:"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	const question = "What should the jokes be about? [gophers] "
	if want := question + "A topic must be one line of plain text.\n" + question + "\nWriting jokes about owls\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}
