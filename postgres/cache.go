package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
)

// Cache implements [checkpoint.Cacher]. The cache is in the same schema and is closed
// with the DB. Expiration is checked against the reading process's clock.
func (db *DB) Cache() checkpoint.Cache { return (*cache)(db) }

// cache is the DB itself, so all results of Cache are the same cache.
type cache DB

func (k *cache) db() *DB { return (*DB)(k) }

// Get implements [checkpoint.Cache].
func (k *cache) Get(ctx context.Context, space, key string) (value []byte, ok bool, err error) {
	err = k.db().conn.Read(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, k.db().sql.recall, hash(space), hash(key), time.Now().UnixNano()).Scan(&value)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return value, err == nil, err
}

// Set implements [checkpoint.Cache]. It is idempotent, so it can be resent after a broken
// connection.
func (k *cache) Set(ctx context.Context, space, key string, value []byte, ttl time.Duration) error {
	now := time.Now()
	var expires *int64
	if ttl > 0 {
		expires = new(deadline(now, ttl))
	}
	return k.db().conn.Read(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, k.db().sql.remember, hash(space), hash(key), value, expires, now.UnixNano())
		return err
	})
}

// deadline returns the time when ttl expires in nanoseconds, or the largest value that a
// column can hold.
func deadline(now time.Time, ttl time.Duration) int64 {
	if int64(ttl) > math.MaxInt64-now.UnixNano() {
		return math.MaxInt64
	}
	return now.UnixNano() + int64(ttl)
}

// Clear implements [checkpoint.Cache].
func (k *cache) Clear(ctx context.Context, spaces ...string) error {
	return k.db().conn.Read(ctx, func(c *pgx.Conn) error {
		if len(spaces) == 0 {
			_, err := c.Exec(ctx, k.db().sql.forgetAll)
			return err
		}
		var hashes [][]byte
		for _, space := range spaces {
			hashes = append(hashes, hash(space))
		}
		_, err := c.Exec(ctx, k.db().sql.forget, hashes)
		return err
	})
}

// hash hashes a name to keep names, which are often whole inputs, out of the index.
func hash(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:]
}
