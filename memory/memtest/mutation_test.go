package memtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A mutation is a fault of package memory or of its store, switched on by its name.
type mutation struct {
	name  string
	fails string // a case of the suite that must fail with it
}

// An edit puts the faults into a file: the fragment old, which must be there
// exactly once, becomes new. The file is one of package memory, unless its name has a
// directory.
type edit struct{ file, old, new string }

// switches lets one binary contain all faults, of which a run enables one: building it is
// expensive, running it is cheap.
const switches = `package %s

import "os"

var faulty = os.Getenv("` + mutantEnv + `")

func mutant(name string) bool { return faulty == name }

func either[T any](name string, wrong, right T) T {
	if mutant(name) {
		return wrong
	}
	return right
}
`

const mutantEnv = "TREADLE_MEMTEST_MUTANT"

var mutations = []mutation{
	{"dropping deletes", "removals/a request to forget is fulfilled"},
	{"dropping updates", "contradictions/a move replaces the old home"},
	{"inserting duplicates", "duplicates/a duplicate within a response is stored once"},
	{"inserting what was not recalled", "duplicates/a known fact that was not recalled is not stored again"},
	{"ignoring existing memories", "contradictions/a move replaces the old home"},
	{"hiding memories from the model", "contradictions/a move replaces the old home"},
	{"skipping validation", "validation/a patch corrects a call of the wrong type"},
	{"skipping the validation of patches", "validation/a patch must leave a document of its kind"},
	{"skipping Validate", "validation/a value rejected by its type is not stored"},
	{"skipping the version check", "time/a concurrent change is decided again"},
	{"giving up after a conflict", "time/a concurrent change is decided again"},
	{"losing the confidence", "ratings/confidence and importance are recorded"},
	{"losing the validity", "ratings/an expired memory is not recalled"},
	{"recalling what does not hold any more", "ratings/an expired memory is not recalled"},
	{"not heeding the guard", "guards/rejected memories are left out, and the others are stored"},
	{"inserting near duplicates", "duplicates/a near duplicate is not stored"},
	{"losing the importance", "ratings/confidence and importance are recorded"},
	{"ignoring Overwrite", "removals/a manager that overwrites also forgets the past"},
	{"forgetting the past", "time/a removed memory is visible at its time"},
	{"not recalling the default", "profiles/the default is recalled for every topic"},
	{"never storing the default", "profiles/the default is stored with the first conversation"},
	{"a default for everybody", "profiles/users with memories get no default"},
	{"patching the first document", "updates/two documents change in one response"},
	{"patching the old version", "updates/two calls for one document are both applied"},
	{"patching what is not there", "validation/a misspelled path is corrected"},
	{"never repairing", "validation/an unknown ID is corrected"},
	{"repairing once too often", "validation/a call that stays invalid leaves the others"},
	{"swallowing errors", "validation/a call that stays invalid leaves the others"},
	{"writing nothing after an error", "validation/a call that stays invalid leaves the others"},
	{"taking a cut answer for a whole one", "validation/complete calls of a truncated response are applied"},
	{"writing what has not changed", "updates/a reverted edit changes nothing"},
	{"taking what goes for a duplicate", "removals/a removed and rewritten memory exists once"},
	{"a second profile", "profiles/there is never a second profile"},
	{"removing though it is off", "removals/a manager that must not remove changes instead"},
	{"updating though it is off", "validation/memories may be added but not changed"},
	{"looking at the newest only", "recall/a manager with a small limit reads matches, even old ones"},
	{"not asking what to look for", "recall/a model's queries find memories without common words"},
	{"looking at the end only", "long/the beginning of a long conversation is compared with known facts"},
	{"looking at what fits only", "recall/without a match, the manager reads the newest"},
	{"mixing users", "namespaces/users do not see each other's memories"},
	{"skipping phases", "phases/a phase removes redundant memories"},
	{"one step only", "phases/a step sees the changes of the step before"},
	{"losing what else is noted", "time/an update records its reason and keeps other metadata"},
	{"losing the reason", "time/an update records its reason and keeps other metadata"},
	{"changing the form of a value", "kinds/another program's items keep their form"},
	{"recalling more than fits", "recall/recall is limited by tokens"},
	{"recalling without recency", "recall/of two equal matches, the newer comes first"},
	{"recalling without importance", "recall/of two equal matches, the more important comes first"},
	{"recalling without the profile", "recall/a profile is recalled for every topic"},
	{"recalling without the time", "recall/a message about a month recalls its memories"},
	{"recalling without context", "recall/an answer is recalled with its question"},
	{"not linking what is outdated", "contradictions/a new memory is linked to the fact that it contradicts"},
	{"recalling by the last message only", "recall/earlier messages determine the topic"},
	{"recalling without events", "recall/a message about an event recalls earlier memories"},
	{"recalling without names", "names/a name recalls facts about the person"},
	{"recalling without names", "names/a title, a handle, and a number are names"},
	{"recalling without names", "names/of two people, the named one comes first"},
	{"losing unknown fields", "kinds/fields of another program version survive a patch"},
	{"not migrating", "kinds/a document of an earlier schema is read and written in the current one"},
	{"losing edits of blocks", "blocks/blocks written by a model are in the next prompt"},
	{"leaving blocks out of the prompt", "blocks/blocks written by a model are in the next prompt"},
	{"editing read-only blocks", "blocks/a model does not edit a read-only block"},
	{"editing beyond the limit", "blocks/an edit that makes a block too long changes nothing"},
	{"editing what is not there", "blocks/an edit of missing text changes nothing"},
	{"mixing users", "blocks/each user has blocks"},
	{"merging nothing", "blocks/a branch's block edits stay private until the merge"},
	{"merging nothing", "branches/a branch's memories stay private until the merge"},
	{"losing times in an export", "moves/memories are recalled after an export and an import"},
	{"exporting everybody", "moves/an export contains the memories and blocks of one user"},
	{"exporting no uses", "moves/an import keeps use counts"},
	{"erasing nothing", "erasures/erasing a person removes all of theirs and nothing of others"},
	{"erasing everybody", "erasures/erasing a person removes all of theirs and nothing of others"},
	{"erasing nothing", "erasures/an export omits an erased person"},
	{"erasing without branches", "erasures/erasing a person includes branches"},
	{"not merging equal notes", "consolidation/notes with the same text are merged without a model"},
	{"ending nothing", "consolidation/consolidation ends the older of two homes"},
	{"overwriting others while asleep", "consolidation/a concurrently changed note is not overwritten"},
	{"comparing again what was decided", "consolidation/undoing a merge restores the notes"},
	{"not summarizing", "consolidation/a topic gets a summary in addition to its notes"},
	{"consolidating at any price", "consolidation/with too few tokens, only mechanical merges happen"},
}

