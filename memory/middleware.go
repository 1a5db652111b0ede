package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/internal/turns"
	"github.com/treadle-go/treadle/llm"
)

// MiddlewareOptions configures [Middleware]. If nil, or without Blocks, Recall, and
// Manager, the middleware does nothing.
type MiddlewareOptions struct {
	// Blocks are added to the prompt before the recalled memories; nil means no blocks. To
	// let the model edit them, add their [Blocks.Tool] to the agent's tools.
	Blocks *Blocks
	// Recall finds the memories for the prompt; nil means none.
	Recall *Recaller
	// Manager decides what to remember from the conversation; nil means nothing.
	Manager *StoreManager
	// Reflector runs the Manager in the background; create it with [NewReflector] or
	// [OpenReflector] from the Manager's method [StoreManager.ReflectOn]. A durable
	// Reflector must use the Manager's store. If nil, the Manager runs before the run ends.
	Reflector *Reflector[Session, []ItemChange]
	// After is the time that the Reflector waits after the last message.
	After time.Duration
	// MaxTokens limits the part of the conversation, counted from its end, that the Manager
	// reads; 0 means 8000.
	MaxTokens int
}

const defaultSessionTokens = 8000

// Middleware gives an agent long-term memory. For each model call, it adds the blocks, and
// the memories relevant to the user's latest message, to the system prompt; the saved
// conversation does not contain them. After the agent has finished, it passes the
// conversation to the Manager. The Reflector's key is the thread ID, followed by the values
// of the variables in the Manager's namespace, separated by slashes, because a thread may
// involve the memories of several users.
//
// The middleware emits the recalled memories as a [*Recollection], a custom event of the
// run, once per user message.
//
// Building the agent fails if the options are invalid. If reading the blocks or recalling
// fails, the model call fails. Without a Reflector, an error from the Manager or its Guard
// fails the run; the returned state contains the response.
func Middleware(opts *MiddlewareOptions) *agent.Middleware {
	m := &agent.Middleware{Name: "memory"}
	if opts == nil {
		return m
	}
	opts = new(*opts) // the caller may modify the original
	if opts.Recall != nil || opts.Blocks != nil {
		m.WrapModel = opts.remind
	}
	if opts.Manager != nil {
		m.AfterAgent = agent.NewHook(opts.learn)
	}
	m.Check = opts.check
	return m
}

// check reports invalid options when the agent is built.
func (o *MiddlewareOptions) check(agent.Setup) error {
	var errs []error
	if o.Reflector != nil && o.Manager == nil {
		errs = append(errs, errors.New("memory: Reflector requires Manager: set MiddlewareOptions.Manager, whose ReflectOn the Reflector calls"))
	}
	if o.MaxTokens < 0 {
		errs = append(errs, fmt.Errorf("memory: invalid MiddlewareOptions.MaxTokens %d: want 1 or more, or 0 for %d", o.MaxTokens, defaultSessionTokens))
	}
	return errors.Join(errs...)
}

// remind adds blocks and memories to a model call. Blocks come first: they change less
// often, so more of the prompt can be served from the provider's cache.
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
	// Later calls in the same turn answer the same message, so they get the same memories,
	// and their use is not counted again.
	first := turn == len(call.Messages)
	r, err := o.Recall.recall(ctx, At{}, call.Messages[:turn], first)
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

// heard contains the state fields that learn reads.
type heard struct{ Messages llm.Messages }

func (o *MiddlewareOptions) learn(ctx context.Context, in heard) (*struct{}, error) {
	newest := turns.LastHuman(in.Messages)
	if newest < 0 {
		return nil, nil // no user message
	}
	messages, err := llm.Trim(ctx, in.Messages, &llm.TrimOptions{MaxTokens: cmp.Or(o.MaxTokens, defaultSessionTokens), StartOn: []llm.Role{llm.RoleHuman}})
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		messages = in.Messages[newest:] // reflect even on a turn that exceeds the limit
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

// checkStore checks that a conversation resumed after a restart uses the same store as a
// conversation processed by this process.
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

// paragraphs joins the parts that are not empty, separated by empty lines.
func paragraphs(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n\n")
}
