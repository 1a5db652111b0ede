package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Crons has the requests about runs on a schedule.
type Crons struct{ c *Client }

// Cron is a schedule of runs.
type Cron struct {
	ID          string          `json:"cron_id"`
	Assistant   string          `json:"assistant_id"`
	Thread      string          `json:"thread_id"` // "" if each run has a new one
	OnCompleted string          `json:"on_run_completed"`
	Schedule    string          `json:"schedule"`
	Timezone    string          `json:"timezone"`
	End         time.Time       `json:"end_time"`      // zero if there is none
	Next        time.Time       `json:"next_run_date"` // zero if it is over
	Enabled     bool            `json:"enabled"`
	Payload     json.RawMessage `json:"payload"` // of the request that made it
	Metadata    map[string]any  `json:"metadata"`
	UserID      string          `json:"user_id"`
	Created     time.Time       `json:"created_at"`
	Updated     time.Time       `json:"updated_at"`
}

// CronCreate says how a cron is created, or what Update changes of it.
type CronCreate struct {
	// Schedule has five fields: minute, hour, day of the month, month, day of the week.
	Schedule string `json:"schedule,omitempty"`
	Timezone string `json:"timezone,omitempty"` // such as "Europe/Berlin"; "" means UTC
	// End is when the cron ends; nil means never, and in an update that it stays.
	End *time.Time `json:"end_time,omitempty"`
	// OnCompleted says what happens to the thread of a run that has none of its own: "delete",
	// the default, or "keep".
	OnCompleted string    `json:"on_run_completed,omitempty"`
	Enabled     *bool     `json:"enabled,omitempty"` // nil means true, and in an update that it stays
	Run         RunCreate `json:"-"`                 // what runs; its Assistant may be empty in an update
}

// MarshalJSON writes the body of a request: the fields of the cron and those of its runs.
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

// Create creates a cron whose runs are on a thread, or each on a new one if thread is "".
func (s Crons) Create(ctx context.Context, thread string, o *CronCreate) (*Cron, error) {
	return object[Cron](ctx, s.c, write(runsPath(thread, "crons"), orEmpty(o)))
}

// Get returns a cron.
func (s Crons) Get(ctx context.Context, id string) (*Cron, error) {
	return object[Cron](ctx, s.c, get(pathOf("runs", "crons", id), nil))
}

// Update changes a cron. Fields of o that are empty stay as they are.
func (s Crons) Update(ctx context.Context, id string, o *CronCreate) (*Cron, error) {
	return object[Cron](ctx, s.c, &request{method: http.MethodPatch, path: pathOf("runs", "crons", id), body: orEmpty(o), repeatable: true})
}

// Delete deletes a cron.
func (s Crons) Delete(ctx context.Context, id string) error {
	return s.c.call(ctx, remove(pathOf("runs", "crons", id), nil), nil)
}

// CronSearch says which crons are wanted. The zero value, and nil, find all.
type CronSearch struct {
	Assistant string         `json:"assistant_id,omitempty"`
	Thread    string         `json:"thread_id,omitempty"`
	Enabled   *bool          `json:"enabled,omitempty"` // nil means both
	Metadata  map[string]any `json:"metadata,omitempty"`
	Page
}

// Search finds crons, the newest first by default.
func (s Crons) Search(ctx context.Context, o *CronSearch) ([]Cron, error) {
	return list[Cron](ctx, s.c, read("/runs/crons/search", orEmpty(o)))
}

// Count counts the crons that Search would find with no limit.
func (s Crons) Count(ctx context.Context, o *CronSearch) (int, error) {
	o = orEmpty(o)
	return number(ctx, s.c, read("/runs/crons/count", &CronSearch{Assistant: o.Assistant, Thread: o.Thread, Enabled: o.Enabled, Metadata: o.Metadata}))
}
