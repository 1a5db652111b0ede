// Package sse reads streams of server-sent events (text/event-stream), as specified by
// the WHATWG HTML standard.
package sse
