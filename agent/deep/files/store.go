package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/store"
)

// StoreOptions configures [NewStore].
type StoreOptions struct {
	// Namespace returns the namespace of the files, such as that of a user. It is
	// required.
	Namespace func(ctx context.Context) (store.Namespace, error)
	// Store overrides the store of the run.
	Store *store.Store
	// Index makes the files available to searches of the store.
	Index bool
}

// NewStore returns a [Backend] that keeps each file as an item of a store, under its path.
// Threads share the files of a namespace.
func NewStore(opts *StoreOptions) (Backend, error) {
	if opts == nil || opts.Namespace == nil {
		return nil, errors.New("files: store backend requires StoreOptions.Namespace")
	}
	return &storeFiles{*opts}, nil
}

type storeFiles struct{ StoreOptions }

// space is the store and namespace of a call.
type space struct {
	*store.Store
	at store.Namespace
}

func (s storeFiles) space(ctx context.Context) (space, error) {
	n, err := s.Namespace(ctx)
	if err != nil {
		return space{}, fmt.Errorf("files: namespace: %w", err)
	}
	return space{cmp.Or(s.Store, treadle.StoreFrom(ctx)), n}, nil
}

// get returns a file, or a nil item.
func (s space) get(ctx context.Context, p string) (*store.Item, *Record, error) {
	item, err := s.Get(ctx, s.at, p, nil)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var r Record
	if err := item.Decode(&r); err != nil {
		return nil, nil, err
	}
	return item, &r, nil
}

const storePage = 100

// all returns the files below dir, in order.
func (s space) all(ctx context.Context, dir string) ([]Entry, error) {
	found := Records{}
	for offset := 0; ; offset += storePage {
		items, err := s.Search(ctx, s.at, &store.SearchOptions{Limit: storePage, Offset: offset, NoRefresh: true})
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			var r Record
			if !slices.Equal(item.Namespace, s.at) || item.Decode(&r) != nil {
				continue // not a file
			}
			found[item.Key] = &r
		}
		if len(items) < storePage {
			return found.entries(dir), nil
		}
	}
}

// Open implements [Backend].
func (s storeFiles) Open(ctx context.Context, p string) (*File, error) {
	at, err := s.space(ctx)
	if err != nil {
		return nil, err
	}
	item, r, err := at.get(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case item == nil:
		if below, err := at.all(ctx, p); err != nil || len(below) > 0 {
			return nil, cmp.Or(err, isDir(p))
		}
		return nil, notExist(p)
	}
	return &File{Entry{Path: p, Size: int64(len(r.Content)), Modified: item.Updated}, io.NopCloser(bytes.NewReader(r.Content))}, nil
}

// Write implements [Backend].
func (s storeFiles) Write(ctx context.Context, p string, content []byte, old Version) error {
	return s.change(ctx, p, old, func(at space, item *store.Item, was *Record) error {
		if item == nil {
			all, err := at.all(ctx, "/")
			if err != nil {
				return err
			}
			if err := placeable(p, func(p string) bool { return slices.ContainsFunc(all, func(e Entry) bool { return e.Path == p }) }); err != nil {
				return err
			}
			if slices.ContainsFunc(all, func(e Entry) bool { return Below(e.Path, p) }) {
				return isDir(p)
			}
		}
		put := &store.PutOptions{NoIndex: !s.Index}
		if old == Absent {
			put.IfAbsent = true
		} else if old != Any {
			put.IfVersion = item.Version
		}
		return at.Put(ctx, at.at, p, was.after(content, time.Now()), put)
	})
}

// Delete implements [Backend].
func (s storeFiles) Delete(ctx context.Context, p string, old Version) error {
	return s.change(ctx, p, old, func(at space, item *store.Item, _ *Record) error {
		if item == nil {
			if below, err := at.all(ctx, p); err != nil || len(below) > 0 {
				return cmp.Or(err, isDir(p))
			}
			return notExist(p)
		}
		return at.Store.Delete(ctx, at.at, p, &store.DeleteOptions{IfVersion: item.Version})
	})
}

// change calls do if the file has the version old, which do requires of the item that it
// changes.
func (s storeFiles) change(ctx context.Context, p string, old Version, do func(at space, item *store.Item, was *Record) error) error {
	if p == "/" {
		return isDir(p)
	}
	at, err := s.space(ctx)
	if err != nil {
		return err
	}
	item, was, err := at.get(ctx, p)
	if err != nil {
		return err
	}
	var content []byte
	if was != nil {
		content = was.Content
	}
	if err := checkVersion(p, content, item != nil, old); err != nil {
		return err
	}
	err = do(at, item, was)
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return fmt.Errorf("%w: %s", ErrConflict, p)
	}
	return err
}

// List implements [Backend].
func (s storeFiles) List(ctx context.Context, dir string) ([]Entry, error) {
	at, err := s.space(ctx)
	if err != nil {
		return nil, err
	}
	all, err := at.all(ctx, dir)
	if err != nil {
		return nil, err
	}
	file := false
	if dir != "/" && len(all) == 0 {
		item, _, err := at.get(ctx, dir)
		if err != nil {
			return nil, err
		}
		file = item != nil
	}
	return listOf(dir, all, file)
}

// Walk implements [Backend].
func (s storeFiles) Walk(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	at, err := s.space(ctx)
	if err != nil {
		return failed(dir, err)
	}
	all, err := at.all(ctx, dir)
	if err != nil {
		return failed(dir, err)
	}
	return walked(all)
}
