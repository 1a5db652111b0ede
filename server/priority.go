package server

import (
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/ledger"
)

// PriorityContext describes a run for [Options.Priority]. [UserFrom] returns its user.
type PriorityContext struct {
	Thread            string // the thread's ID; "" for a run without a thread
	ThreadMetadata    map[string]any
	Assistant         string // the assistant's ID
	Graph             string
	AssistantMetadata map[string]any
	RunMetadata       map[string]any
	Cron              string // the ID of the cron that starts the run; "" if none does
}

// priority returns the priority that Options.Priority assigns to a run or to its thread, or nil
// if the thread already has one.
func (s runAPI) priority(c *call, n *ledger.NewRun, a *ledger.Assistant) (given *int, err error) {
	if s.o.Priority == nil {
		return nil, nil
	}
	defer func() { // a cron has no HTTP handler around it that recovers
		if v := recover(); v != nil {
			given, err = nil, caught.New("priority: ", v)
		}
	}()
	p := &PriorityContext{Assistant: a.ID.String(), Graph: a.Graph, AssistantMetadata: a.Metadata, RunMetadata: n.Run.Metadata, Cron: c.cron}
	ctx := WithUser(c.r.Context(), c.user)
	if !n.Temporary {
		p.Thread = n.Thread.String()
		t, err := s.ledger.Thread(ctx, n.Thread, n.Filter)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			if n.Create == nil {
				return nil, nil // the ledger rejects the run
			}
			p.ThreadMetadata = n.Create.Metadata
		case err != nil:
			return nil, err
		case t.Priority != nil:
			return nil, nil
		default:
			p.ThreadMetadata = t.Metadata
		}
	}
	got, err := s.o.Priority(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("priority: %w", err)
	}
	if got < ledger.MinPriority || got > ledger.MaxPriority {
		return nil, fmt.Errorf("priority: %d out of range %d to %d", got, ledger.MinPriority, ledger.MaxPriority)
	}
	return &got, nil
}
