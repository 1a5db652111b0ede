package natsbus

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/treadle-go/treadle/bus/bustest"
	"github.com/treadle-go/treadle/internal/test/netfault"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/natstest"
)

// buffer is a log that is safe for concurrent writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// read returns the stored events and the errors.
func read(t *testing.T, b *Bus, thread uuid.UUID) (all []*ledger.Events, errs []error) {
	t.Helper()
	for e, err := range b.Log().Read(t.Context(), thread, 0, false) {
		if err != nil {
			errs = append(errs, err)
		} else {
			all = append(all, e)
		}
	}
	return all, errs
}

func info(t *testing.T, b *Bus) *jetstream.StreamInfo {
	t.Helper()
	js, err := jetstream.New(b.nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), b.stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo()
}

func TestOpenBeforeServerStarts(t *testing.T) {
	s := natstest.New(t, nil)
	p := netfault.New(t, strings.TrimPrefix(s.URL(), "nats://"))
	p.Cut()
	near := open(t, "nats://"+p.Addr(), nil)
	if err := near.Signal(t.Context(), "topic", nil); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("Signal: %v", err)
	}
	fastest := time.Hour // the machine may be busy
	for range 5 {
		began := time.Now()
		if err := near.Log().Append(t.Context(), &ledger.Events{Thread: uuid.New(), First: 1, Last: 1}); !errors.Is(err, nats.ErrDisconnected) {
			t.Errorf("Append: %v", err)
		}
		fastest = min(fastest, time.Since(began))
	}
	if fastest > 3*time.Second {
		t.Errorf("Append took %v", fastest)
	}
	stop, err := near.Listen("topic", func([]byte) {})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	p.Heal()
	for !near.nc.IsConnected() {
		<-time.After(10 * time.Millisecond)
	}
	// The stream is created in the background; earlier appends wait for it.
	if err := near.Log().Append(t.Context(), &ledger.Events{Thread: uuid.New(), First: 1, Last: 1}); err != nil {
		t.Error(err)
	}
	bustest.Outage(t, near, open(t, s.URL(), nil), p.Cut, p.Heal)
}

