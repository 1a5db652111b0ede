package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/observe"
)

// The demo's state: a topic becomes subjects, each subject a joke, and the
// loudest laugh decides.
type (
	jokes struct {
		Topic    string             `json:"topic"`
		Subjects []string           `json:"subjects"`
		Jokes    treadle.List[joke] `json:"jokes"`
		Loudest  treadle.Max[int]   `json:"loudest"`
		Winner   *joke              `json:"winner"`
	}
	joke struct {
		Subject string `json:"subject"`
		Text    string `json:"text"`
		Laughs  int    `json:"laughs"`
	}
	// assignment is what one writer is sent.
	assignment struct {
		Subject string `json:"subject"`
	}
	written struct {
		Jokes   treadle.List[joke]
		Loudest treadle.Max[int]
	}
)

// newJokes is the demo's graph: brainstorm, a writer for each subject, a judge.
func newJokes(m model) (*treadle.Graph[jokes, jokes], error) {
	b := treadle.New[jokes]("jokes")
	treadle.AddNode(b, "brainstorm", func(ctx context.Context, s jokes) (struct{ Subjects []string }, error) {
		answer, err := m.ask(ctx, "subjects", s.Topic)
		return struct{ Subjects []string }{strings.Split(answer, "\n")}, err
	})
	write := treadle.AddNode(b, "write", func(ctx context.Context, a assignment) (written, error) {
		text, err := m.ask(ctx, "joke", a.Subject)
		laughs := laughsAt(text)
		return written{treadle.List[joke]{{a.Subject, text, laughs}}, treadle.MaxOf(laughs)}, err
	})
	treadle.AddNode(b, "judge", func(ctx context.Context, s jokes) (struct{ Winner *joke }, error) {
		i := slices.IndexFunc(s.Jokes, func(j joke) bool { return j.Laughs == s.Loudest.N })
		best := s.Jokes[i]
		_, err := m.ask(ctx, "verdict", best.Subject)
		return struct{ Winner *joke }{&best}, err
	})
	b.Edge(treadle.Start, "brainstorm")
	b.Branch("brainstorm", func(_ context.Context, s jokes) (treadle.Goto, error) {
		var next treadle.Goto
		for _, subject := range s.Subjects {
			next = append(next, write.Send(assignment{subject})...)
		}
		return next, nil
	}, write.Name())
	b.Edge("write", "judge")
	b.Edge("judge", treadle.End)
	return b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
}

// laughsAt is how an audience of ten takes a joke. Nobody knows why, but it is
// the same every time.
func laughsAt(text string) int {
	h := fnv.New32a()
	fmt.Fprint(h, text)
	return int(h.Sum32()%10) + 1
}

// model stands in for a language model: it knows a few lines by heart and says
// them word by word, reporting each as a real one reports its tokens.
type model struct {
	pace time.Duration // between two words
}

// places are where the subjects put the topic, and what is funny there.
var places = []struct{ where, joke string }{
	{"at work", "We put %s in charge of the stand-up. It ended early, and nobody knew what to do with the time."},
	{"in love", "I told my date that I write Go and think about %s. She returned an error. I did not check it."},
	{"on holiday", "I booked a quiet week without %s. On day two I paid extra for the upgrade."},
	{"in production", "We shipped %s on a Friday. The dashboard is green. The dashboard is always green."},
}

// words are the scripted model's tokens, each with the space behind it.
var words = regexp.MustCompile(`\S+\s*`)

// recall finds the line that answers a prompt.
func (model) recall(kind, about string) (string, error) {
	switch kind {
	case "subjects":
		var subjects []string
		for _, p := range places {
			subjects = append(subjects, about+" "+p.where)
		}
		return strings.Join(subjects, "\n"), nil // which no topic contains
	case "joke":
		for _, p := range places {
			if topic, ok := strings.CutSuffix(about, " "+p.where); ok {
				return fmt.Sprintf(p.joke, topic), nil
			}
		}
	case "verdict":
		return "The loudest laugh went to " + about + ".", nil
	}
	return "", fmt.Errorf("the scripted model knows no %s about %q", kind, about)
}

// ask answers a prompt. Whoever streams the run's tokens sees the words as they
// come.
func (m model) ask(ctx context.Context, kind, about string) (answer string, err error) {
	ctx, span := observe.Begin(ctx, observe.Call{Kind: observe.Model, Name: "scripted", Input: kind + ": " + about})
	defer func() { span.End(answer, err) }()
	line, err := m.recall(kind, about)
	if err != nil {
		return "", err
	}
	for i, word := range words.FindAllString(line, -1) {
		if i > 0 {
			if err := m.pause(ctx); err != nil {
				return "", err
			}
		}
		span.Chunk(word)
	}
	return line, nil
}

func (m model) pause(ctx context.Context) error {
	if m.pace <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(m.pace)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
