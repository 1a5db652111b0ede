package checkpoint_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
)

// A saver saves the checkpoints of threads. Graphs write them; programs read
// them, for example to list a thread's history.
func ExampleSaver() {
	ctx, saver := context.Background(), checkpoint.NewMemory()
	var head checkpoint.ID
	for step := -1; step < 2; step++ {
		id := checkpoint.NewID(step, head)
		err := saver.Put(ctx, &checkpoint.Put{Key: checkpoint.Key{Thread: "chat", ID: id}, Parent: head, Head: head, Step: step, Source: checkpoint.Loop})
		if err != nil {
			fmt.Println(err)
			return
		}
		head = id
	}
	for cp, err := range saver.List(ctx, checkpoint.Query{Thread: "chat", Limit: 2}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("step", cp.Step)
	}
	// Output:
	// step 1
	// step 0
}

// An encrypted saver encrypts values before it passes them to the wrapped
// saver.
func ExampleEncrypted() {
	ctx, below := context.Background(), checkpoint.NewMemory()
	key := checkpoint.EncryptionKey{ID: 1, Secret: bytes.Repeat([]byte{7}, 32)} // from your key store
	saver, err := checkpoint.Encrypted(below, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	at := checkpoint.Key{Thread: "chat", ID: checkpoint.NewID(-1, checkpoint.ID{})}
	if err := saver.Put(ctx, &checkpoint.Put{Key: at, Step: -1, Source: checkpoint.Input, Control: []byte("secret")}); err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range []checkpoint.Saver{saver, below} {
		cp, err := s.Get(ctx, at)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(bytes.Contains(cp.Control, []byte("secret")))
	}
	// Output:
	// true
	// false
}
