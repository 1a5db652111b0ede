package database

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/treadle-go/treadle/checkpoint"
)

// Errors that package postgres exports and documents.
var (
	ErrClosed         = errors.New("postgres: database closed")
	ErrDamaged        = errors.New("postgres: damaged data")
	ErrOutcomeUnknown = error(unavailableError{errors.New("postgres: write outcome unknown"), nil})
	ErrSchema         = errors.New("postgres: schema mismatch")
)

// unable reports whether a SQLSTATE means that the server is temporarily unable to work:
// it lacks resources, is shutting down, starting, or a standby, or cannot use its disk.
func unable(state string) bool {
	switch state {
	case stateReadOnly, stateShutdown, stateCrash, stateStarting:
		return true
	}
	return strings.HasPrefix(state, classResources) || strings.HasPrefix(state, classSystem) || strings.HasPrefix(state, classConnection)
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

// Undone marks the error of a transaction that ended before its commit was sent, so it had
// no effect.
func Undone(err error) error { return undoneError{err} }

type undoneError struct{ error }

func (e undoneError) Unwrap() error { return e.error }

// SQLSTATEs that receive special treatment.
const (
	StateStale          = "TR001" // raised by our own functions
	StateSerialization  = "40001"
	StateDeadlock       = "40P01"
	StateInvalid        = "22023"
	stateNoTable        = "42P01"
	stateTableExists    = "42P07"
	stateFunctionExists = "42723"
	stateNoSchema       = "3F000"
	stateNoRight        = "42501"
	stateCanceled       = "57014"
	stateShutdown       = "57P01"
	stateCrash          = "57P02"
	stateStarting       = "57P03"
	stateDiskFull       = "53100"
	stateReadOnly       = "25006" // a standby, after a failover

	classResources  = "53"
	classSystem     = "58"
	classConnection = "08"
)

// State returns the SQLSTATE of a server error, or "".
func State(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// opError adds the name of an operation to an error that may already start with the package
// name.
type opError struct {
	op  string
	err error
}

// Error implements error.
func (e opError) Error() string {
	return "postgres: " + e.op + ": " + strings.TrimPrefix(e.err.Error(), "postgres: ")
}

// Unwrap returns the cause.
func (e opError) Unwrap() error { return e.err }
