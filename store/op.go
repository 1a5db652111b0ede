package store

import "fmt"

// An Op is an operation of [Store.Batch]: a [GetOp], [PutOp], [DeleteOp], [SearchOp],
// or [NamespacesOp].
type Op interface{ op() }

// GetOp is a [Store.Get] in a batch.
type GetOp struct {
	Namespace Namespace
	Key       string
	GetOptions
}

// PutOp is a [Store.Put] in a batch.
type PutOp struct {
	Namespace Namespace
	Key       string
	Value     any
	PutOptions
}

// DeleteOp is a [Store.Delete] in a batch.
type DeleteOp struct {
	Namespace Namespace
	Key       string
	DeleteOptions
}

// SearchOp is a [Store.Search] in a batch.
type SearchOp struct {
	Prefix Namespace
	SearchOptions
}

// NamespacesOp is a [Store.Namespaces] in a batch.
type NamespacesOp struct {
	NamespacesOptions
}

// forgetOp is a Store.Forget or ForgetAll. It is not exported, because it would
// conflict with the rule that the last write to a key wins.
type forgetOp struct {
	namespace Namespace
	key       string
	all       bool // no key: all items under the namespace
	branch    bool // the namespace belongs to a branch
}

func (GetOp) op()        {}
func (PutOp) op()        {}
func (DeleteOp) op()     {}
func (SearchOp) op()     {}
func (NamespacesOp) op() {}
func (forgetOp) op()     {}

// Result is the result of one operation in a batch.
type Result struct {
	Item       *Item       // of a GetOp, nil if the item does not exist; of a PutOp, the new item
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
