// Package e2e drives the built binary from outside: command line, HTTP over the socket,
// kills and races. It holds tests and what they share, and nothing that is shipped.
package e2e
