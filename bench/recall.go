package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// ourRecall is the part of the catalog about memories.
var ourRecall = newTrial("memory_recall_100k", "p50", 3, recallMemories)

const (
	recalled = 10  // memories for a message
	messages = 200 // per trial
)

// remembered is the stored form of a memory.
type remembered struct {
	Kind    string        `json:"kind"`
	Content memory.Memory `json:"content"`
}

var memorySpace = store.Namespace{"memories", "ada"}

// memories contains the memories and messages of one user.
type memories struct {
	*corpus
	texts, messages []string
	vector          map[string][]float32
}

// newMemories makes memories of the facts of a corpus and messages of its
// questions, all drawn out with words as frequent as in a language: of the
// words of a message several are in tens of thousands of memories, and most are in few. The
// vectors stay those of the facts and questions.
func newMemories(c *corpus, size int) *memories {
	m := &memories{corpus: c, texts: make([]string, size), messages: make([]string, messages), vector: make(map[string][]float32, size+messages)}
	talk := newSmallTalk()
	for i := range m.messages {
		q := i % len(c.questions)
		m.messages[i] = talk.drawOut(c.questions[q], 5, 15)
		m.vector[m.messages[i]] = c.vectors[q]
	}
	for i := range m.texts {
		m.texts[i] = talk.drawOut(c.facts[i], 8, 25)
		m.vector[m.texts[i]] = c.vectors[len(c.questions)+i]
	}
	return m
}

// Embed implements [store.Embedder]. A store without fields embeds a memory as
// its JSON.
func (m *memories) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		var v remembered
		if strings.HasPrefix(text, "{") {
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				return nil, err
			}
			text = v.Content.Content
		}
		if out[i] = m.vector[text]; out[i] == nil {
			return nil, fmt.Errorf("%q is neither a memory nor a message", text)
		}
	}
	return out, nil
}

func (m *memories) item(i int) store.PutOp {
	return store.PutOp{Namespace: memorySpace, Key: strconv.Itoa(i), Value: remembered{"Memory", memory.Memory{Content: m.texts[i]}}}
}

// emptyMemories returns an empty SQLite store for memories.
func emptyMemories(ctx context.Context, size int) (*filledStore, error) {
	c, err := stores.sentences(ctx, size)
	if err != nil {
		return nil, err
	}
	m := newMemories(c, size)
	s, err := openDatabaseStore(backends.SQLite)(ctx, &store.Options{Embedder: m, Ranking: store.Hybrid})
	if err != nil {
		return nil, err
	}
	s.corpus, s.memories, s.item = c, m, m.item
	return s, nil
}

// recallMemories times recall for one message after the other.
func recallMemories(ctx context.Context, j job) (line, error) {
	s, err := stores.filled(ctx, "memories", j.want, emptyMemories)
	if err != nil {
		return line{}, err
	}
	r, err := memory.NewRecaller(&memory.RecallerOptions{Store: s.Store, Namespace: memorySpace})
	if err != nil {
		return line{}, err
	}
	l, took, err := timed(messages, 1, func(i int) error {
		got, err := r.Recall(ctx, llm.User(s.memories.messages[i%messages]))
		if err == nil && len(got.Memories) != recalled {
			err = fmt.Errorf("message %d recalls %d memories, want %d", i, len(got.Memories), recalled)
		}
		return err
	})
	if err != nil {
		return line{}, err
	}
	l.P95Ns = percentile(took, 95)
	l.Note = "budget: p95 of 40ms, without embedding the message; " + s.corpus.note
	return l, nil
}

// smallTalk adds words to sentences. The n-th word of its vocabulary occurs about
// 1/n times as often as the first.
type smallTalk struct {
	rnd   *rand.Rand
	zipf  *rand.Zipf
	words []string
}

// vocabulary is the number of words of smallTalk.
const vocabulary = 20_000

// newSmallTalk returns a deterministic smallTalk.
func newSmallTalk() *smallTalk {
	rnd := rand.New(rand.NewPCG(11, 13))
	t := &smallTalk{rnd: rnd, zipf: rand.NewZipf(rnd, 1.05, 2.7, vocabulary-1), words: slices.Clone(common)}
	known := map[string]bool{}
	for _, w := range t.words {
		known[w] = true
	}
	for len(t.words) < vocabulary {
		if w := t.invent(); !known[w] {
			known[w] = true
			t.words = append(t.words, w)
		}
	}
	return t
}

// drawOut extends a sentence to a length of from to most words, unless it is longer.
func (t *smallTalk) drawOut(sentence string, from, most int) string {
	end := sentence[len(sentence)-1:]
	words := strings.Fields(strings.TrimSuffix(sentence, end))
	for want := from + t.rnd.IntN(most-from+1); len(words) < want; {
		words = append(words, t.words[t.zipf.Uint64()])
	}
	return strings.Join(words, " ") + end
}

// invent returns a new word of two to four syllables.
func (t *smallTalk) invent() string {
	var b strings.Builder
	for range 2 + t.rnd.IntN(3) {
		b.WriteString(syllables[t.rnd.IntN(len(syllables))])
	}
	return b.String()
}

var (
	// Common English words, most frequent first.
	common = strings.Fields(`the of and to a in is that it was for on with he as you do at this but his by from they we say her she or an
		will my one all would there their what so up out if about who get which go me when make can like time no just him know take people
		into year your good some could them see other than then now look only come its over think also back after use two how our work first
		well way even new want because any these give day most us kind thing man find here life tell very still call house hand old more`)
	syllables = strings.Fields(`ba ber bo cal chi cor da den dri el en fa fin for gar gle go ha hem in jo ka kel la len lo ma mer mi na nor nu
		ol pa per pli qua ra ren ri sa sel shi so ta ter thu tra ul va ven vi wa wen yo za`)
)
