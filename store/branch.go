package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// BranchState is the state of a branch. Only an open branch can be written to.
type BranchState string

// The states of a branch. A merged branch can still be read.
const (
	Open      BranchState = "open"
	Merged    BranchState = "merged"
	Discarded BranchState = "discarded"
)

// BranchInfo describes a branch of a store. The zero value describes the trunk, the
// store itself.
type BranchInfo struct {
	Name string `json:"name"`
	// Of is the parent branch; empty means the trunk. Base is the version of the store
	// at which the branch starts; see [Store.Version].
	Of   string `json:"of,omitempty"`
	Base int64  `json:"base"`
	// Thread, Checkpoint, and Run identify the run that created the branch, if a run
	// did. The run continued from the checkpoint.
	Thread     string      `json:"thread,omitempty"`
	Checkpoint string      `json:"checkpoint,omitempty"`
	Run        string      `json:"run,omitempty"`
	Created    time.Time   `json:"created"`
	State      BranchState `json:"state"`
}

// BranchError reports a branch that has ended, or that cannot end.
type BranchError struct {
	Name     string
	State    BranchState
	Children []string // branches of this branch that must be discarded first
}

func (e *BranchError) Error() string {
	if len(e.Children) > 0 {
		return fmt.Sprintf("store: branch %q has child branches %q: merge or discard them first", e.Name, e.Children)
	}
	return fmt.Sprintf("store: branch %q was %s: use its parent store", e.Name, e.State)
}

// Version returns the number of the store's latest change. It is the base of a branch
// created now.
func (s *Store) Version(ctx context.Context) (int64, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	_, seq, err := s.backend.Changes(ctx, nil, math.MaxInt64, 0)
	return seq, err
}

// Branch returns the store of an existing branch. Its reads see the items of the parent
// store as of the branch's base, together with the branch's own writes, which stay
// private until [Store.Merge]. Expired and forgotten items are invisible. Version
// numbers are shared by the whole store, so version conditions, History, and Watch work
// in a branch too, and [Store.Fork] creates a branch of the branch.
//
// A search scans all versions of the base, like a search of a [View], and the names of
// all keys that the branch has written under the prefix.
func (s *Store) Branch(ctx context.Context, name string) (*Store, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	trunk := s.Trunk()
	got, err := trunk.backend.Do(ctx, &Batch{Now: s.now(), Gets: []Lookup{{Namespace: Namespace{BranchRoot, branchIndex}, Key: name}}})
	if err != nil {
		return nil, err
	}
	info, _, err := infoOf(got.Gets[0], name)
	if err != nil {
		return nil, err
	}
	base := trunk
	if info.Of != "" && info.State != Discarded {
		if base, err = s.Branch(ctx, info.Of); err != nil {
			return nil, err
		}
		if base.branch.info.State == Discarded {
			return nil, &BranchError{Name: info.Of, State: Discarded}
		}
	}
	return base.with(info), nil
}

// with returns the store of a branch of s.
func (s *Store) with(info BranchInfo) *Store {
	trunk := s.Trunk()
	o := &overlay{Backend: trunk.backend, base: s.backend, info: info, history: s.opts.History, age: s.opts.HistoryAge}
	return &Store{backend: o, opts: s.opts, stamp: s.stamp, fields: s.fields, cache: s.cache, fresh: s.fresh, branch: o, trunk: trunk}
}

// Trunk returns the store that a branch belongs to. For the trunk, it returns the store
// itself.
func (s *Store) Trunk() *Store {
	if s == nil || s.trunk == nil {
		return s
	}
	return s.trunk
}

// BranchInfo describes the branch as of when it was opened. For the trunk, it returns
// the zero value.
func (s *Store) BranchInfo() BranchInfo {
	if s == nil || s.branch == nil {
		return BranchInfo{}
	}
	return s.branch.info
}

// Branching reports whether the store follows threads; see Options.Branches.
func (s *Store) Branching() bool { return s != nil && s.opts.Branches }

// Fork creates a branch of the store, or of a branch, at a version. [Latest] means the
// current version; an older version must still be in the history. An empty Name is
// replaced with a random one. Of the other fields of b, only Thread, Checkpoint, and
// Run are used. Fork returns a [*ConflictError] if a branch with this name exists.
func (s *Store) Fork(ctx context.Context, version int64, b BranchInfo) (*Store, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if b.Name == "" {
		b.Name = rand.Text()
	}
	if err := checkKey(Namespace{"branch"}, b.Name); err != nil {
		return nil, err
	}
	if b.Name == branchIndex {
		return nil, &InvalidError{What: fmt.Sprintf("branch %q", b.Name), Reason: "has a reserved name: choose another"}
	}
	for {
		now, err := s.Version(ctx)
		if err != nil {
			return nil, err
		}
		b.Base = version
		if version == Latest {
			b.Base = now
		}
		if b.Base < 0 || b.Base > now {
			return nil, &InvalidError{What: fmt.Sprintf("branch %q", b.Name), Reason: fmt.Sprintf("starts at version %d, but the store is at version %d", b.Base, now)}
		}
		b.Of, b.Created, b.State = s.BranchInfo().Name, s.now(), Open
		w, err := infoWrite(b, 0)
		if err != nil {
			return nil, err
		}
		batch := &Batch{Now: s.now(), Writes: []Write{w}}
		if s.branch != nil {
			// The parent branch must not be discarded concurrently.
			parent, seq, err := s.branch.present(ctx, s.now())
			if err != nil {
				return nil, err
			}
			if parent.State == Discarded {
				return nil, &BranchError{Name: parent.Name, State: Discarded}
			}
			touched, err := infoWrite(parent, seq)
			if err != nil {
				return nil, err
			}
			batch.Writes = append(batch.Writes, touched)
		}
		_, err = s.Trunk().backend.Do(ctx, batch)
		if e, ok := errors.AsType[*ConflictError](err); ok && e.Key != b.Name {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("store: branch %q: %w", b.Name, err)
		}
		return s.with(b), nil
	}
}

