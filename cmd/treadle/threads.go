package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/internal/near"
	"github.com/treadle-go/treadle/sqlite"
)

// inspector holds what the threads commands share: the file and the output format.
type inspector struct {
	*streams
	file string
	json bool
	db   *sqlite.DB
}

func newThreads(s *streams) *cobra.Command {
	in := &inspector{streams: s}
	cmd := &cobra.Command{
		Use:   "threads",
		Short: "Inspect and clean up saved threads",
		Long: `Inspect the threads that graphs have saved in an SQLite file, and remove old data.
The graphs are not required: values are shown as stored JSON. Programs may use the
file at the same time.`,
		Example: `  treadle threads list
  treadle threads show chat
  treadle threads history jokes --db jokes.db --limit 5
  treadle threads fork chat --at 1f1a5c3e-… --to second-try
  treadle threads prune chat --keep-last 10 --max-age 30d --dry-run
  treadle threads list --json | jq -r 'select(.status == "failed").thread'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			meant := ""
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				meant = "\n\nDid you mean this?\n\t" + strings.Join(like, "\n\t")
			}
			return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), meant)
		},
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2, // cobra sets this default on the root command only
	}
	cmd.PersistentFlags().StringVar(&in.file, "db", "", "SQLite file (default the file of treadle demo)")
	cmd.PersistentFlags().BoolVar(&in.json, "json", false, "print one JSON object per line, with exact times and sizes")
	cmd.AddCommand(in.newList(), in.newShow(), in.newHistory(), in.newFork(), in.newPrune(), in.newRemove(), in.newUsage())
	return cmd
}

// do returns the body of a command that works on the open file.
func (in *inspector) do(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if err := in.open(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, in.db.Close()) }()
		return work(cmd.Context(), args)
	}
}

// one validates the arguments of a command that works on one thread.
func one(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s requires a thread name", cmd.Name())
	case len(args) > 1:
		return fmt.Errorf("%s takes one thread, not %d", cmd.Name(), len(args))
	}
	return nil
}

// The header of an SQLite file, and the application ID that package sqlite writes in it.
const (
	sqliteMagic     = "SQLite format 3\x00"
	sqliteHeadSize  = 100
	applicationAt   = 68
	applicationName = "trdl"
)

// open opens the file, which must exist and be a Treadle database, so that inspecting never
// creates or changes a file.
func (in *inspector) open() error {
	if in.file == "" {
		var err error
		if in.file, err = defaultFile(); err != nil {
			return fmt.Errorf("pass the file with --db: %w", err)
		}
	}
	var err error
	if in.file, err = fileOnly(in.file); err != nil {
		return err
	}
	if err := checkFile(in.file); err != nil {
		return fmt.Errorf("%s: %w", in.file, err)
	}
	in.db, err = sqlite.Open(in.file, nil)
	return err
}

// checkFile returns an error for a file that package sqlite did not create.
func checkFile(file string) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("file does not exist")
	}
	if err != nil {
		return errors.Unwrap(err) // the caller adds the file name
	}
	defer func() { _ = f.Close() }() // opened only for reading
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return errors.New("is a directory")
	}
	head := make([]byte, sqliteHeadSize)
	if _, err := io.ReadFull(f, head); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.Unwrap(err)
	}
	if string(head[:len(sqliteMagic)]) != sqliteMagic {
		return errors.New("not an SQLite file")
	}
	if string(head[applicationAt:applicationAt+len(applicationName)]) == applicationName {
		return nil
	}
	// If the program that created the file was killed or is still running, the first commit may
	// be only in the log. In that case, package sqlite checks the ID when it opens the file.
	if log, err := os.Stat(file + "-wal"); err == nil && log.Size() > 0 {
		return nil
	}
	return errors.New("SQLite database of another application")
}

// emit prints a value as a line of JSON.
func (in *inspector) emit(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := in.out.Write(plainJSON(b.Bytes()))
	return err
}

// threads returns all threads with their sizes.
func (in *inspector) threads(ctx context.Context) ([]summary, error) {
	var all []summary
	for t, err := range in.db.Threads(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, summary{Thread: t.Name, Checkpoints: t.Checkpoints, Bytes: t.Bytes})
	}
	return all, nil
}

// summary describes a thread in a list.
type summary struct {
	Thread      string         `json:"thread"`
	Graph       string         `json:"graph,omitempty"` // "" if the thread does not name its graph
	Checkpoints int            `json:"checkpoints"`
	Bytes       int64          `json:"bytes"`
	Head        *checkpoint.ID `json:"head,omitempty"`
	Changed     *time.Time     `json:"changed,omitempty"`
	Status      status         `json:"status,omitempty"`
	Next        []string       `json:"next,omitempty"`
}

func (in *inspector) newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List threads by name",
		Args:  cobra.NoArgs,
		RunE: in.do(func(ctx context.Context, _ []string) error {
			all, err := in.threads(ctx)
			if err != nil {
				return err
			}
			t := table{titles: []string{"THREAD", "GRAPH", " CHECKPOINTS", " SIZE", "LAST CHANGE", "STATUS"}}
			for _, s := range all {
				changed := ""
				switch cp, err := in.db.Get(ctx, checkpoint.Key{Thread: s.Thread}); {
				case errors.Is(err, checkpoint.ErrNotFound):
					s.Status = idle // leased but never run
				case err != nil:
					return fmt.Errorf("thread %q: %w", s.Thread, err)
				default:
					g := describe(cp)
					s.Graph = g.Graph
					s.Head = &g.ID
					s.Changed = &g.Created
					s.Status = g.Status
					s.Next = g.Next
					changed = ago(time.Since(g.Created))
				}
				if !in.json {
					t.add(plain(s.Thread), plain(s.Graph), strconv.Itoa(s.Checkpoints), size(s.Bytes), changed, string(s.Status))
				} else if err := in.emit(s); err != nil {
					return err
				}
			}
			in.table(&t, "No threads in "+in.file+".")
			return nil
		}),
	}
}

// table prints a table, or the text empty if it has no rows.
func (in *inspector) table(t *table, empty string) {
	switch {
	case in.json:
	case len(t.rows) == 0:
		fmt.Fprintln(in.out, empty)
	default:
		t.write(in.out, in.term)
	}
}

// head returns the head checkpoint of a thread.
func (in *inspector) head(ctx context.Context, thread string) (*checkpoint.Checkpoint, error) {
	cp, err := in.db.Get(ctx, checkpoint.Key{Thread: thread})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, in.noThread(ctx, thread)
	}
	return cp, err
}

// noThread returns the error for a thread that does not exist.
func (in *inspector) noThread(ctx context.Context, thread string) error {
	all, err := in.threads(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Thread
	}
	if slices.Contains(names, thread) {
		return fmt.Errorf("thread %q in %s has no checkpoints", thread, in.file)
	}
	return fmt.Errorf("no thread %q in %s%s", thread, in.file, near.Hint(thread, names))
}

func (in *inspector) newShow() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "show thread",
		Short: "Show a thread: values, next nodes, interrupts",
		Args:  one,
		RunE: in.do(func(ctx context.Context, args []string) error {
			cp, err := in.head(ctx, args[0])
			if err == nil && at != "" {
				cp, err = in.find(ctx, args[0], at)
			}
			if err != nil {
				return err
			}
			g := describe(cp)
			if in.json {
				return in.emit(g)
			}
			in.show(&g)
			return nil
		}),
	}
	cmd.Flags().StringVar(&at, "at", "", "checkpoint ID or prefix (default the latest)")
	return cmd
}

// show prints a checkpoint as text.
func (in *inspector) show(g *checkpointInfo) {
	row := func(name, text string) { fmt.Fprintf(in.out, "%-10s  %s\n", name, text) }
	row("thread", plain(g.Thread))
	if g.Graph != "" {
		row("graph", plain(g.Graph))
	}
	row("checkpoint", g.ID.String())
	row("step", fmt.Sprintf("%d, created by %s, %s", g.Step, g.Source, ago(time.Since(g.Created))))
	row("status", string(g.Status))
	next := "nothing"
	if len(g.Next) > 0 {
		next = plain(tally(g.Next))
	}
	if len(g.After) > 0 {
		next = strings.TrimPrefix(next+", ", "nothing, ") + plain("nodes after "+strings.Join(g.After, ", ")+", if the graph has any")
	}
	row("next", next)
	if len(g.Metadata) > 0 {
		row("metadata", plain(string(g.Metadata)))
	}
	if len(g.Tasks) > 0 {
		in.part("Tasks")
		t := table{titles: []string{"NODE", "STATE", "TASK"}}
		for _, task := range g.Tasks {
			state := task.State
			switch {
			case task.Error != "":
				state += ": " + task.Error
			case len(task.Writes) > 0:
				state += ", wrote " + strings.Join(task.Writes, ", ")
			}
			t.add(cmp.Or(plain(task.Node), "?"), plain(oneLine(state)), task.ID)
		}
		t.write(in.out, in.term)
	}
	if len(g.Questions) > 0 {
		in.part("Questions")
		for _, q := range g.Questions {
			from := strings.Join(append(slices.Clone(q.Namespace), q.Node), " / ")
			in.value(plain(from)+" asks", q.Value)
		}
	}
	if len(g.Values) > 0 {
		in.part("Values")
		for _, name := range slices.Sorted(maps.Keys(g.Values)) {
			if !in.conversation(plain(name), g.Values[name]) {
				in.value(plain(name), g.Values[name])
			}
		}
	}
}

func (in *inspector) part(title string) {
	fmt.Fprintf(in.out, "\n%s\n", in.term.paint(bold, title))
}

// value prints a name and JSON, on one line if it fits.
func (in *inspector) value(name string, raw json.RawMessage) {
	columns := in.term.columns(80)
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // always valid JSON
	name = plain(name)
	if line := name + ": " + plain(b.String()); width(line) <= columns {
		fmt.Fprintln(in.out, line)
		return
	}
	fmt.Fprintln(in.out, name+":")
	b.Reset()
	_ = json.Indent(&b, raw, "  ", "  ")
	for line := range strings.Lines("  " + b.String()) {
		fmt.Fprintln(in.out, plain(strings.TrimRight(line, "\n")))
	}
}

func (in *inspector) newHistory() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "history thread",
		Short: "List a thread's checkpoints, newest first",
		Args: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return fmt.Errorf("invalid --limit %d: use 0 or more", limit)
			}
			return one(cmd, args)
		},
		RunE: in.do(func(ctx context.Context, args []string) error {
			head, err := in.head(ctx, args[0])
			if err != nil {
				return err
			}
			t := table{titles: []string{" STEP", "SOURCE", "CHECKPOINT", "MADE", "NEXT"}}
			older := checkpoint.ID{} // the parent of the previous row
			for cp, err := range in.db.List(ctx, checkpoint.Query{Thread: args[0], Limit: limit}) {
				if err != nil {
					return err
				}
				g := describe(cp)
				if in.json {
					g.Values = nil // values may be large; the show command prints them
					if err := in.emit(g); err != nil {
						return err
					}
					continue
				}
				next := cmp.Or(plain(tally(g.Next)), "nothing")
				if g.Status != unfinished && g.Status != idle {
					next += ", " + string(g.Status)
				}
				if !older.IsZero() && older != cp.ID { // the newer row starts a fork
					last := t.rows[len(t.rows)-1]
					last[len(last)-1] += " (from " + older.String() + ")"
				}
				older = cp.Parent
				made := ago(time.Since(g.Created))
				if cp.ID == head.ID {
					made += " (head)"
				}
				t.add(strconv.Itoa(g.Step), string(g.Source), g.ID.String(), made, next)
			}
			in.table(&t, "")
			return nil
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "number of checkpoints to list; 0 lists all")
	return cmd
}

// find returns a checkpoint by its ID or a prefix of its ID.
func (in *inspector) find(ctx context.Context, thread, at string) (*checkpoint.Checkpoint, error) {
	if id, err := checkpoint.ParseID(at); err == nil {
		cp, err := in.db.Get(ctx, checkpoint.Key{Thread: thread, ID: id})
		if errors.Is(err, checkpoint.ErrNotFound) {
			err = fmt.Errorf("thread %q has no checkpoint %s", thread, id)
		}
		return cp, err
	}
	var found *checkpoint.Checkpoint
	for cp, err := range in.db.List(ctx, checkpoint.Query{Thread: thread}) {
		switch {
		case err != nil:
			return nil, err
		case !strings.HasPrefix(cp.ID.String(), strings.ToLower(at)):
		case found != nil:
			return nil, fmt.Errorf("several checkpoints of thread %q start with %s", thread, at)
		default:
			found = cp
		}
	}
	if found == nil {
		return nil, fmt.Errorf("thread %q has no checkpoint that starts with %s", thread, at)
	}
	return found, nil
}

func (in *inspector) newFork() *cobra.Command {
	var at, to string
	cmd := &cobra.Command{
		Use:   "fork thread",
		Short: "Copy a thread, optionally at an older checkpoint",
		Long: `Copy a thread and make an older checkpoint the latest one of the copy, from which
its next run continues. The original does not change. Without --at, the copy starts
at the latest checkpoint and includes its pending interrupts.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return errors.New("fork requires --to, the name of the new thread")
			}
			return one(cmd, args)
		},
		RunE: in.do(func(ctx context.Context, args []string) error {
			from := args[0]
			head, err := in.head(ctx, from)
			if err != nil {
				return err
			}
			cp := head
			if at != "" {
				if cp, err = in.find(ctx, from, at); err != nil {
					return err
				}
			}
			if cp.ID != head.ID && !json.Valid(cp.Control) {
				// Encrypted values are bound to their checkpoint, and this command has no key.
				return fmt.Errorf("thread %q is encrypted: omit --at to copy the whole thread, or use a program that has the key", from)
			}
			err = in.db.CopyThread(ctx, from, to)
			if errors.Is(err, checkpoint.ErrConflict) {
				return fmt.Errorf("thread %q already exists", to)
			}
			if err != nil {
				return err
			}
			id := cp.ID
			if cp.ID != head.ID {
				// Repeat the checkpoint, as the engine does to start a fork: the same tasks run
				// next, and interrupts are raised again.
				id = checkpoint.NewID(cp.Step+1, head.ID)
				err := in.db.Put(ctx, &checkpoint.Put{Key: checkpoint.Key{Thread: to, ID: id}, Parent: cp.ID, Head: head.ID,
					Step: cp.Step + 1, Source: checkpoint.Fork, Metadata: cp.Metadata, Control: cp.Control})
				if err != nil {
					return errors.Join(err, in.db.DeleteThread(context.WithoutCancel(ctx), to))
				}
			}
			if in.json {
				return in.emit(map[string]any{"thread": to, "from": from, "at": cp.ID, "head": id})
			}
			fmt.Fprintf(in.out, "Thread %q is a copy of %q at step %d (%s).\n", to, from, cp.Step, cp.ID)
			return nil
		}),
	}
	cmd.Flags().StringVar(&at, "at", "", "checkpoint ID or prefix (default the latest)")
	cmd.Flags().StringVar(&to, "to", "", "name of the new thread")
	return cmd
}