var edits = []edit{
	{"store_manager_write.go", `if c.Op == Keep {`,
		`if c.Op == Keep || c.Op == Delete && mutant("dropping deletes") || c.Op == Update && mutant("dropping updates") {`},
	{"store_manager_write.go", `if known[i] {`, `if known[i] && !mutant("inserting duplicates") && !mutant("inserting what was not recalled") {`},
	{"store_manager_write.go", `if item != nil && !w.overwrite {`, `if item != nil && !w.overwrite && !mutant("skipping the version check") {`},
	{"store_manager_write.go", `if c.Op == Delete && w.overwrite {`, `if c.Op == Delete && (w.overwrite || mutant("forgetting the past")) {`},
	{"store_manager_write.go", `} else if out.Key = defaultKey; c.Op == Delete {`, `} else if out.Key = defaultKey; c.Op == Delete || c.Op == Keep && mutant("never storing the default") {`},
	{"store_manager_write.go", `if old != nil {`, `if old != nil && !mutant("losing what else is noted") {`},
	{"store_manager_write.go", `source.Reason, source.Confidence = c.Reason, c.Confidence`,
		`source.Reason, source.Confidence = either("losing the reason", "", c.Reason), either("losing the confidence", nil, c.Confidence)`},
	{"store_manager_write.go", `delete(meta, metaValidity); c.Validity != (Validity{}) {`,
		`delete(meta, metaValidity); c.Validity != (Validity{}) && !mutant("losing the validity") {`},
	{"store_manager_write.go", `if err := w.guard(ctx, &out); err != nil {`, `if err := w.guard(ctx, &out); err != nil && !mutant("not heeding the guard") {`},
	{"store_manager_repeat.go", `if w.similar > 0 {`, `if w.similar > 0 && !mutant("inserting near duplicates") {`},
	{"recall.go", `validityOf(item).ended(now)`, `validityOf(item).ended(now) && !mutant("recalling what does not hold any more")`},
	{"store_manager_write.go", `if c.Importance != nil {`, `if c.Importance != nil && !mutant("losing the importance") {`},
	{"store_manager_write.go", `if item != nil {
		_, wrap := readItem(item)`, `if item != nil && !mutant("changing the form of a value") {
		_, wrap := readItem(item)`},
	{"store_manager_write.go", `if c.Op != Insert {
			gone`, `if c.Op != Insert && !mutant("taking what goes for a duplicate") {
			gone`},

	{"store_manager.go", `d, err := newDraftSet(r.documents())`, `r.items = either("ignoring existing memories", nil, r.items)
	d, err := newDraftSet(r.documents())`},
	{"store_manager.go", `attempt == reflectAttempts ||`, `attempt == reflectAttempts || mutant("giving up after a conflict") ||`},
	{"store_manager.go", `overwrite: m.o.Overwrite,`, `overwrite: m.o.Overwrite && !mutant("ignoring Overwrite"),`},
	{"store_manager.go", `if len(d.live()) == 0 && heard == nil {`, `if len(d.live()) == 0 && heard == nil || mutant("skipping phases") {`},
	{"store_manager.go", `w := &writer{`, `if err := errors.Join(problems...); err != nil && mutant("writing nothing after an error") {
		return nil, err
	}
	problems = either("swallowing errors", nil, problems)
	w := &writer{`},

	{"store_manager_recall.go", `item != nil && ok {`, `item != nil && ok && !mutant("not recalling the default") {`},
	{"store_manager_recall.go", `if len(r.items) == 0 && ok {`, `if (len(r.items) == 0 || mutant("a default for everybody")) && ok {`},
	{"store_manager_recall.go", `slices.Concat(shares(found), newest)`,
		`slices.Concat(either("looking at the newest only", nil, shares(found)), either("looking at what fits only", nil, newest))`},
	{"store_manager_recall.go", `if m.o.QueryModel != nil &&`, `if m.o.QueryModel != nil && !mutant("not asking what to look for") &&`},
	{"store_manager_recall.go", `range topics(messages, m.o.Limit)`, `range either("looking at the end only", windows, topics)(messages, m.o.Limit)`},
	{"store_manager_recall.go", `max(1, limit/4)`, `either("recalling by the last message only", 1, max(1, limit/4))`},

	{"extract.go", `if len(d.live()) == 0 {`, `if len(d.live()) == 0 || mutant("hiding memories from the model") {`},
	{"extract.go", `for attempt := 2; attempt <= x.Attempts; attempt++ {`,
		`for attempt := 2; attempt <= either("never repairing", 0, either("repairing once too often", x.Attempts+1, x.Attempts)); attempt++ {`},
	{"extract.go", `case llm.StopLength:`, `case either("taking a cut answer for a whole one", "", llm.StopLength):`},
	{"extract_draft.go", `if w.short == strings.TrimSpace(short) {`, `if w.short == strings.TrimSpace(short) || mutant("patching the first document") {`},
	{"extract_draft.go", `case sameJSON(w.before, w.now) && w.held == w.holds:`, `case sameJSON(w.before, w.now) && w.held == w.holds && !mutant("writing what has not changed"):`},
	{"extract_kind.go", `if err := v.Validate(); err != nil {`, `if err := v.Validate(); err != nil && !mutant("skipping Validate") {`},
	{"extract_kind.go", `out, err := k.tool.Call(context.Background()`, `if mutant("skipping validation") {
		return raw, nil
	}
	out, err := k.tool.Call(context.Background()`},
	{"extract_tools.go", `w := d.twin(k.name, content, false)`, `w := either("inserting duplicates", nil, d.twin(k.name, content, false))`},
	{"extract_tools.go", `if k, ok := x.kind(w.kind); ok {`, `if k, ok := x.kind(w.kind); ok && !mutant("skipping the validation of patches") {`},
	{"extract_tools.go", `applyPatch(w.now, ops)`, `applyPatch(either("patching the old version", w.before, w.now), ops)`},
	{"extract_tools.go", `return !x.NoInserts ||`, `return mutant("a second profile") || !x.NoInserts ||`},
	{"extract_tools.go", `case call.Name == toolRemove && x.Deletes:`, `case call.Name == toolRemove && (x.Deletes || mutant("removing though it is off")):`},
	{"extract_tools.go", `case call.Name == toolPatch && !x.NoUpdates:`, `case call.Name == toolPatch && (!x.NoUpdates || mutant("updating though it is off")):`},
	{"patch.go", `if !there && (`, `if !there && !mutant("patching what is not there") && (`},
	{"manager.go", `if s.done ||`, `if mutant("one step only") || s.done ||`},
	{"namespace.go", `values[p.name] = v`, `values[p.name] = either("mixing users", "one", v)`},

	{"recall_block.go", `if tokens > r.o.MaxTokens {`, `if tokens > r.o.MaxTokens && !mutant("recalling more than fits") {`},
	{"recall_score.go", `r.weights.Recency*w.Recency`, `either("recalling without recency", 0, r.weights.Recency)*w.Recency`},
	{"recall_score.go", `r.weights.Importance*w.Importance`, `either("recalling without importance", 0, r.weights.Importance)*w.Importance`},
	{"recall_score.go", `r.weights.Time*w.Time`, `either("recalling without the time", 0, r.weights.Time)*w.Time`},
	{"store_manager_write.go", `if old[i] != nil {`, `if old[i] != nil && !mutant("not linking what is outdated") {`},
	{"recall_context.go", `weights.Context*w.Context`, `either("recalling without context", 0, weights.Context)*w.Context`},
	{"recall.go", `if res.Item != nil && !seen[itemID(res.Item)] {`, `if res.Item != nil && !seen[itemID(res.Item)] && !mutant("recalling without the profile") {`},
	{"recall_dates.go", `if item == nil {`, `if item == nil || mutant("recalling without events") {`},
	{"store/rank.go", `!q.names[i] && !q.lexical {`, `(!q.names[i] || mutant("recalling without names")) && !q.lexical {`},

	{"extract_unknown.go", `	u.putInto(v)
`, `	if !mutant("losing unknown fields") {
		u.putInto(v)
	}
`},
	{"migrate.go", `if i < 0 {`, `if i < 0 || mutant("not migrating") {`},

	{"blocks.go", `return v.Content, err`, `return either("losing edits of blocks", b.Text, v.Content), err`},
	{"blocks.go", `parts = append(parts, block.head(text)+"\n"+fence(block.Label, text))`,
		`parts = append(parts, block.head(text)+"\n"+either("leaving blocks out of the prompt", "", fence(block.Label, text)))`},
	{"blocks.go", `if block.ReadOnly {`, `if block.ReadOnly && !mutant("editing read-only blocks") {`},
	{"blocks.go", `size > b.Limit {`, `size > b.Limit && !mutant("editing beyond the limit") {`},
	{"blocks.go", `case n == 0:`, `case n == 0 && !mutant("editing what is not there"):`},

	{"merge.go", `if o.Resolve == nil {`, `if mutant("merging nothing") {
		return branch.Discard(ctx)
	}
	if o.Resolve == nil {`},
	{"export.go", `return s.Export(ctx, w, prefix, usesOf(prefix))`,
		`return s.Export(ctx, w, either("exporting everybody", prefix[:1], prefix), either("exporting no uses", store.Namespace{"none"}, usesOf(prefix)))`},
	{"store/export.go", `Updated:   r.Updated,`, `Updated:   either("losing times in an export", time.Unix(0, 0), r.Updated),`},
	{"erase.go", `if !x.dry && (changes > 0 || err != nil) {`, `if !x.dry && (changes > 0 || err != nil) && !mutant("erasing nothing") {`},
	{"erase.go", `x.Store.ForgetAll(ctx, n)`, `x.Store.ForgetAll(ctx, either("erasing everybody", n[:1], n))`},
	{"store/branch.go", `if _, branch := s.backend.(*overlay); !branch {`, `if _, branch := s.backend.(*overlay); !branch && !mutant("erasing without branches") {`},

	{"consolidate_find.go", `edges := equal(notes)`, `edges := either("not merging equal notes", nil, equal(notes))`},
	{"consolidate_find.go", `if decided[records[i]] {`, `if decided[records[i]] && !mutant("comparing again what was decided") {`},
	{"consolidate_find.go", `if c.o.Topic == 0 {`, `if c.o.Topic == 0 || mutant("not summarizing") {`},
	{"consolidate_ask.go", `if c.out.Tokens+asked+reply > c.o.Tokens {`, `if c.out.Tokens+asked+reply > c.o.Tokens && !mutant("consolidating at any price") {`},
	{"consolidate_ask.go", `for _, e := range d.ends {
		by`, `for _, e := range either("ending nothing", nil, d.ends) {
		by`},
	{"consolidate_ask.go", `PutOptions: store.PutOptions{Meta: meta, TTL: store.Forever, IfVersion: item.Version}}, nil`,
		`PutOptions: store.PutOptions{Meta: meta, TTL: store.Forever, IfVersion: either("overwriting others while asleep", 0, item.Version)}}, nil`},
	{"consolidate_ask.go", `DeleteOptions: store.DeleteOptions{IfVersion: item.Version}}`,
		`DeleteOptions: store.DeleteOptions{IfVersion: either("overwriting others while asleep", 0, item.Version)}}`},
}

