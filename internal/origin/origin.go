// Package origin restricts credentials to the host that they are for, and tells public
// addresses from private ones. On a redirect to another host, package http removes the
// Authorization header but keeps all other headers, and most model providers expect their
// keys in other headers.
package origin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Of returns the scheme and host of an address, the parts that may be shown.
func Of(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an invalid address"
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// Only returns a copy of c that follows redirects only within the host of home. A nil c
// means [http.DefaultClient].
func Only(c *http.Client, home string) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	out := *c
	home = Of(home)
	out.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if to := Of(r.URL.String()); to != home {
			return fmt.Errorf("redirect to %s, another host than %s: if this is intended, set the URL to it", to, home)
		}
		if c.CheckRedirect != nil {
			return c.CheckRedirect(r, via)
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
	return &out
}