// ageFlag is a flag for a duration that may be in days or weeks.
type ageFlag time.Duration

func (a *ageFlag) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Type returns the name of the value in the help text.
func (a *ageFlag) Type() string { return "age" }

// Set parses a duration, or a number of days or weeks.
func (a *ageFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	for unit, hours := range map[string]int{"d": 24, "w": 7 * 24} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			var whole int
			whole, err = strconv.Atoi(n)
			d = time.Duration(whole*hours) * time.Hour
		}
	}
	if err != nil || d <= 0 {
		return errors.New("use an age such as 36h, 30d, or 8w")
	}
	*a = ageFlag(d)
	return nil
}

func (in *inspector) newPrune() *cobra.Command {
	var keep checkpoint.Retention
	var age ageFlag
	var dry bool
	cmd := &cobra.Command{
		Use:   "prune thread",
		Short: "Remove old checkpoints of a thread",
		Long: `Remove old checkpoints of a thread. A checkpoint is kept if any of the flags selects
it; the latest is always kept. Kept checkpoints do not change.`,
		Example: `  treadle threads prune chat --keep-last 1                     keep only the latest
  treadle threads prune chat --keep-last 10 --keep-interrupted
  treadle threads prune chat --max-age 30d --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			keep.MaxAge = time.Duration(age)
			if keep.KeepLast < 0 {
				return fmt.Errorf("invalid --keep-last %d: use 1 or more", keep.KeepLast)
			}
			if keep == (checkpoint.Retention{}) {
				return errors.New("prune requires --keep-last, --max-age, or --keep-interrupted")
			}
			return one(cmd, args)
		},
		RunE: in.do(func(ctx context.Context, args []string) error {
			thread := args[0]
			if _, err := in.head(ctx, thread); err != nil {
				return err
			}
			before, err := in.count(ctx, thread)
			if err != nil {
				return err
			}
			if dry {
				return in.dryRun(ctx, before, keep)
			}
			removed, err := in.db.Prune(ctx, thread, keep)
			if err != nil {
				return err
			}
			after, err := in.count(ctx, thread)
			if err != nil {
				return err
			}
			freed := before.Bytes - after.Bytes
			if in.json {
				return in.emit(map[string]any{"thread": thread, "removed": removed, "checkpoints": after.Checkpoints, "freed": freed, "bytes": after.Bytes})
			}
			fmt.Fprintf(in.out, "Removed %s (%s) of thread %q; %d left.\n", count(removed, "checkpoint"), size(freed), thread, after.Checkpoints)
			return nil
		}),
	}
	cmd.Flags().IntVar(&keep.KeepLast, "keep-last", 0, "keep the newest `n` checkpoints")
	cmd.Flags().Var(&age, "max-age", "keep checkpoints younger than this, such as 36h, 30d, or 8w")
	cmd.Flags().BoolVar(&keep.KeepInterrupted, "keep-interrupted", false, "keep checkpoints with an interrupt, pending or answered")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "list checkpoints without removing them")
	return cmd
}

// count returns the checkpoint count and size of a thread.
func (in *inspector) count(ctx context.Context, thread string) (checkpoint.Thread, error) {
	for t, err := range in.db.Threads(ctx) {
		if err != nil || t.Name == thread {
			return t, err
		}
	}
	return checkpoint.Thread{}, in.noThread(ctx, thread)
}

// dryRun shows what pruning would remove. Savers do not support dry runs, so dryRun applies
// their rules itself. It cannot list the checkpoints of subgraphs, whose names it does not
// know, and says so.
func (in *inspector) dryRun(ctx context.Context, t checkpoint.Thread, keep checkpoint.Retention) error {
	oldest := time.Now().Add(-keep.MaxAge)
	listed := 0
	gone := []checkpoint.ID{}
	for cp, err := range in.db.List(ctx, checkpoint.Query{Thread: t.Name}) {
		if err != nil {
			return err
		}
		listed++
		asked := slices.ContainsFunc(cp.Pending, func(w checkpoint.Write) bool { return w.Kind == checkpoint.Paused || w.Kind == checkpoint.Answers })
		if cp.ID != t.Head && listed > keep.KeepLast && (keep.MaxAge == 0 || cp.Time().Before(oldest)) && (!keep.KeepInterrupted || !asked) {
			gone = append(gone, cp.ID)
		}
	}
	nested := t.Checkpoints - listed
	if in.json {
		return in.emit(map[string]any{"thread": t.Name, "would_remove": gone, "checkpoints": listed, "nested": nested})
	}
	fmt.Fprintf(in.out, "Would remove %d of the %s of thread %q.\n", len(gone), count(listed, "checkpoint"), t.Name)
	for _, id := range gone {
		fmt.Fprintf(in.out, "  %s  %s\n", id, ago(time.Since(id.Time())))
	}
	if nested > 0 {
		fmt.Fprintf(in.out, "Not counted: %s of subgraphs.\n", count(nested, "checkpoint"))
	}
	return nil
}

func (in *inspector) newRemove() *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use:   "rm thread",
		Short: "Remove a thread",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := one(cmd, args); err != nil {
				return err
			}
			if !sure && in.term == nil {
				return errors.New("rm asks for confirmation, which requires a terminal: use --yes")
			}
			return nil
		},
		RunE: in.do(func(ctx context.Context, args []string) error {
			t, err := in.count(ctx, args[0])
			if err != nil {
				return err
			}
			if !sure {
				line, err := in.prompt(ctx, fmt.Sprintf("Remove thread %q with %s permanently?", t.Name, count(t.Checkpoints, "checkpoint")), "[no]")
				if err != nil {
					return err
				}
				if a, ok := readApproval(line); line == "" || !ok || a.Decision != demo.Yes {
					fmt.Fprintln(in.out, "Nothing was removed.")
					return nil
				}
			}
			if err := in.db.DeleteThread(ctx, t.Name); err != nil {
				return err
			}
			if in.json {
				return in.emit(map[string]any{"thread": t.Name, "removed": t.Checkpoints, "freed": t.Bytes})
			}
			fmt.Fprintf(in.out, "Removed thread %q with %s.\n", t.Name, count(t.Checkpoints, "checkpoint"))
			return nil
		}),
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "skip the confirmation")
	return cmd
}

func (in *inspector) newUsage() *cobra.Command {
	return &cobra.Command{
		Use:   "du",
		Short: "List threads by size, largest first",
		Args:  cobra.NoArgs,
		RunE: in.do(func(ctx context.Context, _ []string) error {
			all, err := in.threads(ctx)
			if err != nil {
				return err
			}
			slices.SortStableFunc(all, func(a, b summary) int { return cmp.Compare(b.Bytes, a.Bytes) })
			t := table{titles: []string{" SIZE", " CHECKPOINTS", "THREAD"}}
			var bytes int64
			checkpoints := 0
			for _, s := range all {
				bytes, checkpoints = bytes+s.Bytes, checkpoints+s.Checkpoints
				if !in.json {
					t.add(size(s.Bytes), strconv.Itoa(s.Checkpoints), plain(s.Thread))
				} else if err := in.emit(s); err != nil {
					return err
				}
			}
			if len(all) > 1 {
				t.add(size(bytes), strconv.Itoa(checkpoints), fmt.Sprintf("in %d threads", len(all)))
			}
			in.table(&t, "No threads in "+in.file+".")
			return nil
		}),
	}
}
