package natsbus

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/treadle-go/treadle/bus"
)

func (b *Bus) signalSubject(token string) string { return b.name + ".signal." + token }

// Signal implements [bus.Bus]. It fails immediately if there is no connection.
func (b *Bus) Signal(ctx context.Context, topic string, payload []byte) error {
	err := b.usable(ctx)
	if err == nil {
		err = b.nc.Publish(b.signalSubject(token(topic)), payload)
	}
	if err != nil {
		return fmt.Errorf("natsbus: signal %q: %w", topic, err)
	}
	return nil
}

// Listen implements [bus.Bus]. If there is a connection, it waits until the server has received
// the subscription.
func (b *Bus) Listen(topic string, fn func(payload []byte)) (stop func(), err error) {
	end, ok := b.hub.Listen(topic, fn)
	if !ok {
		return nil, fmt.Errorf("natsbus: listen to %q: %w", topic, bus.ErrClosed)
	}
	if err := b.subscribe(topic); err != nil {
		end()
		return nil, fmt.Errorf("natsbus: listen to %q: %w", topic, err)
	}
	if b.nc.IsConnected() {
		// If the server does not respond, the client subscribes when it reconnects.
		_ = b.nc.FlushTimeout(patience)
	}
	var once sync.Once
	return func() {
		end()
		once.Do(func() { b.unsubscribe(topic) })
	}, nil
}

// subscribe adds a listener to a topic. The listeners of a topic share a subscription.
func (b *Bus) subscribe(name string) error {
	key := token(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[key]
	if t == nil {
		sub, err := b.nc.ChanSubscribe(b.signalSubject(key), b.signals)
		if err != nil {
			return err
		}
		t = &topic{name: name, sub: sub}
		b.topics[key] = t
	}
	t.listeners++
	return nil
}

func (b *Bus) unsubscribe(name string) {
	key := token(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[key]
	t.listeners--
	if t.listeners > 0 {
		return
	}
	delete(b.topics, key)
	_ = t.sub.Unsubscribe() // fails if the connection is closed, which also ends the subscription
}

// dealSignals distributes signals to their listeners.
func (b *Bus) dealSignals() {
	prefix := b.signalSubject("")
	for {
		select {
		case <-b.ctx.Done():
			return
		case m := <-b.signals:
			b.mu.Lock()
			t := b.topics[strings.TrimPrefix(m.Subject, prefix)]
			b.mu.Unlock()
			if t != nil {
				b.hub.Deliver(t.name, m.Data)
			}
		}
	}
}
