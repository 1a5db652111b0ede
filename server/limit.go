package server

import (
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// RateLimit limits the requests per caller. A caller is a user or, without Auth, an address;
// behind a proxy, that is the proxy's address. An address that fails to authenticate too often
// is limited as well.
type RateLimit struct {
	PerSecond float64
	Burst     int // burst size; 0 means one second's worth
}

// limiter tracks the requests of callers.
type limiter struct {
	rate  float64
	burst float64
	now   func() time.Time

	mu      sync.Mutex
	callers map[string]*allowance
	swept   time.Time
}

// allowance is the number of requests that a caller had left at a point in time.
type allowance struct {
	left float64
	at   time.Time
}

// newLimiter returns a limiter, or nil if there is no limit.
func newLimiter(o *RateLimit) *limiter {
	if o == nil || o.PerSecond <= 0 {
		return nil
	}
	burst := float64(o.Burst)
	if burst == 0 {
		burst = math.Max(1, math.Ceil(o.PerSecond))
	}
	return &limiter{rate: o.PerSecond, burst: burst, now: time.Now, callers: map[string]*allowance{}}
}

// take deducts n requests from a caller's allowance; 0 only checks it. It returns the time
// until the next request is allowed, or 0 if one is allowed now.
func (l *limiter) take(caller string, n float64) (wait time.Duration) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.sweep(now)
	a := l.callers[caller]
	if a == nil {
		a = &allowance{l.burst, now}
		l.callers[caller] = a
	}
	a.left, a.at = math.Min(l.burst, a.left+l.rate*math.Max(0, now.Sub(a.at).Seconds())), now
	if a.left < 1 {
		return time.Duration((1 - a.left) / l.rate * float64(time.Second))
	}
	a.left -= n
	return 0
}

// sweep removes callers whose allowance is full again.
func (l *limiter) sweep(now time.Time) {
	full := time.Duration(l.burst / l.rate * float64(time.Second))
	if now.Sub(l.swept) < max(full, time.Second) {
		return
	}
	l.swept = now
	for caller, a := range l.callers {
		if now.Sub(a.at) >= full {
			delete(l.callers, caller)
		}
	}
}

// identify authenticates the caller and applies the rate limit.
func (c *call) identify() error {
	l := c.s.limit
	address := "address " + remote(c.r)
	if l == nil || c.s.o.Auth == nil {
		if err := c.limited(l.take(address, 1)); err != nil {
			return err
		}
		return c.authenticate()
	}
	if err := c.limited(l.take(address, 0)); err != nil {
		return err
	}
	if err := c.authenticate(); err != nil {
		l.take(address, 1)
		return err
	}
	if c.user == nil {
		return c.limited(l.take(address, 1))
	}
	return c.limited(l.take("user "+c.user.Identity, 1))
}

// another applies the rate limit to a command on a connection that carries many.
func (c *call) another() error {
	caller := "address " + remote(c.r)
	if c.user != nil {
		caller = "user " + c.user.Identity
	}
	return c.limited(c.s.limit.take(caller, 1))
}

// limited returns an error if the caller must wait.
func (c *call) limited(wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	c.s.metrics.limited.Inc()
	seconds := int(math.Ceil(wait.Seconds()))
	c.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return fail(http.StatusTooManyRequests, "too many requests: try again in %d seconds", seconds)
}

// remote returns the client's address; for IPv6, the network assigned to one client.
func remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap()
	if ip.Is6() {
		if p, err := ip.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
