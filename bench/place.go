package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/backends"
)

// place is where a trial keeps its threads. Each trial has a fresh one, so that
// none pays for the threads of those before.
type place struct {
	checkpoint.Saver
	size   func(ctx context.Context, thread string) (int64, error) // bytes that the thread takes
	reopen func(ctx context.Context) (backends.Database, error)    // opens what the place has once more
	close  func() error
}

type opener func(ctx context.Context) (*place, error)

// in opens a place for what is done there.
func in(ctx context.Context, open opener, do func(*place) (line, error)) (l line, err error) {
	p, err := open(ctx)
	if err != nil {
		return line{}, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return do(p)
}

func inMemory(context.Context) (*place, error) {
	m := checkpoint.NewMemory()
	return &place{Saver: m, size: m.Size, close: func() error { return nil }}, nil
}

// at opens places in databases of a kind, with the durability that is its
// default.
func at(b *backends.Backend) opener {
	return func(ctx context.Context) (*place, error) {
		address, db, closing, err := opened(ctx, b)
		if err != nil {
			return nil, err
		}
		empty := int64(0) // a file is measured whole, as the peers' are
		if b != backends.SQLite {
			if empty, err = b.Size(ctx, address); err != nil {
				return nil, errors.Join(err, closing())
			}
		}
		return &place{
			Saver: db,
			size: func(ctx context.Context, _ string) (int64, error) {
				full, err := b.Size(ctx, address)
				return full - empty, err
			},
			reopen: func(ctx context.Context) (backends.Database, error) { return b.Open(ctx, address, 0) },
			close:  closing,
		}, nil
	}
}

// opened makes a database and opens it.
func opened(ctx context.Context, b *backends.Backend) (address string, db backends.Database, closing func() error, err error) {
	address, remove, err := b.Make(ctx)
	if err != nil {
		return "", nil, nil, &notMeasuredError{"no " + b.Name + " that can be used", err}
	}
	db, err = b.Open(ctx, address, 0)
	if err != nil {
		return "", nil, nil, errors.Join(err, remove())
	}
	return address, db, func() error { return errors.Join(db.Close(), remove()) }, nil
}

// notMeasuredError says what a job would need that is not there. The others go on.
type notMeasuredError struct {
	lacks string
	err   error
}

func (e *notMeasuredError) Error() string { return fmt.Sprintf("not measured: %s: %v", e.lacks, e.err) }
func (e *notMeasuredError) Unwrap() error { return e.err }