// Each of these faults makes the suite fail: a suite that misses the loss of what it tests
// is worth little.
func TestSuiteFindsManagerFaults(t *testing.T) {
	binary := buildMutants(t)
	if failed, out := runMutant(t, binary, "", ""); failed != nil {
		t.Fatalf("without a fault the cases %q fail:\n%s", failed, out)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			failed, out := runMutant(t, binary, m.name, m.fails)
			if !slices.Contains(failed, m.fails) {
				t.Fatalf("the case %q does not fail:\n%s", m.fails, out)
			}
		})
	}
}

// buildMutants builds this test with all faults in package memory and its store.
func buildMutants(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	overlay := map[string]string{}
	write := func(file string, src []byte) {
		t.Helper()
		path, err := filepath.Abs(sourcePath(file))
		if err != nil {
			t.Fatal(err)
		}
		overlay[path] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(overlay[path], src, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mutant_switches.go", fmt.Appendf(nil, switches, "memory"))
	write("store/mutant_switches.go", fmt.Appendf(nil, switches, "store"))
	for file, src := range mutatedSources(t) {
		write(file, src)
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutants.test")
	if err := os.WriteFile(list, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-overlay", list, "-o", binary, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("the mutants cannot be built: %v\n%s", err, out)
	}
	return binary
}

// sourcePath returns the path of an edit's file.
func sourcePath(file string) string {
	if strings.Contains(file, "/") {
		return filepath.Join("..", "..", file)
	}
	return filepath.Join("..", file)
}

// mutatedSources returns the files with the faults in them.
func mutatedSources(t *testing.T) map[string][]byte {
	t.Helper()
	sources := map[string][]byte{}
	var all strings.Builder
	for _, e := range edits {
		src, ok := sources[e.file]
		if !ok {
			var err error
			if src, err = os.ReadFile(sourcePath(e.file)); err != nil {
				t.Fatal(err)
			}
		}
		if n := bytes.Count(src, []byte(e.old)); n != 1 {
			t.Fatalf("%s has the fragment %q %d times, want once: bring the list of edits up to date with it", e.file, e.old, n)
		}
		sources[e.file] = bytes.Replace(src, []byte(e.old), []byte(e.new), 1)
		all.WriteString(e.new)
	}
	for _, m := range mutations {
		if !strings.Contains(all.String(), fmt.Sprintf("(%q", m.name)) {
			t.Fatalf("no edit makes the mutation %q", m.name)
		}
	}
	return sources
}

var failedCase = regexp.MustCompile(`--- FAIL: TestSuite/(.+) \(`)

// runMutant runs a case of the suite, or all of them, with one fault and returns the
// cases that failed.
func runMutant(t *testing.T, binary, name, only string) (failed []string, out string) {
	t.Helper()
	run := "^TestSuite$"
	if only != "" {
		for part := range strings.SplitSeq(strings.ReplaceAll(only, " ", "_"), "/") {
			run += "/^" + regexp.QuoteMeta(part) + "$"
		}
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run="+run)
	cmd.Env = append(os.Environ(), mutantEnv+"="+name)
	raw, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		t.Fatalf("the suite did not come to its end: %v\n%s", err, raw)
	}
	for _, m := range failedCase.FindAllSubmatch(raw, -1) {
		failed = append(failed, strings.ReplaceAll(string(m[1]), "_", " "))
	}
	return failed, string(raw)
}
