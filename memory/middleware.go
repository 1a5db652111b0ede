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

// MiddlewareOptions say what [Middleware] does.
type MiddlewareOptions struct {
	// Recall finds what the model is reminded of; nil reminds it of nothing.
	Recall *Recaller
	// Manager decides what to remember of the conversation; nil remembers nothing.
	Manager *StoreManager
	// Reflector has the Manager decide in the background: its function is
	// [StoreManager.ReflectOn], and the Manager has a Store of its own. Without
	// one the Manager decides before the run ends.
	Reflector *Reflector[Session, []ItemChange]
	// After is how long the conversation must have been quiet before the Reflector
	// works on it.
	After time.Duration
	// MaxTokens is how much of the conversation is reflected on, its end; 8000 if
	// not set.
	MaxTokens int
}

const defaultSessionTokens = 8000

// Middleware gives an agent a memory. Each call of the model has a block of
// memories that bear on the user's newest message behind its system prompt; the
// conversation that is kept does not have it. When the agent has answered, the
// conversation goes to the manager. The reflector's key is the thread's id; if the
// manager's namespace has variables, their values follow behind slashes, since a
// thread may be about the memories of several.
//
// What was recalled is a custom event of the run, a [*Recollection], once for each
// message of the user.
//
// Where recalling fails, so does the call of the model. Without a Reflector an error
// of the Manager, be it that its Guard refused something, is the run's; the answer is
// in the state that comes with it.
func Middleware(o *MiddlewareOptions) *agent.Middleware {
	m := &agent.Middleware{Name: "memory"}
	if o == nil {
		return m
	}
	o = new(*o) // the caller may change theirs
	if o.Recall != nil {
		m.WrapModel = o.remind
	}
	if o.Manager != nil || o.Reflector != nil {
		m.AfterAgent = agent.NewHook(o.learn)
	}
	return m
}

// remind adds what is remembered to a call of the model.
func (o *MiddlewareOptions) remind(ctx context.Context, call agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
	turn := turns.LastHuman(call.Messages) + 1
	// Further calls of the same turn are about the same message: they see the same
	// memories, which are not used any more than before.
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

// heard is what is reflected on.
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
	messages, err := llm.Trim(ctx, in.Messages, llm.TrimOptions{MaxTokens: cmp.Or(o.MaxTokens, defaultSessionTokens), StartOn: []llm.Role{llm.RoleHuman}})
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		messages = in.Messages[newest:] // what is too long is not lost for it
	}
	if o.Reflector == nil {
		_, err := o.Manager.Reflect(ctx, messages...)
		return nil, err
	}
	if o.Manager.o.Store == nil {
		return nil, errors.New("memory: a reflector works when the run is over: set StoreManagerOptions.Store of the manager")
	}
	s, err := o.Manager.Session(ctx, messages...)
	if err != nil {
		return nil, err
	}
	_, err = o.Reflector.Submit(ctx, o.Manager.sessionKey(ctx, s), s, o.After)
	return nil, err
}
