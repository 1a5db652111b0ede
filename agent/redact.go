package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// Redaction is what becomes of what is found.
type Redaction string

// What can become of personal data.
const (
	Replace Redaction = "redact" // [REDACTED_EMAIL]
	Mask    Redaction = "mask"   // ****-****-****-1234: the end or the shape stays
	Hash    Redaction = "hash"   // <email_hash:0123abcd>: the same for the same text
	Block   Redaction = "block"  // fail with a [*RedactError]
)

// RedactOptions say what [Redact] looks for, where, and what it does.
type RedactOptions struct {
	// Find are the kinds of data; none means all that this package knows.
	Find []PII
	// As is what becomes of it; Replace if not set.
	As Redaction
	// KeepInput leaves messages of users alone. They are looked through before
	// the model is asked.
	KeepInput bool
	// Output looks through what the model says, also while it is streamed: text
	// is held back until it is known not to be the beginning of something.
	Output bool
	// Results looks through the results of tools.
	Results bool
}

// RedactError says that there is personal data where there must be none.
type RedactError struct {
	Kind  string
	Where llm.Role // who said it
	Count int
}

// Error names the kind and the place, never the data.
func (e *RedactError) Error() string {
	return fmt.Sprintf("agent: there is personal data of kind %s in a message of the %s (%d times)", e.Kind, e.Where, e.Count)
}

// Redact takes personal data out of the texts of messages, in the conversation
// that is kept and so for every model and tool. Checkpoints from before, such as
// that of the input itself, hold what was said. Arguments of tool calls, reasoning,
// images and files are not looked into.
func Redact(o RedactOptions) *Middleware {
	if len(o.Find) == 0 {
		o.Find = []PII{Email, CreditCard, IP, MAC, URL}
	}
	if o.As == "" {
		o.As = Replace
	}
	r := redactor{o}
	names := []string{"redact"}
	for _, p := range o.Find {
		names = append(names, p.Name)
	}
	m := &Middleware{Name: strings.Join(names, "_")}
	if !o.KeepInput || o.Results {
		m.BeforeModel = HookOf(r.history)
	}
	if o.Output {
		m.WrapModel = func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
			call.Model = &redacted{call.Model, r}
			return next(ctx, call)
		}
	}
	return m
}

type redactor struct{ RedactOptions }

// history rewrites the messages that hold something.
func (r redactor) history(_ context.Context, c conversation) (*said, error) {
	var out llm.Messages
	for _, m := range c.Messages {
		if m.Role == llm.RoleHuman && !r.KeepInput || m.Role == llm.RoleTool && r.Results {
			changed, err := r.message(&m)
			if err != nil {
				return nil, err
			}
			if changed {
				out = append(out, m)
			}
		}
	}
	if out == nil {
		return nil, nil
	}
	return &said{out}, nil
}

// message rewrites the texts of a message.
func (r redactor) message(m *llm.Message) (changed bool, err error) {
	text := func(s *string) {
		clean, e := r.text(*s, m.Role)
		if e != nil && err == nil {
			err = e
		}
		if e == nil && clean != *s {
			*s, changed = clean, true
		}
	}
	text(&m.Content)
	blocks := make([]llm.Block, len(m.Blocks)) // the old ones are shared
	copy(blocks, m.Blocks)
	for i := range blocks {
		if blocks[i].Type == llm.BlockText {
			text(&blocks[i].Text)
		}
	}
	if changed {
		m.Blocks = blocks
	}
	return changed, err
}

// text is a text without what was found in it.
func (r redactor) text(s string, where llm.Role) (string, error) {
	for _, p := range r.Find {
		found := p.find(s)
		if len(found) == 0 {
			continue
		}
		switch r.As {
		case Block:
			return "", &RedactError{p.Name, where, len(found)}
		case Replace, Mask, Hash:
		default: // perhaps it was meant to block
			return "", fmt.Errorf("agent: Redact: As is %q: want %s, %s, %s or %s", r.As, Replace, Mask, Hash, Block)
		}
		var b strings.Builder
		end := 0
		for _, at := range found {
			b.WriteString(s[end:at[0]])
			b.WriteString(p.replace(s[at[0]:at[1]], r.As))
			end = at[1]
		}
		b.WriteString(s[end:])
		s = b.String()
	}
	return s, nil
}

// safe is how much of the beginning of a text will stay as it is, whatever
// follows.
func (r redactor) safe(s string) int {
	cut := len(s)
	for _, p := range r.Find {
		cut = min(cut, p.safe(s))
	}
	for again := cut > 0; again; {
		again = false
		for _, p := range r.Find {
			for _, at := range p.find(s) {
				if at[0] < cut && cut < at[1] {
					cut, again = behindSpace(s[:at[0]]), true
				}
			}
		}
	}
	return cut
}
