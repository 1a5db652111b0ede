package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/reduce"
)

var ourHistories = []work{
	newTrial("history500_memory", "", trials, history(inMemory)),
	newTrial("history500_sqlite", "", trials, history(at(backends.SQLite))),
	newTrial("history500_postgres", "", 3, history(at(backends.Postgres))),
}

// message resembles a model's message.
type message struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Content string `json:"content"`
}

type chat struct{ Messages reduce.List[message] }

// said is the update of the model node.
type said struct{ Messages reduce.List[message] }

// talk is a conversation of messages with 400 characters: in each turn, a person
// writes one and a model another. bench.mjs has the same.
type talk struct {
	g   *treadle.Graph[chat, chat]
	rnd *rand.Rand
	raw int // bytes of the messages' JSON so far
}

const (
	talkThread = "talk"
	talkLength = 400
)

var talkWords = strings.Fields("a treadle turns the wheel and every thread goes through the loom that stands in this long room where nobody has spoken since the evening bell")

func newTalk(p *place) (*talk, error) {
	t := &talk{rnd: rand.New(rand.NewPCG(1, 2))}
	g, err := t.graph(p.Saver)
	t.g = g
	return t, err
}

func (t *talk) graph(s checkpoint.Saver) (*treadle.Graph[chat, chat], error) {
	b := treadle.New[chat]("talk")
	treadle.AddNode(b, "model", func(context.Context, chat) (said, error) {
		m, err := t.say("ai")
		return said{reduce.List[message]{m}}, err
	})
	b.Edge(treadle.Start, "model")
	// The check, which go test enables, reads the whole input.
	return b.Compile(&treadle.Options{Saver: s, Check: new(false)})
}

func (t *talk) say(kind string) (message, error) {
	var b strings.Builder
	for b.Len() < talkLength {
		b.WriteString(talkWords[t.rnd.IntN(len(talkWords))])
		b.WriteByte(' ')
	}
	m := message{kind, fmt.Sprintf("%016x%016x", t.rnd.Uint64(), t.rnd.Uint64()), b.String()[:talkLength]}
	raw, err := json.Marshal(m)
	t.raw += len(raw)
	return m, err
}

func (t *talk) turn(ctx context.Context) error { return t.turnOf(ctx, talkThread) }

func (t *talk) turnOf(ctx context.Context, thread string) error {
	m, err := t.say("human")
	if err != nil {
		return err
	}
	_, err = t.g.Thread(thread).Run(ctx, chat{reduce.List[message]{m}})
	return err
}

// history times the turns of a conversation. A single turn is too short to time, so
// the time of turn n is the median of the ten turns that end with it.
func history(open opener) trial {
	return func(ctx context.Context, j job) (line, error) {
		return in(ctx, open, func(p *place) (line, error) {
			talk, err := newTalk(p)
			if err != nil {
				return line{}, err
			}
			took := make([]time.Duration, j.n)
			l, err := cost(j.n, func() error {
				for i := range took {
					start := time.Now()
					if err := talk.turn(ctx); err != nil {
						return err
					}
					took[i] = time.Since(start)
				}
				return nil
			})
			if err != nil {
				return line{}, err
			}
			at := func(n int) float64 { return median(took[n-10 : n]) }
			l.MeanNs, l.Turn10Ns, l.Turn100Ns, l.NsPerOp = l.NsPerOp, at(10), at(min(100, j.n)), at(j.n)
			if err := talk.verify(ctx, j); err != nil {
				return line{}, err
			}
			size, err := p.size(ctx, talkThread)
			l.BytesPerOp, l.RawBytes = float64(size), float64(talk.raw)
			l.Note = fmt.Sprintf("bytes_per_op is the size of the whole thread, %.2f times the %d bytes of its messages", l.BytesPerOp/l.RawBytes, talk.raw)
			return l, err
		})
	}
}

// verify checks that the thread has all messages and a checkpoint for every step.
func (t *talk) verify(ctx context.Context, j job) error {
	thread := t.g.Thread(talkThread)
	snap, err := thread.State(ctx)
	if err != nil {
		return err
	}
	var c chat
	if err := snap.Read(&c); err != nil {
		return err
	}
	// The input, its effect, and the model's message.
	if want := 3*j.n - 2; snap.Step != want {
		return fmt.Errorf("last step %d, want %d", snap.Step, want)
	}
	return j.checkMessages(len(c.Messages))
}

func (j job) checkMessages(n int) error {
	if n != j.want {
		return fmt.Errorf("%s: %d messages, want %d", j.name, n, j.want)
	}
	return nil
}
