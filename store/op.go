package store

import "fmt"

// Op is an operation of [Store.Batch]: a [GetOp], [PutOp], [DeleteOp], [SearchOp]
// or [NamespacesOp].
type Op interface{ op() }

// GetOp is [Store.Get] in a batch.
type GetOp struct {
	Namespace Namespace
	Key       string
	GetOptions
}

// PutOp is [Store.Put] in a batch.
type PutOp struct {
	Namespace Namespace
	Key       string
	Value     any
	PutOptions
}

// DeleteOp is [Store.Delete] in a batch.
type DeleteOp struct {
	Namespace Namespace
	Key       string
	DeleteOptions
}

// SearchOp is [Store.Search] in a batch.
type SearchOp struct {
	Prefix Namespace
	SearchOptions
}

// NamespacesOp is [Store.Namespaces] in a batch.
type NamespacesOp struct {
	NamespacesOptions
}

// forgetOp is Store.Forget or ForgetAll. It is not exported, because it would
// conflict with the rule that the last write of a key wins.
type forgetOp struct {
	namespace Namespace
	key       string
	all       bool // without a key: all under the namespace
	branch    bool // the namespace is one of a branch
}

func (GetOp) op()        {}
func (PutOp) op()        {}
func (DeleteOp) op()     {}
func (SearchOp) op()     {}
func (NamespacesOp) op() {}
func (forgetOp) op()     {}

// Result is the result of an operation of a batch.
type Result struct {
	Item       *Item       // of a GetOp, nil if there is none; of a PutOp, the new item
	Items      []*Item     // of a SearchOp
	Namespaces []Namespace // of a NamespacesOp
}

// single is the result of a batch of one operation.
type single struct {
	Result
	err error
}

func one(results []Result, err error) single {
	if err != nil {
		return single{err: err}
	}
	return single{Result: results[0]}
}

func (s single) get(n Namespace, key string) (*Item, error) {
	if s.err == nil && s.Item == nil {
		return nil, fmt.Errorf("key %q in namespace %v: %w", key, n, ErrNotFound)
	}
	return s.Item, s.err
}
