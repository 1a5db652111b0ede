package saved

import (
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
)

// Fenced returns the error for a writer whose lease has expired.
func Fenced(thread string, epoch, fence uint64) error {
	return fmt.Errorf("%w: thread %q is at epoch %d, but the writer is at %d", checkpoint.ErrFenced, thread, epoch, fence)
}

// NotAtHead returns the error for a put whose thread has a different head than expected.
func NotAtHead(p *checkpoint.Put, head checkpoint.ID) error {
	return fmt.Errorf("%w: thread %q is at %s, but the put expects %s", checkpoint.ErrConflict, p.Thread, head, p.Head)
}

// NoParent returns the error for a put whose parent does not exist.
func NoParent(p *checkpoint.Put) error {
	return fmt.Errorf("%w: parent %s in thread %q", checkpoint.ErrNotFound, p.Parent, p.Thread)
}

// NotAfter returns the error for a put whose ID does not follow the head's ID.
func NotAfter(p *checkpoint.Put, head checkpoint.ID) error {
	return fmt.Errorf("%w: ID %s does not follow %s", checkpoint.ErrConflict, p.ID, head)
}

// NoCheckpoint returns the error for writes to a missing checkpoint.
func NoCheckpoint(at checkpoint.Key) error {
	return fmt.Errorf("%w: %s in thread %q", checkpoint.ErrNotFound, at.ID, at.Thread)
}

// NotFound returns the error for reading a missing checkpoint. Every new thread causes
// one, so the error text is formatted lazily.
func NotFound(key checkpoint.Key) error { return &notFoundError{key} }

type notFoundError struct{ key checkpoint.Key }

func (e *notFoundError) Error() string {
	return fmt.Sprintf("%v: thread %q, namespace %q, id %q", checkpoint.ErrNotFound, e.key.Thread, e.key.Namespace, e.key.ID)
}

func (e *notFoundError) Unwrap() error { return checkpoint.ErrNotFound }

// HasResults reports whether writes contains a result, which the namespace's next put
// consumes.
func HasResults(writes []checkpoint.Write) bool {
	for i := range writes {
		if writes[i].Kind == checkpoint.Done {
			return true
		}
	}
	return false
}
