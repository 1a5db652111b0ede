package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/server/internal/runs"
)

// maxSubscriptions is the maximum number of subscriptions per WebSocket.
const maxSubscriptions = 64

// pingEvery is the interval at which clients are pinged.
const pingEvery = 20 * time.Second

// socket is a protocol v2 client that sends commands and receives events on one connection.
// Events are sent in sequence order across all subscriptions: LangGraph's JavaScript client
// takes the end of a run on one subscription for the end of all.
type socket struct {
	c       *call
	conn    *websocket.Conn
	thread  *observed
	readers sync.WaitGroup
	added   chan *subscribed // read by the goroutine that sends events

	mu     sync.Mutex
	subs   map[string]*subscribed
	newest time.Time // time of the newest subscription
}

// subscribed is a subscription of a socket.
type subscribed struct {
	subscription
	id   string
	live bool // earlier events have been sent
	over bool // the earlier events include the end of a run
}

// webSocket serves protocol v2 on a WebSocket until the client disconnects or the server stops.
func (s protocolAPI) webSocket(c *call) error {
	o, err := s.observe(c)
	if err != nil {
		return err
	}
	if !strings.EqualFold(c.r.Header.Get("Upgrade"), "websocket") {
		c.w.Header().Set("Upgrade", "websocket")
		return fail(http.StatusUpgradeRequired, "want a WebSocket; without one, POST here to read events, and POST /threads/{thread_id}/commands")
	}
	// A page of another origin may connect if cors has found that it may call the server.
	cross := c.w.Header().Get("Access-Control-Allow-Origin") != ""
	conn, err := websocket.Accept(c.w, c.r, &websocket.AcceptOptions{InsecureSkipVerify: cross})
	if err != nil {
		return ignored(err) // Accept has responded
	}
	conn.SetReadLimit(s.o.MaxBody)
	ws := &socket{c: c, conn: conn, thread: o, added: make(chan *subscribed), subs: map[string]*subscribed{}}
	ws.serve(c.r.Context())
	return nil
}

// serve reads commands until the connection closes.
func (s *socket) serve(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	done, err := s.thread.record()
	if err != nil {
		stop()
		_ = s.conn.Close(websocket.StatusInternalError, "the thread cannot be watched")
		return
	}
	s.readers.Go(func() { s.keepAlive(ctx) })
	s.readers.Go(func() { s.events(ctx) })
	for {
		kind, raw, err := s.conn.Read(ctx)
		if err != nil {
			break
		}
		if kind != websocket.MessageText || !s.handle(ctx, raw) {
			break
		}
	}
	stop()
	s.readers.Wait()
	done()
	_ = s.conn.CloseNow()
}

// keepAlive detects vanished clients and the shutdown of the server.
func (s *socket) keepAlive(ctx context.Context) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.c.s.runner.Stopped():
			s.end(websocket.StatusGoingAway, "the server is shutting down")
			return
		case <-ping.C:
			wait, stop := context.WithTimeout(ctx, s.c.s.o.extras.ClientTime)
			err := s.conn.Ping(wait)
			stop()
			if err != nil {
				_ = s.conn.CloseNow() // ends Read
				return
			}
		}
	}
}

// end closes the connection with a reason, which also ends Read.
func (s *socket) end(code websocket.StatusCode, why string) {
	_ = s.conn.Close(code, why)
}

// handle executes one command. It reports whether to keep the connection.
func (s *socket) handle(ctx context.Context, raw []byte) bool {
	cmd, bad := readCommand(raw)
	if bad != nil {
		return s.send(ctx, bad)
	}
	var result any
	var sub *subscribed
	before := &meta{s.thread.id, s.c.s.runner.LastSeq(s.thread.id)}
	err := s.c.another()
	switch {
	case err != nil:
	case *cmd.Method == "subscription.subscribe":
		result, sub, err = s.subscribe(ctx, cmd.Params)
	case *cmd.Method == "subscription.unsubscribe":
		result, err = s.unsubscribe(cmd.Params)
	default:
		result, err = s.c.s.protocol().execute(s.c, cmd, s.thread.id)
	}
	if !s.send(ctx, s.c.s.protocol().reply(s.c, cmd, before, result, err)) {
		return false
	}
	if sub != nil { // its events follow the reply
		select {
		case s.added <- sub:
		case <-ctx.Done():
		}
	}
	return true
}

