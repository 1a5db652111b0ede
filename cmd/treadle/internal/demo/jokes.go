package demo

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
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/reduce"
)

// The state of the joke writer: a topic becomes subjects, each subject becomes a joke, the joke
// with the most laughs is proposed, and the user decides.
type (
	jokes struct {
		Topic     string              `json:"topic"`
		Subjects  []string            `json:"subjects"`
		Jokes     reduce.List[joke]   `json:"jokes"`
		Loudest   reduce.Max[int]     `json:"loudest"`
		Winner    *joke               `json:"winner"`
		Decision  Decision            `json:"decision"`
		Notes     reduce.List[string] `json:"notes"`
		Published *joke               `json:"published"`
	}
	joke struct {
		Subject string `json:"subject"`
		Text    string `json:"text"`
		Laughs  int    `json:"laughs"`
	}
	// assignment is the input of one task of node write.
	assignment struct {
		Subject string `json:"subject"`
	}
	written struct {
		Jokes   reduce.List[joke]
		Loudest reduce.Max[int]
	}
	// proposal is the question for the user, and Approval is the answer.
	proposal struct {
		Question string `json:"question"`
		Joke     joke   `json:"joke"`
	}
	// Approval is the answer to the joke writer's question.
	Approval struct {
		Decision Decision `json:"decision"`
		Note     string   `json:"note,omitempty"` // what the other joke should be like
	}
	decided struct {
		Decision Decision
		Notes    reduce.List[string]
	}
	// Decision decides what happens to a joke.
	Decision string
)

// The decisions.
const (
	Yes     Decision = "yes"     // publish the joke
	No      Decision = "no"      // drop the joke
	Another Decision = "another" // write another joke
)

// NewJokes returns the joke writer: it brainstorms subjects, writes a joke about each, picks
// the best, and asks the user whether to publish it. A scripted model pauses for pace between
// words. Without a saver, the graph can be drawn but cannot ask.
func NewJokes(pace time.Duration, saver checkpoint.Saver) (*treadle.Graph[jokes, jokes], error) {
	m := scripted{pace}
	b := treadle.New[jokes]("jokes")
	treadle.AddNode(b, "brainstorm", func(ctx context.Context, s jokes) (struct{ Subjects []string }, error) {
		answer, err := m.ask(ctx, "subjects", s.Topic)
		return struct{ Subjects []string }{strings.Split(answer, "\n")}, err
	})
	write := treadle.AddNode(b, "write", func(ctx context.Context, a assignment) (written, error) {
		text, err := m.ask(ctx, "joke", a.Subject)
		return rated(a.Subject, text), err
	})
	treadle.AddNode(b, "judge", func(ctx context.Context, s jokes) (struct{ Winner *joke }, error) {
		i := slices.IndexFunc(s.Jokes, func(j joke) bool { return j.Laughs == s.Loudest.N })
		verdict := "verdict"
		if len(s.Notes) > 0 { // the user asked for another joke, which is the last one
			i, verdict = len(s.Jokes)-1, "second verdict"
		}
		best := s.Jokes[i]
		_, err := m.ask(ctx, verdict, best.Subject)
		return struct{ Winner *joke }{&best}, err
	})
	treadle.AddNode(b, "approve", func(ctx context.Context, s jokes) (decided, error) {
		question := proposal{"Publish this joke?", *s.Winner}
		for {
			answer, err := treadle.Interrupt[Approval](ctx, question)
			if err != nil {
				return decided{}, err
			}
			switch answer.Decision {
			case Yes, No:
				return decided{Decision: answer.Decision}, nil
			case Another:
				return decided{Another, reduce.List[string]{answer.Note}}, nil
			}
			// The answer's type allows any word. The answer is recorded, so a node that failed
			// because of it would fail on every attempt. Therefore, the node asks again.
			question.Question = fmt.Sprintf("Publish this joke? Answer %s, %s, or %s, not %q.", Yes, No, Another, answer.Decision)
		}
	})
	treadle.AddNode(b, "rewrite", func(ctx context.Context, s jokes) (written, error) {
		text, err := m.ask(ctx, "other joke", s.Notes[len(s.Notes)-1])
		return rated(s.Winner.Subject, text), err
	})
	treadle.AddNode(b, "publish", func(_ context.Context, s jokes) (struct{ Published *joke }, error) {
		return struct{ Published *joke }{s.Winner}, nil
	})
	b.Edge(treadle.Start, "brainstorm")
	treadle.AddBranch(b, "brainstorm", func(_ context.Context, s jokes) (treadle.Goto, error) {
		var next treadle.Goto
		for _, subject := range s.Subjects {
			next = append(next, treadle.Send(write, assignment{subject})...)
		}
		return next, nil
	}, write)
	b.Sequence("write", "judge", "approve")
	treadle.AddBranch(b, "approve", func(_ context.Context, s jokes) (treadle.Goto, error) {
		switch s.Decision {
		case Yes:
			return treadle.To("publish"), nil
		case Another:
			return treadle.To("rewrite"), nil
		}
		return treadle.To(treadle.End), nil
	}, treadle.Label(treadle.End, string(No)), treadle.Label("publish", string(Yes)), treadle.Label("rewrite", string(Another)))
	b.Edge("rewrite", "judge")
	b.Edge("publish", treadle.End)
	return b.Compile(&treadle.Options{Saver: saver})
}

