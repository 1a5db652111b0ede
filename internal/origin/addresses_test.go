package origin

import (
	"net/netip"
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

func TestPublicAddresses(t *testing.T) {
	private := []string{
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
		private = append(private, p.Addr().String(), last(p).String())
	}
	for _, a := range private {
		if Public(netip.MustParseAddr(a)) {
			t.Errorf("%s is public", a)
		}
	}
	for _, a := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "172.15.255.255", "172.32.0.0",
		"192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "2a00:1450::1", "3ffe::1", "4000::1",
	} {
		if !Public(netip.MustParseAddr(a)) {
			t.Errorf("%s is private", a)
		}
	}
}
