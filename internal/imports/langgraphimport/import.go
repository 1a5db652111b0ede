package langgraphimport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/dburl"
	"github.com/treadle-go/treadle/internal/imports/memoryimport"
	"github.com/treadle-go/treadle/store"
)

// Target is the destination of an import.
type Target interface {
	checkpoint.Saver
	Store(*store.Options) (*store.Store, error)
}

// Options configures [Run].
type Options struct {
	From string // an SQLite file or a Postgres URL
	To   Target // nil reports what would be imported
	// Profiles lists kinds of LangMem memories. If a namespace contains exactly one
	// memory of these kinds, that memory becomes the namespace's profile: its key becomes
	// "default".
	Profiles []string
	// Progress, if not nil, is called after each thread.
	Progress func(done, threads int)
}

// Report describes the results of an import.
type Report struct {
	Threads     int       `json:"threads"`   // new, or with new checkpoints
	Unchanged   int       `json:"unchanged"` // imported before
	Checkpoints int       `json:"checkpoints"`
	Items       int       `json:"items"`      // store items
	SameItems   int       `json:"same_items"` // imported before
	Expired     int       `json:"expired"`    // not imported because they had expired
	Problems    []Problem `json:"problems,omitempty"`
}

// Run imports all threads and items. Importing again adds new data from the source and
// skips threads and items that have changed in the target. An error ends the import; data
// that cannot be converted is only reported.
func Run(ctx context.Context, o Options) (*Report, error) {
	src, err := openSource(ctx, o.From)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", redacted(o.From), err)
	}
	r := &Report{}
	err = r.threads(ctx, src, &o)
	if err == nil {
		err = r.items(ctx, src, o.To, o.Profiles)
	}
	return r, errors.Join(err, src.close(ctx))
}

// redacted returns the source's name without secrets.
func redacted(from string) string {
	name, err := dburl.Parse(from)
	if err != nil {
		return "database"
	}
	return name.Shown
}

func (r *Report) threads(ctx context.Context, src source, opts *Options) error {
	names, err := src.threads(ctx)
	if err != nil {
		return fmt.Errorf("read threads of %s: %w", redacted(opts.From), err)
	}
	nodes := sync.OnceValue(func() []string { return nodesOf(ctx, src, names) })
	for i, name := range names {
		if err := r.thread(ctx, src, opts.To, name, nodes); err != nil {
			return fmt.Errorf("thread %q: %w", name, err)
		}
		if opts.Progress != nil {
			opts.Progress(i+1, len(names))
		}
	}
	return nil
}

