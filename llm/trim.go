package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// TrimOptions configures [Trim]. MaxTokens or Share is required: with 0, nothing is
// kept.
type TrimOptions struct {
	// MaxTokens is the maximum number of tokens to keep.
	MaxTokens int
	// Share, if MaxTokens is 0, is the maximum as a share of Model's context window,
	// such as 0.8. It requires a model whose window is known; see [Info].
	Share float64
	Model Model
	// Count counts tokens; nil means [CountTokens].
	Count Counter
	// First keeps the start of the conversation instead of its end.
	First bool
	// Partial also keeps part of the first message that does not fit: some of its
	// blocks, or some pieces of its text.
	Partial bool
	// Split splits a text into pieces for Partial; nil splits it into lines. The
	// concatenated pieces must equal the text.
	Split func(string) []string
	// StartOn and EndOn list the roles that the first and the last message may
	// have; empty means any. Messages before and after these are removed.
	StartOn, EndOn []Role
	// KeepSystem always keeps a system message at the start. Its tokens count, and
	// StartOn applies to the message after it.
	KeepSystem bool
}

// Trim shortens a conversation to MaxTokens. It keeps whole messages from the end,
// or from the start with First. It does not change ms.
//
// Trim may remove a tool call but keep its result, or vice versa. Setting StartOn
// to [RoleHuman] prevents that, and [Generate] corrects it with [Repair].
func Trim(ctx context.Context, ms Messages, opts *TrimOptions) (Messages, error) {
	if opts == nil {
		opts = &TrimOptions{}
	}
	if opts.First && len(opts.StartOn) > 0 {
		return nil, errors.New("llm: Trim: StartOn cannot be used with First, which keeps the beginning")
	}
	if opts.First && opts.KeepSystem {
		return nil, errors.New("llm: Trim: KeepSystem cannot be used with First, which keeps the beginning")
	}
	if opts.MaxTokens < 0 {
		return nil, fmt.Errorf("llm: Trim: invalid MaxTokens %d: want 0 or more", opts.MaxTokens)
	}
	t := trimmer{ctx: ctx, TrimOptions: *opts}
	if err := t.setMax(); err != nil {
		return nil, fmt.Errorf("llm: Trim: %w", err)
	}
	out, err := t.trim(ms)
	if err != nil {
		return nil, fmt.Errorf("llm: Trim: %w", err)
	}
	return out, nil
}

type trimmer struct {
	ctx context.Context
	TrimOptions
}

// setMax sets MaxTokens from Share.
func (t *trimmer) setMax() (err error) {
	if t.Share == 0 {
		return nil
	}
	if t.MaxTokens > 0 || t.Model == nil {
		return errors.New("Share requires Model and excludes MaxTokens")
	}
	t.MaxTokens, err = Describe(t.Model).Share(t.Share)
	return err
}

func (t *trimmer) trim(ms Messages) (Messages, error) {
	if t.First {
		out, err := t.fit(ms)
		return dropBehind(out, t.EndOn), err
	}
	ms = dropBehind(ms, t.EndOn)
	var system Messages
	if t.KeepSystem && len(ms) > 0 && ms[0].Role == RoleSystem {
		system, ms = ms[:1:1], ms[1:]
		n, err := t.count(system)
		if err != nil {
			return nil, err
		}
		t.MaxTokens = max(0, t.MaxTokens-n)
	}
	out, err := t.fit(ms)
	if err != nil {
		return nil, err
	}
	return slices.Concat(system, dropBefore(out, t.StartOn)), nil
}

func dropBehind(ms Messages, roles []Role) Messages {
	for len(roles) > 0 && len(ms) > 0 && !slices.Contains(roles, ms[len(ms)-1].Role) {
		ms = ms[:len(ms)-1]
	}
	return slices.Clip(ms)
}

func dropBefore(ms Messages, roles []Role) Messages {
	for len(roles) > 0 && len(ms) > 0 && !slices.Contains(roles, ms[0].Role) {
		ms = ms[1:]
	}
	return ms
}

func (t *trimmer) count(ms Messages) (int, error) {
	if t.Count == nil {
		return CountTokens(ms, nil), nil
	}
	return t.Count(t.ctx, ms)
}