// send writes a reply.
func (s *socket) send(ctx context.Context, v *reply) bool {
	raw, err := json.Marshal(v)
	if err != nil {
		s.c.s.log.ErrorContext(ctx, "failed to encode response", "error", err)
		return false
	}
	return s.write(ctx, raw) == nil
}

// write sends a message. The connection of a client that stops reading is closed.
func (s *socket) write(ctx context.Context, raw []byte) error {
	ctx, stop := context.WithTimeout(ctx, s.c.s.o.extras.ClientTime)
	defer stop()
	return s.conn.Write(ctx, websocket.MessageText, raw)
}

// subscribe adds a subscription.
func (s *socket) subscribe(ctx context.Context, raw json.RawMessage) (any, *subscribed, error) {
	p, err := params[subscription](raw)
	if err != nil {
		return nil, nil, err
	}
	sub := &subscribed{subscription: *p, id: uuid.NewString()}
	if err := sub.check(); err != nil {
		return nil, nil, err
	}
	replayed, seen := 0, *s.thread
	for e, err := range s.c.s.runner.Kept(ctx, s.thread.id, sub.since()) {
		if err != nil {
			return nil, nil, err
		}
		if !sub.wants(e) {
			continue
		}
		if shown, _ := seen.sees(e); shown {
			replayed++
			sub.over = sub.over || isEnd(e)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.subs) >= maxSubscriptions {
		return nil, nil, &commandError{invalidArgument, "there are too many subscriptions on this connection: unsubscribe some, or open another"}
	}
	s.subs[sub.id], s.newest = sub, time.Now()
	return map[string]any{"subscription_id": sub.id, "replayed_events": replayed}, sub, nil
}

// since returns the sequence number after which the client wants events.
func (s *subscription) since() uint64 {
	if s.Since == nil {
		return 0
	}
	return *s.Since
}

// events sends the events of all subscriptions.
func (s *socket) events(ctx context.Context) {
	at := s.thread.last()
	q := newQueue()
	from := at
	s.readers.Go(func() { q.fill(ctx, s.c.s.runner.ReadThread(ctx, s.thread.id, from)) })
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case sub := <-s.added:
			err = s.replay(ctx, s.gather(ctx, sub), at)
		case e, ok := <-q.ch:
			if !ok {
				err = q.err
				break
			}
			if isEnd(e.Entry) {
				err = s.awaitContent(ctx, at)
			}
			at = e.Seq
			if err == nil && s.wanted(e.Entry) {
				err = s.event(ctx, e.Entry)
			}
			q.sent(e)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// fail closes the connection because events cannot be sent.
func (s *socket) fail(err error) {
	select {
	case <-s.c.s.runner.Stopped(): // keepAlive reports it
		return
	default:
	}
	if errors.Is(err, errHidden) {
		s.end(websocket.StatusPolicyViolation, "the thread is not visible")
		return
	}
	s.end(websocket.StatusTryAgainLater, "events are lost: connect and subscribe again")
}

// event sends an event, unless it is hidden from the client.
func (s *socket) event(ctx context.Context, e *runs.Entry) error {
	if shown, err := s.thread.sees(e); err != nil || !shown {
		return err
	}
	var buf bytes.Buffer
	writeHead(&buf, e)
	data := e.Data()
	if len(data) > maxCopied {
		return s.writeParts(ctx, buf.Bytes(), data, eventTail)
	}
	buf.Write(data)
	buf.Write(eventTail)
	return s.write(ctx, buf.Bytes())
}

// writeParts sends a large message without copying it. A client may take long to read all of
// it, but must read each piece in time.
func (s *socket) writeParts(ctx context.Context, parts ...[]byte) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	late := time.AfterFunc(s.c.s.o.extras.ClientTime, stop)
	defer late.Stop()
	w, err := s.conn.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for _, part := range parts {
		for piece := range slices.Chunk(part, pieceSize) {
			if _, err := w.Write(piece); err != nil {
				return err
			}
			late.Reset(s.c.s.o.extras.ClientTime)
		}
	}
	return w.Close()
}

// gather returns a subscription and the subscriptions that the client has sent after it.
// LangGraph's JavaScript client sends several together and takes the end of a run on one for
// the end of all. If the run has already ended, the first subscription would deliver the end
// before the events of the second, which the client would then ignore. Everything that the
// client sent before it answers a ping arrives before the pong. Browsers answer pings while the
// page is busy, so gather waits longer if there is nothing but the end to send.
func (s *socket) gather(ctx context.Context, first *subscribed) []*subscribed {
	ctx, stop := context.WithTimeout(ctx, gatherTime)
	ping := make(chan struct{})
	go func() {
		defer close(ping)
		_ = s.conn.Ping(ctx) // a client that does not answer gets its events later
	}()
	defer func() {
		stop()
		<-ping
	}()
	all, over, pong := []*subscribed{first}, first.over, ping
	for ctx.Err() == nil && (pong != nil || over && s.onlyWatches()) {
		select {
		case sub := <-s.added:
			all, over = append(all, sub), over || sub.over
		case <-pong:
			pong = nil
		case <-ctx.Done():
		}
	}
	return all
}

// gatherTime limits how long events wait for a client that does not answer a ping, and how long the
// end of a run waits for a client that has subscribed only to the end.
const gatherTime = 2 * time.Second

// onlyWatches reports whether the client has subscribed only to lifecycle and input events.
func (s *socket) onlyWatches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		if slices.ContainsFunc(sub.Channels, func(ch string) bool { return ch != "lifecycle" && ch != "input" }) {
			return false
		}
	}
	return true
}

