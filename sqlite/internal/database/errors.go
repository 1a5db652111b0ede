package database

import (
	"errors"
	"fmt"
	"syscall"

	modernc "modernc.org/sqlite"

	"github.com/treadle-go/treadle/checkpoint"
)

// Errors that package sqlite exports and documents.
var (
	ErrClosed  = errors.New("sqlite: database closed")
	ErrDamaged = errors.New("sqlite: damaged file")
)

// SQLite primary result codes that receive special treatment.
const (
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeIO       = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeNotADB   = 26
)

// code returns the primary result code of an SQLite error, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// explain adds an explanation to an SQLite error returned by Open.
func explain(err error) error {
	switch code(err) {
	case codeNotADB:
		return fmt.Errorf("not an SQLite database: %w", err)
	case codeCorrupt:
		return marked(err)
	case codeFull:
		return fmt.Errorf("disk full: %w", err)
	case codeIO:
		return fmt.Errorf("disk full or failing: %w", err)
	case codeReadOnly:
		return fmt.Errorf("read-only file: %w", err)
	case codeCantOpen:
		return fmt.Errorf("cannot open or create the file: %w", err)
	}
	return err
}

// marked makes an SQLite error match the errors that callers act on: [ErrDamaged] for a
// damaged file, and [checkpoint.ErrUnavailable] for a file that currently cannot be read
// or written. A full disk also matches [syscall.ENOSPC].
func marked(err error) error {
	switch code(err) {
	case codeCorrupt, codeNotADB:
		if !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	case codeFull:
		return unavailableError{fmt.Errorf("sqlite: disk full: %w", err), syscall.ENOSPC}
	case codeIO, codeCantOpen, codeBusy, codeLocked:
		return unavailableError{err, nil}
	}
	return err
}

// unavailableError is an error that matches [checkpoint.ErrUnavailable] and, if errno is
// not nil, errno.
type unavailableError struct {
	error
	errno error
}

// Is reports whether e matches target.
func (e unavailableError) Is(target error) bool {
	return target == checkpoint.ErrUnavailable || e.errno != nil && target == e.errno
}

// Unwrap returns the cause.
func (e unavailableError) Unwrap() error { return e.error }
