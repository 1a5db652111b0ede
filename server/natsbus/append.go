package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/ledger"
)

// Log implements [bus.Bus].
func (b *Bus) Log() bus.Log { return eventLog{b} }

type eventLog struct{ *Bus }

var _ bus.Log = eventLog{}

// Append implements [bus.Log]. It waits until the events are stored, for at most two seconds per
// message. It fails immediately if there is no connection, unless the connection was lost within
// the last second.
func (l eventLog) Append(ctx context.Context, e *ledger.Events) error {
	if err := l.append(ctx, e); err != nil {
		return fmt.Errorf("natsbus: append events %d to %d of thread %s: %w", e.First, e.Last, e.Thread, err)
	}
	return nil
}

func (l eventLog) append(ctx context.Context, e *ledger.Events) error {
	switch {
	case len(e.Data) > maxData:
		return fmt.Errorf("%d bytes exceed the limit of %d", len(e.Data), maxData)
	case e.First > e.Last:
		return errors.New("first number exceeds the last")
	}
	if err := l.connected(ctx); err != nil {
		return err
	}
	all := messages(e, l.messageSize())
	subject := l.eventSubject(e.Thread.String())
	for i, data := range all {
		m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{jetstream.MsgIDHeader: {messageID(e, i, len(all))}}}
		if _, err := l.request(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// messageSize returns the maximum size of a message's content. Headers count toward the
// server's limit too.
func (b *Bus) messageSize() int {
	const headers, least = 1 << 10, 1 << 10
	return max(int(b.nc.MaxPayload())-headers, least)
}

// Drop implements [bus.Log].
func (l eventLog) Drop(ctx context.Context, thread uuid.UUID) error {
	body, err := json.Marshal(map[string]string{"filter": l.eventSubject(thread.String())})
	if err == nil {
		_, err = l.request(ctx, &nats.Msg{Subject: "$JS.API.STREAM.PURGE." + l.stream, Data: body})
	}
	if err != nil {
		return fmt.Errorf("natsbus: drop events of thread %s: %w", thread, err)
	}
	return nil
}
