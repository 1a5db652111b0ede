package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Crons groups the methods for scheduled runs.
type Crons struct{ c *Client }

// A Cron is a schedule of runs.
type Cron struct {
	ID          string          `json:"cron_id"`
	Assistant   string          `json:"assistant_id"`
	Thread      string          `json:"thread_id"` // "" if each run uses a new thread
	OnCompleted string          `json:"on_run_completed"`
	Schedule    string          `json:"schedule"`
	Timezone    string          `json:"timezone"`
	End         time.Time       `json:"end_time"`      // zero if none
	Next        time.Time       `json:"next_run_date"` // zero if the cron has ended
	Enabled     bool            `json:"enabled"`
	Payload     json.RawMessage `json:"payload"` // of the request that created it
	Metadata    map[string]any  `json:"metadata"`
	UserID      string          `json:"user_id"`
	Created     time.Time       `json:"created_at"`
	Updated     time.Time       `json:"updated_at"`
}

// CronCreate describes a cron to create, or the changes that Update makes.
type CronCreate struct {
	// Schedule has five fields: minute, hour, day of the month, month, day of the week.
	Schedule string `json:"schedule,omitempty"`
	Timezone string `json:"timezone,omitempty"` // such as "Europe/Berlin"; "" means UTC
	// End is the time when the cron ends; nil means never or, in an update, unchanged.
	End *time.Time `json:"end_time,omitempty"`
	// OnCompleted controls what happens to the new thread of a run whose cron has no
	// thread: "delete", the default, or "keep".
	OnCompleted string    `json:"on_run_completed,omitempty"`
	Enabled     *bool     `json:"enabled,omitempty"` // nil means true or, in an update, unchanged
	Run         RunCreate `json:"-"`                 // the run to create; its Assistant may be empty in an update
}

// MarshalJSON encodes the request body: the fields of the cron and those of its runs.
func (c CronCreate) MarshalJSON() ([]byte, error) {
	type plain CronCreate
	own, err := json.Marshal(plain(c))
	if err != nil {
		return nil, err
	}
	run, err := json.Marshal(c.Run)
	if err != nil {
		return nil, err
	}
	body := map[string]json.RawMessage{}
	for _, part := range [][]byte{run, own} {
		if err := json.Unmarshal(part, &body); err != nil {
			return nil, err
		}
	}
	if c.Run.Assistant == "" {
		delete(body, "assistant_id")
	}
	if c.Run.Input == nil {
		delete(body, "input")
	}
	return json.Marshal(body)
}

// Create creates a cron that runs on a thread, or on a new thread each time if thread
// is "".
func (s Crons) Create(ctx context.Context, thread string, opts *CronCreate) (*Cron, error) {
	return object[Cron](ctx, s.c, write(runsPath(thread, "crons"), orEmpty(opts)))
}

// Get returns a cron.
func (s Crons) Get(ctx context.Context, id string) (*Cron, error) {
	return object[Cron](ctx, s.c, get(pathOf("runs", "crons", id), nil))
}

// Update changes a cron. Empty fields of opts are left unchanged.
func (s Crons) Update(ctx context.Context, id string, opts *CronCreate) (*Cron, error) {
	return object[Cron](ctx, s.c, &request{method: http.MethodPatch, path: pathOf("runs", "crons", id), body: orEmpty(opts), repeatable: true})
}

// Delete deletes a cron.
func (s Crons) Delete(ctx context.Context, id string) error {
	return s.c.call(ctx, remove(pathOf("runs", "crons", id), nil), nil)
}

// CronSearch selects crons. A nil *CronSearch, like the zero value, selects all.
type CronSearch struct {
	Assistant string         `json:"assistant_id,omitempty"`
	Thread    string         `json:"thread_id,omitempty"`
	Enabled   *bool          `json:"enabled,omitempty"` // nil means both
	Metadata  map[string]any `json:"metadata,omitempty"`
	Page
}

// Search returns matching crons, newest first by default.
func (s Crons) Search(ctx context.Context, opts *CronSearch) ([]Cron, error) {
	return list[Cron](ctx, s.c, read("/runs/crons/search", orEmpty(opts)))
}

// Count returns the number of crons that Search would find without a limit.
func (s Crons) Count(ctx context.Context, opts *CronSearch) (int, error) {
	opts = orEmpty(opts)
	return number(ctx, s.c, read("/runs/crons/count", &CronSearch{Assistant: opts.Assistant, Thread: opts.Thread, Enabled: opts.Enabled, Metadata: opts.Metadata}))
}