// awaitContent returns when the end of a run can be sent, so that a client about to subscribe
// to the run's other events does not receive the end first. at is the last event sent.
func (s *socket) awaitContent(ctx context.Context, at uint64) error {
	s.mu.Lock()
	late := time.NewTimer(time.Until(s.newest.Add(gatherTime)))
	s.mu.Unlock()
	defer late.Stop()
	for s.onlyWatches() {
		select {
		case sub := <-s.added:
			if err := s.replay(ctx, s.gather(ctx, sub), at); err != nil {
				return err
			}
		case <-late.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// isEnd reports whether an entry is the end of a run.
func isEnd(e *runs.Entry) bool {
	if e.Protocol != runs.V2 || e.Name != "lifecycle" || len(e.NS) > 0 {
		return false
	}
	var data struct {
		Event string `json:"event"`
	}
	return json.Unmarshal(e.Data(), &data) == nil && data.Event != "running"
}

// replay sends new subscriptions the events up to at, the last event sent. After that, they
// receive events with the others.
func (s *socket) replay(ctx context.Context, subs []*subscribed, at uint64) error {
	since := at
	for _, sub := range subs {
		since = min(since, sub.since())
	}
	for e, err := range s.c.s.runner.Kept(ctx, s.thread.id, since) {
		if err != nil {
			return err
		}
		if e.Seq > at {
			break
		}
		if slices.ContainsFunc(subs, func(sub *subscribed) bool { return e.Seq > sub.since() && sub.wants(e) }) {
			if err := s.event(ctx, e); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range subs {
		sub.live = true
	}
	return nil
}

// wanted reports whether any subscription includes an event.
func (s *socket) wanted(e *runs.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		if sub.live && sub.wants(e) {
			return true
		}
	}
	return false
}

// unsubscribe removes a subscription.
func (s *socket) unsubscribe(raw json.RawMessage) (any, error) {
	p, err := params[struct {
		ID string `json:"subscription_id"`
	}](raw)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs[p.ID] == nil {
		return nil, &commandError{noSuchSubscription, "subscription_id: there is no subscription " + p.ID}
	}
	delete(s.subs, p.ID)
	return struct{}{}, nil
}
