package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/internal/delay"
)

func (b *Bus) eventSubject(thread string) string { return b.name + ".events." + thread }
func (b *Bus) liveSubject(thread string) string  { return b.name + ".live." + thread }

// streamConfig returns the required stream configuration.
func (b *Bus) streamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        b.stream,
		Description: "Thread events for live and resuming readers",
		Subjects:    []string{b.eventSubject(">")},
		MaxAge:      b.keep,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardOld,
		Duplicates:  min(again, b.keep),
		Replicas:    replicas,
		AllowDirect: true,
		RePublish:   &jetstream.RePublish{Source: b.eventSubject(">"), Destination: b.liveSubject(">")},
	}
}

// mostReplicas returns the desired number of replicas if Options.Replicas is 0.
func (b *Bus) mostReplicas() int {
	if b.nc.ConnectedClusterName() == "" {
		return 1
	}
	return 3
}

// ensureStream creates the stream, or updates it if its configuration differs.
func (b *Bus) ensureStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	js, err := jetstream.New(b.nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, b.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = b.createStream(ctx, js)
	}
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	b.madeAt(info.Created)
	return b.updateStream(ctx, js, &info.Config)
}

// createStream creates the stream with the desired number of replicas, or as many as possible
// if Options.Replicas is 0.
func (b *Bus) createStream(ctx context.Context, js jetstream.JetStream) (stream jetstream.Stream, err error) {
	if b.replicas > 0 {
		return js.CreateStream(ctx, b.streamConfig(b.replicas))
	}
	for replicas := b.mostReplicas(); replicas > 0; replicas-- {
		stream, err = js.CreateStream(ctx, b.streamConfig(replicas))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return js.Stream(ctx, b.stream) // another process was faster
		}
		if !tooFewServers(err) {
			break
		}
	}
	return stream, err
}

// tooFewServers reports whether the server rejects the number of replicas as too high for the
// cluster.
func tooFewServers(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	const noPeers, notClustered = 10005, 10074
	return ok && (e.ErrorCode == noPeers || e.ErrorCode == notClustered)
}

// updateStream updates the stream if its configuration differs. It adds replicas if the cluster
// has grown. It removes replicas only if Options.Replicas requires it, because a server that is
// temporarily down looks like one that does not exist.
func (b *Bus) updateStream(ctx context.Context, js jetstream.JetStream, has *jetstream.StreamConfig) error {
	replicas := b.replicas
	if replicas == 0 {
		replicas = max(has.Replicas, b.mostReplicas())
	}
	want := b.streamConfig(replicas)
	if alike(has, &want) {
		return nil
	}
	_, err := js.UpdateStream(ctx, want)
	if err == nil || b.replicas > 0 || replicas == has.Replicas {
		return err
	}
	want.Replicas = has.Replicas // the cluster is too small
	if alike(has, &want) {
		return nil
	}
	_, err = js.UpdateStream(ctx, want)
	return err
}

// alike compares the relevant settings of two stream configurations.
func alike(a, b *jetstream.StreamConfig) bool {
	return slices.Equal(a.Subjects, b.Subjects) && a.MaxAge == b.MaxAge && a.Duplicates == b.Duplicates && a.Replicas == b.Replicas &&
		a.AllowDirect == b.AllowDirect && a.RePublish != nil && *a.RePublish == *b.RePublish
}

// madeAt records the creation time of the stream. If it differs from the previous one, the
// stream was replaced and its sequence numbers start over, so all readers must start over too.
func (b *Bus) madeAt(created time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.created.IsZero() && !b.created.Equal(created) {
		for _, f := range b.followed {
			for r := range f.readers {
				r.restart()
			}
		}
	}
	b.created = created
}

// recheck triggers lookAfterStream.
func (b *Bus) recheck() {
	select {
	case b.check <- struct{}{}:
	default:
	}
}

// lookAfterStream creates the stream if Open could not, and recreates it if it is lost. It adds
// replicas when the cluster gains servers, for example while the cluster is starting.
func (b *Bus) lookAfterStream() {
	every := time.NewTicker(checkEvery)
	defer every.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.check:
		case <-every.C:
		}
		warned := false
		for pause := reconnectWait; b.nc.IsConnected(); pause = min(2*pause, patience) {
			err := b.ensureStream(b.ctx)
			if err == nil || b.ctx.Err() != nil {
				break
			}
			if !warned {
				b.log.Warn("natsbus: failed to create stream, retrying", "stream", b.stream, "error", err)
				warned = true
			}
			if delay.For(b.ctx, pause) != nil {
				return
			}
		}
	}
}

// answer is a JetStream response. The fields that are set depend on the request.
type answer struct {
	Error   *jetstream.APIError `json:"error"`
	Message struct {
		Seq  uint64 `json:"seq"`
		Data []byte `json:"data"`
	} `json:"message"`
}

// request sends a request, and resends it until the server responds, for at most patience. The
// server may process the request more than once.
func (b *Bus) request(ctx context.Context, m *nats.Msg) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no response within %v", patience))
	defer cancel()
	for {
		if err := b.connected(ctx); err != nil {
			return nil, err
		}
		a, err := b.try(ctx, m)
		if err == nil || !temporary(err) {
			return a, err
		}
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrStreamNotFound) {
			b.recheck()
		}
		if delay.For(ctx, 50*time.Millisecond) != nil {
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

func (b *Bus) try(ctx context.Context, m *nats.Msg) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	reply, err := b.nc.RequestMsgWithContext(ctx, m)
	if errors.Is(err, nats.ErrConnectionClosed) {
		return nil, bus.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return nil, fmt.Errorf("invalid JetStream response: %w", err)
	}
	if a.Error != nil {
		return nil, a.Error
	}
	return &a, nil
}

// temporary reports whether another attempt may succeed.
func temporary(err error) bool {
	const duplicateInProgress = 10158
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.Code == 503 || e.ErrorCode == duplicateInProgress || e.ErrorCode == jetstream.JSErrCodeStreamNotFound
	}
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrDisconnected)
}

// connected returns nil if there is a connection. If the connection was lost just now, it waits
// for a new one.
func (b *Bus) connected(ctx context.Context) error {
	for {
		err := b.usable(ctx)
		if !errors.Is(err, nats.ErrDisconnected) {
			return err
		}
		b.mu.Lock()
		justNow := b.reached && (b.lostAt.IsZero() || time.Since(b.lostAt) <= grace)
		b.mu.Unlock()
		if !justNow {
			return err
		}
		if delay.For(ctx, 10*time.Millisecond) != nil {
			return err
		}
	}
}
