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
	"github.com/treadle-go/treadle/internal/wait"
	"github.com/treadle-go/treadle/reduce"
)

// The demo's state: a topic becomes subjects, each subject a joke, the loudest
// laugh decides, and a person has the last word.
type (
	jokes struct {
		Topic     string              `json:"topic"`
		Subjects  []string            `json:"subjects"`
		Jokes     reduce.List[joke]   `json:"jokes"`
		Loudest   reduce.Max[int]     `json:"loudest"`
		Winner    *joke               `json:"winner"`
		Decision  decision            `json:"decision"`
		Notes     reduce.List[string] `json:"notes"`
		Published *joke               `json:"published"`
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
		Jokes   reduce.List[joke]
		Loudest reduce.Max[int]
	}
	// proposal is what a person is asked about, and approval the answer.
	proposal struct {
		Question string `json:"question"`
		Joke     joke   `json:"joke"`
	}
	approval struct {
		Decision decision `json:"decision"`
		Note     string   `json:"note,omitempty"` // on what the other one should be like
	}
	decided struct {
		Decision decision
		Notes    reduce.List[string]
	}
	decision string
)

const (
	yes     decision = "yes"
	no      decision = "no"
	another decision = "another"
)

// newJokes is the demo's graph: brainstorm, a writer for each subject, a judge,
// and a person who may have it published, dropped or written once more. Without
// a saver it can be drawn but cannot ask.
func newJokes(m model, saver checkpoint.Saver) (*treadle.Graph[jokes, jokes], error) {
	b := treadle.New[jokes]("jokes")
	treadle.AddNode(b, "brainstorm", func(ctx context.Context, s jokes) (struct{ Subjects []string }, error) {
		answer, err := m.ask(ctx, "subjects", s.Topic)
		return struct{ Subjects []string }{strings.Split(answer, "\n")}, err
	})
	write := treadle.AddNode(b, "write", func(ctx context.Context, a assignment) (written, error) {
		text, err := m.ask(ctx, "joke", a.Subject)
		return told(a.Subject, text), err
	})
	treadle.AddNode(b, "judge", func(ctx context.Context, s jokes) (struct{ Winner *joke }, error) {
		i := slices.IndexFunc(s.Jokes, func(j joke) bool { return j.Laughs == s.Loudest.N })
		verdict := "verdict"
		if len(s.Notes) > 0 { // somebody has asked for the last one
			i, verdict = len(s.Jokes)-1, "second verdict"
		}
		best := s.Jokes[i]
		_, err := m.ask(ctx, verdict, best.Subject)
		return struct{ Winner *joke }{&best}, err
	})
	treadle.AddNode(b, "approve", func(ctx context.Context, s jokes) (decided, error) {
		question := proposal{"Publish this joke?", *s.Winner}
		for {
			answer, err := treadle.Interrupt[approval](ctx, question)
			if err != nil {
				return decided{}, err
			}
			switch answer.Decision {
			case yes, no:
				return decided{Decision: answer.Decision}, nil
			case another:
				return decided{another, reduce.List[string]{answer.Note}}, nil
			}
			// The answer's type does not say which words there are. It is kept, so
			// a node that failed over it would fail for ever: it asks again.
			question.Question = fmt.Sprintf("Publish this joke? It can be %s, %s or %s, not %q.", yes, no, another, answer.Decision)
		}
	})
	treadle.AddNode(b, "rewrite", func(ctx context.Context, s jokes) (written, error) {
		text, err := m.ask(ctx, "other joke", s.Notes[len(s.Notes)-1])
		return told(s.Winner.Subject, text), err
	})
	treadle.AddNode(b, "publish", func(_ context.Context, s jokes) (struct{ Published *joke }, error) {
		return struct{ Published *joke }{s.Winner}, nil
	})
	b.Edge(treadle.Start, "brainstorm")
	b.Branch("brainstorm", func(_ context.Context, s jokes) (treadle.Goto, error) {
		var next treadle.Goto
		for _, subject := range s.Subjects {
			next = append(next, write.Send(assignment{subject})...)
		}
		return next, nil
	}, write.Name())
	b.Sequence("write", "judge", "approve")
	treadle.Switch(b, "approve", func(_ context.Context, s jokes) (decision, error) {
		return s.Decision, nil
	}, map[decision]string{yes: "publish", no: treadle.End, another: "rewrite"})
	b.Edge("rewrite", "judge")
	b.Edge("publish", treadle.End)
	return b.Compile(&treadle.Options{Saver: saver})
}

// told is a joke that has met its audience.
func told(subject, text string) written {
	laughs := laughsAt(text)
	return written{reduce.List[joke]{{subject, text, laughs}}, reduce.MaxOf(laughs)}
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
	case "other joke":
		if about == "" {
			about = "funnier"
		}
		return "They sent it back with a note: " + about + ". We published the note, and it got a raise.", nil
	case "verdict":
		return "The loudest laugh went to " + about + ".", nil
	case "second verdict":
		return "The new one about " + about + " is as good as it gets.", nil
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
	if wait.For(ctx, m.pace) != nil {
		return ctx.Err()
	}
	return nil
}
