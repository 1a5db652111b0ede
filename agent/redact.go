package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// A Redaction is what [Redact] does with personal data.
type Redaction string

// Values of Redaction.
const (
	Replace Redaction = "redact" // write [REDACTED_EMAIL] instead
	Mask    Redaction = "mask"   // keep only the end or the format: ****-****-****-1234
	Hash    Redaction = "hash"   // write a hash, equal for equal text: <email_hash:0123abcd>
	Block   Redaction = "block"  // fail with a [*RedactError]
)

// RedactOptions configures [Redact]. A nil *RedactOptions means the defaults: all
// predefined kinds of data are replaced in user messages.
type RedactOptions struct {
	// Find lists the kinds of data; empty means all predefined kinds.
	Find []PII
	// As controls what happens to the data; empty means Replace.
	As Redaction
	// KeepInput disables the search of user messages. By default, they are searched
	// before each model call.
	KeepInput bool
	// Output also searches the model's responses, including the structured
	// response. Streamed text is held back while it may be the start of such data,
	// and tool call arguments until the response is complete. Tools get the
	// redacted arguments.
	Output bool
	// Results also searches tool results.
	Results bool
}

// RedactError reports a message with personal data when As is [Block].
type RedactError struct {
	Kind  string
	Where llm.Role // the role of the message
	Count int
}

// Error returns a message that names the kind of data and the role, but does not
// contain the data.
func (e *RedactError) Error() string {
	return fmt.Sprintf("agent: message with role %s contains personal data of kind %s (%d times)", e.Where, e.Kind, e.Count)
}

// Redact removes personal data from the messages of the conversation, so that no
// model or tool sees it. It searches text, reasoning, text documents, blocks of
// unknown types, and tool call arguments. It does not search images, audio, other
// documents, or artifacts. Earlier checkpoints, such as the input's, still contain
// the data.
func Redact(opts *RedactOptions) *Middleware {
	o := valueOf(opts)
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
	if err := o.check(); err != nil {
		m.Check = invalid(err)
		return m
	}
	m.WrapResponse = r.response
	if !o.KeepInput || o.Results {
		m.BeforeModel = NewHook(r.history)
	}
	if o.Output {
		m.WrapModel = func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
			call.Model = &redacted{call.Model, r}
			return next(ctx, call)
		}
	}
	return m
}

// check reports options that would find nothing.
func (o RedactOptions) check() error {
	var errs []error
	for i, p := range o.Find {
		if p.pattern == nil {
			errs = append(errs, fmt.Errorf("kind %q at index %d of Find has no pattern: create it with Pattern", p.Name, i))
		}
	}
	if !slices.Contains([]Redaction{Replace, Mask, Hash, Block}, o.As) { // the user may have meant Block
		errs = append(errs, fmt.Errorf("invalid As %q: want %s, %s, %s, or %s", o.As, Replace, Mask, Hash, Block))
	}
	if o.KeepInput && !o.Output && !o.Results {
		errs = append(errs, errors.New("nothing to search: with KeepInput, set Output or Results"))
	}
	return errors.Join(errs...)
}

type redactor struct{ RedactOptions }

// response redacts the input and the output of the call for the structured response.
// The history may contain tool results that no model has read yet.
func (r redactor) response(ctx context.Context, call ModelCall, next ResponseFunc) (json.RawMessage, error) {
	call.Messages = slices.Clone(call.Messages)
	for i := range call.Messages {
		if _, err := r.listed(&call.Messages[i]); err != nil {
			return nil, err
		}
	}
	if !r.Output {
		return next(ctx, call)
	}
	call.Model = &redacted{call.Model, r}
	raw, err := next(ctx, call)
	if err != nil {
		return nil, err
	}
	c := &cleaner{redactor: r, where: llm.RoleAI}
	return c.json(raw), c.err
}

// history redacts the messages that contain personal data.
func (r redactor) history(_ context.Context, c conversation) (*said, error) {
	var out llm.Messages
	for _, m := range c.Messages {
		changed, err := r.listed(&m)
		if err != nil {
			return nil, err
		}
		if changed {
			out = append(out, m)
		}
	}
	if out == nil {
		return nil, nil
	}
	return &said{out}, nil
}

// listed redacts a message if messages with its role are searched.
func (r redactor) listed(m *llm.Message) (changed bool, err error) {
	if m.Role == llm.RoleHuman && !r.KeepInput || m.Role == llm.RoleTool && r.Results {
		return r.message(m)
	}
	return false, nil
}

// text returns s redacted.
func (r redactor) text(s string, where llm.Role) (string, error) {
	for _, p := range r.Find {
		found := p.find(s)
		if len(found) == 0 {
			continue
		}
		if r.As == Block {
			return "", &RedactError{p.Name, where, len(found)}
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

// safe returns the length of the prefix of s that stays the same whatever follows.
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
