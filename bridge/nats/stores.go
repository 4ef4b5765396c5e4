package nats

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"holdpoint/op"
)

// How long things are kept on the servers.
const (
	cardsLife  = 30 * 24 * time.Hour // entries of cards; one that still waits is written anew at the next connection
	duplicates = time.Hour           // within which a line that comes twice is dropped by its number alone
)

// MakeStores makes the buckets and the stream where they are not there yet; what is there
// stays as the operator of the servers set it up.
func MakeStores(ctx context.Context, c *nats.Conn, replicas int, beats time.Duration) error {
	js, err := jetstream.New(c, jetstream.WithDefaultTimeout(jsWait))
	if err != nil {
		return err
	}
	if beats == 0 {
		beats = beat
	}
	for _, b := range []jetstream.KeyValueConfig{
		{Bucket: Cards, Description: "Holdpoint: cards that wait for a person", Replicas: replicas, TTL: cardsLife, Storage: jetstream.FileStorage},
		{Bucket: Presence, Description: "Holdpoint: which daemon serves a root", Replicas: replicas, TTL: beatsOfLife * beats, Storage: jetstream.FileStorage},
	} {
		if _, err := js.KeyValue(ctx, b.Bucket); err == nil {
			continue
		}
		if _, err := js.CreateKeyValue(ctx, b); err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return op.Fail(op.NotReady, "the bucket "+b.Bucket+" cannot be made").Because(err)
		}
	}
	if _, err := js.Stream(ctx, Audit); err == nil {
		return nil
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: Audit, Description: "Holdpoint: audit lines of all daemons", Subjects: []string{AuditSubject("*")},
		Replicas: replicas, Storage: jetstream.FileStorage, Duplicates: duplicates, DenyDelete: true, DenyPurge: true, AllowDirect: true})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return op.Fail(op.NotReady, "the stream "+Audit+" cannot be made").Because(err)
	}
	return nil
}
