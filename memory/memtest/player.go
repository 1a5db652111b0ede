package memtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// player is the model of a case. It returns the answers of the current session, or forwards
// requests to a real model, and records the requests.
type player struct {
	real    llm.Model
	session *Session
	// meanwhile is called on the first request that decides what to remember.
	meanwhile func(context.Context) error

	asked    int  // requests in this session
	looked   bool // whether a request of this session decided what to remember
	calls    int  // tool calls in the case, for their IDs
	problems []error
	spent    time.Duration // time spent in the model in this session
	requests int           // requests in the case
	tokens   int           // tokens in the requests of the case
}

// begin starts a session.
func (p *player) begin(s *Session, meanwhile func(context.Context) error) {
	p.session, p.meanwhile = s, meanwhile
	p.asked, p.looked, p.problems, p.spent = 0, false, nil, 0
}

// end returns the errors of the session's requests.
func (p *player) end() error {
	s := p.session
	fail := func(format string, args ...any) { p.problems = append(p.problems, fmt.Errorf(format, args...)) }
	if left := len(s.Answers) - p.asked; left > 0 {
		fail("%d of the %d answers were not requested", left, len(s.Answers))
	} else if s.Failure != "" && left == 0 {
		fail("model was not called after its answers, so it could not fail with %q", s.Failure)
	}
	if !p.looked && (len(s.Shows) > 0 || len(s.Hides) > 0 || len(s.Meanwhile) > 0) {
		fail("model was not asked what to remember, so it saw nothing")
	}
	return errors.Join(p.problems...)
}

// Describe implements [llm.Describer].
func (p *player) Describe() llm.Info {
	if p.real != nil && (p.session == nil || len(p.session.Answers) == 0) {
		return llm.Describe(p.real)
	}
	return llm.Info{Provider: "memtest", Model: "recorded"}
}

// Stream implements [llm.Model].
func (p *player) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		start := time.Now()
		chunks, err := p.answer(ctx, req)
		p.spent += time.Since(start)
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
		if err != nil {
			yield(llm.Chunk{}, err)
		}
	}
}

// answer returns the whole response at once, so that only the model's time is measured.
func (p *player) answer(ctx context.Context, req *llm.Request) ([]llm.Chunk, error) {
	n := p.asked
	p.asked++
	p.requests++
	p.tokens += llm.CountTokens(req.Messages, &llm.CountOptions{Tools: req.Tools})
	if !p.looked && isReflection(req) {
		p.looked = true
		p.look(req)
		if err := p.meanwhile(ctx); err != nil {
			return nil, p.refuse(err)
		}
	}
	model := p.real
	if len(p.session.Answers) > 0 || p.session.Failure != "" || model == nil {
		turn, err := p.turn(n, req)
		if err != nil {
			return nil, p.refuse(err)
		}
		model = llmtest.NewScript(turn)
	}
	var chunks []llm.Chunk
	for c, err := range model.Stream(ctx, req) {
		if err != nil {
			return chunks, err
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// isReflection reports whether req decides about memories, as opposed to requesting search
// queries.
func isReflection(req *llm.Request) bool {
	return slices.ContainsFunc(req.Tools, func(t *llm.Tool) bool { return t.Name == "Done" || t.Name == "Merge" })
}

// refuse records an error, so that it is reported even if the manager ignores it.
func (p *player) refuse(err error) error {
	p.problems = append(p.problems, err)
	return err
}

// look checks Shows and Hides.
func (p *player) look(req *llm.Request) {
	var shown strings.Builder
	for _, d := range documentsIn(req) {
		shown.WriteString(d.text + "\n")
	}
	for _, text := range p.session.Shows {
		if !strings.Contains(shown.String(), text) {
			p.problems = append(p.problems, fmt.Errorf("model request lacks %q:\n%s", text, shown.String()))
		}
	}
	for _, text := range p.session.Hides {
		if strings.Contains(shown.String(), text) {
			p.problems = append(p.problems, fmt.Errorf("model request contains %q:\n%s", text, shown.String()))
		}
	}
}

// turn returns the recorded response to the nth request, counted from 0.
func (p *player) turn(n int, req *llm.Request) (llmtest.Turn, error) {
	if n >= len(p.session.Answers) {
		switch {
		case p.session.Failure != "":
			return llmtest.Fail(errors.New(p.session.Failure)), nil
		case n == 0:
			return llmtest.Turn{}, errors.New("session without answers: add answers, or set Options.Model")
		}
		return llmtest.Turn{}, fmt.Errorf("more model calls than answers (%d): %s", n, req.Messages[len(req.Messages)-1].Text())
	}
	m := p.session.Answers[n]
	m.ToolCalls, m.InvalidToolCalls = slices.Clone(m.ToolCalls), slices.Clone(m.InvalidToolCalls)
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		c.ID = p.callID()
		var err error
		if c.Args, err = resolve(c.Args, req); err != nil {
			return llmtest.Turn{}, fmt.Errorf("answer %d, call %d: %w", n+1, i+1, err)
		}
	}
	for i := range m.InvalidToolCalls {
		m.InvalidToolCalls[i].ID = p.callID()
	}
	return llmtest.Turn{Message: m}, nil
}

func (p *player) callID() string {
	p.calls++
	return fmt.Sprintf("call_%d", p.calls)
}

// shownDocument is a memory in a request.
type shownDocument struct{ id, text string }

var documentTag = regexp.MustCompile(`(?s)<document id="(m\d+)" kind=[^\n]*>\n(.*?)\n</document>`)

// documentsIn returns the memories in a request.
func documentsIn(req *llm.Request) []shownDocument {
	var out []shownDocument
	for _, m := range req.Messages {
		if m.Role != llm.RoleSystem {
			continue
		}
		for _, found := range documentTag.FindAllStringSubmatch(m.Text(), -1) {
			out = append(out, shownDocument{found[1], plain(json.RawMessage(found[2]))})
		}
	}
	return out
}

// resolve replaces a "~" reference in the arguments with the ID of the document.
func resolve(args json.RawMessage, req *llm.Request) (json.RawMessage, error) {
	v, err := decode(args)
	if err != nil {
		return nil, err
	}
	all, _ := v.(map[string]any)
	id, _ := all["json_doc_id"].(string)
	text, described := strings.CutPrefix(id, "~")
	if !described {
		return args, nil
	}
	var fit, shown []string
	for _, d := range documentsIn(req) {
		shown = append(shown, d.id+": "+d.text)
		if strings.Contains(d.text, text) {
			fit = append(fit, d.id)
		}
	}
	if len(fit) != 1 {
		return nil, fmt.Errorf("%d of the memories in the model request contain %q, want one:\n%s", len(fit), text, strings.Join(shown, "\n"))
	}
	all["json_doc_id"] = fit[0]
	return json.Marshal(all)
}
