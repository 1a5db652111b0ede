package store

import (
	"context"
	"errors"
)

// NewMemoryBackend makes a backend that keeps everything in the process. It is
// what [NewMemory] stands on, and what suites compare other backends with.
func NewMemoryBackend() Backend { return &memory{} }

type memory struct{}

var errUnfinished = errors.New("store: not built yet")

func (m *memory) Do(ctx context.Context, b *Batch) (*Results, error) { return nil, errUnfinished }
func (m *memory) History(ctx context.Context, n Namespace, key string) ([]*Record, error) {
	return nil, errUnfinished
}
func (m *memory) Changes(ctx context.Context, prefix Namespace, after int64, limit int) ([]*Record, int64, error) {
	return nil, 0, errUnfinished
}
func (m *memory) Wait(ctx context.Context, seq int64) error { return errUnfinished }
func (m *memory) Sweep(ctx context.Context, s Sweep) (int, int, error) {
	return 0, 0, errUnfinished
}
func (m *memory) Stale(ctx context.Context, stamp string, after int64, limit int) ([]*Record, error) {
	return nil, errUnfinished
}
func (m *memory) Reindex(ctx context.Context, by map[int64]Indexed) error { return errUnfinished }
