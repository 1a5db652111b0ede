package server

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// CORS configures which web pages may call the server.
type CORS struct {
	Origins     []string // "https://example.com", or "*" for all
	Methods     []string // nil means all methods of the server
	Headers     []string // nil means all headers that a page requests
	Expose      []string // in addition to the headers that LangGraph's clients read
	Credentials bool     // allow cookies; excludes the origin "*"
	MaxAge      int      // how long browsers may cache the result, in seconds

	// Pattern matches further origins; nil means none. Anchor it with ^ and $.
	Pattern *regexp.Regexp
}

// all reports whether pages of every origin may call the server.
func (o *CORS) all() bool { return slices.Contains(o.Origins, "*") && !o.Credentials }

// allows reports whether pages of an origin may call the server. A nil *CORS allows none.
func (o *CORS) allows(origin string) bool {
	return o != nil && (o.all() || slices.Contains(o.Origins, origin) || o.Pattern != nil && o.Pattern.MatchString(origin))
}

// exposed lists the headers that LangGraph's clients read.
const exposed = "content-location,location,x-pagination-total,x-pagination-next"

// cors adds the CORS headers. It reports whether it has answered the request, which was then a
// browser's preflight request.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store") // responses are for the caller alone
	o := s.o.CORS
	origin := r.Header.Get("Origin")
	switch {
	case origin == "" || !o.allows(origin):
		return false
	case o.all():
		h.Set("Access-Control-Allow-Origin", "*")
	default:
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
	}
	if o.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	expose := exposed
	if len(o.Expose) > 0 {
		expose += "," + strings.Join(o.Expose, ",")
	}
	h.Set("Access-Control-Expose-Headers", expose)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	methods := "GET,HEAD,PUT,POST,DELETE,PATCH"
	if o.Methods != nil {
		methods = strings.Join(o.Methods, ",")
	}
	h.Set("Access-Control-Allow-Methods", methods)
	headers := r.Header.Get("Access-Control-Request-Headers")
	if o.Headers != nil {
		headers = strings.Join(o.Headers, ",")
	}
	if headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
	if o.MaxAge > 0 {
		h.Set("Access-Control-Max-Age", strconv.Itoa(o.MaxAge))
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
