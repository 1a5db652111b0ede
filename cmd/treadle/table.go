package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// table prints rows in aligned columns. A column whose title starts with a space is
// right-aligned, for numbers.
type table struct {
	titles []string
	rows   [][]string
}

func (t *table) add(row ...string) { t.rows = append(t.rows, row) }

func (t *table) write(out io.Writer, term *terminal) {
	widths := make([]int, len(t.titles))
	titles := make([]string, len(t.titles))
	for i, title := range t.titles {
		titles[i] = strings.TrimSpace(title)
	}
	for _, row := range append([][]string{titles}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], width(cell))
		}
	}
	line := func(row []string, p paint) {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-width(cell))
			if p != "" {
				cell = term.paint(p, cell)
			}
			if strings.HasPrefix(t.titles[i], " ") {
				b.WriteString(pad + cell + "  ")
			} else {
				b.WriteString(cell + pad + "  ")
			}
		}
		fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	}
	line(titles, bold)
	for _, row := range t.rows {
		line(row, "")
	}
}

// size formats a number of bytes.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	x := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB"} {
		x /= 1000
		if x < 9.95 {
			return fmt.Sprintf("%.1f %s", x, unit)
		} else if x < 999.5 {
			return fmt.Sprintf("%.0f %s", x, unit)
		}
	}
	return fmt.Sprintf("%.0f PB", x/1000)
}

// ago formats the time since an event.
func ago(d time.Duration) string {
	const day = 24 * time.Hour
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{365 * day, "year"}, {30 * day, "month"}, {day, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := int(d / u.unit); n > 0 {
			return count(n, u.name) + " ago"
		}
	}
	return "just now"
}
