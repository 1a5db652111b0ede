package server

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/a2awire"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// stream creates a task and streams its events.
func (x *a2aCall) stream(raw json.RawMessage) (any, error) {
	run, p, err := x.begin(raw)
	if err != nil {
		return nil, err
	}
	e, say := x.open()
	say("task", x.Submitted(run, p))
	last, err := x.follow(e, say, run, true)
	if err == nil && continuesByItself(last) {
		return nil, x.await(e, say, run, last.Seq, false)
	}
	x.s.runs().cut(x.call, err)
	return nil, ignored(err)
}

// resubscribe streams the events of a task from the start of its last run, for a client that lost
// its stream. For a task that has ended, the stream contains only the task. Version 1.0
// rejects subscriptions to tasks in a terminal state, and continues those to tasks that need input.
func (x *a2aCall) resubscribe(raw json.RawMessage) (any, error) {
	p, named, err := x.namedTask(raw, "read")
	if err != nil {
		return nil, err
	}
	if state := named.state(); x.V1 && state.Terminal() {
		return nil, &rpcError{Code: codeUnsupported, Message: "Task " + p.ID + " is " + string(state) + ": get it instead"}
	}
	task, err := x.stored(named, p.HistoryLength)
	if err != nil {
		return nil, err
	}
	after := max(named.t.Seq, x.s.runner.LastSeq(named.t.ID))
	e, say := x.open()
	say("task", task)
	if named.run.Status == ledger.Pending || named.run.Status == ledger.Running {
		last, err := x.follow(e, say, named.run, false)
		if err == nil && continuesByItself(last) {
			return nil, x.await(e, say, named.run, last.Seq, false)
		}
		if x.s.runs().cut(x.call, err); err != nil || last != nil || x.r.Context().Err() != nil {
			return nil, ignored(err)
		}
		// The run has ended, and its last events were discarded.
		if _, named, err = x.namedTask(raw, "read"); err == nil {
			after = max(named.t.Seq, x.s.runner.LastSeq(named.t.ID))
			task, err = x.stored(named, p.HistoryLength)
		}
		if err != nil {
			x.s.runs().cut(x.call, &cutError{err})
			return nil, nil
		}
	}
	if state := named.state(); !state.Terminal() && (x.V1 || state != a2a.TaskStateInputRequired) {
		return nil, x.await(e, say, named.run, after, x.V1)
	}
	say("statusUpdate", a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status, Final: true})
	return nil, ignored(e.flush())
}

// continuesByItself reports whether a task continues after the end of its run, without input.
func continuesByItself(last *runs.Entry) bool {
	return last != nil && !last.End.Lost && stateAtEnd(last.End, asked(last.Data())) == a2a.TaskStateWorking
}

// await streams the events of the next runs of a task that waits, from an entry of its thread on, until
// the task ends. Unless throughout is set, it also stops when the task needs input.
func (x *a2aCall) await(e *events, say func(kind string, v any), run *ledger.Run, after uint64, throughout bool) error {
	if err := e.flush(); err != nil {
		return ignored(err)
	}
	later := x.later(run)
	var text a2awire.StreamedText
	ended, err := e.follow(x.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return x.entries(ctx, run, after)
	}, func(entry *runs.Entry) bool {
		run := later(entry)
		if run != nil && entry.End != nil {
			state := x.last(run, entry, say)
			return !state.Terminal() && (throughout || state != a2a.TaskStateInputRequired)
		}
		if run != nil {
			x.showText(&text, run, entry, say)
		}
		return true
	})
	if err == nil && !ended && x.r.Context().Err() == nil && !x.s.runner.Draining() {
		var task *a2a.Task
		if task, err = x.storedTask(run, nil); err == nil {
			say("statusUpdate", a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status, Final: true})
			return ignored(e.flush())
		}
		err = &cutError{err}
	}
	x.s.runs().cut(x.call, err)
	return ignored(err)
}

// later returns a function that returns the run of an entry if it belongs to the same task as run, or
// else nil.
func (x *a2aCall) later(run *ledger.Run) func(*runs.Entry) *ledger.Run {
	var other uuid.UUID // a run of another task
	return func(entry *runs.Entry) *ledger.Run {
		switch entry.Run {
		case run.ID:
			return run
		case other:
			return nil
		}
		next, err := x.s.ledger.Run(x.r.Context(), run.Thread, entry.Run, nil)
		switch {
		case err == nil && next.First() == run.First():
			run = next
			return run
		case err == nil || errors.Is(err, ledger.ErrNotFound):
			other = entry.Run
		}
		return nil
	}
}

// watchEvery is the interval at which a client's task that waits is checked for its cancellation, which
// adds no entry to the thread.
const watchEvery = time.Second

