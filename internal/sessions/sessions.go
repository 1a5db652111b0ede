// Package sessions limits the MCP sessions that the clients of a server hold open.
package sessions

import (
	"cmp"
	"fmt"
	"iter"
	"sync"
)

// Default limits.
const (
	DefaultTotal   = 1000
	DefaultPerUser = 100
)

// FullError reports the limit that a new session would exceed.
type FullError struct {
	Limit   int
	PerUser bool // otherwise, the limit is for all users
}

func (e *FullError) Error() string {
	if e.PerUser {
		return fmt.Sprintf("too many MCP sessions: at most %d per user: close one or try again later", e.Limit)
	}
	return fmt.Sprintf("too many MCP sessions: at most %d: try again later", e.Limit)
}

// A Limiter counts open sessions. It is safe for concurrent use.
type Limiter struct {
	total, perUser int
	live           func() iter.Seq[string]

	mu       sync.Mutex
	starting int
	open     map[string]string // users by session ID
	held     map[string]int    // open and starting sessions by user
}

// New returns a limiter. A limit of 0 means the default. live returns the IDs of the server's sessions.
func New(total, perUser int, live func() iter.Seq[string]) *Limiter {
	return &Limiter{total: cmp.Or(total, DefaultTotal), perUser: cmp.Or(perUser, DefaultPerUser), live: live,
		open: map[string]string{}, held: map[string]int{}}
}

// Start reserves a session for a user. It returns a [FullError] if the user, or all users together, hold too
// many. The caller must call started with the ID of the new session, or "" if there is none.
func (l *Limiter) Start(user string) (started func(id string), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = l.full(user); err != nil {
		l.prune()
		err = l.full(user)
	}
	if err != nil {
		return nil, err
	}
	l.starting++
	l.held[user]++
	return func(id string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.starting--
		if id != "" {
			l.open[id] = user
		} else {
			l.release(user)
		}
	}, nil
}

func (l *Limiter) full(user string) error {
	switch {
	case l.held[user] >= l.perUser:
		return &FullError{l.perUser, true}
	case l.starting+len(l.open) >= l.total:
		return &FullError{l.total, false}
	}
	return nil
}

// prune forgets the sessions that have ended.
func (l *Limiter) prune() {
	live := map[string]bool{}
	for id := range l.live() {
		live[id] = true
	}
	for id, user := range l.open {
		if !live[id] {
			delete(l.open, id)
			l.release(user)
		}
	}
}

func (l *Limiter) release(user string) {
	l.held[user]--
	if l.held[user] == 0 {
		delete(l.held, user)
	}
}
