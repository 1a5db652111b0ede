package pregel

import (
	"fmt"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
)

func TestHeadCache(t *testing.T) {
	p := codecPlan(t)
	saver := checkpoint.NewMemory()
	text := p.schema.byName["Text"]
	run := func(thread string) *Run {
		r := p.codecRun(t)
		r.set.Saver, r.set.HeadsOf, r.set.Thread = saver, saver, thread
		return r
	}
	end := func(thread, val string) {
		r := run(thread)
		r.slots[text.id] = slot{val: val, has: true, ver: 1}
		r.ver, r.step, r.head = 1, 2, checkpoint.ID{1}
		r.cacheHead()
	}
	end("a", "x")
	r := run("a")
	if !r.useCachedHead() || r.slots[text.id].val != "x" || r.step != 2 || r.head != (checkpoint.ID{1}) {
		t.Fatalf("the head of a thread that ended: slot %+v, step %d, head %v", r.slots[text.id], r.step, r.head)
	}
	end("a", "y")
	if r := run("a"); !r.useCachedHead() || r.slots[text.id].val != "y" {
		t.Error("a later head does not replace the earlier one")
	}
	r.dropCachedHead()
	if run("a").useCachedHead() {
		t.Error("a dropped head is used")
	}
	for i := range ownHeads {
		end(fmt.Sprint(i), "x")
	}
	if !run("0").useCachedHead() { // and is the most recently used now
		t.Fatal("a head within the bound is gone")
	}
	end("one more", "x")
	if !run("0").useCachedHead() || run("1").useCachedHead() {
		t.Error("the least recently used head was not evicted")
	}
	if n := p.heads.cache.Len(); n != ownHeads {
		t.Errorf("%d heads, want %d", n, ownHeads)
	}
}

func TestUnfinishedRunIsNotCached(t *testing.T) {
	p := codecPlan(t)
	saver := checkpoint.NewMemory()
	r := p.codecRun(t)
	r.set.Saver, r.set.HeadsOf, r.set.Thread = saver, saver, "a"
	r.head, r.ctl.armed = checkpoint.ID{1}, []int32{0}
	r.cacheHead()
	if p.heads != nil && p.heads.cache.Len() != 0 {
		t.Error("the head of a run with something left to do is cached")
	}
}
