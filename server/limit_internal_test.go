package server

import (
	"net/http"
	"testing"
	"time"
)

func TestAllowanceComesBack(t *testing.T) {
	l := newLimiter(&RateLimit{PerSecond: 2})
	now := time.Unix(1000, 0)
	l.now = func() time.Time { return now }
	for i, want := range []time.Duration{0, 0, 500 * time.Millisecond} {
		if wait := l.take("a", 1); wait != want {
			t.Errorf("request %d waits %s", i, wait)
		}
	}
	now = now.Add(500 * time.Millisecond)
	if wait := l.take("a", 1); wait != 0 {
		t.Errorf("after half a second it waits %s", wait)
	}
	now = now.Add(-time.Hour)
	if wait := l.take("a", 1); wait <= 0 || wait > time.Second {
		t.Errorf("after the clock went back it waits %s", wait)
	}
	now = now.Add(2 * time.Hour)
	for i := range 1000 {
		l.take(string(rune(i)), 1)
	}
	now = now.Add(time.Minute)
	l.take("b", 1)
	if len(l.callers) != 1 {
		t.Errorf("%d callers are remembered", len(l.callers))
	}
}

func TestClientsOfOneNetworkAreOneCaller(t *testing.T) {
	for address, want := range map[string]string{"192.0.2.7:1": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7", "[2001:db8::1%eth0]:1": "2001:db8::/64", "[2001:db8::ff:2]:9": "2001:db8::/64", "pipe": "pipe"} {
		if got := remote(&http.Request{RemoteAddr: address}); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
}
