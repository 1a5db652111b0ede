package server

import (
	"encoding/json"

	"github.com/a2aproject/a2a-go/a2a"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/a2awire"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// stateAtEnd returns the state of a task whose last run has just ended, with its open questions.
func stateAtEnd(end *runs.End, open []question) a2a.TaskState {
	switch {
	case end.Lost:
		return a2a.TaskStateWorking
	case end.Failed:
		return a2a.TaskStateFailed
	case end.Paused:
		return stateWaiting(open)
	case end.Status == string(ledger.RunCanceled):
		return a2a.TaskStateCanceled
	}
	return a2a.TaskStateCompleted
}

// stateWaiting returns the state of a task that waits: for answers, or only for times and signals.
func stateWaiting(open []question) a2a.TaskState {
	if len(open) == 0 {
		return a2a.TaskStateWorking
	}
	return a2a.TaskStateInputRequired
}

// state returns the state of the task.
func (s *storedTask) state() a2a.TaskState {
	switch s.run.Status {
	case ledger.Pending:
		return a2a.TaskStateSubmitted
	case ledger.Running:
		return a2a.TaskStateWorking
	case ledger.Error, ledger.TimedOut:
		return a2a.TaskStateFailed
	case ledger.RunCanceled:
		return a2a.TaskStateCanceled
	}
	switch {
	case !s.run.Waits:
		return a2a.TaskStateCompleted
	case s.t.Task != s.run.First(): // the thread was edited, or another run started over
		return a2a.TaskStateCanceled
	}
	return stateWaiting(questions(s.t.Interrupts))
}

// explain adds a status message that states what the task waits for, or why it failed.
func explain(x *a2awire.View, run *ledger.Run, task *a2a.Task, failure string, open []question) {
	values := make([]json.RawMessage, len(open))
	for i, q := range open {
		values[i] = q.Value
	}
	x.Explain(run, task, failure, values, open)
}
