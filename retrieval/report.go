package retrieval

import (
	"fmt"
	"slices"
	"strings"
)

// Status is the outcome of a sync for a source.
type Status string

// The statuses of sources.
const (
	Added     Status = "added"
	Updated   Status = "updated"
	Unchanged Status = "unchanged"
	Deleted   Status = "deleted"
	// Skipped means that the source has no usable text, so that the index does not
	// contain it.
	Skipped Status = "skipped"
	// Failed means that the source could not be read, so that the index still contains
	// its earlier content.
	Failed Status = "failed"
)

// A Progress reports the outcome of a sync for a source.
type Progress struct {
	Source string
	Status Status
	// Reason explains why the source was skipped or failed.
	Reason string
	// Chunks is the number of chunks written; those that had not changed do not count.
	Chunks int
}

// A Report is the result of a sync: the number of sources with each status, the number of
// chunks written, and the sources that were skipped or failed, by name.
type Report struct {
	Added, Updated, Unchanged, Deleted int
	Chunks                             int
	Skipped, Failed                    []Progress
}

// String returns the numbers on one line, and each skipped or failed source with its reason
// on a separate line.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d added, %d updated, %d unchanged, %d deleted, %d skipped, %d failed; %d chunks written",
		r.Added, r.Updated, r.Unchanged, r.Deleted, len(r.Skipped), len(r.Failed), r.Chunks)
	for _, p := range slices.Concat(r.Skipped, r.Failed) {
		fmt.Fprintf(&b, "\n%s %q: %s", p.Status, p.Source, p.Reason)
	}
	return b.String()
}

func (r *Report) add(p Progress) {
	r.Chunks += p.Chunks
	switch p.Status {
	case Added:
		r.Added++
	case Updated:
		r.Updated++
	case Unchanged:
		r.Unchanged++
	case Deleted:
		r.Deleted++
	case Skipped:
		r.Skipped = append(r.Skipped, p)
	case Failed:
		r.Failed = append(r.Failed, p)
	}
}

func (r *Report) sort() {
	for _, list := range [][]Progress{r.Skipped, r.Failed} {
		slices.SortFunc(list, func(a, b Progress) int { return strings.Compare(a.Source, b.Source) })
	}
}
