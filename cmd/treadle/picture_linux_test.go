package main

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updating = flag.Bool("update", false, "write docs/demo.svg")

// docs/demo.svg is the recording of the demo in the README: a conversation in a
// terminal, during which the process is killed.
func TestDemoPictureIsCurrent(t *testing.T) {
	const file = "../../docs/demo.svg"
	db := filepath.Join(t.TempDir(), "demo.db")
	p := &picture{screen: screen{columns: 80}}
	p.start()
	c := chatInTTY(t, "--db", db)
	p.listen(c, "> ")
	p.say(c, "my name is Ada", "Good to know.\r\n\r\n> ")
	p.say(c, "what is 2^64?", " = 18446744073709551616\r\n\r\n> ")
	p.say(c, "note shopping: milk and eggs", "(and why) ")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.end()
	p.print("\r\nKilled\r\n")
	p.start()
	c = chatInTTY(t, "--db", db)
	p.listen(c, "(and why) ")
	p.say(c, "yes", "Written to shopping.md.\r\n\r\n> ")
	p.say(c, "what do you know about me?", "I know this: my name is Ada\r\n\r\n> ")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.end()
	if p.err != nil {
		t.Fatal(p.err)
	}
	got := p.svg()
	if *updating {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not current: run go test ./cmd/treadle -run TestDemoPicture -update", file)
		diff(t, got, string(want))
	}
}

// picture is an animated image of a screen.
type picture struct {
	screen screen
	times  []float64 // when each line appears, in seconds
	now    float64
	seen   int // bytes of the terminal's output that are drawn
	err    error
}

func (p *picture) print(text string) {
	if _, err := p.screen.Write([]byte(text)); err != nil && p.err == nil {
		p.err = err
	}
	for len(p.times) < len(p.screen.text) {
		p.times = append(p.times, p.now)
	}
}

// start draws the command.
func (p *picture) start() {
	p.seen = 0
	p.now += 0.5
	p.print("$ treadle demo\r\n")
	p.now += 0.5
}

// listen draws the output of the command up to and including text.
func (p *picture) listen(c *tty, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !strings.Contains(c.got.String()[p.seen:], text) {
		if c.over {
			c.t.Fatalf("output ended without %q", text)
		}
		c.more.Wait()
	}
	all := c.got.String()[p.seen:]
	all = all[:strings.Index(all, text)+len(text)]
	p.seen += len(all)
	for line := range strings.Lines(all) {
		p.print(line)
		if strings.HasSuffix(line, "\n") {
			p.now += 0.15
		}
	}
}

// say types a line and draws the output up to and including text.
func (p *picture) say(c *tty, line, text string) {
	c.send(line + "\r")
	p.now += 1
	p.listen(c, text)
}

const (
	cellWidth, lineHeight = 8.4, 19
	margin                = 16
)

// svg draws the screen. The colors follow the reader's light or dark mode.
func (p *picture) svg() string {
	lines := p.screen.text
	w, h := float64(p.screen.columns)*cellWidth+2*margin, len(lines)*lineHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="img" aria-label="A conversation with treadle demo in a terminal. The process is killed at a question; started again, it asks the same question and continues.">
<style>
rect { fill: #f6f8fa; stroke: #d0d7de }
text { font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre; animation: show 1ms both }
.b { font-weight: bold } .f { fill: #59636e } .r { fill: #c0272d } .g { fill: #1a7f37 } .c { fill: #0969da }
@media (prefers-color-scheme: dark) {
rect { fill: #0d1117; stroke: #30363d }
text { fill: #e6edf3 }
.f { fill: #9198a1 } .r { fill: #ff7b72 } .g { fill: #3fb950 } .c { fill: #58a6ff }
}
@media (prefers-reduced-motion: reduce) { text { animation: none } }
@keyframes show { from { visibility: hidden } to { visibility: visible } }
</style>
<rect x="0.5" y="0.5" width="%.0f" height="%d" rx="8"/>
`, w, h, w, h, w-1, h-1)
	for i, line := range lines {
		for len(line) > 0 && line[len(line)-1].char == ' ' {
			line = line[:len(line)-1]
		}
		if len(line) == 0 {
			continue
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%.1f" xml:space="preserve" style="animation-delay:%.2fs">`, margin, margin+i*lineHeight+14, float64(len(line))*cellWidth, p.times[i])
		for from := 0; from < len(line); {
			to := from
			var text strings.Builder
			for to < len(line) && line[to].paint == line[from].paint {
				text.WriteRune(line[to].char)
				to++
			}
			class := map[paint]string{bold: "b", faint: "f", red: "r", green: "g", cyan: "c"}[line[from].paint]
			if class == "" {
				b.WriteString(html.EscapeString(text.String()))
			} else {
				fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text.String()))
			}
			from = to
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}
