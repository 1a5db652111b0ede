package webhooks

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// last returns the greatest address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

func TestWebhooksReachPublicAddressesOnly(t *testing.T) {
	s := New(Options{})
	refused := []string{
		"100.100.100.200", "100.64.0.1", "0.1.2.3", "192.0.0.192", "198.18.0.1", "255.255.255.255", "169.254.169.254", "240.0.0.1",
		"64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::808:808", "2002:7f00:1::", "2001::1", "2001:0:7f00:1::", "2001:2::1", "2001:10::1", "2001:20::1",
		"::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "fec0::1", "fd00:ec2::254", "fe80::1%eth0", "fe80::1%25lo", "::1%lo", "ff02::1",
		"100::1", "3fff::1", "5f00::1", "2001:db8::1",
	}
	for i := range specialPurpose {
		p := specialPurpose[i].prefix
		if p != p.Masked() || specialPurpose[i].name == "" {
			t.Errorf("%s %q", p, specialPurpose[i].name)
		}
		refused = append(refused, p.Addr().String(), last(p).String())
	}
	for _, a := range refused {
		ip := netip.MustParseAddr(a)
		if !s.refuses(ip) {
			t.Errorf("%s is accepted", a)
		}
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
	for _, a := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "172.15.255.255", "172.32.0.0",
		"192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "2a00:1450::1", "3ffe::1", "4000::1",
	} {
		if s.refuses(netip.MustParseAddr(a)) {
			t.Errorf("%s is rejected", a)
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
