package pregel

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// Info is what a node can know about the run it is part of.
type Info struct {
	Graph  string
	Node   string
	Thread string
	RunID  string
	TaskID string
	// IdempotencyKey is the same over retries, resumes and crashes, and new on a
	// fork. With Async it is so over crashes inside Do and tasks only, and with
	// Exit not at all: there the checkpoint that it is made of may be lost.
	IdempotencyKey string
	CheckpointID   string
	Namespace      []string
	Step           int
	RemainingSteps int
	Attempt        int
	FirstAttempt   time.Time
	Deadline       time.Time
	Tags           []string
	Metadata       map[string]any
}

// InfoOf describes the task that ctx belongs to.
func InfoOf(ctx context.Context) (Info, bool) {
	sc := scopeOf(ctx)
	if sc == nil {
		return Info{}, false
	}
	t := sc.task
	r := t.run
	info := Info{Graph: r.plan.name, Node: t.node.Name, Thread: r.set.Thread, RunID: r.id(), TaskID: t.ID(), IdempotencyKey: t.ID(), CheckpointID: t.head.String(),
		Namespace: r.path, Step: t.step, RemainingSteps: r.stop - t.step, Attempt: sc.attempt, FirstAttempt: t.began,
		Tags: slices.Concat(r.set.Tags, t.node.Tags), Metadata: merged(r.set.Metadata, t.node.Metadata)}
	info.Deadline, _ = ctx.Deadline()
	return info, true
}

// ContextOf is the user's run-scoped value, nil if there is none.
func ContextOf(ctx context.Context) any {
	if sc := scopeOf(ctx); sc != nil {
		return sc.task.run.set.Context
	}
	return nil
}

// StoreOf is the run's store, nil if there is none.
func StoreOf(ctx context.Context) *store.Store {
	if sc := scopeOf(ctx); sc != nil {
		return sc.task.run.set.Store
	}
	return nil
}

// Emit sends a custom event to every stream that the task is part of.
func Emit(ctx context.Context, v any) {
	sc := scopeOf(ctx)
	if sc == nil || sc.late() {
		return
	}
	sc.alive(false)
	t := sc.task
	if t.run.modes&ModeCustom != 0 {
		ev := t.event(v)
		by := t
		for by.caller != nil && slices.Contains(by.node.Tags, Hidden) {
			by = by.caller // it shows as a part of that
		}
		if by.caller != nil {
			ev.At.NS = strings.Split(by.caller.namespace(), "|")
		}
		t.run.emit(ModeCustom, ev)
	}
	if t.run.modes&ModeEvents != 0 && sc.span != nil {
		ev := sc.span.event("")
		ev.Event, ev.Output = "on_custom_event", v
		t.run.emit(ModeEvents, t.event(ev))
	}
}

// Heartbeat is an explicit sign of life.
func Heartbeat(ctx context.Context) {
	if sc := scopeOf(ctx); sc != nil {
		sc.alive(true)
	}
}
