package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/internal/turns"
	"github.com/treadle-go/treadle/llm"
)

// MiddlewareOptions are the options of [Middleware]. With nil, or without Blocks, a
// Recall and a Manager, it does nothing.
type MiddlewareOptions struct {
	// Blocks are added to the prompt before the recalled memories; nil adds none. Give
	// the agent their [Blocks.Tool] if its model may edit them.
	Blocks *Blocks
	// Recall finds the memories for the prompt; nil adds none.
	Recall *Recaller
	// Manager decides what to remember of the conversation; nil remembers nothing.
	Manager *StoreManager
	// Reflector runs the Manager in the background: make it with
	// [StoreManager.ReflectOn]. If it is durable, it must use the Manager's store. Nil runs
	// the Manager before the run ends.
	Reflector *Reflector[Session, []ItemChange]
	// After is how long the Reflector waits after the last message.
	After time.Duration
	// MaxTokens is how many tokens of the conversation, counted from its end, the
	// Manager reads; 0 means 8000.
	MaxTokens int
}

const defaultSessionTokens = 8000

// Middleware gives an agent a long-term memory. In each call of the model it adds the
// blocks, and the memories that are relevant to the user's newest message, to the
// system prompt; the stored conversation does not have them. When the agent has answered, the
// conversation goes to the Manager. The Reflector's key is the id of the thread,
// followed by the values of the variables in the Manager's namespace, separated by
// slashes, because one thread may be about the memories of several users.
//
// The recalled memories are a custom event of the run, a [*Recollection], once for each
// message of the user.
//
// If reading the blocks or recalling fails, the call of the model fails. Without a Reflector, an error of
// the Manager fails the run, also one of its Guard; the returned state has the answer.
func Middleware(o *MiddlewareOptions) *agent.Middleware {
	m := &agent.Middleware{Name: "memory"}
	if o == nil {
		return m
	}
	o = new(*o) // the caller may change theirs
	if o.Recall != nil || o.Blocks != nil {
		m.WrapModel = o.remind
	}
	if o.Manager != nil || o.Reflector != nil {
		m.AfterAgent = agent.NewHook(o.learn)
	}
	return m
}

// remind adds blocks and memories to a call of the model. Blocks come first: they
// change less often, so that more of the prompt can be read from a provider's cache.
func (o *MiddlewareOptions) remind(ctx context.Context, call agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
	if o.Blocks != nil {
		text, err := o.Blocks.Prompt(ctx)
		if err != nil {
			return llm.Message{}, err
		}
		call.System = paragraphs(call.System, text)
	}
	if o.Recall == nil {
		return next(ctx, call)
	}
	turn := turns.LastHuman(call.Messages) + 1
	// Further calls of the same turn are about the same message: they see the same
	// memories, whose use is not counted again.
	first := turn == len(call.Messages)
	r, err := o.Recall.recall(ctx, call.Messages[:turn], first)
	if err != nil {
		return llm.Message{}, err
	}
	if first && len(r.Memories) > 0 {
		treadle.Emit(ctx, r)
	}
	if r.Block != "" {
		call.System = paragraphs(call.System, r.Block)
	}
	return next(ctx, call)
}

// heard is the part of the state that learn reads.
type heard struct{ Messages llm.Messages }

func (o *MiddlewareOptions) learn(ctx context.Context, in heard) (*struct{}, error) {
	if o.Manager == nil {
		return nil, errors.New("memory: the middleware has a Reflector and no Manager: set MiddlewareOptions.Manager, whose ReflectOn the Reflector calls")
	}
	if o.MaxTokens < 0 {
		return nil, fmt.Errorf("memory: MiddlewareOptions.MaxTokens is %d: 1 is the least", o.MaxTokens)
	}
	newest := turns.LastHuman(in.Messages)
	if newest < 0 {
		return nil, nil // nobody has said anything
	}
	messages, err := llm.Trim(ctx, in.Messages, &llm.TrimOptions{MaxTokens: cmp.Or(o.MaxTokens, defaultSessionTokens), StartOn: []llm.Role{llm.RoleHuman}})
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		messages = in.Messages[newest:] // a turn that is too long is still reflected on
	}
	if o.Reflector == nil {
		_, err := o.Manager.Reflect(ctx, messages...)
		return nil, err
	}
	if err := o.checkStore(ctx); err != nil {
		return nil, err
	}
	s, err := o.Manager.Session(ctx, messages...)
	if err != nil {
		return nil, err
	}
	_, err = o.Reflector.Submit(ctx, o.Manager.sessionKey(ctx, s), s, o.After)
	return nil, err
}

// checkStore checks that a conversation that a restarted process takes over reaches the
// same store as one that this process reflects on.
func (o *MiddlewareOptions) checkStore(ctx context.Context) error {
	if o.Manager.o.Store != nil {
		return nil
	}
	run := treadle.StoreFrom(ctx)
	if run == nil {
		return errors.New("memory: Reflector requires a store: set StoreManagerOptions.Store, or give the graph a store")
	}
	if j := o.Reflector.journal; j != nil && run.Trunk() != j.store {
		return errors.New("memory: Reflector and graph use different stores: set StoreManagerOptions.Store")
	}
	return nil
}
