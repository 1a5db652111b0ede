package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Every web page that a user opens can reach a server on the machine's loopback address. The
// page can send cross-origin requests, because CORS hides only the responses, and its name can
// later resolve to the loopback address (DNS rebinding). Without Auth, nothing else
// distinguishes these requests from the user's own, so guard checks the Host and Origin
// headers.

// guard rejects requests from web pages of other sites to a server without authentication on a
// loopback address.
func (s *Server) guard(r *http.Request) error {
	if s.authenticates() || !overLoopback(r) {
		return nil
	}
	if !s.trustsHost(r.Host) {
		return fail(http.StatusForbidden, "Host %q is not allowed: a server without Auth on a loopback address accepts localhost, IP addresses, and the names in Options.Hosts or --allow", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && !s.trustsOrigin(origin, r.Host) {
		return fail(http.StatusForbidden, "Origin %q is not allowed: list it in Options.CORS, http.cors.allow_origins, or --allow", origin)
	}
	return nil
}

// overLoopback reports whether a request arrived over a connection to a loopback address.
func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.AddrPort().Addr().Unmap().IsLoopback()
}

// trustsHost reports whether a Host header names this machine or a host listed in the
// configuration. An IP address cannot be the result of DNS rebinding.
func (s *Server) trustsHost(host string) bool {
	name := hostname(host)
	if name == "" || isLocalName(name) || s.listsHost(name, true) {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// trustsOrigin reports whether pages of an origin may send requests: pages of this machine, of
// listed hosts, of the host named in the request, and of origins that CORS allows.
func (s *Server) trustsOrigin(origin, host string) bool {
	if s.o.CORS.allows(origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false // such as "null", the origin of sandboxed pages and files
	}
	name := hostname(u.Host)
	return isLocalName(name) || isLoopbackHost(name) || s.listsHost(name, false) || strings.EqualFold(u.Host, host)
}

// listsHost reports whether Options.Hosts contains a name. The entry "*" counts only if all is
// set.
func (s *Server) listsHost(name string, all bool) bool {
	return slices.ContainsFunc(s.o.Hosts, func(entry string) bool {
		ok, err := path.Match(hostname(entry), name)
		return ok && err == nil && (all || entry != "*")
	})
}

// hostname returns the host of a Host header in lower case, without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isLocalName reports whether a name always means this machine. RFC 6761 reserves localhost and
// its subdomains.
func isLocalName(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// isLoopbackHost reports whether a Host header is localhost or a loopback address.
func isLoopbackHost(host string) bool {
	name := hostname(host)
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
