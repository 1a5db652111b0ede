package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/hub"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

const (
	// maxNotify is the maximum size of a notification in bytes.
	maxNotify = 7999
	// coalesce is the delay of a signal if the same signal was sent just before.
	// Identical signals that arrive during the delay are sent as one.
	coalesce = 3 * time.Millisecond
	// signalTimeout is the timeout for sending a signal.
	signalTimeout = 2 * time.Second
	// listenWait is the time that Listen waits for a connection. Listen succeeds even
	// without one; the connection is then established later.
	listenWait = 2 * time.Second
	// listenQuiet is the time without notifications after which the connection is pinged.
	listenQuiet = 3 * time.Second
	// listenAnswer is the timeout for that ping and for the other statements on this
	// connection.
	listenAnswer = 2 * time.Second
)

// Bus returns a bus that sends signals with NOTIFY. It has no event log, because the
// ledger keeps the events. Every process that uses the schema receives the signals. The
// first Listen opens one connection in addition to the pool's. Behind a pooler, the
// address of the DB must therefore lead to a session pool. Close the bus when it is no
// longer needed; closing the DB also closes it.
//
// The size of a signal is limited to 7,999 bytes: 4/3 of the size of the topic and of the
// payload, plus one.
func (db *DB) Bus() bus.Bus {
	// The channel name is different for each schema and must not exceed 63 bytes.
	sum := sha256.Sum256([]byte(db.conn.Schema))
	b := &notifyBus{
		db:      db.conn,
		channel: "treadle_" + hex.EncodeToString(sum[:12]),
		ready:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
		waiting: map[string]*notification{},
		sent:    map[string]time.Time{},
	}
	b.hub.Logger = db.conn.Log
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.wg.Go(func() {
		select {
		case <-db.conn.Done():
			b.hub.Close()
			b.cancel()
		case <-b.ctx.Done():
		}
	})
	b.wg.Go(b.send)
	return b
}

// A notifyBus runs one goroutine that sends signals and, after the first Listen, another
// that receives them.
type notifyBus struct {
	db      *database.DB
	channel string
	hub     hub.Hub
	ctx     context.Context // canceled when the bus is closed
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	ready   chan struct{} // closed once the first connection is listening
	wake    chan struct{} // signals that the queue is not empty

	mu        sync.Mutex
	receiving bool                     // whether the receiving goroutine was started
	queue     []*notification          // notifications to send, in order
	waiting   map[string]*notification // the notifications in queue, by text
	sent      map[string]time.Time     // send times of recently sent texts
}

// A notification is a signal that one or more callers are waiting to send.
type notification struct {
	text string
	done chan struct{} // closed after the send succeeded or failed
	err  error
}

// Log implements [bus.Bus].
func (b *notifyBus) Log() bus.Log { return nil }

// Close implements [bus.Bus].
func (b *notifyBus) Close() error {
	b.hub.Close()
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.wg.Wait()
	return nil
}

// Topics and payloads can contain any bytes, but a notification is text without NUL.
var signalText = base64.RawStdEncoding

// Signal implements [bus.Bus].
func (b *notifyBus) Signal(ctx context.Context, topic string, payload []byte) error {
	text := signalText.EncodeToString([]byte(topic)) + "." + signalText.EncodeToString(payload)
	if len(text) > maxNotify {
		return fmt.Errorf("postgres: signal %.40q: encoded topic and payload have %d bytes, more than the %d that Postgres allows", topic, len(text), maxNotify)
	}
	if err := b.notify(ctx, text); err != nil {
		return fmt.Errorf("postgres: signal %q: %w", topic, err)
	}
	return nil
}

