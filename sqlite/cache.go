package sqlite

import (
	"context"
	"crypto/sha256"
	"math"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Cache implements [checkpoint.Cacher]. The cache is in the same file and is closed with
// the DB.
func (db *DB) Cache() checkpoint.Cache { return (*cache)(db) }

// cache is the DB itself, so all results of Cache are the same cache.
type cache DB

func (k *cache) db() *DB { return (*DB)(k) }

// sweep is the maximum number of expired values that a Set removes. Because a Set adds
// only one value, expired values cannot accumulate.
const sweep = 8

// Get implements [checkpoint.Cache].
func (k *cache) Get(ctx context.Context, space, key string) (value []byte, ok bool, err error) {
	err = k.db().conn.Read(ctx, func(c *database.Conn) (err error) {
		var expires, sum int64
		ok, err = c.Row("SELECT value, expires, sum FROM cache WHERE space=? AND key=? AND (expires IS NULL OR expires>?)",
			[]any{[]byte(space), hash(key), time.Now().UnixNano()}, &value, &expires, &sum)
		if ok && !database.Intact(sum, cacheSum([]byte(space), hash(key), value, expires)) {
			// The value can be computed again, so this is not worth an error.
			k.conn.Log.WarnContext(ctx, "sqlite: ignored damaged cached result", "path", k.conn.Path, "space", space)
			value, ok = nil, false
		}
		return err
	})
	return value, ok, err
}

// Set implements [checkpoint.Cache].
func (k *cache) Set(ctx context.Context, space, key string, value []byte, ttl time.Duration) error {
	return k.db().conn.WriteKeeping(ctx, func(c *database.Conn) error {
		now := time.Now()
		var expires any
		var until int64
		if ttl > 0 {
			until = deadline(now, ttl)
			expires = until
		}
		_, err := c.Change(`INSERT INTO cache(space,key,value,expires,sum) VALUES(?,?,?,?,?)
			ON CONFLICT(space,key) DO UPDATE SET value=excluded.value, expires=excluded.expires, sum=excluded.sum`, []byte(space), hash(key), value, expires,
			cacheSum([]byte(space), hash(key), value, until))
		if err != nil {
			return err
		}
		_, err = c.Change("DELETE FROM cache WHERE rowid IN (SELECT rowid FROM cache WHERE expires<=? ORDER BY expires LIMIT ?+0)", now.UnixNano(), sweep)
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
	return k.db().conn.EraseKeeping(ctx, func(c *database.Conn) error {
		if len(spaces) == 0 {
			_, err := c.Change("DELETE FROM cache")
			return err
		}
		for _, space := range spaces {
			if _, err := c.Change("DELETE FROM cache WHERE space=?", []byte(space)); err != nil {
				return err
			}
		}
		return nil
	}, func() bool { return true })
}

// hash hashes a key to keep keys, which are often whole inputs, out of the index.
func hash(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}