// entries yields the entries of a thread after a number, until the task of run, which waits, is
// canceled or deleted.
func (x *a2aCall) entries(ctx context.Context, run *ledger.Run, after uint64) iter.Seq2[*runs.Entry, error] {
	return func(yield func(*runs.Entry, error) bool) {
		var watching sync.WaitGroup
		defer watching.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		watching.Go(func() {
			for delay.For(ctx, watchEvery) == nil {
				task, err := x.currentOf(run)
				if _, gone := errors.AsType[*rpcError](err); gone || err == nil && task.state() == a2a.TaskStateCanceled && task.run.Waits {
					stop()
				}
			}
		})
		for entry, err := range x.s.runner.ReadThread(ctx, run.Thread, after) {
			if ctx.Err() != nil || !yield(entry, err) {
				return
			}
		}
	}
}

// currentOf returns the task of a run.
func (x *a2aCall) currentOf(run *ledger.Run) (*storedTask, error) {
	t, err := x.s.ledger.Thread(x.r.Context(), run.Thread, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, &rpcError{Code: codeNoTask, Message: "Task not found: " + a2awire.TaskID(run)}
	}
	if err != nil {
		return nil, err
	}
	return x.current(t, run.First())
}

// storedTask returns the task of a run as recorded in the database.
func (x *a2aCall) storedTask(run *ledger.Run, length *int) (*a2a.Task, error) {
	task, err := x.currentOf(run)
	if err != nil {
		return nil, err
	}
	return x.stored(task, length)
}

// showText sends the text that the model has written so far, if an entry adds to it.
func (x *a2aCall) showText(text *a2awire.StreamedText, run *ledger.Run, entry *runs.Entry, say func(kind string, v any)) {
	if entry.Protocol == runs.Classic && entry.Name == "messages" && len(entry.NS) == 0 && text.Add(entry.Data()) {
		say("statusUpdate", x.Update(run, a2a.TaskStateWorking, x.Message(run, a2a.MessageRoleAgent, a2a.NewMessageID(), a2a.TextPart{Text: text.Text})))
	}
}

// open starts the response stream and returns a function that sends an event.
func (x *a2aCall) open() (*events, func(kind string, v any)) {
	x.began = true
	e := x.events()
	return e, func(kind string, v any) {
		shown, err := x.wrap(kind, v)
		if err != nil {
			return
		}
		if data, err := json.Marshal(rpcAnswer(x.id, shown, nil)); err == nil {
			e.frame("message", nil, "", data)
		}
	}
}

// follow sends the events of a run, and returns the last one if they included it.
func (x *a2aCall) follow(e *events, say func(kind string, v any), run *ledger.Run, fresh bool) (last *runs.Entry, err error) {
	if err := e.flush(); err != nil {
		return nil, err
	}
	var text a2awire.StreamedText
	_, err = e.follow(x.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return x.s.runner.Read(ctx, run, 0, fresh)
	}, func(entry *runs.Entry) bool {
		if entry.End != nil {
			x.last(run, entry, say)
			last = entry
			return false
		}
		x.showText(&text, run, entry, say)
		return true
	})
	return last, err
}

// last sends the end of a run: the artifact with the response, and the status, which is final unless
// the task continues by itself.
func (x *a2aCall) last(run *ledger.Run, entry *runs.Entry, say func(string, any)) a2a.TaskState {
	values := entry.Data()
	open := asked(values)
	state := stateAtEnd(entry.End, open)
	task := x.Task(run, state, values)
	explain(&x.View, run, task, entry.End.Message, open)
	for _, artifact := range task.Artifacts {
		say("artifactUpdate", a2a.TaskArtifactUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Artifact: artifact, LastChunk: true})
	}
	say("statusUpdate", a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status, Final: !continuesByItself(entry)})
	return state
}

// outcome waits until the task of a newly created run ends or needs input. It returns the last run and
// its last entry, or a nil entry if the task was canceled while it waited. While waiting, it
// writes newlines, which JSON ignores, so that proxies keep the connection open.
func (x *a2aCall) outcome(ctx context.Context, run *ledger.Run) (*ledger.Run, *runs.Entry, error) {
	var last *runs.Entry
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if last, err = x.s.runner.End(ctx, run, true); err == nil && last == nil {
			err = errors.New("run ended without a result")
		}
		for err == nil && continuesByItself(last) {
			run, last, err = x.nextEnd(ctx, run, last)
		}
	}()
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	flush := http.NewResponseController(x.w)
	for {
		select {
		case <-done:
			return run, last, err
		case <-ticker.C:
			x.w.Header().Set("Content-Type", "application/json")
			_, _ = x.w.Write([]byte("\n"))
			_ = flush.Flush()
		}
	}
}

// nextEnd waits for the end of the next run of a task that waits. It returns a nil entry if the task
// was canceled.
func (x *a2aCall) nextEnd(ctx context.Context, run *ledger.Run, last *runs.Entry) (*ledger.Run, *runs.Entry, error) {
	later := x.later(run)
	for entry, err := range x.entries(ctx, run, last.Seq) {
		if err != nil {
			return run, nil, err
		}
		if entry.End == nil {
			continue
		}
		if next := later(entry); next != nil {
			return next, entry, nil
		}
	}
	return run, nil, ctx.Err()
}
