package v2

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

func TestAssistantVersions(t *testing.T) {
	ctx := t.Context()
	g, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(db, []treadle.AnyGraph{g}, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	t.Cleanup(func() {
		err := srv.Drain(context.Background())
		web.Close()
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}

	a, err := c.Assistants.Create(ctx, &client.AssistantCreate{Graph: "essay", Name: "writer", Context: map[string]any{"tone": "dry"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err = c.Assistants.Update(ctx, a.ID, &client.AssistantCreate{Context: map[string]any{"tone": "warm"}})
	if err != nil || a.Version != 2 {
		t.Fatalf("updated assistant %+v, %v", a, err)
	}
	a, err = c.Assistants.SetLatest(ctx, a.ID, 1) // roll back
	if err != nil || a.Version != 1 || a.Context["tone"] != "dry" {
		t.Errorf("assistant after the rollback %+v, %v", a, err)
	}
}