// nodesOf returns the names of the nodes that have run in any thread. Checkpoints of
// older versions do not always record which node a task belongs to.
func nodesOf(ctx context.Context, src source, threads []string) []string {
	found := map[string]bool{}
	for _, name := range threads {
		err := src.thread(ctx, name, func(valueKey) bool { return true }, func(raw *rawPoint) {
			body, err := loadDict(raw.body)
			if err != nil {
				return // reported with its thread
			}
			p := &point{versions: map[string]any{}, seen: map[string]map[string]any{}}
			if p.readVersions(body) != nil {
				return
			}
			for node := range p.seen {
				found[node] = true
			}
		})
		if err != nil {
			break // importing that thread returns the error
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (r *Report) thread(ctx context.Context, src source, to Target, name string, nodes func() []string) error {
	if name == "" {
		r.Problems = append(r.Problems, Problem{Text: "thread not imported: empty name"})
		return nil
	}
	c := newConversion(name)
	c.others = nodes
	known := func(k valueKey) bool { _, ok := c.known[k]; return ok }
	err := src.thread(ctx, name, known, c.add)
	if err != nil {
		return err
	}
	puts, problems := c.convert()
	r.Problems = append(r.Problems, problems...)
	stored := len(puts)
	if to != nil {
		if stored, err = r.store(ctx, to, name, puts); err != nil {
			return err
		}
	}
	r.Checkpoints += stored
	switch {
	case stored > 0:
		r.Threads++
	case len(puts) > 0:
		r.Unchanged++
	}
	return nil
}

// store saves the checkpoints that the target lacks. It saves nothing if the thread has
// continued in the target.
func (r *Report) store(ctx context.Context, to Target, name string, puts []*checkpoint.Put) (stored int, err error) {
	heads := map[string]checkpoint.ID{} // the target's heads by namespace
	known := map[checkpoint.Key]bool{}
	for _, p := range puts {
		known[p.Key] = true
	}
	for _, p := range puts {
		if _, ok := heads[p.Namespace]; ok {
			continue
		}
		head, err := to.Get(ctx, checkpoint.Key{Thread: name, Namespace: p.Namespace})
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return 0, err
		}
		heads[p.Namespace] = checkpoint.ID{}
		if err != nil {
			continue
		}
		if !known[head.Key] {
			r.Problems = append(r.Problems, Problem{Thread: name, Namespace: p.Namespace, Checkpoint: head.ID.String(),
				Text: "thread left unchanged: it has continued in the target, or is another thread with the same name"})
			return 0, nil
		}
		heads[p.Namespace] = head.ID
	}
	for _, p := range puts {
		if head := heads[p.Namespace]; bytes.Compare(p.ID[:], head[:]) <= 0 {
			if p.ID == head {
				if err := refresh(ctx, to, p); err != nil {
					return stored, err
				}
			}
			continue
		}
		p.Head = heads[p.Namespace]
		if err := to.Put(ctx, p); err != nil {
			return stored, err
		}
		heads[p.Namespace] = p.ID
		stored++
	}
	return stored, nil
}

// refresh saves the pending writes that a checkpoint has gained since it was imported.
func refresh(ctx context.Context, to Target, p *checkpoint.Put) error {
	now, err := to.Get(ctx, p.Key)
	if err != nil {
		return err
	}
	var more []checkpoint.Write
	for _, w := range p.Pending {
		if !hasWrite(now.Pending, w) {
			more = append(more, w)
		}
	}
	if len(more) == 0 {
		return nil
	}
	return to.PutWrites(ctx, p.Key, 0, more)
}

func hasWrite(list []checkpoint.Write, w checkpoint.Write) bool {
	for _, o := range list {
		if o.Task == w.Task && o.Kind == w.Kind && bytes.Equal(o.Data, w.Data) {
			return true
		}
	}
	return false
}

// items imports the store items with their timestamps.
func (r *Report) items(ctx context.Context, src source, to Target, kinds []string) error {
	profiles, err := profilesOf(ctx, src, kinds)
	if err != nil {
		return err
	}
	now := time.Now()
	var s *store.Store
	if to != nil {
		var err error
		if s, err = to.Store(nil); err != nil {
			return err
		}
	}
	return src.items(ctx, func(it *rawItem) error {
		if !it.expires.IsZero() && !it.expires.After(now) {
			r.Expired++
			return nil
		}
		problem := func(format string, args ...any) {
			r.Problems = append(r.Problems, Problem{Item: it.prefix + " " + it.key, Text: fmt.Sprintf(format, args...)})
		}
		for _, text := range it.unread {
			problem("invalid time %q omitted", text)
		}
		if it.ttl <= 0 && !it.expires.IsZero() { // reads do not extend the expiry
			if it.ttl = it.expires.Sub(it.updated); it.updated.IsZero() || it.ttl <= 0 {
				it.ttl = it.expires.Sub(now)
			}
		}
		v, err := parseJSON(it.value)
		if err != nil {
			problem("item omitted: unreadable value: %v", err)
			return nil // reported
		}
		value, problems := toJSON(v)
		for _, text := range problems {
			problem("%s", text)
		}
		if to == nil {
			r.Items++
			return nil
		}
		item := &memoryimport.Item{Namespace: strings.Split(it.prefix, "."), Key: it.key, Value: value,
			Created: it.created, Updated: it.updated, Expires: it.expires, TTL: it.ttl}
		if profiles[[2]string{it.prefix, it.key}] {
			item.Key, item.Meta = profileKey, map[string]any{"langmem": map[string]string{"key": it.key}}
		}
		result, err := item.Add(ctx, s)
		if e, ok := errors.AsType[*store.ImportError](err); ok {
			problem("item omitted: %v", e.Err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("item %q of %v: %w", it.key, item.Namespace, err)
		}
		switch result {
		case memoryimport.Added:
			r.Items++
		case memoryimport.Same:
			r.SameItems++
		case memoryimport.Conflict:
			problem("item left unchanged: it has changed in the target")
		}
		return nil
	})
}

// profileKey is the key of a profile in package memory.
const profileKey = "default"

// profilesOf returns the prefixes and keys of the profiles. A memory is a profile if it
// is the only memory of the given kinds in its namespace and the namespace has no profile
// yet.
func profilesOf(ctx context.Context, src source, kinds []string) (map[[2]string]bool, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	found := map[string][]string{} // keys by prefix
	err := src.items(ctx, func(it *rawItem) error {
		var v struct {
			Kind    string          `json:"kind"`
			Content json.RawMessage `json:"content"`
		}
		isProfile := json.Unmarshal(it.value, &v) == nil && v.Content != nil && slices.Contains(kinds, v.Kind)
		if isProfile || it.key == profileKey {
			found[it.prefix] = append(found[it.prefix], it.key)
		}
		return nil
	})
	profiles := map[[2]string]bool{}
	for prefix, keys := range found {
		if len(keys) == 1 && keys[0] != profileKey {
			profiles[[2]string{prefix, keys[0]}] = true
		}
	}
	return profiles, err
}
