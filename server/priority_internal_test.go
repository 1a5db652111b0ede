package server

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

func TestPriorityOfCronRuns(t *testing.T) {
	var cron, user string
	s, _ := serveGraphs(t, &Options{Priority: func(ctx context.Context, p *PriorityContext) (int, error) {
		cron, user = p.Cron, UserFrom(ctx).Identity
		return 2, nil
	}}, whoami(t))
	owner := "ann"
	c := &ledger.Cron{ID: uuid.New(), UserID: &owner, Payload: json.RawMessage(`{"assistant_id":"whoami"}`)}
	n, err := s.cronRun(t.Context(), c, time.Now())
	if err != nil || n.Priority == nil || *n.Priority != 2 || cron != c.ID.String() || user != owner {
		t.Errorf("run %+v of cron %q for %q: %v", n, cron, user, err)
	}
}
