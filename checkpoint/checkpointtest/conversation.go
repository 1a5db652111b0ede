package checkpointtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// A Conversation saves the checkpoints of a chat graph with ten additional fields: for
// each turn, the input, the effect of the input, and the model's message.
type Conversation struct {
	Saver checkpoint.Saver // may be replaced with another handle of the same database
	Bytes int              // JSON size of all messages so far

	key     checkpoint.Key // the head
	rnd     *rand.Rand
	step    int
	version uint64
	run     string
	took    []time.Duration // duration of each put
}

// NewConversation starts a conversation in a new thread. All conversations have the
// same text.
func NewConversation(s checkpoint.Saver, thread string) *Conversation {
	return &Conversation{Saver: s, key: checkpoint.Key{Thread: thread}, rnd: rand.New(rand.NewPCG(1, 2)), step: -1}
}

// Turn saves three checkpoints with two messages of 400 characters each.
func (c *Conversation) Turn(tb testing.TB) {
	tb.Helper()
	c.version++
	c.run = fmt.Sprintf("%08x-%04x-7000-8000-%012x", c.rnd.Uint32(), c.version&0xffff, c.rnd.Uint64()>>16)
	human, ai := c.message("human"), c.message("ai")
	append1 := func(item []byte) checkpoint.Change {
		c.version++
		return grow("messages", c.version, 0, string(item))
	}
	c.put(tb, checkpoint.Input, `{"start":{"messages":[`+string(human)+`]},"next":["__start__"]}`)
	c.put(tb, checkpoint.Loop, `{"next":["model"],"last":["__start__"]}`, append1(human), set("count", c.version, fmt.Sprint(c.version)))
	changes := []checkpoint.Change{append1(ai), set("mood", c.version, `"calm"`)}
	if c.version < 10 {
		for i := range 10 {
			changes = append(changes, set(fmt.Sprintf("field_%d", i), c.version, fmt.Sprintf(`"value %d"`, i)))
		}
	}
	c.put(tb, checkpoint.Loop, `{"next":[],"last":["model"]}`, changes...)
}

func (c *Conversation) turns(tb testing.TB, n int) {
	tb.Helper()
	for range n {
		c.Turn(tb)
	}
}

var words = strings.Fields("the owl of a night saw that it was not what they said and so on with more or less of every one in this while other people think about which way to go there")

// message returns the JSON of a message of 400 characters.
func (c *Conversation) message(kind string) []byte {
	var b strings.Builder
	for b.Len() < 400 {
		b.WriteString(words[c.rnd.IntN(len(words))])
		b.WriteByte(' ')
	}
	raw, err := json.Marshal(struct {
		Type    string `json:"type"`
		ID      string `json:"id"`
		Content string `json:"content"`
	}{kind, fmt.Sprintf("%016x%016x", c.rnd.Uint64(), c.rnd.Uint64()), b.String()[:400]})
	if err != nil {
		panic(fmt.Sprint("checkpointtest: ", err))
	}
	c.Bytes += len(raw)
	return raw
}

func (c *Conversation) put(tb testing.TB, source checkpoint.Source, control string, changes ...checkpoint.Change) {
	tb.Helper()
	p := &checkpoint.Put{Key: c.key, Parent: c.key.ID, Head: c.key.ID, Step: c.step, Source: source, RunID: c.run,
		Metadata: json.RawMessage(`{"user":"ada","run_attempt":1}`), Changes: changes, Control: []byte(control)}
	p.ID = checkpoint.NewID(c.step, c.key.ID)
	start := time.Now()
	if err := c.Saver.Put(tb.Context(), p); err != nil {
		tb.Fatal(err)
	}
	c.took = append(c.took, time.Since(start))
	c.key.ID = p.ID
	c.step++
}

// Footprint tests that the size of a conversation is proportional to its messages: 500
// turns take at most maxRatio times the JSON of their messages, although each checkpoint of
// an input contains the input a second time, and the second half takes about as much
// space as the first. s must be empty; disk returns its size.
func Footprint(t *testing.T, s checkpoint.Saver, disk func() int64, maxRatio float64) {
	t.Helper()
	empty := disk()
	c := NewConversation(s, "thread")
	var sizes []int64
	for range 2 {
		c.turns(t, 250)
		sizes = append(sizes, disk()-empty)
	}
	if ratio := float64(sizes[1]) / float64(c.Bytes); ratio > maxRatio {
		t.Errorf("%d bytes for %d bytes of messages: ratio %.2f, want at most %g", sizes[1], c.Bytes, ratio, maxRatio)
	}
	if ratio := float64(sizes[1]) / float64(sizes[0]); ratio > 2.1 {
		t.Errorf("second half of the turns took %.2f times as much as the first", ratio-1)
	}
}

func percentile(took []time.Duration, p int) time.Duration {
	s := slices.Sorted(slices.Values(took))
	return s[(len(s)-1)*p/100]
}
