package memory

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/treadle-go/treadle/store"
)

// A Rating is what a recalled memory did for an answer.
type Rating int

// The ratings of [Recaller.Rate].
const (
	Helped Rating = 1
	Misled Rating = -1
)

// ratings counts the ratings of a memory. Like its uses, they are stored in a separate item,
// because a rating must not create a new version of the memory. They are not in the item of
// the uses, because a recall that counts a use would overwrite a concurrent rating.
type ratings struct {
	Helped int `json:"helped"`
	Misled int `json:"misled"`
}

// ratingsForHalf is the number of equal ratings at which [Reasons].Rating is 0.5 or -0.5.
const ratingsForHalf = 2

// value returns the rating from -1 to 1.
func (r ratings) value() float64 {
	helped, misled := float64(r.Helped), float64(r.Misled)
	return (helped - misled) / (helped + misled + ratingsForHalf)
}

// ratingsOf returns the namespace of the ratings of memories in a namespace. It is under that
// of the uses, so both are exported and erased together.
func ratingsOf(n store.Namespace) store.Namespace { return append(usesOf(n), usesRoot) }

// rateable reports whether memories in a namespace can be rated. The namespace of the ratings
// is longer and may exceed the maximum length.
func rateable(n store.Namespace) bool { return len(ratingsOf(n).Encode()) <= store.MaxNamespace }

// Rate records whether memories that [Recaller.Recall] returned helped to answer or misled.
// Later recalls rank a memory by its ratings; see [Weights]. Rating a memory does not change it
// and creates no version of it. Rate returns an error if a memory is not under the recaller's
// namespace. Its errors may leave some of several memories rated.
func (r *Recaller) Rate(ctx context.Context, rating Rating, ms ...Recalled) error {
	if rating != Helped && rating != Misled {
		return fmt.Errorf("memory: unknown rating %d: use Helped or Misled", rating)
	}
	n, err := r.ns.resolve(ctx)
	if err != nil {
		return err
	}
	s, err := storeFor(ctx, r.o.Store)
	if err != nil {
		return err
	}
	for _, m := range ms {
		switch {
		case m.Item == nil:
			return errors.New("memory: rate a memory without Item: pass the results of Recall")
		case !m.Item.Namespace.HasPrefix(n):
			return fmt.Errorf("memory: rate %q in %v: not under the namespace of the recaller, %v", m.Item.Key, m.Item.Namespace, n)
		case !rateable(m.Item.Namespace):
			return fmt.Errorf("memory: rate %q: namespace is too long for ratings", m.Item.Key)
		}
	}
	for _, m := range ms {
		if err := rate(ctx, s, m.Item, rating); err != nil {
			return fmt.Errorf("memory: rate %q: %w", m.Item.Key, err)
		}
	}
	return nil
}

// rate stores a rating, after those that others store at the same time.
func rate(ctx context.Context, s *store.Store, item *store.Item, rating Rating) error {
	for {
		old, err := s.Get(ctx, ratingsOf(item.Namespace), item.Key, nil)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		var version int64
		var sum ratings
		if old != nil {
			version, sum = old.Version, decodeRatings(old)
		}
		if rating == Helped {
			sum.Helped = min(sum.Helped, math.MaxInt32) + 1
		} else {
			sum.Misled = min(sum.Misled, math.MaxInt32) + 1
		}
		err = s.Put(ctx, ratingsOf(item.Namespace), item.Key, sum, &store.PutOptions{NoIndex: true, TTL: store.Forever, IfVersion: version, IfAbsent: version == 0})
		if _, lost := errors.AsType[*store.ConflictError](err); !lost || ctx.Err() != nil {
			return err
		}
	}
}

// decodeRatings returns the ratings in an item. Programs with access to the store can write
// anything there, which must not make recall fail or a score infinite.
func decodeRatings(item *store.Item) (r ratings) {
	if item.Decode(&r) != nil || r.Helped < 0 || r.Misled < 0 {
		return ratings{}
	}
	return r
}

// readRatings returns the ratings of items, by item ID.
func readRatings(ctx context.Context, s *store.Store, items []*store.Item) (map[string]ratings, error) {
	found, err := readBeside(ctx, s, items, rateable, ratingsOf)
	out := make(map[string]ratings, len(found))
	for id, item := range found {
		out[id] = decodeRatings(item)
	}
	return out, err
}

// addRatings returns the ratings with those of both sides added.
func addRatings(c store.Conflict) ratings {
	var base ratings
	if c.Base != nil {
		base = decodeRatings(c.Base)
	}
	ours, theirs := decodeRatings(c.Branch), decodeRatings(c.Target)
	return ratings{max(0, ours.Helped-base.Helped) + theirs.Helped, max(0, ours.Misled-base.Misled) + theirs.Misled}
}