// fit returns the longest part of ms, at the side to keep, of at most MaxTokens.
func (t *trimmer) fit(ms Messages) (Messages, error) {
	k, err := t.longest(ms)
	if err != nil || k == len(ms) {
		return ms, err
	}
	kept := t.side(ms, k)
	if !t.Partial {
		return kept, nil
	}
	part, ok, err := t.partOf(t.next(ms, k), kept)
	switch {
	case err != nil || !ok:
		return kept, err
	case t.First:
		return slices.Concat(kept, Messages{part}), nil
	}
	return slices.Concat(Messages{part}, kept), nil
}

// side returns the k messages at the side to keep; next returns the message that
// follows them.
func (t *trimmer) side(ms Messages, k int) Messages {
	if t.First {
		return ms[:k:k]
	}
	return slices.Clip(ms[len(ms)-k:])
}

func (t *trimmer) next(ms Messages, k int) Message {
	if t.First {
		return ms[k]
	}
	return ms[len(ms)-1-k]
}

// longest returns the number of messages that fit.
func (t *trimmer) longest(ms Messages) (int, error) {
	if t.Count == nil {
		// The estimate is a sum, so one pass suffices.
		c, sum := counting(nil), 0.0
		for k := range ms {
			m := t.next(ms, k)
			sum += c.message(&m)
			if sum > float64(t.MaxTokens) {
				return k, nil
			}
		}
		return len(ms), nil
	}
	if n, err := t.count(ms); err != nil || n <= t.MaxTokens {
		return len(ms), err
	}
	return t.most(len(ms), func(k int) (int, error) { return t.count(t.side(ms, k)) })
}

// most returns the greatest k up to n whose count is at most MaxTokens. Counts must
// increase with k; zero messages have zero tokens.
func (t *trimmer) most(n int, count func(k int) (int, error)) (int, error) {
	var failed error
	over := sort.Search(n, func(i int) bool {
		if failed != nil {
			return true
		}
		tokens, err := count(i + 1)
		failed = err
		return tokens > t.MaxTokens
	})
	return over, failed
}

// partOf returns as much of m as fits in addition to the kept messages.
func (t *trimmer) partOf(m Message, kept Messages) (part Message, ok bool, err error) {
	fits := func(m Message) (bool, error) {
		n, err := t.count(append(slices.Clip(kept), m))
		return n <= t.MaxTokens, err
	}
	if len(m.Blocks) > 0 {
		blocks := m.Blocks
		if m.Content != "" {
			blocks = slices.Concat([]Block{Text(m.Content)}, blocks)
		}
		part = m
		part.Content = ""
		for n := len(blocks) - 1; n > 0; n-- {
			part.Blocks = blocks[:n]
			if !t.First {
				part.Blocks = blocks[len(blocks)-n:]
			}
			if ok, err := fits(part); ok || err != nil {
				return part, ok, err
			}
		}
	}
	return t.partOfText(m, fits)
}

// partOfText returns a message with as many pieces of the text of m as fit.
func (t *trimmer) partOfText(m Message, fits func(Message) (bool, error)) (Message, bool, error) {
	whole := firstText(&m)
	if whole == "" {
		return m, false, nil
	}
	split := t.Split
	if split == nil {
		split = func(s string) []string { return strings.SplitAfter(s, "\n") }
	}
	pieces := split(whole)
	part := func(k int) Message {
		out := m
		out.Blocks = nil
		if t.First {
			out.Content = strings.Join(pieces[:k], "")
		} else {
			out.Content = strings.Join(pieces[len(pieces)-k:], "")
		}
		return out
	}
	var failed error
	k := sort.Search(len(pieces), func(i int) bool {
		ok, err := fits(part(i + 1))
		failed = errors.Join(failed, err)
		return !ok
	})
	return part(k), k > 0, failed
}

func firstText(m *Message) string {
	if m.Content != "" {
		return m.Content
	}
	for i := range m.Blocks {
		if m.Blocks[i].Type == BlockText {
			return m.Blocks[i].Text
		}
	}
	return ""
}
