package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/llm"
)

const fileEnv = "TREADLE_EXAMPLE_CODE_FILE"

// No run may leak a goroutine. With fileEnv, the process is to be killed.
func TestMain(m *testing.M) {
	if file := os.Getenv(fileEnv); file != "" {
		if err := run(context.Background(), file, nil, newShop(os.Stdout), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		killtest.EndWithParent()
	}
	goleak.VerifyTestMain(m)
}

const (
	asks8  = `May I refund {"id":8,"cents":800}? Start again with approve or reject.`
	asks17 = `May I refund {"id":17,"cents":1700}? Start again with approve or reject.`
)

// reads returns what the program prints when it reads all orders, sorted.
func reads() (lines []string) {
	for n := range 20 {
		lines = append(lines, fmt.Sprintf("read order %d", n+1))
	}
	slices.Sort(lines)
	return lines
}

// start starts the program and returns the lines that it prints. Orders are read in any
// order, so their lines are sorted.
func start(t *testing.T, file string, answer ...string) []string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), file, answer, newShop(&out), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	n := slices.IndexFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "read order") })
	slices.Sort(lines[:n])
	return lines
}

func prints(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// ends approves one refund, rejects the other, and checks what the script returns.
func ends(t *testing.T, file string) {
	t.Helper()
	prints(t, start(t, file, "approve"), "refunded 800 cents of order 8", asks17)
	prints(t, start(t, file, "reject"), "Log:", "2 of 20 orders were late", "order 17 was not refunded", "", "Refunded 800 cents.")
}

func TestScriptContinuesAfterApprovals(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	file := filepath.Join(t.TempDir(), "code.db")
	prints(t, start(t, file), append(reads(), asks8)...)
	prints(t, start(t, file), asks8)
	ends(t, file)
}

// A process is killed while it reads orders, or after it has asked.
func TestScriptContinuesAfterKill(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	for _, lines := range []int{1, 10, 21} {
		file := filepath.Join(t.TempDir(), "code.db")
		before := killtest.Lines(t, fileEnv+"="+file, lines)
		after := start(t, file)
		all := slices.Concat(before, after)
		slices.Sort(all)
		if all = slices.Compact(all); !slices.Equal(all, append([]string{asks8}, reads()...)) {
			t.Errorf("after %d lines: got\n%s", lines, strings.Join(all, "\n"))
		}
		if lines == 21 {
			prints(t, after, asks8) // and reads no order again
		}
		ends(t, file)
	}
}

// A process ends while it makes an approved refund. The next one makes it without asking again.
func TestApprovedCallContinues(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	file := filepath.Join(t.TempDir(), "code.db")
	start(t, file)
	ctx, stop := context.WithCancel(t.Context())
	var out bytes.Buffer
	tools := newShop(&out)
	tools[2] = llm.NewTool("refund", "Refunds a part of an order.", func(ctx context.Context, _ refund) (string, error) {
		stop()
		return "", ctx.Err()
	})
	if err := run(ctx, file, []string{"approve"}, tools, &out); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	prints(t, start(t, file), "refunded 800 cents of order 8", asks17)
}
