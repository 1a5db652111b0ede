// Package webhooks delivers the results of runs to webhooks, unless their address is private or
// not permitted.
package webhooks

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
	"strings"
	"syscall"
	"time"

	"github.com/treadle-go/treadle/internal/origin"
)

// Options configures a Sender. Its fields are those of server.Webhooks.
type Options struct {
	Domains       []string // nil means all
	Ports         []int    // nil means all
	RequireHTTPS  bool
	AllowPrivate  bool
	AllowLoopback bool
	MaxURL        int // in bytes; 0 means 4096
	Headers       map[string]string
	Secret        []byte
	Disable       bool
}

// A Sender checks the addresses of webhooks and delivers them. It is safe for concurrent use.
type Sender struct {
	o      Options
	client *http.Client
}

// New returns a sender.
func New(o Options) *Sender {
	s := &Sender{o: o}
	// The address is checked on connection, because a name may resolve to another address by
	// then.
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: s.checkAddress}
	// Redirects are not followed: they could name an address that Check would reject.
	s.client = &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// Disabled reports whether no webhooks may be sent.
func (s *Sender) Disabled() bool { return s.o.Disable }

// Check returns an error if webhooks may not be sent to an address.
func (s *Sender) Check(text string) error {
	if s.o.Disable {
		return errors.New("webhooks are disabled")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("%q is not an absolute URL", text)
	case u.Scheme != "https" && (u.Scheme != "http" || s.o.RequireHTTPS):
		return fmt.Errorf("%q: scheme %q is not allowed", text, u.Scheme)
	case len(text) > cmp.Or(s.o.MaxURL, 4096):
		return fmt.Errorf("URL is longer than %d bytes", cmp.Or(s.o.MaxURL, 4096))
	case s.o.Domains != nil && !s.named(u.Hostname()):
		return fmt.Errorf("%q: host is not allowed", u.Hostname())
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

func (s *Sender) named(host string) bool {
	return slices.ContainsFunc(s.o.Domains, func(d string) bool {
		ok, err := path.Match(d, host)
		return ok && err == nil
	})
}

// refuses reports whether an address is private and not permitted.
func (s *Sender) refuses(ip netip.Addr) bool {
	switch {
	case s.o.AllowPrivate, origin.Public(ip), s.o.AllowLoopback && origin.Plain(ip).IsLoopback():
		return false
	}
	return !s.lists(ip)
}

// lists reports whether Domains contains an address. Patterns do not count: "*" and "10.*"
// match only names.
func (s *Sender) lists(ip netip.Addr) bool {
	return slices.ContainsFunc(s.o.Domains, func(d string) bool {
		listed, err := netip.ParseAddr(d)
		return err == nil && origin.Plain(listed) == origin.Plain(ip)
	})
}

// checkAddress rejects connections to private addresses. It is called with the resolved address
// of every connection.
func (s *Sender) checkAddress(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if s.refuses(to.Addr()) {
		return fmt.Errorf("%s is a private address", to.Addr())
	}
	return nil
}

// Send delivers a webhook, with the operator's headers and signature. Its errors do not contain the
// path and query of the address, which may be secret.
func (s *Sender) Send(ctx context.Context, address string, body []byte) error {
	return s.send(ctx, address, []map[string]string{s.o.Headers}, "", true, body)
}

// Push delivers a notification to an address that a client has chosen, with the headers that the client
// has chosen. Any client of an agent may do so, so the receiver gets the operator's headers and a
// signature only if Options.Domains lists its host. The signature differs from the one that Send
// would write for the same body, so the notification cannot be sent again as a webhook.
func (s *Sender) Push(ctx context.Context, address string, header map[string]string, body []byte) error {
	u, err := url.Parse(address)
	if err != nil || !s.trusts(u.Hostname()) {
		return s.send(ctx, address, []map[string]string{header}, "", false, body)
	}
	return s.send(ctx, address, []map[string]string{s.o.Headers, header}, "push.", true, body)
}

// trusts reports whether Domains lists a host, other than with a pattern for all hosts.
func (s *Sender) trusts(host string) bool {
	return slices.ContainsFunc(s.o.Domains, func(d string) bool {
		ok, err := path.Match(d, host)
		return ok && err == nil && strings.Trim(d, "*?.") != ""
	})
}

func (s *Sender) send(ctx context.Context, address string, headers []map[string]string, purpose string, signed bool, body []byte) error {
	if err := s.Check(address); err != nil { // the configuration may have changed since the run was created
		return fmt.Errorf("address not permitted: %s", strings.ReplaceAll(err.Error(), strconv.Quote(address), strconv.Quote(origin.Of(address))))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("invalid address")
	}
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		for name, value := range h {
			req.Header.Set(name, value)
		}
	}
	if signed && s.o.Secret != nil {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, s.o.Secret)
		fmt.Fprintf(mac, "%s%s.", purpose, now)
		mac.Write(body)
		req.Header.Set("X-Treadle-Timestamp", now)
		req.Header.Set("X-Treadle-Signature", hex.EncodeToString(mac.Sum(nil)))
	}
	resp, err := s.client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("post to %s: %w", origin.Of(address), failed.Err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode >= 300 {
		return fmt.Errorf("receiver responded with %s", resp.Status)
	}
	return nil
}
