package memtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// everything is a search limit that exceeds the number of memories of any case.
const everything = 1 << 20

// check returns the errors of the checks.
func (b *fixture) check(ctx context.Context, c *Checks) []error {
	var problems []error
	items, err := b.manager.Search(ctx, &store.SearchOptions{Limit: everything, NoRefresh: true})
	if err != nil {
		return []error{err}
	}
	problems = append(problems, holds(items, c.Contains, c.Lacks, c.Total)...)
	for _, p := range c.AsOf {
		if p.At.IsZero() {
			problems = append(problems, errors.New("as_of check without a time: set at"))
			continue
		}
		then, err := b.manager.AsOf(ctx, p.At, &store.SearchOptions{Limit: everything})
		if err != nil {
			return append(problems, err)
		}
		problems = append(problems, prefixed("as of "+stamp(p.At), holds(then, p.Contains, p.Lacks, p.Total))...)
	}
	for _, h := range c.History {
		if err := b.checkHistory(ctx, h, items); err != nil {
			problems = append(problems, err)
		}
	}
	for _, r := range c.Recall {
		problems = append(problems, prefixed(fmt.Sprintf("recall of %q", r.topic()), b.checkRecall(ctx, r))...)
	}
	if len(c.Blocks) > 0 {
		problems = append(problems, b.checkBlocks(ctx, c.Blocks)...)
	}
	return problems
}

// checkBlocks compares the block texts.
func (b *fixture) checkBlocks(ctx context.Context, want map[string]string) (problems []error) {
	blocks, err := b.blocks()
	if err != nil {
		return []error{err}
	}
	prompt, err := blocks.Prompt(ctx)
	if err != nil {
		return []error{err}
	}
	for _, label := range slices.Sorted(maps.Keys(want)) {
		text, err := blocks.Text(ctx, label)
		switch {
		case err != nil:
			problems = append(problems, err)
		case text != want[label]:
			problems = append(problems, fmt.Errorf("block %q is %q, want %q", label, text, want[label]))
		case !strings.Contains(prompt, text):
			problems = append(problems, fmt.Errorf("block %q is %q, which is not in the prompt:\n%s", label, text, prompt))
		}
	}
	return problems
}

// holds checks items against patterns and a total.
func holds(items []*store.Item, contains, lacks []Pattern, total *int) []error {
	var problems []error
	count := func(p Pattern, least, most int) {
		if err := fitting(items, p, least, most); err != nil {
			problems = append(problems, err)
		}
	}
	for _, p := range contains {
		count(p, 1, everything)
	}
	for _, p := range lacks {
		count(p, 0, 0)
	}
	if total != nil && *total != len(items) {
		problems = append(problems, fmt.Errorf("got %d memories, want %d:%s", len(items), *total, listed(items)))
	}
	return problems
}

// fitting checks the number of matching items against the pattern's Count or, if Count is
// nil, against the range from least to most.
func fitting(items []*store.Item, p Pattern, least, most int) error {
	w, err := ready(p)
	if err != nil {
		return err
	}
	n := 0
	for _, item := range items {
		if w.fits(item) {
			n++
		}
	}
	want := "one or more"
	if p.Count != nil {
		least, most = *p.Count, *p.Count
	}
	if least == most {
		want = fmt.Sprint(least)
	}
	if n < least || n > most {
		return fmt.Errorf("%d memories match %s, want %s; the memories are:%s", n, p, want, listed(items))
	}
	return nil
}

// listed lists some of the items for an error message.
func listed(items []*store.Item) string {
	const most = 20
	var b strings.Builder
	for i, item := range items {
		if i == most {
			fmt.Fprintf(&b, "\n\t… and %d more", len(items)-most)
			break
		}
		d := memory.DocumentOf(item)
		fmt.Fprintf(&b, "\n\t%s: %s %s", item.Key, cmp.Or(d.Kind, "(no kind)"), d.Content)
		if item.Meta != nil {
			fmt.Fprintf(&b, " meta %s", item.Meta)
		}
	}
	if len(items) == 0 {
		return " none"
	}
	return b.String()
}

