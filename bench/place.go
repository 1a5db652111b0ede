package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/backends"
)

// place stores the threads of a trial. Each trial uses a new place, so that it does
// not pay for the threads of earlier trials.
type place struct {
	checkpoint.Saver
	size   func(ctx context.Context, thread string) (int64, error) // size of the thread in bytes
	reopen func(ctx context.Context) (backends.Database, error)    // opens the same database again
	close  func() error
}

type opener func(ctx context.Context) (*place, error)

// in calls do with a new place.
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

// at returns an opener for places in databases of a kind, with its default durability.
func at(b *backends.Backend) opener {
	return func(ctx context.Context) (*place, error) {
		address, db, closing, err := opened(ctx, b)
		if err != nil {
			return nil, err
		}
		empty := int64(0) // the whole file counts, as for the peers
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

// opened creates and opens a database.
func opened(ctx context.Context, b *backends.Backend) (address string, db backends.Database, closing func() error, err error) {
	address, remove, err := b.Make(ctx)
	if err != nil {
		return "", nil, nil, &notMeasuredError{"no usable " + b.Name, err}
	}
	db, err = b.Open(ctx, address, 0)
	if err != nil {
		return "", nil, nil, errors.Join(err, remove())
	}
	return address, db, func() error { return errors.Join(db.Close(), remove()) }, nil
}

// notMeasuredError reports a missing prerequisite of a job. The other jobs still run.
type notMeasuredError struct {
	lacks string
	err   error
}

func (e *notMeasuredError) Error() string { return fmt.Sprintf("not measured: %s: %v", e.lacks, e.err) }
func (e *notMeasuredError) Unwrap() error { return e.err }
