package thirdparty

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
)

// Saver is a [checkpoint.Saver] in memory. Every checkpoint holds all its values.
type Saver struct {
	mu      sync.Mutex
	threads map[string]*thread
}

type thread struct {
	epoch uint64                              // of the newest writer
	lines map[string][]*checkpoint.Checkpoint // by namespace, oldest first; the last is the head
}

// NewSaver returns an empty Saver.
func NewSaver() *Saver { return &Saver{threads: map[string]*thread{}} }

// find returns a checkpoint, or the head if key.ID is zero. It returns nil if none exists.
func (s *Saver) find(key checkpoint.Key) *checkpoint.Checkpoint {
	t := s.threads[key.Thread]
	if t == nil {
		return nil
	}
	for _, c := range slices.Backward(t.lines[key.Namespace]) {
		if key.ID.IsZero() || c.ID == key.ID {
			return c
		}
	}
	return nil
}

// admit returns the named thread, creating it if necessary, or ErrFenced if fence is stale.
func (s *Saver) admit(name string, fence uint64) (*thread, error) {
	t := s.threads[name]
	if t == nil {
		t = &thread{lines: map[string][]*checkpoint.Checkpoint{}}
	}
	if fence < t.epoch {
		return nil, fmt.Errorf("%w: thread %q is at epoch %d, not %d", checkpoint.ErrFenced, name, t.epoch, fence)
	}
	return t, nil
}

// Put implements [checkpoint.Saver].
func (s *Saver) Put(ctx context.Context, p *checkpoint.Put) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.admit(p.Thread, p.Fence)
	if err != nil {
		return err
	}
	var head checkpoint.ID
	if c := s.find(checkpoint.Key{Thread: p.Thread, Namespace: p.Namespace}); c != nil {
		head = c.ID
	}
	if head != p.Head || bytes.Compare(p.ID[:], head[:]) <= 0 {
		return fmt.Errorf("%w: thread %q is at %s, and the put of %s expects %s", checkpoint.ErrConflict, p.Thread, head, p.ID, p.Head)
	}
	c := &checkpoint.Checkpoint{Key: p.Key, Parent: p.Parent, Step: p.Step, Source: p.Source, RunID: p.RunID,
		Metadata: p.Metadata, Control: p.Control, Pending: slices.Clone(p.Pending), Values: map[string]checkpoint.Value{}}
	if !p.Parent.IsZero() {
		parent := s.find(checkpoint.Key{Thread: p.Thread, Namespace: p.Namespace, ID: p.Parent})
		if parent == nil {
			return fmt.Errorf("%w: parent %s in thread %q", checkpoint.ErrNotFound, p.Parent, p.Thread)
		}
		maps.Copy(c.Values, parent.Values)
		parent.Pending = slices.DeleteFunc(parent.Pending, func(w checkpoint.Write) bool { return w.Kind == checkpoint.Done })
	}
	for _, change := range p.Changes {
		apply(c.Values, change)
	}
	t.epoch = p.Fence
	t.lines[p.Namespace] = append(t.lines[p.Namespace], c)
	s.threads[p.Thread] = t
	return nil
}

// apply changes one channel. Checkpoints share the bytes of values, which never change.
func apply(values map[string]checkpoint.Value, c checkpoint.Change) {
	switch {
	case c.List:
		items := values[c.Channel].Items
		items = items[:max(0, len(items)-c.Drop)]
		values[c.Channel] = checkpoint.Value{Version: c.Version, List: true, Items: slices.Concat(items, c.Items)}
	case c.Clear || c.Data == nil:
		delete(values, c.Channel)
	default:
		values[c.Channel] = checkpoint.Value{Version: c.Version, Data: c.Data}
	}
}

// PutWrites implements [checkpoint.Saver].
func (s *Saver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, writes []checkpoint.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.admit(at.Thread, fence)
	if err != nil {
		return err
	}
	c := s.find(at)
	if c == nil {
		return fmt.Errorf("%w: %s in thread %q", checkpoint.ErrNotFound, at.ID, at.Thread)
	}
	for _, w := range writes {
		i := slices.IndexFunc(c.Pending, func(o checkpoint.Write) bool { return o.Task == w.Task && o.Kind == w.Kind })
		if i >= 0 {
			c.Pending[i] = w
		} else {
			c.Pending = append(c.Pending, w)
		}
	}
	t.epoch = fence
	return nil
}

// Get implements [checkpoint.Saver].
func (s *Saver) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(key)
	if c == nil {
		return nil, fmt.Errorf("%w: %s in thread %q, namespace %q", checkpoint.ErrNotFound, key.ID, key.Thread, key.Namespace)
	}
	return copied(c), nil
}

// copied returns a copy that the caller may modify.
func copied(c *checkpoint.Checkpoint) *checkpoint.Checkpoint {
	out := *c
	out.Metadata, out.Control = bytes.Clone(c.Metadata), bytes.Clone(c.Control)
	out.Pending = slices.Clone(c.Pending)
	for i := range out.Pending {
		out.Pending[i].Data = bytes.Clone(out.Pending[i].Data)
	}
	out.Values = make(map[string]checkpoint.Value, len(c.Values))
	for name, v := range c.Values {
		v.Data, v.Items = bytes.Clone(v.Data), slices.Clone(v.Items)
		for i := range v.Items {
			v.Items[i] = bytes.Clone(v.Items[i])
		}
		out.Values[name] = v
	}
	return &out
}

// List implements [checkpoint.Saver].
func (s *Saver) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return func(yield func(*checkpoint.Checkpoint, error) bool) {
		all, err := s.list(ctx, q)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, c := range all {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (s *Saver) list(ctx context.Context, q checkpoint.Query) ([]*checkpoint.Checkpoint, error) {
	want, err := plain(q.Metadata)
	if err != nil {
		return nil, fmt.Errorf("thirdparty: list thread %q: %w", q.Thread, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[q.Thread]
	if t == nil {
		return nil, nil
	}
	var out []*checkpoint.Checkpoint
	for _, c := range slices.Backward(t.lines[q.Namespace]) {
		if q.Limit > 0 && len(out) == q.Limit {
			break
		}
		if (q.Before.IsZero() || bytes.Compare(c.ID[:], q.Before[:]) < 0) && contains(c.Metadata, want) {
			out = append(out, copied(c))
		}
	}
	return out, nil
}

// plain converts values to the types that package json decodes to, so that 1 equals 1.0.
func plain(m map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(m))
	for k, v := range m {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("metadata %q: %w", k, err)
		}
		var decoded any
		if err := json.Unmarshal(raw, &decoded); err != nil {
			return nil, fmt.Errorf("metadata %q: %w", k, err)
		}
		out[k] = decoded
	}
	return out, nil
}

// contains reports whether metadata contains all wanted keys and values.
func contains(metadata json.RawMessage, want map[string]any) bool {
	var have map[string]any
	if len(want) > 0 && json.Unmarshal(metadata, &have) != nil {
		return false
	}
	for k, v := range want {
		if got, ok := have[k]; !ok || !reflect.DeepEqual(got, v) {
			return false
		}
	}
	return true
}

// DeleteThread implements [checkpoint.Saver].
func (s *Saver) DeleteThread(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.threads, name)
	return nil
}

// Fence implements [checkpoint.Fencer].
func (s *Saver) Fence(ctx context.Context, name string, epoch uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.admit(name, epoch)
	if err != nil {
		return err
	}
	if epoch == t.epoch {
		return fmt.Errorf("%w: thread %q is already at epoch %d", checkpoint.ErrFenced, name, epoch)
	}
	t.epoch = epoch
	s.threads[name] = t
	return nil
}