// checkHistory compares the versions of a memory.
func (b *fixture) checkHistory(ctx context.Context, h History, items []*store.Item) error {
	key := h.Key
	if key == "" {
		w, err := ready(h.Of)
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		var fit []*store.Item
		for _, item := range items {
			if w.fits(item) {
				fit = append(fit, item)
			}
		}
		if len(fit) != 1 {
			return fmt.Errorf("history of %s: %d memories match, want one; the memories are:%s", h.Of, len(fit), listed(items))
		}
		key = fit[0].Key
	}
	changes, err := b.manager.History(ctx, key)
	if err != nil {
		return err
	}
	var got []string
	fits := len(changes) == len(h.Versions)
	for i, c := range changes {
		text := "(" + string(c.Kind) + ")"
		if c.Item != nil {
			text = plain(memory.DocumentOf(c.Item).Content)
		}
		got = append(got, fmt.Sprintf("%s %s", stamp(c.At), text))
		fits = fits && strings.Contains(text, h.Versions[i])
	}
	if !fits {
		return fmt.Errorf("history of %q, newest first:\n\t%s\nwant:\n\t%s", key, strings.Join(got, "\n\t"), strings.Join(h.Versions, "\n\t"))
	}
	return nil
}

// topic returns the text that identifies a recall in error messages.
func (r Recall) topic() string {
	if r.Query != "" || len(r.Messages) == 0 {
		return r.Query
	}
	return r.Messages[len(r.Messages)-1].Text()
}

// checkRecall recalls memories, checks them, and records the measurements.
func (b *fixture) checkRecall(ctx context.Context, r Recall) []error {
	messages := slices.Clone(r.Messages)
	if r.Query != "" {
		messages = append(messages, llm.User(r.Query))
	}
	if len(messages) == 0 {
		return []error{errors.New("recall without a query: set query or messages")}
	}
	recaller, err := b.recaller(ctx, r)
	if err != nil {
		return []error{err}
	}
	start := time.Now()
	got, err := recaller.Recall(ctx, messages...)
	b.report.Recalls = append(b.report.Recalls, time.Since(start))
	if err != nil {
		return []error{err}
	}
	b.report.Tokens = append(b.report.Tokens, got.Tokens)
	var items []*store.Item
	for _, m := range got.Memories {
		items = append(items, m.Item)
	}
	first := cmp.Or(r.K, everything)
	var problems []error
	for _, p := range r.Finds {
		rank, err := rankOf(p, items)
		if err != nil {
			return append(problems, err)
		}
		b.report.Ranks = append(b.report.Ranks, rank)
		if rank == 0 || rank > first {
			problems = append(problems, fmt.Errorf("%s is not among the first %d; recalled:%s", p, min(first, len(items)), listed(items)))
		}
	}
	for _, p := range r.Omits {
		rank, err := rankOf(p, items)
		if err != nil {
			return append(problems, err)
		}
		if rank > 0 && rank <= first {
			problems = append(problems, fmt.Errorf("%s is recalled, at rank %d of:%s", p, rank, listed(items)))
		}
	}
	if r.Tokens > 0 && got.Tokens > r.Tokens {
		problems = append(problems, fmt.Errorf("block has %d tokens, want at most %d:\n%s", got.Tokens, r.Tokens, got.Block))
	}
	return problems
}

// recaller returns a recaller for the manager's memories.
func (b *fixture) recaller(ctx context.Context, r Recall) (*memory.Recaller, error) {
	n, err := b.place(ctx)
	if err != nil {
		return nil, err
	}
	o := memory.RecallerOptions{}
	if b.Recall != nil {
		o = *b.Recall
	}
	o.Store, o.Namespace, o.Now = b.store, nil, func() time.Time { return b.now }
	for _, segment := range n {
		o.Namespace = append(o.Namespace, strings.NewReplacer("{", "{{", "}", "}}").Replace(segment))
	}
	o.MaxTokens = cmp.Or(r.Tokens, o.MaxTokens)
	return memory.NewRecaller(&o)
}

// rankOf returns the rank of the first matching item, starting at 1, or 0 if no item
// matches.
func rankOf(p Pattern, items []*store.Item) (int, error) {
	w, err := ready(p)
	if err != nil {
		return 0, err
	}
	return 1 + slices.IndexFunc(items, w.fits), nil
}