// Branches returns all branches of the store in order of creation, including merged and
// discarded ones.
func (s *Store) Branches(ctx context.Context) ([]BranchInfo, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	got, err := s.Trunk().backend.Do(ctx, &Batch{Now: s.now(), Searches: []*Query{{Prefix: Namespace{BranchRoot, branchIndex}, Limit: math.MaxInt32}}})
	if err != nil {
		return nil, err
	}
	var all []BranchInfo
	for _, f := range got.Searches[0] {
		info, _, err := infoOf(f.Record, f.Record.Key)
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b BranchInfo) int { return a.Created.Compare(b.Created) })
	return all, nil
}

// infoOf decodes the info of a branch and returns it with its version.
func infoOf(r *Record, name string) (BranchInfo, int64, error) {
	var info BranchInfo
	if r == nil {
		return info, 0, fmt.Errorf("branch %q: %w", name, ErrNotFound)
	}
	if err := json.Unmarshal(r.Value, &info); err != nil {
		return info, 0, fmt.Errorf("store: branch %q: %w", name, err)
	}
	return info, r.Seq, nil
}

// infoWrite returns the write that replaces version seq of a branch's info.
func infoWrite(info BranchInfo, seq int64) (Write, error) {
	raw, err := json.Marshal(info)
	return Write{Namespace: Namespace{BranchRoot, branchIndex}, Key: info.Name, Kind: Put, Value: raw, Meta: withTag(nil),
		Indexed: Indexed{Paths: noPaths}, If: &seq, Keep: 1}, err
}

// present returns the branch's current info and its version.
func (o *overlay) present(ctx context.Context, now time.Time) (BranchInfo, int64, error) {
	got, err := o.Backend.Do(ctx, &Batch{Now: now, Gets: []Lookup{{Namespace: Namespace{BranchRoot, branchIndex}, Key: o.info.Name}}})
	if err != nil {
		return BranchInfo{}, 0, err
	}
	return infoOf(got.Gets[0], o.info.Name)
}

// forget forgets items, including in branches, so that no trace of them remains.
func (s *Store) forget(ctx context.Context, op forgetOp) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	ops := []Op{op}
	if _, branch := s.backend.(*overlay); !branch {
		copies, err := s.inBranches(ctx, op)
		if err != nil {
			return err
		}
		ops = append(ops, copies...)
	}
	_, err := s.do(ctx, time.Time{}, ops...)
	return err
}

// marked returns the namespaces of all branches' marks under a prefix.
func (s *Store) marked(ctx context.Context, prefix Namespace) ([]Namespace, error) {
	got, err := s.backend.Do(ctx, &Batch{Now: s.now(), Namespaces: []Namespace{{BranchRoot}}})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(got.Namespaces[0], func(n Namespace) bool {
		return len(n) <= owned || n[owned-1] != branchMarks || !n[owned:].HasPrefix(prefix)
	}), nil
}

// inBranches returns the operations that forget items in branches.
func (s *Store) inBranches(ctx context.Context, op forgetOp) (ops []Op, err error) {
	marks, err := s.marked(ctx, op.namespace)
	if err != nil {
		return nil, err
	}
	var gets []Lookup
	for _, n := range marks {
		if op.all {
			ops = append(ops, forgetOp{namespace: n, all: true, branch: true}, forgetOp{namespace: itemsBeside(n), all: true, branch: true})
		} else if len(n) == owned+len(op.namespace) {
			gets = append(gets, Lookup{Namespace: n, Key: op.key})
		}
	}
	if len(gets) == 0 {
		return ops, nil
	}
	got, err := s.backend.Do(ctx, &Batch{Now: s.now(), Gets: gets})
	if err != nil {
		return nil, err
	}
	for _, r := range got.Gets {
		if r != nil {
			ops = append(ops, forgetOp{namespace: r.Namespace, key: op.key, branch: true}, forgetOp{namespace: itemsBeside(r.Namespace), key: op.key, branch: true})
		}
	}
	return ops, nil
}

// itemsBeside returns the item namespace that corresponds to a mark namespace.
func itemsBeside(marks Namespace) Namespace {
	n := slices.Clone(marks)
	n[owned-1] = branchItems
	return n
}