func TestLostStreamIsRecreated(t *testing.T) {
	s := natstest.New(t, nil)
	a, b := open(t, s.URL(), nil), open(t, s.URL(), nil)
	thread := uuid.New()
	for n := range uint64(3) {
		if err := a.Log().Append(t.Context(), &ledger.Events{Thread: thread, First: n + 1, Last: n + 1}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := uint64(0)
	for e, err := range b.Log().Read(ctx, thread, 0, true) {
		if n++; err != nil || e.Last != n {
			t.Fatalf("event %d: %v, %v", n, e, err)
		}
		if n == 3 {
			js, err := jetstream.New(a.nc)
			if err != nil {
				t.Fatal(err)
			}
			if err := js.DeleteStream(ctx, a.stream); err != nil {
				t.Fatal(err)
			}
			b.recheck() // as after a reconnect
			if err := a.Log().Append(ctx, &ledger.Events{Thread: thread, First: 4, Last: 4}); err != nil {
				t.Fatal(err)
			}
		}
		if n == 4 {
			break
		}
	}
	if n != 4 {
		t.Errorf("received %d events", n)
	}
}

// A live reader silently misses some messages.
func TestLiveReaderDetectsGaps(t *testing.T) {
	url := natstest.New(t, nil).URL()
	for name, test := range map[string]struct {
		poll    time.Duration
		recover func(b *Bus, appendOne func())
	}{
		"by the previous sequence number": {time.Hour, func(_ *Bus, appendOne func()) { appendOne() }},
		"by polling":                      {50 * time.Millisecond, func(*Bus, func()) {}},
		"after a slow consumer":           {time.Hour, func(b *Bus, _ func()) { b.onError(b.nc, b.followed[b.anySubject()].sub, nats.ErrSlowConsumer) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, url, &Options{Name: strings.ReplaceAll(name, " ", "-")})
			b.pollEvery = test.poll
			thread, last := uuid.New(), uint64(0)
			appendOne := func() {
				last++
				if err := b.Log().Append(t.Context(), &ledger.Events{Thread: thread, First: last, Last: last}); err != nil {
					t.Fatal(err)
				}
			}
			appendOne()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			// The reader must already wait for live messages; otherwise, it reads
			// from the stream anyway.
			appended := make(chan struct{}) // an event may arrive before the response to its append
			time.AfterFunc(200*time.Millisecond, func() {
				defer close(appended)
				appendOne()
			})
			n := uint64(0)
			for e, err := range b.Log().Read(ctx, thread, 0, true) {
				if n++; err != nil || e.Last != n {
					t.Fatalf("event %d: %v, %v", n, e, err)
				}
				if n == 2 {
					<-appended
					f := b.followed[b.anySubject()]
					if err := f.sub.Unsubscribe(); err != nil {
						t.Fatal(err)
					}
					appendOne()
					appendOne()
					if err := b.nc.Flush(); err != nil {
						t.Fatal(err)
					}
					var err error
					if f.sub, err = b.nc.ChanSubscribe(b.anySubject(), b.live); err != nil {
						t.Fatal(err)
					}
					test.recover(b, appendOne)
				}
				if n >= 2 && n == last {
					break
				}
			}
			if n != last {
				t.Errorf("received %d of %d events", n, last)
			}
		})
	}
}

// anySubject returns a followed subject.
func (b *Bus) anySubject() string {
	for subject := range b.followed {
		return subject
	}
	return ""
}

func TestOptionsConfigureStream(t *testing.T) {
	s := natstest.New(t, nil)
	b := open(t, s.URL(), nil)
	c := info(t, b).Config
	if c.Name != "TREADLE_EVENTS" || c.MaxAge != 10*time.Minute || c.Duplicates != 2*time.Minute || c.Replicas != 1 ||
		c.Storage != jetstream.FileStorage || c.Discard != jetstream.DiscardOld || c.Subjects[0] != "treadle.events.>" {
		t.Errorf("stream: %+v", c)
	}
	// Another process with other options changes the stream.
	if c = info(t, open(t, s.URL(), &Options{Keep: time.Minute})).Config; c.MaxAge != time.Minute || c.Duplicates != time.Minute {
		t.Errorf("stream: %+v", c)
	}
	if c = info(t, open(t, s.URL(), &Options{Name: "My-app_1"})).Config; c.Name != "MY-APP_1_EVENTS" || c.Subjects[0] != "My-app_1.events.>" {
		t.Errorf("stream: %+v", c)
	}
	for _, o := range []*Options{{Name: "a.b"}, {Name: "a b"}, {Name: "*"}, {Keep: time.Millisecond}, {Replicas: 7}, {Replicas: -1}} {
		if _, err := Open(t.Context(), s.URL(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestKeepLimitsEventAge(t *testing.T) {
	b := open(t, natstest.New(t, nil).URL(), &Options{Keep: time.Second})
	thread := uuid.New()
	if err := b.Log().Append(t.Context(), &ledger.Events{Thread: thread, First: 1, Last: 1}); err != nil {
		t.Fatal(err)
	}
	for {
		all, errs := read(t, b, thread)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if len(all) == 0 {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

func TestDefaultReplicasOfCluster(t *testing.T) {
	servers := natstest.Cluster(t, 3)
	if n := info(t, open(t, natstest.URLs(servers), nil)).Config.Replicas; n != 3 {
		t.Errorf("%d replicas, want 3", n)
	}
	if n := info(t, open(t, natstest.URLs(servers), &Options{Name: "one", Replicas: 1})).Config.Replicas; n != 1 {
		t.Errorf("%d replicas, want 1 as requested", n)
	}
	// A stopped server does not reduce the number of replicas.
	servers[2].Stop()
	b := open(t, natstest.URLs(servers[:2]), nil)
	for until := time.Now().Add(2 * time.Minute); ; {
		if err := b.ensureStream(t.Context()); err == nil {
			break
		} else if time.Now().After(until) {
			t.Fatal(err)
		}
	}
	if n := info(t, b).Config.Replicas; n != 3 {
		t.Errorf("%d replicas after a server was lost", n)
	}
}

func TestLargeEventsAreSplit(t *testing.T) {
	s := natstest.New(t, func(o *server.Options) { o.MaxPayload = 16 << 10 })
	b := open(t, s.URL(), nil)
	thread := uuid.New()
	want := bytes.Repeat([]byte("0123456789abcdef"), 20<<10) // 320 kB
	for n := range uint64(3) {
		if err := b.Log().Append(t.Context(), &ledger.Events{Thread: thread, First: n + 1, Last: n + 1, Data: want[n:]}); err != nil {
			t.Fatal(err)
		}
	}
	if n := info(t, b).State.Msgs; n != 66 {
		t.Errorf("%d messages, want 22 for each event", n)
	}
	all, errs := read(t, b, thread)
	if len(all) != 3 || len(errs) > 0 {
		t.Fatalf("got %d events, %v", len(all), errs)
	}
	for n, e := range all {
		if !bytes.Equal(e.Data, want[n:]) {
			t.Errorf("event %d differs (%d bytes)", n, len(e.Data))
		}
	}
}

// A process fails in the middle of its parts, and another process appends between them.
func TestPartsAreReadInAnyOrder(t *testing.T) {
	b := open(t, natstest.New(t, nil).URL(), nil)
	thread, run := uuid.New(), uuid.New()
	large := &ledger.Events{Thread: thread, Run: run, First: 3, Last: 4, Data: []byte("abcdefghij")}
	zombie := &ledger.Events{Thread: thread, Run: uuid.New(), First: 3, Last: 4, Data: []byte("ABCDEFGHIJ")}
	parts, others := messages(large, headSize+4), messages(zombie, headSize+4)
	if len(parts) != 3 {
		t.Fatalf("%d parts", len(parts))
	}
	again := messages(large, headSize+6) // a server with another limit
	for _, m := range [][]byte{parts[0], parts[1], again[0], parts[0], others[0], others[1], parts[2], parts[1], parts[0], parts[2], others[2]} {
		if _, err := b.request(t.Context(), &nats.Msg{Subject: b.eventSubject(thread.String()), Data: m}); err != nil {
			t.Fatal(err)
		}
	}
	all, errs := read(t, b, thread)
	if len(all) != 1 || len(errs) > 0 || string(all[0].Data) != "abcdefghij" || all[0].Run != run {
		t.Errorf("got %v, %v", all, errs)
	}
}

func TestOversizedEventsFail(t *testing.T) {
	b := open(t, natstest.New(t, nil).URL(), nil)
	e := &ledger.Events{Thread: uuid.New(), First: 7, Last: 9, Data: make([]byte, maxData+1)}
	err := b.Log().Append(t.Context(), e)
	if err == nil || !strings.Contains(err.Error(), "67108865 bytes exceed the limit of 67108864") || !strings.Contains(err.Error(), e.Thread.String()) {
		t.Errorf("error: %v", err)
	}
	e.Data = e.Data[:50<<20]
	if err := b.Log().Append(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if all, errs := read(t, b, e.Thread); len(all) != 1 || len(all[0].Data) != 50<<20 || len(errs) > 0 {
		t.Errorf("got %d events, %v", len(all), errs)
	}
}

func TestDamagedMessageError(t *testing.T) {
	b := open(t, natstest.New(t, nil).URL(), nil)
	thread := uuid.New()
	good := messages(&ledger.Events{Thread: thread, First: 2, Last: 2, Data: []byte("x")}, 1000)[0]
	for _, m := range [][]byte{{}, {9, 1, 2}, good[:20], good[:len(good)-1], append(bytes.Clone(good), 'y'), good} {
		if _, err := b.request(t.Context(), &nats.Msg{Subject: b.eventSubject(thread.String()), Data: m}); err != nil {
			t.Fatal(err)
		}
	}
	all, errs := read(t, b, thread)
	if len(all) != 1 || len(errs) != 5 {
		t.Fatalf("got %d events and %d errors: %v", len(all), len(errs), errs)
	}
	want := "natsbus: damaged message 2 of thread " + thread.String() + " in stream TREADLE_EVENTS: unsupported version 9: this program reads version 1"
	if errs[1].Error() != want {
		t.Errorf("error:\n%v\nwant:\n%s", errs[1], want)
	}
}

func TestCredentials(t *testing.T) {
	const secret = "s3cr3t"
	var out buffer
	o := &Options{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	s := natstest.New(t, func(o *server.Options) { o.Username, o.Password = "treadle", secret })
	host := strings.TrimPrefix(s.URL(), "nats://")
	// The credentials of the first address apply to all.
	b := open(t, "nats://treadle:"+secret+"@"+host+","+host, o)
	if err := b.Signal(t.Context(), "topic", nil); err != nil {
		t.Error(err)
	}
	gone := freeAddress(t)
	down := open(t, "nats://treadle:"+secret+"@"+gone, o)
	for _, err := range []error{down.Signal(t.Context(), "topic", nil), down.Log().Append(t.Context(), &ledger.Events{})} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("error: %v", err)
		}
	}
	for _, url := range []string{
		"nats://treadle:wrong-" + secret + "@" + host, "nats://treadle:" + secret + "@[::1", "http://treadle:" + secret + "@" + host, "nats://" + secret + "@%zz:1",
		"nats://a,nats://treadle:" + secret + "@", "",
	} {
		b, err := Open(t.Context(), url, o)
		if err == nil {
			_ = b.Close()
			t.Errorf("%q was accepted", url)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("error shows the password: %v", err)
		}
	}
	if _, err := Open(t.Context(), s.URL(), &Options{Creds: filepath.Join(t.TempDir(), "missing.creds")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing credentials file: %v", err)
	}
	s.Stop()
	for b.nc.IsConnected() {
		<-time.After(10 * time.Millisecond)
	}
	_ = b.Signal(t.Context(), "topic", nil)
	if strings.Contains(out.String(), secret) {
		t.Errorf("log shows the password:\n%s", out.String())
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	h := httptest.NewTLSServer(nil) // has a certificate and a client that trusts it
	h.Close()
	s := natstest.New(t, func(o *server.Options) { o.TLSConfig, o.TLSTimeout = &tls.Config{Certificates: h.TLS.Certificates}, 10 })
	trust := h.Client().Transport.(*http.Transport).TLSClientConfig
	b := open(t, strings.Replace(s.URL(), "nats://", "tls://", 1), &Options{TLS: &tls.Config{RootCAs: trust.RootCAs}})
	if err := b.Signal(t.Context(), "topic", nil); err != nil {
		t.Error(err)
	}
	if _, err := b.nc.TLSConnectionState(); err != nil {
		t.Errorf("connection is not encrypted: %v", err)
	}
	strange := open(t, strings.Replace(s.URL(), "nats://", "tls://", 1), nil)
	if err := strange.Signal(t.Context(), "topic", nil); err == nil {
		t.Error("untrusted certificate was accepted")
	}
}

// freeAddress returns an unused address.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func FuzzDecode(f *testing.F) {
	for _, m := range messages(&ledger.Events{Run: uuid.New(), First: 1, Last: 2, Data: []byte("some data")}, headSize+4) {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, data, err := decode(b)
		if err != nil {
			return
		}
		if again := append(h.append(nil), data...); !bytes.Equal(again, b) {
			t.Errorf("%x was reencoded as %x", b, again)
		}
		if _, err := new(assembly).add(&h, data); err != nil && h.parts == 1 {
			t.Error(err)
		}
	})
}