// notify queues text, unless it is already queued, and waits until it has been sent. A
// send that is already in progress does not count.
func (b *notifyBus) notify(ctx context.Context, text string) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	n := b.waiting[text]
	if n == nil {
		n = &notification{text: text, done: make(chan struct{})}
		b.waiting[text] = n
		b.queue = append(b.queue, n)
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	timer := time.NewTimer(signalTimeout)
	defer timer.Stop()
	select {
	case <-n.done:
		return n.err
	case <-timer.C: // exec may wait longer for a response
		return fmt.Errorf("no response within %v", signalTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.ctx.Done():
		return b.closedError()
	}
}

func (b *notifyBus) usable(ctx context.Context) error {
	if b.hub.Closed() || b.db.Closed() {
		return b.closedError()
	}
	return ctx.Err()
}

// closedError returns the error for a closed bus, which also matches ErrClosed if the DB
// is closed.
func (b *notifyBus) closedError() error {
	if b.db.Closed() {
		return fmt.Errorf("%w: %w", bus.ErrClosed, ErrClosed)
	}
	return bus.ErrClosed
}

// send sends the queued notifications, with one statement for all that are due.
func (b *notifyBus) send() {
	for {
		due, pause := b.due(time.Now())
		if len(due) > 0 {
			err := b.exec(due)
			for _, n := range due {
				n.err = err
				close(n.done)
			}
			continue
		}
		var later <-chan time.Time
		if pause > 0 {
			later = time.After(pause)
		}
		select {
		case <-b.ctx.Done():
			return
		case <-b.wake:
		case <-later:
		}
	}
}

// due removes the notifications that are due from the queue. If others remain, pause is
// the time until the first of them is due.
func (b *notifyBus) due(now time.Time) (due []*notification, pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for text, at := range b.sent {
		if now.Sub(at) >= coalesce {
			delete(b.sent, text)
		}
	}
	var rest []*notification
	for _, n := range b.queue {
		at, recent := b.sent[n.text]
		if !recent {
			due = append(due, n)
			delete(b.waiting, n.text)
			b.sent[n.text] = now
			continue
		}
		rest = append(rest, n)
		if left := coalesce - now.Sub(at); pause == 0 || left < pause {
			pause = left
		}
	}
	b.queue = rest
	return due, pause
}

// exec sends notifications. It runs outside a transaction, so they are delivered
// immediately.
func (b *notifyBus) exec(due []*notification) error {
	ctx, cancel := context.WithTimeout(b.ctx, signalTimeout)
	defer cancel()
	texts := make([]string, len(due))
	for i, n := range due {
		texts[i] = n.text
	}
	return b.db.Read(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_notify($1, text) FROM unnest($2::text[]) WITH ORDINALITY AS signal (text, n) ORDER BY n", b.channel, texts)
		return err
	})
}

// Listen implements [bus.Bus].
func (b *notifyBus) Listen(topic string, fn func(payload []byte)) (stop func(), err error) {
	stop, ok := b.hub.Listen(topic, fn)
	if !ok {
		return nil, fmt.Errorf("postgres: listen to %q: %w", topic, b.closedError())
	}
	b.mu.Lock()
	if !b.receiving && b.ctx.Err() == nil {
		b.receiving = true
		b.wg.Go(b.receive)
	}
	b.mu.Unlock()
	timer := time.NewTimer(listenWait)
	defer timer.Stop()
	select {
	case <-b.ready:
	case <-b.ctx.Done():
	case <-timer.C:
	}
	return stop, nil
}

// receive listens on a connection and replaces it when it breaks.
func (b *notifyBus) receive() {
	pause, warned := database.FirstWait, false
	for b.ctx.Err() == nil {
		began := time.Now()
		err := b.receiveOn()
		if b.ctx.Err() != nil {
			return
		}
		if time.Since(began) > database.LastWait {
			pause, warned = database.FirstWait, false // the connection worked for a while
		}
		if !warned {
			b.db.Log.Warn("postgres: signal connection broken, reconnecting; signals may be lost", "schema", b.db.Schema, "error", err)
			warned = true
		}
		if delay.For(b.ctx, pause) != nil {
			return
		}
		pause = min(2*pause, database.LastWait)
	}
}

// receiveOn opens a connection and listens on it until it breaks.
func (b *notifyBus) receiveOn() error {
	var c *pgx.Conn
	err := b.answer(func(ctx context.Context) (err error) {
		c, err = b.db.Connect(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), listenAnswer)
		defer cancel()
		_ = c.Close(ctx) // the connection is broken or no longer needed
	}()
	err = b.answer(func(ctx context.Context) error {
		_, err := c.Exec(ctx, "LISTEN "+b.channel, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return err
	}
	select {
	case <-b.ready:
	default:
		close(b.ready)
	}
	for {
		if err := b.receiveOne(c); err != nil {
			return err
		}
	}
}

// answer calls do with the timeout listenAnswer.
func (b *notifyBus) answer(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(b.ctx, listenAnswer)
	defer cancel()
	return do(ctx)
}

// receiveOne waits for a signal. If none arrives in time, it pings the server, because a
// broken network may go unnoticed otherwise.
func (b *notifyBus) receiveOne(c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(b.ctx, listenQuiet)
	defer cancel()
	n, err := c.WaitForNotification(ctx)
	if err != nil {
		if ctx.Err() == nil || b.ctx.Err() != nil || c.IsClosed() {
			return err
		}
		return b.answer(c.Ping)
	}
	if n.Channel != b.channel {
		return nil
	}
	topic, payload, err := decodeSignal(n.Payload)
	if err != nil {
		b.db.Log.Warn("postgres: ignored notification that is not a signal", "channel", n.Channel, "error", err)
		return nil
	}
	b.hub.Deliver(topic, payload)
	return nil
}

func decodeSignal(text string) (topic string, payload []byte, err error) {
	name, rest, ok := strings.Cut(text, ".")
	if !ok {
		return "", nil, errors.New("missing dot")
	}
	decoded, err := signalText.DecodeString(name)
	if err != nil {
		return "", nil, err
	}
	payload, err = signalText.DecodeString(rest)
	return string(decoded), payload, err
}
