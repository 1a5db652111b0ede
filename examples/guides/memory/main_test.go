package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
)

func Example() {
	if err := run(context.Background(), ":memory:"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ada, monday: I am allergic to nuts. Which cake?
	//   Take the lemon cake, because of your allergy.
	// ada, monday: What did I say?
	//   You said: I am allergic to nuts. Which cake?
	// ada, friday: Which cake has no nuts?
	//   Take the lemon cake, because of your allergy.
	// bob, friday: Which cake has no nuts?
	//   Take the nut cake.
	// stored: {"kind":"Memory","content":{"content":"The guest is allergic to nuts."}}
	// ada, monday: Which cake has no nuts?
	//   Take the nut cake.
}

// A guest who is forgotten and then continues an old conversation stays forgotten.
func TestForgottenFactsStayForgotten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "waiter.db")
	if err := run(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := db.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	manager, err := newManager(extractorModel, s)
	if err != nil {
		t.Fatal(err)
	}
	items, err := manager.Search(memory.WithVars(t.Context(), map[string]string{"user": "ada"}), nil)
	if err != nil || len(items) > 0 {
		t.Errorf("stored %v, %v, want nothing", items, err)
	}
}
