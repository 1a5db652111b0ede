package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

func TestWebhooksReachPublicAddressesOnly(t *testing.T) {
	s := New(Options{})
	for _, a := range []string{
		"127.0.0.1", "10.0.0.1", "169.254.169.254", "255.255.255.255", "64:ff9b::a9fe:a9fe", "::1", "::ffff:127.0.0.1", "fd00:ec2::254", "fe80::1%eth0",
	} {
		ip := netip.MustParseAddr(a)
		host := a
		if ip.Is6() {
			host = "[" + strings.ReplaceAll(a, "%", "%25") + "]"
		}
		if err := s.Check("https://" + host + "/hook"); err == nil {
			t.Errorf("%s is accepted in a URL", host)
		}
		if err := s.checkAddress("tcp", netip.AddrPortFrom(ip, 443).String(), nil); err == nil {
			t.Errorf("a connection to %s is accepted", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::1111"} {
		if err := s.checkAddress("tcp", netip.AddrPortFrom(netip.MustParseAddr(a), 443).String(), nil); err != nil {
			t.Errorf("a connection to %s is rejected: %v", a, err)
		}
	}
}

func TestWebhookListAllowsExactAddress(t *testing.T) {
	for _, tt := range []struct {
		domains []string
		host    string
		ok      bool
	}{
		{[]string{"10.0.0.1"}, "10.0.0.1", true},
		{[]string{"10.0.0.1"}, "10.0.0.2", false},
		{[]string{"::1"}, "[::1]", true},
		{[]string{"*"}, "10.0.0.1", false},
		{[]string{"10.*"}, "10.0.0.1", false},
		{[]string{"*.169.254"}, "169.254.169.254", false},
		{[]string{"*"}, "example.com", true},
	} {
		s := New(Options{Domains: tt.domains})
		if err := s.Check("http://" + tt.host + "/"); (err == nil) != tt.ok {
			t.Errorf("%v: %s: %v", tt.domains, tt.host, err)
		}
	}
}

// A name is resolved when the webhook is sent, and a redirect is not followed.
func TestWebhookChecksResolvedAddress(t *testing.T) {
	var hits atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer receiver.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(receiver.URL, "http://"), ":")
	named := "http://localhost:" + port
	s := New(Options{})
	if err := s.Check(named); err != nil {
		t.Fatal(err) // a name is not resolved before
	}
	if err := s.Send(t.Context(), named, []byte("{}")); err == nil || !strings.Contains(err.Error(), "private address") {
		t.Errorf("a name of a private address: %v", err)
	}
	from := httptest.NewServer(http.RedirectHandler(named, http.StatusTemporaryRedirect))
	defer from.Close()
	s = New(Options{Domains: []string{"127.0.0.1"}})
	if err := s.Send(t.Context(), from.URL, []byte("{}")); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("a redirect: %v", err)
	}
	if err := s.Send(t.Context(), named, []byte("{}")); err == nil {
		t.Error("a webhook is sent to a host that is no longer allowed")
	}
	if hits.Load() != 0 {
		t.Errorf("the receiver got %d requests", hits.Load())
	}
}

// A client chooses the address of a notification, so its receiver must not get the operator's secrets.
func TestPushKeepsSecretsOfOperator(t *testing.T) {
	var got http.Header
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer receiver.Close()
	for _, tt := range []struct {
		domains []string
		trusted bool
	}{{nil, false}, {[]string{"*"}, false}, {[]string{"*.*"}, false}, {[]string{"127.0.0.1"}, true}} {
		s := New(Options{Domains: tt.domains, AllowLoopback: true, Headers: map[string]string{"X-Key": "secret"}, Secret: []byte("k")})
		if err := s.Send(t.Context(), receiver.URL, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		own := got
		if own.Get("X-Key") != "secret" || own.Get("X-Treadle-Signature") == "" {
			t.Errorf("%q: webhook with headers %v", tt.domains, own)
		}
		if err := s.Push(t.Context(), receiver.URL, map[string]string{"Authorization": "Bearer c"}, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		signature := got.Get("X-Treadle-Signature")
		if got.Get("Authorization") != "Bearer c" || (got.Get("X-Key") == "secret") != tt.trusted || (signature != "") != tt.trusted {
			t.Errorf("%q: notification with headers %v", tt.domains, got)
		}
		mac := hmac.New(sha256.New, []byte("k"))
		mac.Write([]byte("push." + got.Get("X-Treadle-Timestamp") + ".{}"))
		if tt.trusted && signature != hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("%q: signature %s", tt.domains, signature)
		}
	}
}

// Errors are logged, and an address may contain a secret.
func TestErrorsHideAddress(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, o := range []Options{{AllowLoopback: true}, {AllowLoopback: true, RequireHTTPS: true}, {Domains: []string{"example.com"}}, {}} {
		for _, address := range []string{gone.URL + "/secret?key=secret", "secret://127.0.0.1/?key=secret", "/secret", "http://127.0.0.1/\x7f?secret"} {
			s := New(o)
			for _, err := range []error{s.Send(t.Context(), address, nil), s.Push(t.Context(), address, nil, nil)} {
				if err == nil || strings.Contains(strings.ReplaceAll(err.Error(), "secret://127.0.0.1", ""), "secret") && !strings.HasPrefix(address, "secret:") {
					t.Errorf("%s: %v", address, err)
				}
			}
		}
	}
}
