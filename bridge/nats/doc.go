// Package nats carries a daemon's words over NATS: it connects out, serves requests on
// subjects that are named by root key, mirrors cards into a key-value bucket, and copies
// the audit log to a stream.
//
// It decides nothing and knows no identity: requests go to the handler that serves HTTP,
// which asks each for a token, and answers to the engine, which asks each for a signature.
// What the servers let through is a wall before those two, never in place of one. Nothing
// that must hold depends on a server: without one the daemon reviews, decides and runs as
// before, and what was not mirrored follows later.
//
// It cannot hide from whoever runs the servers that a request was made, by which subject,
// and what an agent sent with it. Cards are sealed for the hub.
package nats
