package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/treadle-go/treadle/ledger"
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
	// Headers are added to each request.
	Headers map[string]string
	// Secret signs the bodies: X-Treadle-Signature is the HMAC-SHA256, in hex, of the time in
	// X-Treadle-Timestamp, a dot, and the body.
	Secret []byte
	// Disable rejects runs with a webhook.
	Disable bool

	maxURL   int  // maximum length of an address; 0 means 4096
	loopback bool // allow loopback addresses
}

type webhookSender struct {
	o      Webhooks
	client *http.Client
}

func newWebhookSender(o *Webhooks) *webhookSender {
	s := &webhookSender{}
	if o != nil {
		s.o = *o
	}
	// The address is checked on connection, because a name may resolve to another address by
	// then.
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: s.checkAddress}
	// Redirects are not followed: they could name an address that check would reject.
	s.client = &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// check returns an error if webhooks may not be sent to an address.
func (s *webhookSender) check(text string) error {
	if s.o.Disable {
		return errors.New("webhooks are disabled")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("%q is no absolute URL", text)
	case u.Scheme != "https" && (u.Scheme != "http" || s.o.RequireHTTPS):
		return fmt.Errorf("%q: the scheme %q is not allowed", text, u.Scheme)
	case len(text) > cmp.Or(s.o.maxURL, 4096):
		return fmt.Errorf("the URL is longer than %d bytes", cmp.Or(s.o.maxURL, 4096))
	case s.o.Domains != nil && !s.named(u.Hostname()):
		return fmt.Errorf("%q: the host is not allowed", u.Hostname())
	}
	if s.o.Ports != nil {
		port, _ := strconv.Atoi(u.Port())
		if port == 0 {
			port = map[string]int{"http": 80, "https": 443}[u.Scheme]
		}
		if !slices.Contains(s.o.Ports, port) {
			return fmt.Errorf("port %d is not allowed", port)
		}
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && s.refuses(ip) {
		return fmt.Errorf("%s is a private address", ip)
	}
	return nil
}

func (s *webhookSender) named(host string) bool {
	return slices.ContainsFunc(s.o.Domains, func(d string) bool {
		ok, err := path.Match(d, host)
		return ok && err == nil
	})
}

// refuses reports whether an address is private and not permitted.
func (s *webhookSender) refuses(ip netip.Addr) bool {
	switch {
	case s.o.AllowPrivate, !private(ip), s.o.loopback && plainAddr(ip).IsLoopback():
		return false
	}
	return !s.lists(ip)
}

// lists reports whether Domains contains an address. Patterns do not count: "*" and "10.*"
// match only names.
func (s *webhookSender) lists(ip netip.Addr) bool {
	return slices.ContainsFunc(s.o.Domains, func(d string) bool {
		listed, err := netip.ParseAddr(d)
		return err == nil && plainAddr(listed) == plainAddr(ip)
	})
}

// checkAddress rejects connections to private addresses. It is called with the resolved address
// of every connection.
func (s *webhookSender) checkAddress(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if s.refuses(to.Addr()) {
		return fmt.Errorf("%s is a private address", to.Addr())
	}
	return nil
}

// sendHook delivers a webhook and counts it.
func (s *Server) sendHook(ctx context.Context, h *ledger.Hook) error {
	err := s.hooks.send(ctx, h)
	result := "delivered"
	if err != nil {
		result = "failed"
	}
	s.metrics.hooks.WithLabelValues(result).Inc()
	return err
}

// send delivers a webhook.
func (s *webhookSender) send(ctx context.Context, h *ledger.Hook) error {
	if err := s.check(h.URL); err != nil { // the configuration may have changed since the run was created
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(h.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range s.o.Headers {
		req.Header.Set(name, value)
	}
	if s.o.Secret != nil {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, s.o.Secret)
		fmt.Fprintf(mac, "%s.", now)
		mac.Write(h.Body)
		req.Header.Set("X-Treadle-Timestamp", now)
		req.Header.Set("X-Treadle-Signature", hex.EncodeToString(mac.Sum(nil)))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode >= 300 {
		return fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return nil
}
