// Package origin keeps credentials to the host that they are for. Package http
// takes the Authorization header off a redirect to another host, and keeps all
// other headers, in which most providers of models want their keys.
package origin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Of is the scheme and the host of an address: what may be shown of it.
func Of(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an address that cannot be read"
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// Only is the client, as one that follows redirects within the host of home only.
// Nil is [http.DefaultClient].
func Only(c *http.Client, home string) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	out := *c
	home = Of(home)
	out.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if to := Of(r.URL.String()); to != home {
			return fmt.Errorf("it redirects to %s, another host than %s: if that is right, set the URL to it", to, home)
		}
		if c.CheckRedirect != nil {
			return c.CheckRedirect(r, via)
		}
		if len(via) >= 10 {
			return errors.New("it redirects more than 10 times")
		}
		return nil
	}
	return &out
}
