package sqlite_test

import (
	"os"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/sqlite"
)

func TestOpenRejectsURLs(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"postgres://u:SECRET@db/x", "postgress://u:SECRET@db/x", "sqlite://x.db"} {
		db, err := sqlite.Open(name, nil)
		if err == nil {
			_ = db.Close()
			t.Errorf("%s is opened", name)
			continue
		}
		if strings.Contains(err.Error(), "SECRET") || !strings.Contains(err.Error(), "want a file name") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("files %v: %v", files, err)
	}
}
