// Package sse reads streams of server-sent events (text/event-stream), by the
// rules of the WHATWG's HTML standard.
package sse
