package server

import (
	"context"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/webhooks"
)

// Webhooks configures where runs may send their results.
type Webhooks struct {
	// Domains lists the permitted hosts, such as "example.com" or "*.example.com"; nil means
	// all. An IP address listed here may be private.
	Domains []string
	// Ports lists the permitted ports; nil means all.
	Ports []int
	// RequireHTTPS rejects addresses without TLS.
	RequireHTTPS bool
	// AllowPrivate permits addresses that are not public, such as loopback, private, and
	// link-local ones, for development. Without it, webhooks cannot reach any IANA
	// special-purpose address, not even through a name or a redirect.
	AllowPrivate bool
	// AllowLoopback permits loopback addresses only.
	AllowLoopback bool
	// MaxURL limits the length of an address in bytes; 0 means 4096.
	MaxURL int
	// Headers are added to each request. Push notifications of A2A, whose addresses clients choose, have
	// these headers and a signature only if Domains lists the host.
	Headers map[string]string
	// Secret signs the bodies: X-Treadle-Signature is the HMAC-SHA256, in hex, of the time in
	// X-Treadle-Timestamp, a dot, and the body. For a push notification, "push." precedes the
	// time.
	Secret []byte
	// Disable rejects runs with a webhook.
	Disable bool
}

// newSender returns a sender of webhooks. nil means the defaults.
func newSender(o *Webhooks) *webhooks.Sender {
	if o == nil {
		return webhooks.New(webhooks.Options{})
	}
	return webhooks.New(webhooks.Options(*o))
}

// sendHook delivers a webhook and counts it.
func (s *Server) sendHook(ctx context.Context, h *ledger.Hook) error {
	var err error
	if h.Push {
		err = s.hooks.Push(ctx, h.URL, h.Header, h.Body)
	} else {
		err = s.hooks.Send(ctx, h.URL, h.Body)
	}
	result := "delivered"
	if err != nil {
		result = "failed"
	}
	s.metrics.hooks.WithLabelValues(result).Inc()
	return err
}
