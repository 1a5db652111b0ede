package pregel

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// InfoOf describes the task that ctx belongs to.
func InfoOf(ctx context.Context) (Info, bool) {
	sc := scopeOf(ctx)
	if sc == nil {
		return Info{}, false
	}
	t := sc.task
	r := t.run
	info := Info{
		Graph:          r.plan.name,
		Node:           t.node.Name,
		Thread:         r.set.Thread,
		RunID:          r.id(),
		TaskID:         t.ID(),
		IdempotencyKey: t.ID(),
		CheckpointID:   t.head.String(),
		Namespace:      r.path(),
		Step:           t.step,
		RemainingSteps: r.stop - t.step,
		Attempt:        int(sc.attempt),
		Tags:           slices.Concat(r.set.Tags, t.node.Tags),
		Metadata:       merged(r.set.Metadata, t.node.Metadata),
		Config:         r.set.Config,
	}
	info.Deadline, _ = ctx.Deadline()
	if t.began != 0 {
		info.FirstAttempt = time.Unix(0, t.began)
	}
	return info, true
}

// ContextOf returns the user's run-scoped value, or nil.
func ContextOf(ctx context.Context) any {
	if sc := scopeOf(ctx); sc != nil {
		return sc.task.run.set.Context
	}
	return nil
}

// StoreOf returns the run's store, or nil.
func StoreOf(ctx context.Context) *store.Store {
	if sc := scopeOf(ctx); sc != nil {
		return sc.task.run.set.Store
	}
	return nil
}

// Emit sends a custom event to every stream that includes the task.
func Emit(ctx context.Context, v any) {
	sc := scopeOf(ctx)
	if sc == nil || sc.late() {
		return
	}
	sc.alive(false)
	t := sc.task
	if t.run.modes&ModeCustom != 0 {
		ev := t.event(Custom{})
		ev.Value = v
		by := t
		for by.caller != nil && slices.Contains(by.node.Tags, TagHidden) {
			by = by.caller // its events appear as the caller's
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

// Heartbeat reports that the node is alive, which resets its idle timeout.
func Heartbeat(ctx context.Context) {
	if sc := scopeOf(ctx); sc != nil {
		sc.alive(true)
	}
}
