// Package oteltest tests package oteltreadle together with servers, clients, and MCP: a
// collector decodes the spans and metrics that several processes send over OTLP.
package oteltest
