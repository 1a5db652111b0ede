package saved

import (
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
)

// Fenced is the error of a writer whose lease is over.
func Fenced(thread string, epoch, fence uint64) error {
	return fmt.Errorf("%w: thread %q is at epoch %d, the writer has %d", checkpoint.ErrFenced, thread, epoch, fence)
}

// NotAtHead is the error of a put whose thread has another head than it expects.
func NotAtHead(p *checkpoint.Put, head checkpoint.ID) error {
	return fmt.Errorf("%w: thread %q has %s, the put expected %s", checkpoint.ErrConflict, p.Thread, head, p.Head)
}

// NoParent is the error of a put whose parent does not exist.
func NoParent(p *checkpoint.Put) error {
	return fmt.Errorf("%w: parent %s in thread %q", checkpoint.ErrNotFound, p.Parent, p.Thread)
}

// NotAfter is the error of a put whose id does not follow the head's.
func NotAfter(p *checkpoint.Put, head checkpoint.ID) error {
	return fmt.Errorf("%w: id %s does not follow %s", checkpoint.ErrConflict, p.ID, head)
}

// NoCheckpoint is the error of writes for a checkpoint that does not exist.
func NoCheckpoint(at checkpoint.Key) error {
	return fmt.Errorf("%w: %s in thread %q", checkpoint.ErrNotFound, at.ID, at.Thread)
}

// NotFound is the error of a read of a checkpoint that does not exist. Every new thread is
// looked for, so its text is made when somebody reads it.
func NotFound(key checkpoint.Key) error { return &notFoundError{key} }

type notFoundError struct{ key checkpoint.Key }

func (e *notFoundError) Error() string {
	return fmt.Sprintf("%v: thread %q, namespace %q, id %q", checkpoint.ErrNotFound, e.key.Thread, e.key.Namespace, e.key.ID)
}

func (e *notFoundError) Unwrap() error { return checkpoint.ErrNotFound }

// HasResults reports whether there is a result among the writes, which the next
// put of the line consumes.
func HasResults(writes []checkpoint.Write) bool {
	for i := range writes {
		if writes[i].Kind == checkpoint.Done {
			return true
		}
	}
	return false
}