// rated returns a joke with its number of laughs.
func rated(subject, text string) written {
	laughs := laughsAt(text)
	return written{reduce.List[joke]{{subject, text, laughs}}, reduce.MaxOf(laughs)}
}

// laughsAt returns how many of ten people laugh at a joke. It depends only on the text, so that
// every run is the same.
func laughsAt(text string) int {
	h := fnv.New32a()
	fmt.Fprint(h, text)
	return int(h.Sum32()%10) + 1
}

// scripted replaces a language model: it has a fixed response to each prompt and emits it word
// by word, as a language model emits tokens.
type scripted struct {
	pace time.Duration // pause between two words
}

// places lists the subjects derived from a topic, each with its joke.
var places = []struct{ where, joke string }{
	{"at work", "We put %s in charge of the stand-up. It ended early, and nobody knew what to do with the time."},
	{"in love", "I told my date that I write Go and think about %s. She returned an error. I did not check it."},
	{"on holiday", "I booked a quiet week without %s. On day two I paid extra for the upgrade."},
	{"in production", "We shipped %s on a Friday. The dashboard is green. The dashboard is always green."},
}

// words matches the tokens of the scripted and offline models: words with the space after them.
var words = regexp.MustCompile(`\S+\s*`)

// line returns the response to a prompt.
func (scripted) line(kind, about string) (string, error) {
	switch kind {
	case "subjects":
		var subjects []string
		for _, p := range places {
			subjects = append(subjects, about+" "+p.where)
		}
		return strings.Join(subjects, "\n"), nil // topics have no line breaks
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
	return "", fmt.Errorf("scripted model has no %s about %q", kind, about)
}

// ask responds to a prompt and emits the words as tokens of the run.
func (m scripted) ask(ctx context.Context, kind, about string) (answer string, err error) {
	ctx, span := observe.Begin(ctx, observe.Call{Kind: observe.Model, Name: "scripted", Input: kind + ": " + about})
	defer func() { span.End(answer, err) }()
	line, err := m.line(kind, about)
	if err != nil {
		return "", err
	}
	for i, word := range words.FindAllString(line, -1) {
		if i > 0 {
			if err := pause(ctx, m.pace); err != nil {
				return "", err
			}
		}
		span.Chunk(word)
	}
	return line, nil
}

// pause waits for d, or until the context is canceled.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	return delay.For(ctx, d)
}
