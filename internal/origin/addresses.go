package origin

import (
	"net/netip"
	"net/url"
	"strings"
)

// specialPurpose lists the addresses that are not public: the IANA IPv4 and IPv6
// Special-Purpose Address Registries (RFC 6890 and its updates), and the multicast and
// deprecated blocks of the IANA address space registries. It includes blocks that the
// registries call globally reachable, such as the AS112 blocks, because no public
// server uses them. It omits two prefixes, because Public checks the IPv4 address that they contain:
// IPv4-mapped addresses (::ffff:0:0/96) and the well-known NAT64 prefix (64:ff9b::/96).
var specialPurpose = []struct {
	prefix netip.Prefix
	name   string
}{
	// IPv4
	{netip.MustParsePrefix("0.0.0.0/8"), "this network (RFC 791)"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared address space (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback (RFC 1122)"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link local (RFC 3927)"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.0.0.0/24"), "IETF protocol assignments (RFC 6890)"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation, TEST-NET-1 (RFC 5737)"},
	{netip.MustParsePrefix("192.31.196.0/24"), "AS112-v4 (RFC 7535)"},
	{netip.MustParsePrefix("192.52.193.0/24"), "AMT (RFC 7450)"},
	{netip.MustParsePrefix("192.88.99.0/24"), "deprecated 6to4 relay anycast (RFC 7526)"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.175.48.0/24"), "direct delegation AS112 service (RFC 7534)"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking (RFC 2544)"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation, TEST-NET-2 (RFC 5737)"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation, TEST-NET-3 (RFC 5737)"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast (RFC 5771)"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved, and limited broadcast (RFC 1112, RFC 8190)"},

	// IPv6
	{netip.MustParsePrefix("::/96"), "unspecified, loopback, and deprecated IPv4-compatible (RFC 4291)"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "IPv4-translated (RFC 2765)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local-use IPv4/IPv6 translation (RFC 8215)"},
	{netip.MustParsePrefix("100::/64"), "discard only (RFC 6666)"},
	{netip.MustParsePrefix("100:0:0:1::/64"), "dummy prefix (RFC 9780)"},
	{netip.MustParsePrefix("2001::/23"), "IETF protocol assignments (RFC 2928): Teredo, benchmarking, AMT, AS112-v6, ORCHID, and others"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation (RFC 3849)"},
	{netip.MustParsePrefix("2002::/16"), "6to4 (RFC 3056)"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "direct delegation AS112 service (RFC 7534)"},
	{netip.MustParsePrefix("3fff::/20"), "documentation (RFC 9637)"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing SIDs (RFC 9602)"},
	{netip.MustParsePrefix("fc00::/7"), "unique local (RFC 4193)"},
	{netip.MustParsePrefix("fe80::/10"), "link local (RFC 4291)"},
	{netip.MustParsePrefix("fec0::/10"), "deprecated site local (RFC 3879)"},
	{netip.MustParsePrefix("ff00::/8"), "multicast (RFC 4291)"},
}

// nat64 is the well-known prefix of addresses that a NAT64 gateway translates to the IPv4
// address in their last 32 bits (RFC 6052). In a network without IPv4, every public IPv4 host
// has an address with this prefix.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Plain returns an address without its zone. For an IPv4-mapped or NAT64 address, it returns
// the IPv4 address that a connection reaches.
func Plain(ip netip.Addr) netip.Addr {
	ip = ip.WithZone("").Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}

// Public reports whether an address is one of the Internet.
func Public(ip netip.Addr) bool {
	ip = Plain(ip)
	if !ip.IsValid() {
		return false
	}
	for i := range specialPurpose {
		if specialPurpose[i].prefix.Contains(ip) {
			return false
		}
	}
	return true
}

// PublicName reports whether the host of a URL is a public address, or a name that may have
// one. Other spellings of addresses, such as 2130706433 and 0x7f.1, are not names.
func PublicName(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return Public(ip)
	}
	labels := strings.Split(strings.TrimSuffix(strings.ToLower(host), "."), ".")
	last := labels[len(labels)-1]
	if len(labels) == 1 || last == "" || last[0] >= '0' && last[0] <= '9' {
		return false
	}
	switch last {
	case "arpa", "internal", "lan", "local", "localhost":
		return false
	}
	return true
}

// PublicURL reports whether a link that a peer names may be fetched, for instance by the provider of
// a model: it is http or https, without a user, and its host is public. Any other link is text to
// programs.
func PublicURL(link string) bool {
	u, err := url.Parse(link)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.User == nil && PublicName(u.Hostname())
}
